"""DSPN, C-DSPN and TSPN behind the common interface: symmetry, odd sizes, and a method without energy."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from desp.distances import chamfer
from desp.errors import SettingsError
from desp.paper.baselines import STEP_SIZE, c_dspn, dspn, tspn
from desp.paper.training import paper_training
from desp.predictor import DataShape, Prediction, SetPredictor
from desp.randomness import make_generator
from desp.settings import DataDescription, MethodSettings, SetRiskSettings, TSPNSettings, from_json, to_json

ROWS = 4


def small(settings: SetRiskSettings | TSPNSettings) -> SetRiskSettings | TSPNSettings:
    """The paper's baseline with narrow networks."""
    if isinstance(settings, TSPNSettings):
        return replace(settings, hidden=8, layers=1, feedforward=8, latent=6)
    return replace(settings, energy=replace(settings.energy, hidden=8, latent=6))


PAPER: dict[str, SetRiskSettings | TSPNSettings] = {
    "dspn-chamfer": dspn("chamfer"),
    "dspn-hungarian": dspn("hungarian"),
    "c-dspn": c_dspn(),
    "tspn": tspn(),
}
every_baseline = pytest.mark.parametrize("settings", [small(item) for item in PAPER.values()], ids=PAPER)


def built(settings: MethodSettings, statistics: Tensor | None = None) -> SetPredictor:
    """An auto-encoder of sets of two features."""
    predictor = SetPredictor(settings, device="cpu")
    shape = DataShape((ROWS, 3), features=2, max_size=ROWS, input_kind="set")
    predictor.build(shape, input_statistics=statistics)
    return predictor


def as_input(points: Tensor) -> Tensor:
    padded = torch.zeros(ROWS, 3)
    padded[: len(points), :2], padded[: len(points), 2] = points, 1.0
    return padded


@pytest.fixture
def inputs() -> Tensor:
    """Sets of 0 to 4 points as inputs."""
    return torch.stack([as_input(torch.rand(size, 2)) for size in range(ROWS + 1)])


@every_baseline
def test_the_order_of_an_input_set_does_not_matter(settings: MethodSettings, inputs: Tensor) -> None:
    predictor = built(settings)
    expected, _ = predictor.sample(predictor.encode(inputs), make_generator(0))
    for order in ([3, 1, 0, 2], [1, 0, 3, 2]):
        found, _ = predictor.sample(predictor.encode(inputs[:, order]), make_generator(0))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@every_baseline
def test_rows_hold_presence_between_zero_and_one(settings: MethodSettings, inputs: Tensor) -> None:
    predictor = built(settings)
    raw, _ = predictor.sample(predictor.encode(inputs), make_generator(0))
    presence = raw[..., -1]
    assert ((presence >= 0) & (presence <= 1)).all()
    if settings.predicts_cardinality:
        assert ((presence == 0) | (presence == 1)).all()
        assert not raw[presence == 0].any()


@pytest.mark.parametrize("name", ["c-dspn", "tspn"])
@pytest.mark.parametrize("size", [0, 1, ROWS])
def test_cardinalities_are_the_most_probable_ones(name: str, size: int, inputs: Tensor) -> None:
    predictor = built(small(PAPER[name]))
    last = predictor.method.cardinality.logits.linears[-1]
    with torch.no_grad():
        last.weight.zero_()
        last.bias.copy_(torch.arange(ROWS + 1) == size)  # p is far from certain
    predictions = predictor.predict(inputs, samples=3)
    raw, _ = predictor.sample(predictor.encode(inputs.repeat_interleave(3, dim=0)), make_generator(0, "predict"))
    for rows, prediction in zip(raw.split(3), predictions, strict=True):
        assert [len(item) for item in prediction.sets] == [size] * 3
        torch.testing.assert_close(torch.stack(prediction.sets), rows[:, :size, :2])


def test_the_encoder_of_tspn_ignores_what_absent_rows_hold(inputs: Tensor) -> None:
    statistics = torch.tensor([[0.3, 0.5, 0.0], [0.2, 2.0, 1.0]])
    predictor = built(small(PAPER["tspn"]), statistics)
    rubbish = torch.where(inputs[..., -1:] > 0, inputs, torch.tensor([9.0, 9.0, 0.0]))
    expected, _ = predictor.sample(predictor.encode(inputs), make_generator(0))
    assert torch.equal(predictor.sample(predictor.encode(rubbish), make_generator(0))[0], expected)
    encoded = predictor.method.encoder[0](inputs)
    assert torch.equal(encoded[..., -1], inputs[..., -1])


