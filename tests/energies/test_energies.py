"""What every energy must be, and the formula of each."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from desp.energies import DeepSetsEnergy, SetEncoderEnergy, SetEnergy, default_input_encoder, make_energy
from desp.errors import DataError, SettingsError
from desp.settings import (
    AttentionSettings,
    DeepSetsSettings,
    EnergySettings,
    InputKind,
    PooledLayersSettings,
    SetEncoderSettings,
)

CASES: dict[str, EnergySettings] = {
    "deep-sets": DeepSetsSettings(hidden=8),
    "deep-sets, not divided": DeepSetsSettings(hidden=8, divide_by_size=False),
    "deep-sets, mean": DeepSetsSettings(hidden=8, pooling="mean", element_layers=2, set_layers=1),
    "deep-sets, max": DeepSetsSettings(hidden=8, pooling="max"),
    "deep-sets, sum": DeepSetsSettings(hidden=8, pooling="sum"),
    "set-encoder": SetEncoderSettings(hidden=8, latent=6),
    "set-encoder, divided": SetEncoderSettings(hidden=8, latent=6, layers=2, divide_by_size=True),
    "set-encoder, ReLU": SetEncoderSettings(hidden=8, latent=6, negative_slope=0.0, initialisation="xavier"),
    "set-encoder, max": SetEncoderSettings(hidden=8, latent=6, pooling="max"),
    "pooled-layers": PooledLayersSettings(hidden=8),
    "pooled-layers, mean": PooledLayersSettings(hidden=8, layers=1, pooling="mean"),
    "attention": AttentionSettings(hidden=8, layers=2, heads=2, waves=2),
    "attention, no waves": AttentionSettings(hidden=8, layers=1, heads=1, waves=0),
}
every_energy = pytest.mark.parametrize("settings", CASES.values(), ids=CASES.keys())


def build(settings: EnergySettings) -> SetEnergy:
    """A double precision energy of two-dimensional elements for inputs of three numbers."""
    energy = make_energy(settings, 2, (3,), default_input_encoder("vector", (3,), settings)).double()
    for weight in energy.parameters():
        if not weight.any():  # what begins with zeros would hide its mistakes
            torch.nn.init.normal_(weight, std=0.3)
    return energy


def example(batch: int = 4, size: int = 5) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batch, 3, generator=generator, dtype=torch.float64)
    return x, torch.rand(batch, size, 2, generator=generator, dtype=torch.float64)


@every_energy
def test_order_does_not_matter(settings: EnergySettings, assert_invariant: Callable[..., None]) -> None:
    energy, (x, y) = build(settings), example()
    assert energy(x, y).shape == (4,)
    assert_invariant(lambda sets: energy(x, sets), y, tolerance=1e-10)


@every_energy
def test_is_never_negative(settings: EnergySettings) -> None:
    if isinstance(settings, (PooledLayersSettings, AttentionSettings)):
        pytest.skip("any number: only its gradient is trained")
    energy = build(settings)
    x, y = example(batch=200)
    assert (energy(3 * x, 10 * y - 5) >= 0).all()


@every_energy
def test_depends_on_input_and_set(settings: EnergySettings) -> None:
    energy, (x, y) = build(settings), example()
    assert (energy(x, y) != energy(x.flip(0), y)).all()
    assert (energy(x, y) != energy(x, y.flip(0))).all()


@every_energy
def test_tables_given_or_not(settings: EnergySettings) -> None:
    energy, (x, y) = build(settings), example()
    code = energy.encode(x)
    assert torch.equal(energy.score(code, y, energy.tables(5)), energy.score(code, y))
    assert torch.equal(energy.score(code, y), energy(x, y))


def gradient_by_autograd(energy: SetEnergy, code: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    leaf = y.detach().requires_grad_()
    values = energy.score(code, leaf)
    (slope,) = torch.autograd.grad(values.sum(), leaf, create_graph=True)
    return values, slope


SETS = {
    "different": example()[1],
    "identical rows": torch.zeros(4, 5, 2, dtype=torch.float64),
    "some identical": torch.cat([example()[1], example()[1][:, :3]], dim=1),
    "one element": example(size=1)[1],
    "large": example(size=40)[1],
}


@every_energy
@pytest.mark.parametrize("y", SETS.values(), ids=SETS.keys())
def test_gradient_written_out_is_that_of_autograd(settings: EnergySettings, y: Tensor) -> None:
    energy = build(settings)
    code = energy.encode(example()[0])
    with torch.no_grad():
        values, slope = energy.value_and_gradient(y, energy.prepare(code, y.shape[1]))
    expected_values, expected_slope = gradient_by_autograd(energy, code, y)
    torch.testing.assert_close(values, expected_values, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(slope, expected_slope, rtol=1e-10, atol=1e-12)
    assert not values.requires_grad
    assert not slope.requires_grad


@every_energy
def test_gradient_written_out_can_be_differentiated(settings: EnergySettings) -> None:
    energy, (x, y) = build(settings), example()
    code = energy.encode(x)
    weights = [item for item in energy.parameters() if item.requires_grad]

    def derivatives(slope: Tensor) -> tuple[Tensor | None, ...]:
        return torch.autograd.grad(slope.square().sum(), weights, allow_unused=True, retain_graph=True)

    leaf = y.clone().requires_grad_()
    found = derivatives(energy.value_and_gradient(leaf, energy.prepare(code, 5))[1])
    expected = derivatives(gradient_by_autograd(energy, code, y)[1])
    for mine, theirs in zip(found, expected, strict=True):
        if theirs is None or mine is None:  # a bias that does not matter: no gradient, or a gradient of zero
            assert all(part is None or not part.any() for part in (mine, theirs))
        else:
            torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-12)


@every_energy
def test_gradient_of_empty_sets_is_empty(settings: EnergySettings) -> None:
    energy, (x, y) = build(settings), example(size=0)
    values, slope = energy.value_and_gradient(y, energy.prepare(energy.encode(x), 0))
    torch.testing.assert_close(values, energy(x, y))
    assert slope.shape == (4, 0, 2)


class OwnEnergy(SetEnergy):
    """What a user may write: a score and nothing else."""

    def score(self, code: Tensor, y: Tensor, tables: tuple[Tensor, ...] | None = None) -> Tensor:
        del tables
        return (y.mean(dim=1) - code[:, :2]).square().sum(dim=1)


def test_an_energy_needs_a_score_alone() -> None:
    energy, (x, y) = OwnEnergy(nn.Identity()), example()
    values, slope = energy.value_and_gradient(y, energy.prepare(x, 5))
    assert torch.equal(values, energy(x, y))
    torch.testing.assert_close(slope, (2 * (y.mean(dim=1) - x[:, :2]) / 5).unsqueeze(1).expand_as(y))


@every_energy
@pytest.mark.parametrize("size", [1, 2])
def test_small_sets(settings: EnergySettings, size: int) -> None:
    """Ranks run from the first to the last element, which divides by one less than there are."""
    energy, (x, y) = build(settings), example(size=size)
    assert (energy(x, y) != energy(x.flip(0), y)).all()
    assert (energy(x, y) != energy(x, y.flip(0))).all()
    torch.testing.assert_close(energy(x, y), energy(x, y.flip(1)))
    assert torch.autograd.gradcheck(energy.score, (energy.encode(x).detach().requires_grad_(), y.requires_grad_()))


@every_energy
def test_sets_of_a_batch_do_not_see_each_other(settings: EnergySettings) -> None:
    energy, (x, y) = build(settings), example()
    together = y.clone().requires_grad_()
    values = energy(x, together)
    (slope,) = torch.autograd.grad(values.sum(), together)
    for k in range(len(x)):
        alone = y[k : k + 1].clone().requires_grad_()
        value = energy(x[k : k + 1], alone)
        torch.testing.assert_close(value[0], values[k])
        torch.testing.assert_close(torch.autograd.grad(value.sum(), alone)[0][0], slope[k])


@every_energy
def test_derivatives_in_input_and_set(settings: EnergySettings) -> None:
    energy, (x, y) = build(settings), example(batch=2, size=3)
    inputs = (energy.encode(x).detach().requires_grad_(), y.requires_grad_())
    assert torch.autograd.gradcheck(energy.score, inputs)
    assert torch.autograd.gradgradcheck(energy.score, inputs)


def assert_slopes_in_weights(energy: SetEnergy, loss: Callable[[], Tensor]) -> dict[str, Tensor]:
    """The gradients of `loss` in all weights, checked along one random direction by finite differences."""
    weights = dict(energy.named_parameters())
    found = torch.autograd.grad(loss(), list(weights.values()), allow_unused=True)
    slopes = {name: slope for name, slope in zip(weights, found, strict=True) if slope is not None}
    direction = {name: torch.randn_like(weight) for name, weight in weights.items()}
    along = sum(float((slope * direction[name]).sum()) for name, slope in slopes.items())
    step, ends = 1e-7, []
    for moved in (step, -2 * step):
        with torch.no_grad():
            for name, weight in weights.items():
                weight.add_(direction[name], alpha=moved)
        ends.append(float(loss().detach()))
    assert along == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-4)
    return slopes


@every_energy
def test_second_derivatives_reach_the_weights(settings: EnergySettings) -> None:
    energy, (x, y) = build(settings), example(batch=3)
    y.requires_grad_()

    def loss() -> Tensor:
        (slope,) = torch.autograd.grad(energy(x, y).sum(), y, create_graph=True)
        return slope.square().sum()

    slopes = assert_slopes_in_weights(energy, loss)
    touched = [name for name, slope in slopes.items() if slope.any()]
    assert any(name.endswith(("layers.0.weight", "from_element.weight")) for name in touched)


@every_energy
def test_all_weights_are_trained(settings: EnergySettings) -> None:
    energy, (x, y) = build(settings), example()
    slopes = assert_slopes_in_weights(energy, lambda: energy(x, y).sum())
    assert [name for name, _ in energy.named_parameters() if name not in slopes or not slopes[name].any()] == []


def test_deep_sets_formula() -> None:
    energy = build(DeepSetsSettings(hidden=8, pooling="sum"))
    assert isinstance(energy, DeepSetsEnergy)
    x, y = example()
    for k in range(4):
        rows = [energy.element_mlp(torch.cat([x[k], element])) / 5 for element in y[k]]
        features = energy.set_mlp(torch.stack(rows).sum(dim=0))
        # Column j of a lower triangular matrix is zero above row j.
        expected = sum((features[j:] @ energy.lower[j:, j]) ** 2 for j in range(8))
        torch.testing.assert_close(energy(x, y)[k], expected)


def test_deep_sets_codes_for_all_elements_or_each_its_own() -> None:
    energy, (_, y) = build(DeepSetsSettings(hidden=8)), example()
    code = torch.randn(4, 3, dtype=torch.float64)
    shared = energy.score(code, y)
    torch.testing.assert_close(energy.score(code.unsqueeze(1).expand(4, 5, 3), y), shared)

    own = torch.randn(4, 5, 3, dtype=torch.float64)
    order = torch.tensor([3, 1, 4, 0, 2])
    together = energy.score(own[:, order], y[:, order])
    torch.testing.assert_close(together, energy.score(own, y))
    assert not torch.isclose(energy.score(own, y[:, order]), together).any()


@pytest.fixture
def auto_encoding() -> SetEncoderEnergy:
    """E_SE as set auto-encoders use it: h = g."""
    return SetEncoderEnergy(2, SetEncoderSettings(hidden=8, latent=6, shared=True), nn.Identity()).double()


def test_set_encoder_energy_is_zero_iff_codes_are_equal(auto_encoding: SetEncoderEnergy) -> None:
    _, y = example()
    zeros = torch.zeros(4, dtype=torch.float64)
    torch.testing.assert_close(auto_encoding(y, y), zeros)
    torch.testing.assert_close(auto_encoding(y, y.flip(1)), zeros)
    assert (auto_encoding(y, y + 0.1) > 0).all()


def test_set_encoder_formula(auto_encoding: SetEncoderEnergy) -> None:
    _, y = example()
    codes = auto_encoding.set_encoder(y)
    shift = torch.tensor([0.0, 0.5, -0.5, 1.0, 3.0, -4.0], dtype=torch.float64)
    expected = (0 + 0.125 + 0.125 + 0.5 + 2.5 + 3.5) / 6
    torch.testing.assert_close(auto_encoding.score(codes + shift, y), torch.full_like(codes[:, 0], expected))


def test_a_shared_encoder_is_trained_through_both_codes(auto_encoding: SetEncoderEnergy) -> None:
    _, y = example()
    weight = auto_encoding.set_encoder.mlp.linears[0].weight
    code = auto_encoding.encode(y)
    (through_input,) = torch.autograd.grad(code.sum(), weight, retain_graph=True)
    assert (through_input != 0).any()
    energies = auto_encoding.score(code, y + 0.1)
    (through_both,) = torch.autograd.grad(energies.sum(), weight)
    (through_set,) = torch.autograd.grad(auto_encoding.score(code.detach(), y + 0.1).sum(), weight)
    assert not torch.isclose(through_both, through_set).all()


def test_a_shared_encoder_refuses_other_inputs() -> None:
    settings = SetEncoderSettings(hidden=8, latent=6, shared=True)
    with pytest.raises(DataError, match="needs inputs that are sets like those to predict, got a vector"):
        default_input_encoder("vector", (3,), settings)
    encoder = default_input_encoder("set", (5, 4), settings)
    with pytest.raises(SettingsError, match="sets of 3 features a row, presence included"):
        make_energy(settings, 3, (5, 4), encoder)


@pytest.mark.parametrize("kind", ["deep-sets", "set-encoder", "pooled-layers"])
@pytest.mark.parametrize(("input_kind", "shape"), [("vector", (3,)), ("set", (7, 3)), ("image", (3, 16, 16))])
def test_default_encoders_fit_their_energy(kind: str, input_kind: InputKind, shape: tuple[int, ...]) -> None:
    settings = CASES[kind]
    encoder = default_input_encoder(input_kind, shape, settings)
    energy = make_energy(settings, 2, shape, encoder)
    x = torch.rand(4, *shape)
    wanted = 6 if kind == "set-encoder" else 3 if input_kind == "vector" else 8
    assert energy.encode(x).shape == (4, wanted)
    assert energy(x, torch.rand(4, 5, 2)).shape == (4,)


def test_default_encoder_of_sets_ignores_order_and_absent_elements(
    assert_invariant: Callable[..., None],
) -> None:
    encoder = default_input_encoder("set", (4, 3), CASES["deep-sets"])
    presence = torch.tensor([[True, False, True, True], [False, True, False, False]])

    def encode(sets: Tensor, mask: Tensor) -> Tensor:
        return encoder(torch.cat([sets, mask.unsqueeze(-1).float()], dim=-1))

    assert_invariant(encode, torch.rand(2, 4, 2), presence)


def test_deep_sets_takes_vectors_as_they_are() -> None:
    x = torch.randn(4, 3)
    assert torch.equal(default_input_encoder("vector", (3,), CASES["deep-sets"])(x), x)


@pytest.mark.parametrize(("kind", "shape"), [("vector", (3, 4)), ("set", (4,)), ("image", (4, 4)), ("vector", ())])
def test_default_encoder_refuses_other_shapes(kind: InputKind, shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match="pass input_encoder"):
        default_input_encoder(kind, shape, CASES["deep-sets"])


@pytest.mark.parametrize("encoder", [nn.Linear(3, 7), nn.Unflatten(1, (3, 1))], ids=["length", "dimensions"])
def test_set_encoder_energy_refuses_codes_that_do_not_fit(encoder: nn.Module) -> None:
    with pytest.raises(SettingsError, match=r"codes of 6 numbers \(energy.latent\)"):
        make_energy(CASES["set-encoder"], 2, (3,), encoder)


def test_deep_sets_takes_the_code_length_from_the_encoder() -> None:
    energy = make_energy(CASES["deep-sets"], 2, (3,), nn.Linear(3, 7))
    assert energy(torch.rand(4, 3), torch.rand(4, 5, 2)).shape == (4,)


@pytest.mark.parametrize("field", [False, True])
def test_absent_elements_that_are_known_make_no_difference(field: bool) -> None:
    settings = AttentionSettings(hidden=8, layers=2, heads=2, waves=2, field=field)
    encoder = default_input_encoder("vector", (3,), settings)
    energy = make_energy(settings, 3, (3,), encoder, knows_presence=True).double()
    assert energy.ignores_absent
    assert not build(settings).ignores_absent
    x, elements = example()
    presence = torch.where(torch.arange(5) < torch.tensor([[5], [3], [1], [0]]), 1.0, -1.0).double()
    y = torch.cat([elements, presence.unsqueeze(-1)], dim=-1)
    more = torch.cat([y, torch.tensor([7.0, -2.0, -1.0]).double().expand(4, 4, 3)], dim=1)
    code = energy.encode(x)
    for size, first in ((5, 0), (3, 1)):  # of the last three, no more than three rows are present
        some = slice(first, 4)
        value, slope = energy.value_and_gradient(y[some, :size], energy.prepare(code[some], size))
        wider, wide = energy.value_and_gradient(more[some], energy.prepare(code[some], 9))
        torch.testing.assert_close(value, wider, equal_nan=True)
        torch.testing.assert_close(slope, wide[:, :size])
        assert not wide[:, 5:].any()
        assert not slope[..., :2][presence[some, :size] < 0].any()
        assert slope[..., :2][presence[some, :size] > 0].all()
