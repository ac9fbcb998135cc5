"""Outputs that are aligned with inputs: element i of a set belongs to element i of its input."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from desp import SetPredictor
from desp.energies import SetEnergy
from desp.errors import DataError, SettingsError
from desp.predictor import DataShape
from desp.randomness import make_generator
from desp.samplers import LangevinSampler, value_and_grad_of
from desp.sets import SetBatch, SetRepresentation, presence_mask
from desp.settings import (
    AttentionSettings,
    AutoregressiveTaggerSettings,
    ContrastiveSettings,
    DataDescription,
    DeepSetsSettings,
    DenoiserSettings,
    DescentSettings,
    EDMSettings,
    EnergyDenoisingSettings,
    EngressionSettings,
    FSPoolSetEncoderSettings,
    LabelLikelihoodSettings,
    LabelSamplerSettings,
    LangevinSettings,
    MethodSettings,
    PooledLayersSettings,
    RepresentationSettings,
    SetEncoderEnergySettings,
    SetRiskSettings,
    TaggerSettings,
    TrainingSettings,
    TSPNSettings,
)

ALIGNED = DataDescription(aligned=True)
SIZE = 4
SHAPE = DataShape((SIZE, 3), features=1, max_size=SIZE, input_kind="set", description=ALIGNED)
METHODS: dict[str, MethodSettings] = {
    "contrastive": ContrastiveSettings(
        energy=DeepSetsSettings(hidden=32),
        training_sampler=LangevinSettings(steps=15, stochastic_steps=15),
        sampler=LangevinSettings(steps=20, stochastic_steps=10),
    ),
    "denoising": EnergyDenoisingSettings(energy=PooledLayersSettings(hidden=32), sampler=EDMSettings(steps=8)),
    "denoised cardinality": EnergyDenoisingSettings(
        energy=PooledLayersSettings(hidden=32), cardinality="denoised", sampler=EDMSettings(steps=8)
    ),
    "attention": EnergyDenoisingSettings(
        energy=AttentionSettings(hidden=16, layers=1), sampler=EDMSettings(steps=8)
    ),
    "denoiser": DenoiserSettings(network=AttentionSettings(hidden=16, layers=1), sampler=EDMSettings(steps=8)),
    "engression": EngressionSettings(network=AttentionSettings(hidden=32, layers=1, heads=0), noise_features=4),
    "set-risk": SetRiskSettings(energy=DeepSetsSettings(hidden=32), descent=DescentSettings(steps=5)),
    "tagger": TaggerSettings(hidden=16, layers=2),
    "autoregressive-tagger": AutoregressiveTaggerSettings(hidden=16, layers=2),
    "label-likelihood": LabelLikelihoodSettings(energy=DeepSetsSettings(hidden=16)),
}
each_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())


def as_input(elements: Tensor) -> Tensor:
    return SetRepresentation(RepresentationSettings()).to_tensor(SetBatch.from_ragged([elements], SIZE, 2))[0]


def half_of_each(count: int = 64) -> list[tuple[Tensor, Tensor]]:
    """The set holds, for each element of the input, half of its first feature."""
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.rand(1 + index % SIZE, 2, generator=generator) for index in range(count)]
    return [(as_input(item), item[:, :1] / 2) for item in inputs]


def built(method: MethodSettings) -> SetPredictor:
    predictor = SetPredictor(method, device="cpu")
    predictor.build(SHAPE, seed=3)
    return predictor


@pytest.mark.parametrize(("kind", "steps"), [("denoising", 80), ("set-risk", 40)])
def test_each_element_gets_its_own(kind: str, steps: int) -> None:
    predictor = SetPredictor(METHODS[kind], device="cpu")
    training = TrainingSettings(steps=steps, batch_size=32, learning_rate=1e-2, warmup_steps=5)
    predictor.fit(half_of_each(), training, description=ALIGNED)
    elements = torch.tensor([[0.9, 0.5], [0.1, 0.5], [0.5, 0.5]])
    found = torch.stack(predictor.predict_one(as_input(elements), samples=8).sets)
    assert found.shape == (8, 3, 1)
    error = (found.mean(dim=0) - elements[:, :1] / 2).abs().max()
    assert error < 0.12, found.mean(dim=0)


@pytest.mark.parametrize("start_noise", [None, (0.1, 0.5)], ids=["from zeros", "from noisy sets"])
def test_the_contrastive_loss_masks_noise_and_chain(start_noise: tuple[float, float] | None) -> None:
    method = built(replace(METHODS["contrastive"], start_noise=start_noise)).method
    pairs = half_of_each(5)
    x = torch.stack([x for x, _ in pairs])
    y = SetRepresentation(RepresentationSettings()).to_tensor(
        SetBatch.from_ragged([item for _, item in pairs], SIZE)
    )
    loss, _ = method(x, y, make_generator(4))
    generator, mask = make_generator(4), presence_mask(y).unsqueeze(-1)
    real = y.clone()
    real[..., :1] += method.settings.data_noise * (torch.randn(y.shape, generator=generator)[..., :1] * mask)
    start = torch.cat([torch.zeros_like(y[..., :1]), y[..., 1:]], dim=-1)
    if start_noise is not None:
        sigma = 0.1 * 5 ** torch.rand(len(y), 1, 1, generator=generator)
        start = y.clone()
        start[..., :1] += sigma * (torch.randn(y.shape, generator=generator)[..., :1] * mask)
    code = method.encode(x)
    sampler = LangevinSampler(method.settings.training_sampler, known_presence=True)
    sampled, _ = sampler.sample(
        partial(value_and_grad_of, method.energy, size=SIZE), code.detach(), start, generator
    )
    torch.testing.assert_close(loss, (method.energy(code, real) - method.energy(code, sampled)).mean())


def test_what_does_not_move_does_not_diverge() -> None:
    """A sample is divergent by the gradients of present features, not of presence or of absent elements."""
    chain = replace(METHODS["contrastive"].training_sampler, max_step_norm=1.0)
    method = built(replace(METHODS["contrastive"], training_sampler=chain, mask_divergent=True)).method
    y = torch.zeros(2, SIZE, 2)
    y[:, 0, -1] = 1

    class Steep(SetEnergy):
        """Steep in presence and in absent elements; of the second set also in a feature that is there."""

        def energy(self, code: Tensor, y: Tensor) -> Tensor:
            del code
            return 9 * (y[:, :, 1].sum(dim=1) + y[:, 1:, 0].sum(dim=1)) + torch.tensor([0.0, 9.0]) * y[:, 0, 0]

    method.energy = Steep()
    assert method._divergent(torch.zeros(2, SIZE, 32), y).tolist() == [False, True]


@each_method
def test_training_batches_may_have_fewer_rows_than_predictions(method: MethodSettings) -> None:
    """As where a task draws some of the elements of each example."""
    trained, rows = built(method).method, SIZE - 2
    present = torch.ones(3, rows, 1)
    x = torch.cat([torch.rand(3, rows, 2, generator=make_generator(1)), present], dim=-1)
    y = torch.cat([torch.tensor([[0.0], [1.0]]).expand(3, rows, 1), present], dim=-1)
    loss, _ = trained(x, y, make_generator(2))
    assert bool(loss.isfinite())


@each_method
def test_presence_is_that_of_the_input(method: MethodSettings) -> None:
    predictor = built(method)
    x = torch.stack([as_input(torch.rand(count, 2)) for count in (0, 1, 3, SIZE)])
    raw, _ = predictor.sample(predictor.encode(x), make_generator(0), presence=predictor.given_presence(x))
    assert torch.equal(raw[..., -1], x[..., -1])
    assert torch.equal(presence_mask(raw), presence_mask(x))
    sets = [item for prediction in predictor.predict(x, samples=2) for item in prediction.sets]
    assert [len(item) for item in sets] == [0, 0, 1, 1, 3, 3, SIZE, SIZE]


def test_input_elements_in_another_order_give_the_same_elements_in_that_order() -> None:
    predictor = built(METHODS["set-risk"])
    elements, order = torch.rand(SIZE, 2), torch.tensor([2, 0, 3, 1])
    plain = predictor.predict_one(as_input(elements)).sets[0]
    turned = predictor.predict_one(as_input(elements[order])).sets[0]
    torch.testing.assert_close(turned, plain[order])
    assert plain.std() > 1e-4  # else the order could not be seen


@pytest.mark.parametrize("kind", ["denoising", "attention", "contrastive", "label-likelihood"])
def test_energies_see_which_element_is_whose(kind: str) -> None:
    predictor = built(METHODS[kind])
    elements, values, order = torch.rand(SIZE, 2), torch.rand(SIZE, 1), torch.tensor([1, 0, 2, 3])
    x = torch.stack([as_input(elements), as_input(elements[order]), as_input(elements)])
    energies = predictor.energy(x, [values, values[order], values[order]])
    torch.testing.assert_close(energies[0], energies[1])
    assert abs(float(energies[2] - energies[0])) > 1e-6


def test_a_density_has_one_order_and_no_cardinality() -> None:
    """Of the untrained model it is that of numbers with a mean and deviation: no n!, no p(n | x)."""
    predictor = built(METHODS["denoising"])
    with torch.no_grad():  # without an energy, all that is left is the noise of sigma_data
        for parameter in predictor.method.energy.network.head.parameters():
            parameter.zero_()
    elements = torch.rand(2, 2)
    density = predictor.log_prob(as_input(elements).unsqueeze(0), [torch.tensor([[0.5], [0.75]])], steps=60)
    sigma = predictor.method.settings.sigma_data
    normal = torch.distributions.Normal(0.0, sigma)  # of u = 2 y - 1
    expected = float((normal.log_prob(torch.tensor([0.0, 0.5])) + torch.log(torch.tensor(2.0))).sum())
    assert float(density.value) == pytest.approx(expected, abs=0.02)


def test_energies_of_predictions_can_be_compared() -> None:
    x = as_input(torch.rand(2, 2))
    assert built(METHODS["denoising"]).predict_one(x, 2).comparable_across_cardinalities


def test_a_saved_predictor_stays_aligned(tmp_path: Path) -> None:
    predictor = built(METHODS["denoising"])
    predictor.save_pretrained(tmp_path)
    loaded = SetPredictor.from_pretrained(tmp_path, device="cpu")
    assert loaded.shape == SHAPE
    x = as_input(torch.rand(3, 2)).unsqueeze(0)
    assert torch.equal(loaded.predict(x)[0].sets[0], predictor.predict(x)[0].sets[0])


def test_only_present_elements_move_in_a_chain() -> None:
    start = torch.zeros(2, 3, 2)
    start[0, :2, -1] = 1
    sampler = LangevinSampler(LangevinSettings(steps=4, stochastic_steps=3, noise_scale=0.5), known_presence=True)

    def gradient(y: Tensor) -> tuple[Tensor, Tensor]:
        return y.sum(dim=(1, 2)), torch.ones_like(y)

    end, _ = sampler.sample(lambda _: gradient, start, start, make_generator(1))
    assert torch.equal(end[..., -1], start[..., -1])
    assert bool((end[0, :2, 0] != 0).all())
    assert not end[0, 2].any()
    assert not end[1].any()


# -- what cannot be ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (
            TSPNSettings(hidden=8),
            "method must be energy-denoising, .* where outputs are aligned with inputs, got 'tspn'",
        ),
        (
            ContrastiveSettings(energy=SetEncoderEnergySettings(hidden=8)),
            "set-encoder energy needs codes of 64 numbers",
        ),
        (
            EnergyDenoisingSettings(encoder=FSPoolSetEncoderSettings(8, 8)),
            r"a code for each element, \(4, H\).*'mlp'",
        ),
        (
            replace(METHODS["contrastive"], infonce_temperature=0.1),
            "infonce_temperature must be None where outputs are aligned with inputs",
        ),
    ],
    ids=["tspn", "set-encoder", "pooled", "infonce"],
)
def test_methods_that_cannot_align(method: MethodSettings, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        built(method)


def test_an_own_encoder_gives_a_code_for_each_element() -> None:
    predictor = SetPredictor(METHODS["denoising"], input_encoder=nn.Flatten(), device="cpu")
    with pytest.raises(SettingsError, match="a code for each element"):
        predictor.build(SHAPE)
    predictor = SetPredictor(METHODS["denoising"], input_encoder=nn.Linear(3, 5), device="cpu")
    predictor.build(SHAPE)
    assert len(predictor.predict_one(as_input(torch.rand(2, 2))).sets[0]) == 2


def test_zero_padding_has_no_known_presence() -> None:
    zero = RepresentationSettings(padding="zero", scaling="none")
    predictor = SetPredictor(METHODS["contrastive"], zero, device="cpu")
    with pytest.raises(SettingsError, match=r"representation\.padding must be presence where outputs are aligned"):
        predictor.build(SHAPE)


GAP = torch.tensor([[0.1, 0.2, 1], [0, 0, 0], [0.3, 0.4, 1], [0, 0, 0]])


@pytest.mark.parametrize(
    ("x", "count", "message"),
    [
        (as_input(torch.rand(2, 2)), 3, "Example 5: its set has 3 elements and its input 2"),
        (GAP, 2, "Input 5: an element follows padding"),
    ],
    ids=["cardinality", "gap"],
)
@pytest.mark.parametrize("at_once", [1000, 2])
def test_examples_that_are_not_aligned(
    x: Tensor, count: int, message: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("desp.predictor.dataset_summary.ITEMS_AT_ONCE", at_once)
    pairs = [*half_of_each(5), (x, torch.rand(count, 1))]
    with pytest.raises(DataError, match=message):
        SetPredictor(METHODS["denoising"], device="cpu").fit(pairs, description=ALIGNED)


@pytest.mark.parametrize("size", [2, 4])
def test_sets_of_another_size_than_their_input_have_no_energy_or_score(size: int) -> None:
    predictor, x = built(METHODS["denoising"]), as_input(torch.rand(3, 2)).unsqueeze(0)
    wrong, message = [torch.rand(size, 1)], f"Example 0: its set has {size} elements and its input 3"
    for judge in (predictor.energy, predictor.log_prob, predictor.score):
        with pytest.raises(DataError, match=message):
            judge(x, wrong)


def test_validation_data_must_be_aligned_too() -> None:
    wrong = ([as_input(torch.rand(3, 2))], [torch.rand(2, 1)])
    with pytest.raises(DataError, match="Example 0: its set has 2 elements and its input 3"):
        SetPredictor(METHODS["denoising"], device="cpu").fit(
            half_of_each(8), TrainingSettings(steps=1), description=ALIGNED, validation_data=wrong
        )


def test_inputs_must_be_sets() -> None:
    with pytest.raises(DataError, match=r"Inputs that are sets must be padded.* got inputs of shape \(4,\)"):
        SetPredictor(device="cpu").fit([(torch.rand(4), torch.rand(4, 1))], description=ALIGNED)
    with pytest.raises(SettingsError, match="input_kind must be set where outputs are aligned"):
        DataDescription(input_kind="image", aligned=True)


def test_inputs_may_be_padded_beyond_the_largest_set() -> None:
    pairs = [(as_input(torch.rand(2, 2)), torch.rand(2, 1)) for _ in range(4)]
    predictor = SetPredictor(METHODS["denoising"], device="cpu")
    predictor.fit(pairs, TrainingSettings(steps=1, batch_size=4), description=ALIGNED)
    assert predictor.shape.max_size == SIZE
    assert len(predictor.predict_one(as_input(torch.rand(3, 2))).sets[0]) == 3


def test_the_model_card_says_that_elements_are_learned_one_by_one() -> None:
    told = "How elements depend on each other is not learned"
    independent = replace(METHODS["tagger"], sampler=LabelSamplerSettings(min_probability=None))
    for method in (METHODS["engression"], independent):
        assert told in str(built(method).generate_model_card())
    assert told not in str(built(METHODS["denoiser"]).generate_model_card())


@pytest.mark.parametrize(
    ("method", "learned"),
    [
        (EnergyDenoisingSettings(), True),
        (EnergyDenoisingSettings(energy=AttentionSettings()), True),
        (EnergyDenoisingSettings(energy=AttentionSettings(heads=0)), False),
        (DenoiserSettings(), True),
        (DenoiserSettings(network=AttentionSettings(heads=0)), False),
        (ContrastiveSettings(), True),
        (TaggerSettings(), False),
        (AutoregressiveTaggerSettings(), True),
        (LabelLikelihoodSettings(), True),
        (EngressionSettings(), False),
    ],
)
def test_dependence_is_learned_where_elements_see_each_other(method: MethodSettings, learned: bool) -> None:
    assert method.learns_dependence == learned