# -- a method without energy ---------------------------------------------------------------------------


@pytest.fixture
def transformer() -> SetPredictor:
    return built(small(PAPER["tspn"]))


def test_it_has_no_energies(transformer: SetPredictor, inputs: Tensor) -> None:
    prediction = transformer.predict_one(inputs[2], samples=4)
    assert prediction.energies.isnan().all()
    assert torch.equal(prediction.lowest_energy, prediction.sets[0])
    assert sum(mode.fraction for mode in prediction.modes()) == pytest.approx(1)
    with pytest.raises(SettingsError, match="has no energy"):
        transformer.energy(inputs[2:3], [torch.rand(2, 2)])
    with pytest.raises(SettingsError, match="has no energy"):
        transformer.log_prob(inputs[2:3], [torch.rand(2, 2)])


def test_one_energy_that_is_nan_is_a_failure_not_a_method_without() -> None:
    prediction = Prediction([torch.rand(2, 2), torch.rand(2, 2)], torch.tensor([float("nan"), 1.0]))
    with pytest.raises(Exception, match="NaN"):
        prediction.modes()
    with pytest.raises(Exception, match="NaN"):
        Prediction([torch.rand(2, 2)], torch.tensor([float("nan")])).modes()


def test_many_sets_are_made_in_parts(transformer: SetPredictor, inputs: Tensor) -> None:
    code = transformer.encode(inputs[2].expand(1500, -1, -1))
    many, _ = transformer.sample(code, make_generator(1))
    few, _ = transformer.sample(code[:1000], make_generator(1))
    assert torch.equal(many[:1000], few)
    assert transformer.method.engine_used == "eager"


def test_codes_for_each_element_do_not_suit_it() -> None:
    predictor = SetPredictor(small(PAPER["tspn"]), input_encoder=nn.Linear(3, 6))
    with pytest.raises(SettingsError, match=r"codes \(B, H\)"):
        predictor.build(DataShape((ROWS, 3), features=2, max_size=ROWS, input_kind="set"))


# -- settings ------------------------------------------------------------------------------------------


def test_the_papers_settings() -> None:
    assert STEP_SIZE == 25
    assert (PAPER["dspn-chamfer"].supervise, PAPER["dspn-hungarian"].supervise) == ("all", "last")
    assert all(item.descent.steps == 10 for name, item in PAPER.items() if name != "tspn")
    for settings in PAPER.values():
        assert from_json(MethodSettings, to_json(settings)) == settings
    training = paper_training(1e-2, 7)
    assert (training.batch_size, training.learning_rate, training.steps) == (32, 1e-2, 7)


def test_the_papers_networks() -> None:
    shape = DataShape((342, 3), features=2, max_size=342, input_kind="set")
    for name, settings in PAPER.items():
        predictor = SetPredictor(settings, device="cpu")
        predictor.build(shape)
        encoders = [item for item in predictor.method.modules() if type(item).__name__ == "SetEncoder"]
        assert len(encoders) == 1, name
        widths = [(layer.in_features, layer.out_features) for layer in encoders[0].mlp.linears]
        assert widths == [(3, 256), (256, 256), (256, 64)]
        assert (predictor.method.cardinality is not None) == (name in ("c-dspn", "tspn"))
        if predictor.method.cardinality is not None:
            layers = predictor.method.cardinality.logits.linears
            assert [(item.in_features, item.out_features) for item in layers] == [(64, 128), (128, 343)]


# -- learning ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "steps"), [("c-dspn", 60), pytest.param("tspn", 200, marks=pytest.mark.long)])
def test_predictions_depend_on_inputs_and_not_on_their_sizes_alone(name: str, steps: int) -> None:
    generator = make_generator(0)

    def some_set() -> Tensor:
        corner = 0.8 * torch.rand(1, 2, generator=generator)
        size = int(torch.randint(1, ROWS + 1, (), generator=generator))
        return corner + 0.2 * torch.rand(size, 2, generator=generator)

    data = [some_set() for _ in range(500)]
    predictor = SetPredictor(small(PAPER[name]), device="cpu")
    pairs = [(as_input(points), points) for points in data]
    predictor.fit(pairs, paper_training(1e-2, steps), description=DataDescription(input_kind="set"))
    x = torch.stack([as_input(some_set()) for _ in range(32)])
    raw, _ = predictor.sample(predictor.encode(x), make_generator(1))
    own, others = (chamfer(raw[..., :2], to[..., :2]).mean() for to in (x, x.roll(1, dims=0)))
    assert own < others / 3
