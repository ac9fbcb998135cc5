"""How methods are put together: encoders that suit, codes that fit, and prediction in parts."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from desp.data.shape import DataShape
from desp.errors import DataError, SettingsError
from desp.methods import Method, MethodParts, build_method
from desp.methods.base import evaluating
from desp.methods.building import code_shape
from desp.nn import InputScaling
from desp.samplers import CHAINS_AT_ONCE, ChainInfo, Record
from desp.sets import SetRepresentation
from desp.settings import (
    ContrastiveSettings,
    DeepSetsSettings,
    DenoiserSettings,
    DescentSettings,
    EDMSettings,
    EnergyDenoisingSettings,
    EnergySettings,
    InputKind,
    LangevinSettings,
    MethodSettings,
    PooledLayersSettings,
    RepresentationSettings,
    SamplerSettings,
    ScalingEncoderSettings,
    SetEncoderEnergySettings,
    SetRiskSettings,
    TSPNSettings,
)
from small_methods import with_energy

CASES: dict[str, EnergySettings] = {
    "deep-sets": DeepSetsSettings(hidden=8),
    "set-encoder": SetEncoderEnergySettings(hidden=8, latent=6),
    "pooled-layers": PooledLayersSettings(hidden=8, pooling="fspool"),
}
SHARED = SetEncoderEnergySettings(hidden=8, latent=6, shared=True)


def test_channels_depend_on_the_padding() -> None:
    for padding, channels in (("zero", 2), ("presence", 3)):
        written = SetRepresentation(RepresentationSettings(padding, scaling="none"))
        parts = MethodParts(nn.Identity(), (3,), DataShape((3,), 2, 5), written)
        assert parts.set_shape == (5, channels)


def test_a_shared_encoder_refuses_other_inputs() -> None:
    with pytest.raises(DataError, match="needs inputs that are sets like those to predict, got kind 'vector'"):
        with_energy(SHARED)
    with pytest.raises(SettingsError, match="padded to 5 rows of 3 features, presence included; got shape"):
        with_energy(SHARED, padding="presence", input_kind="set", input_shape=(5, 4))
    with pytest.raises(SettingsError, match="padded to 6 rows of 3 features, presence included; got shape"):
        with_energy(SHARED, padding="presence", size=6, input_kind="set", input_shape=(5, 3))
    method = with_energy(SHARED, padding="presence", input_kind="set", input_shape=(5, 3))
    assert method.encode(torch.rand(4, 5, 3)).shape == (4, 6)


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize(("input_kind", "shape"), [("vector", (3,)), ("set", (7, 3)), ("image", (3, 16, 16))])
def test_automatic_encoders_fit_their_energy(kind: str, input_kind: InputKind, shape: tuple[int, ...]) -> None:
    method = with_energy(CASES[kind], input_kind=input_kind, input_shape=shape)
    x = torch.rand(4, *shape)
    wanted = 6 if kind == "set-encoder" else 3 if input_kind == "vector" else 8
    assert method.encode(x).shape == (4, wanted)
    assert method.energies(method.encode(x), torch.rand(4, 5, 2)).shape == (4,)


def test_the_automatic_encoder_of_sets_ignores_order_and_absent_elements(
    assert_invariant: Callable[..., None],
) -> None:
    encoder = with_energy(CASES["deep-sets"], input_kind="set", input_shape=(4, 3)).encoder
    presence = torch.tensor([[True, False, True, True], [False, True, False, False]])

    def encode(sets: Tensor, mask: Tensor) -> Tensor:
        return encoder(torch.cat([sets, mask.unsqueeze(-1).float()], dim=-1))

    assert_invariant(encode, torch.rand(2, 4, 2), presence)


def test_deep_sets_takes_vectors_as_they_are() -> None:
    x = torch.randn(4, 3)
    assert torch.equal(with_energy(CASES["deep-sets"]).encode(x), x)


@pytest.mark.parametrize(("kind", "shape"), [("vector", (3, 4)), ("set", (4,)), ("image", (4, 4)), ("vector", ())])
def test_inputs_of_other_shapes_need_an_encoder_of_their_own(kind: InputKind, shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match="pass input_encoder"):
        with_energy(CASES["deep-sets"], input_kind=kind, input_shape=shape)


@pytest.mark.parametrize("encoder", [nn.Linear(3, 7), nn.Unflatten(1, (3, 1))], ids=["length", "dimensions"])
def test_set_encoder_energy_refuses_codes_that_do_not_fit(encoder: nn.Module) -> None:
    with pytest.raises(SettingsError, match=r"codes of 6 numbers \(energy.latent\)"):
        with_energy(CASES["set-encoder"], encoder=encoder)


def test_tspn_refuses_codes_for_each_element() -> None:
    shape, padding = DataShape((3,), 2, 5), SetRepresentation(RepresentationSettings())
    with pytest.raises(SettingsError, match=r"TSPN needs codes \(B, H\), but the encoder gives shape \(3, 1\)"):
        build_method(TSPNSettings(hidden=8), shape, padding, encoder=nn.Unflatten(1, (3, 1)))


def test_deep_sets_takes_the_code_length_from_the_encoder() -> None:
    method = with_energy(CASES["deep-sets"], encoder=nn.Linear(3, 7))
    assert method.energies(method.encode(torch.rand(4, 3)), torch.rand(4, 5, 2)).shape == (4,)


def test_an_encoder_of_ones_own_keeps_its_scales() -> None:
    shape, padding = DataShape((3,), 2, 5), SetRepresentation(RepresentationSettings())
    scaling, statistics = InputScaling((3,)), torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    scaling.set_from(torch.full((3,), 7.0), torch.full((3,), 8.0))
    build_method(EnergyDenoisingSettings(), shape, padding, encoder=scaling, input_statistics=statistics)
    assert (scaling.mean.tolist(), scaling.deviation.tolist()) == ([7.0] * 3, [8.0] * 3)
    own = build_method(
        EnergyDenoisingSettings(encoder=ScalingEncoderSettings()), shape, padding, input_statistics=statistics
    )
    assert own.encode(torch.tensor([[5.0, 7.0, 9.0]])).tolist() == [[1.0] * 3]


def test_asking_an_encoder_for_its_codes_leaves_it_as_it_was() -> None:
    encoder = nn.Sequential(nn.Linear(3, 7), nn.BatchNorm1d(7), nn.Dropout())
    encoder[2].eval()
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    assert code_shape(encoder, (3,)) == (7,)
    assert all(torch.equal(value, before[name]) for name, value in encoder.state_dict().items())
    assert [part.training for part in encoder.modules()] == [True, True, True, False]
    with pytest.raises(SettingsError, match=r"cannot take a batch of inputs of shape \(1, 4\)"):
        code_shape(encoder, (4,))
    with evaluating(encoder):
        assert not any(part.training for part in encoder.modules())


# -- prediction in parts -----------------------------------------------------------------------------------


class Counting(Method):
    """Sets that hold their code; notes how many are asked for at once."""

    def __init__(self, parts: MethodParts) -> None:
        super().__init__(parts)
        self.asked: list[int] = []

    def forward(self, x: Tensor, y: Tensor, generator: torch.Generator) -> tuple[Tensor, dict[str, Tensor]]:
        raise NotImplementedError

    def sample_batch(
        self,
        code: Tensor,
        generator: torch.Generator,
        sampler: SamplerSettings | None,
        record: Record,
        presence: Tensor | None,
    ) -> tuple[Tensor, ChainInfo]:
        del generator, sampler, presence
        self.asked.append(len(code))
        values = code.unsqueeze(1).expand(-1, 2, -1)
        return values, ChainInfo(energies=code.sum(dim=1).expand(3, -1)) if record == "energies" else ChainInfo()


@pytest.fixture
def counting() -> Counting:
    padding = SetRepresentation(RepresentationSettings("zero", scaling="none"))
    return Counting(MethodParts(nn.Identity(), (2,), DataShape((2,), 2, 2), padding))


@pytest.mark.parametrize(
    ("count", "asked"), [(7, [7]), (CHAINS_AT_ONCE, [CHAINS_AT_ONCE]), (2300, [CHAINS_AT_ONCE] * 3)]
)
def test_many_sets_are_sampled_in_parts_that_are_all_alike(
    count: int, asked: list[int], counting: Counting, generator: torch.Generator
) -> None:
    code = torch.rand(count, 2)
    values, info = counting.sample(code, generator, record="energies")
    assert counting.asked == asked
    assert torch.equal(values, code.unsqueeze(1).expand(-1, 2, -1))
    assert torch.equal(info.energies, code.sum(dim=1).expand(3, -1))
    assert counting.sample(code, generator)[1].energies is None


def test_a_method_without_an_energy_says_so(counting: Counting, generator: torch.Generator) -> None:
    code, y = torch.rand(2300, 2), torch.rand(2300, 2, 2)
    energies = counting.energies(code, y)
    assert energies.shape == (2300,)
    assert energies.isnan().all()
    assert counting.energies(code.double(), y.double()).dtype == torch.float64
    with pytest.raises(SettingsError, match="A density over sets needs the method 'energy-denoising'"):
        counting.log_prob(code, y, generator, 4, 1)
    assert counting.divergence_reason({"divergent": 1.0}) is None
    assert counting.training_engine_used == "eager"


@pytest.mark.parametrize(
    ("method", "sampler", "wanted"),
    [
        (ContrastiveSettings(), EDMSettings(), "langevin"),
        (EnergyDenoisingSettings(), LangevinSettings(), "edm"),
        (DenoiserSettings(), DescentSettings(), "edm"),
        (SetRiskSettings(), LangevinSettings(), "descent"),
    ],
    ids=lambda item: getattr(item, "kind", item),
)
def test_another_kind_of_sampler_is_refused(
    method: MethodSettings, sampler: SamplerSettings, wanted: str, generator: torch.Generator
) -> None:
    module = build_method(method, DataShape((3,), 2, 4), SetRepresentation(RepresentationSettings()))
    message = f"^sampler must be of kind '{wanted}' for this method, got '{sampler.kind}'.$"
    with pytest.raises(SettingsError, match=message):
        module.sample(module.encode(torch.rand(2, 3)), generator, sampler=sampler)


def test_an_encoder_is_asked_for_its_codes_in_its_own_precision() -> None:
    assert code_shape(nn.Linear(3, 5).double(), (3,)) == (5,)
