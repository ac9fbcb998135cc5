"""Every option of a predictor arrives where it is meant to."""

import shutil
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from small_predictors import Pairs, Parts
from torch import Tensor, nn

from desp.errors import DataError, SettingsError
from desp.predictor import DataShape, Prediction, SetPredictor, dataset_summary, inspect_dataset
from desp.predictor.fitting import dataset_source, default_training, train_predictor
from desp.predictor.prediction import split_predictions
from desp.randomness import make_generator
from desp.recipes import get_recipe
from desp.scaling import FeatureScaling
from desp.sets import SetBatch
from desp.settings import (
    Columns,
    DataDescription,
    EnergyDenoisingSettings,
    RepresentationSettings,
    TrainingSettings,
    from_json,
    to_json,
)
from desp.training import Trainer, TrainingCallback, TrainingOutcome
from desp.training.device import make_accelerator


def predictor_of(settings: Parts, **options: Any) -> SetPredictor:
    return settings.predictor(device="cpu", **options)


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return all(torch.equal(value, b[name]) for name, value in a.items())


# -- seeds -----------------------------------------------------------------------------------------------


class Ordered(list[Any]):
    """A dataset that remembers in which order it was read."""

    def __init__(self, pairs: Pairs) -> None:
        super().__init__(pairs)
        self.read: list[int] = []

    def __getitem__(self, index: Any) -> Any:
        self.read.append(index)
        return super().__getitem__(index)


@pytest.mark.parametrize("seed", [0, 5])
def test_the_seed_of_a_fit_decides_the_first_weights(
    settings: Parts, pairs: Pairs, short: TrainingSettings, seed: int
) -> None:
    """With hardly any learning, what comes out is what was drawn."""
    still = replace(short, steps=1, learning_rate=1e-30)
    predictor, built = predictor_of(settings), predictor_of(settings)
    predictor.fit(pairs, still, seed=seed)
    built.build(predictor.shape, seed=seed)
    for name, parameter in predictor.method.named_parameters():
        assert torch.equal(parameter, built.method.state_dict()[name])
    other = predictor_of(settings)
    other.build(predictor.shape, seed=seed + 1)
    assert not same(dict(other.method.named_parameters()), dict(predictor.method.named_parameters()))


def test_the_seed_of_a_fit_decides_the_order_of_data(
    settings: Parts, pairs: Pairs, short: TrainingSettings
) -> None:
    orders = []
    for seed in (1, 1, 2):
        data = Ordered(pairs)
        predictor_of(settings).fit(data, short, seed=seed)
        orders.append(data.read[len(pairs) :])  # behind the first look at all of them
    assert orders[0] == orders[1] != orders[2]
    assert len(orders[0]) >= short.steps * short.batch_size


def test_the_seed_of_a_training_decides_its_noise(settings: Parts, pairs: Pairs, short: TrainingSettings) -> None:
    """From the same weights, on a single example."""
    weights = []
    for seed in (1, 1, 2):
        predictor = predictor_of(settings)
        predictor.build(DataShape((3,), features=2, max_size=4), seed=0)
        accelerator = make_accelerator("cpu", short, None)
        source = dataset_source(pairs[:1], predictor.shape, short, 0, accelerator)
        train_predictor(predictor, source, short, accelerator, seed=seed)
        weights.append(predictor.method.state_dict())
    assert same(weights[0], weights[1])
    assert not same(weights[0], weights[2])


@pytest.fixture
def handed_on(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What `fit` hands on to `train_predictor`; nothing is trained."""
    given: dict[str, Any] = {}

    def train(predictor: SetPredictor, source: Any, training: Any, accelerator: Any, **options: Any) -> Any:
        given.update(options, training=training, source=source)
        return TrainingOutcome({}, 0, None, None, 0.0, "eager", stopped_early=False, rollbacks=0)

    monkeypatch.setattr("desp.predictor.fitting.train_predictor", train)
    return given


def test_a_fit_hands_on_all_it_was_given(
    settings: Parts, pairs: Pairs, short: TrainingSettings, handed_on: dict[str, Any], tmp_path: Path
) -> None:
    def validation(predictor: SetPredictor) -> float:
        return 0.0

    callback = TrainingCallback()
    predictor_of(settings).fit(pairs, short, folder=tmp_path, seed=7)
    shutil.rmtree(tmp_path / "model")  # as if it had been killed
    options: dict[str, Any] = {"validation": validation, "seed": 7, "resume": True, "callback": callback}
    predictor_of(settings).fit(pairs, short, folder=str(tmp_path), **options)
    assert {name: handed_on[name] for name in options} == options
    validated = replace(short, validate_every=1)  # ten times at most
    assert (handed_on["folder"], handed_on["training"]) == (tmp_path, validated)
    predictor_of(settings).fit(pairs)
    assert handed_on["training"] == TrainingSettings()
    found = [handed_on[name] for name in ("validation", "seed", "folder", "resume", "callback")]
    assert found == [None, 0, None, False, None]


@pytest.mark.parametrize("mode", ["min", "max"])
def test_a_score_of_your_own_is_asked_for_ten_times_unless_told(
    settings: Parts, pairs: Pairs, handed_on: dict[str, Any], mode: Literal["min", "max"]
) -> None:
    training = TrainingSettings(steps=100, validation_mode=mode)
    predictor_of(settings).fit(pairs, training, validation=lambda _: 0.0)
    assert handed_on["training"] == replace(training, validate_every=10)
    predictor_of(settings).fit(pairs, training, validation_data=pairs)  # scored by the energy score
    assert handed_on["training"] == replace(training, validate_every=10, validation_mode="min")
    predictor_of(settings).fit(pairs, training)
    assert handed_on["training"] == training


def test_a_fit_can_be_watched_resumed_and_validated(
    settings: Parts, pairs: Pairs, short: TrainingSettings, tmp_path: Path
) -> None:
    seen: list[tuple[int, int]] = []

    class Watching(TrainingCallback):
        def on_start(self, steps_done: int, steps: int) -> None:
            seen.append((steps_done, steps))

    scored: list[SetPredictor] = []

    def validation(predictor: SetPredictor) -> float:
        scored.append(predictor)
        return float(len(scored))

    training = replace(short, validate_every=1)
    predictor = predictor_of(settings)
    outcome = predictor.fit(pairs, training, validation=validation, folder=tmp_path, callback=Watching())
    assert (outcome.score, outcome.score_step) == (1.0, 1)
    assert scored == [predictor] * short.steps
    longer = replace(training, steps=5)
    predictor.fit(pairs, longer, validation=validation, folder=tmp_path, resume=True, callback=Watching())
    assert seen == [(0, 3), (3, 5)]
    assert (tmp_path / "log.jsonl").exists()


def test_a_training_is_told_engine_and_size(
    settings: Parts, pairs: Pairs, short: TrainingSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines, sizes = [], []

    class Watched(Trainer):
        def __init__(self, *given: Any, **options: Any) -> None:
            engines.append(options["engine"])
            super().__init__(*given, **options)

    def threads(*given: Any) -> Any:
        sizes.append(given)
        return nullcontext()

    monkeypatch.setattr("desp.predictor.fitting.Trainer", Watched)
    monkeypatch.setattr("desp.predictor.fitting.suitable_threads", threads)
    predictor = predictor_of(settings, engine="eager")
    predictor.fit(pairs, replace(short, batch_size=5))
    assert engines == ["eager"]
    largest, width = max(len(item) for _, item in pairs), settings.method.width
    assert largest != width
    assert sizes == [(torch.device("cpu"), 5, largest, width)]


# -- predictions -----------------------------------------------------------------------------------------


def test_predictions_have_seed_zero_and_one_sample_unless_told(fitted: SetPredictor, pairs: Pairs) -> None:
    plain, named = fitted.predict_one(pairs[0][0]), fitted.predict_one(pairs[0][0], 1, seed=0)
    assert len(plain) == 1
    assert torch.equal(plain.sets[0], named.sets[0])
    (of_batch,), (of_named,) = fitted.predict(pairs[0][0][None]), fitted.predict(pairs[0][0][None], 1, seed=0)
    assert len(of_batch) == 1
    assert torch.equal(of_batch.sets[0], of_named.sets[0])
    assert torch.equal(of_batch.sets[0], plain.sets[0])


def test_modes_of_a_prediction_take_distance_and_threshold() -> None:
    a, b = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
    sets = [torch.stack([a, a, b]), torch.stack([a, b, b])]
    prediction = Prediction(sets, torch.tensor([2.0, 1.0]))
    assert [mode.energy for mode in prediction.modes()] == [1.0]  # Chamfer cannot count
    assert [mode.energy for mode in prediction.modes(distance="hungarian")] == [1.0, 2.0]
    assert len(prediction.modes(distance="hungarian", threshold=10.0)) == 1
    assert len(Prediction([a[None], a[None] + 1e-3], torch.zeros(2)).modes(threshold=1e-4)) == 2


def test_the_set_of_lowest_energy_where_sizes_compare_and_where_not() -> None:
    sets = [torch.zeros(1, 2), torch.zeros(1, 2), torch.zeros(2, 2)]
    energies = torch.tensor([1.0, 0.5, -3.0])
    assert Prediction(sets, energies).lowest_energy is sets[2]
    assert Prediction(sets, energies, comparable_across_cardinalities=False).lowest_energy is sets[1]
    assert Prediction(sets, energies, has_energy=False).lowest_energy is sets[0]
    usual_last = [sets[2], *sets[:2]]
    assert (
        Prediction(usual_last, energies, comparable_across_cardinalities=False, has_energy=False).lowest_energy
        is sets[0]
    )
    diverged_first = torch.tensor([torch.nan, 0.5, 1.0])
    assert Prediction(sets, diverged_first).lowest_energy is sets[1]


def test_the_medoid_is_nearest_to_all_others_of_the_usual_cardinality() -> None:
    sets = [torch.tensor([[value, 0.0]]) for value in (0.0, 1.0, 1.2, 5.0)]
    others = [torch.zeros(2, 2), torch.zeros(2, 2)]
    energies = torch.tensor([-9.0, 1.0, 1.0, 1.0, -9.0, -9.0])
    assert Prediction(sets + others, energies).medoid is sets[1]
    assert Prediction([torch.zeros(0, 2)] * 3, energies[:3]).medoid.shape == (0, 2)
    assert Prediction(sets[:1], energies[:1]).medoid is sets[0]


@pytest.mark.parametrize(("likely", "place"), [(2, 4), (1, 1), (7, 1), (None, 1)])
def test_the_medoid_has_the_most_probable_cardinality_if_a_sample_has_it(likely: int | None, place: int) -> None:
    sets = [torch.tensor([[value, 0.0]]) for value in (0.0, 1.0, 1.2, 5.0)]
    sets += [torch.zeros(2, 2), torch.ones(2, 2)]
    assert Prediction(sets, torch.zeros(6), modal_cardinality=likely).medoid is sets[place]


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf, 1e30])
def test_a_set_that_diverged_is_the_medoid_only_if_all_did(value: float) -> None:
    """Nor do such sets decide the cardinality. The square of the last value is infinite."""
    sets = [torch.tensor([[number, 0.0]]) for number in (value, 0.0, 1.0, 1.2, 5.0)]
    sets += [torch.tensor([[0.0, 0.0], [value, 0.0]])] * 6
    presence = [torch.full((len(item),), float(place)) for place, item in enumerate(sets)]
    energies = torch.arange(11.0)
    for likely in (None, 2):
        prediction = Prediction(sets, energies, presence=presence, modal_cardinality=likely)
        assert prediction.medoid is sets[2]
        assert prediction.lowest_energy is sets[1]
        alone = prediction.only_medoid()
        assert (alone.energies.tolist(), alone.presence[0].tolist()) == ([2.0], [2.0])
    lost = Prediction(sets[5:], energies[5:], modal_cardinality=1)
    assert lost.medoid is lost.lowest_energy is sets[5]
    assert Prediction(sets, -energies, has_energy=False).lowest_energy is sets[1]


@pytest.mark.parametrize("boxes", [(), ((0, 4),)], ids=["numbers", "boxes"])
def test_corners_of_boxes_have_no_spans(boxes: Columns) -> None:
    """Those of the scaling are of centre and size."""
    scaling = FeatureScaling((0.0,) * 4, (1.0, 1.0, 0.1, 0.1), boxes)
    shape = DataShape((1,), 4, 1, scaling, description=DataDescription(boxes=boxes))
    sets = SetBatch.from_ragged([torch.rand(1, 4), torch.rand(1, 4)])
    (prediction,) = split_predictions(sets, None, torch.zeros(1, 2), EnergyDenoisingSettings(), shape)
    assert prediction.span == (() if boxes else scaling.span)


def test_the_medoid_weighs_features_by_their_span_and_aligned_elements_by_their_place() -> None:
    sets = [torch.tensor([row]) for row in ([0.0, 0.0], [300.0, 0.1], [0.0, 1.0])]
    assert Prediction(sets, torch.zeros(3)).medoid is sets[0]  # the first feature alone would count
    assert Prediction(sets, torch.zeros(3), span=(1e6, 1.0)).medoid is sets[1]
    labels = [torch.tensor(values).unsqueeze(-1) for values in ([1.0, 0, 0], [0.0, 1, 0], [0.0, 1, 0.1])]
    assert Prediction(labels, torch.zeros(3)).medoid is labels[0]
    assert Prediction(labels, torch.zeros(3), aligned=True).medoid is not labels[0]


# -- loading ---------------------------------------------------------------------------------------------


def test_engine_and_device_are_those_that_are_asked_for(fitted: SetPredictor, tmp_path: Path) -> None:
    fitted.save_pretrained(tmp_path)
    loaded = SetPredictor.from_pretrained(tmp_path, engine="eager", device="cpu")
    assert (loaded.engine, loaded.device_choice) == ("eager", "cpu")
    plain = SetPredictor.from_pretrained(tmp_path)
    assert (plain.engine, plain.device_choice) == ("auto", "auto")


def test_a_predictor_without_settings_has_the_defaults() -> None:
    predictor = SetPredictor()
    custom = get_recipe("custom").build()
    assert (predictor.method_settings, predictor.representation) == (custom.method, custom.representation)
    assert default_training(predictor.method_settings) == custom.training
    predictor.set_params(method__sampler__steps=40)
    assert predictor.representation == custom.representation
    assert default_training(predictor.method_settings) == custom.training
    given = SetPredictor(EnergyDenoisingSettings())
    assert given.representation == RepresentationSettings()
    assert default_training(given.method_settings) == TrainingSettings()
    assert (predictor.engine, predictor.device_choice, predictor.matmul_precision) == ("auto", "auto", None)


@pytest.mark.usefixtures("unchecked")
def test_settings_in_the_wrong_place_are_refused() -> None:
    with pytest.raises(SettingsError, match="Expected MethodSettings, got RepresentationSettings"):
        SetPredictor(RepresentationSettings())
    with pytest.raises(SettingsError, match="Expected RepresentationSettings, got EnergyDenoisingSettings"):
        SetPredictor(EnergyDenoisingSettings(), EnergyDenoisingSettings())


@pytest.mark.parametrize(("given", "during"), [("medium", "medium"), ("high", "high"), (None, "highest")])
def test_matmul_precision_is_that_of_the_predictor_while_it_works(
    settings: Parts, pairs: Pairs, short: TrainingSettings, given: Any, during: str
) -> None:
    """In training and in prediction; afterwards it is the user's own again."""
    seen: list[str] = []

    class Noting(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            seen.append(torch.get_float32_matmul_precision())
            return super().forward(input)

    assert torch.get_float32_matmul_precision() == "highest"
    predictor = predictor_of(settings, matmul_precision=given, input_encoder=Noting(3, 6))
    predictor.fit(pairs, short)
    assert seen[1:] == [during] * short.steps  # the first only asks for the shape of a code
    seen.clear()
    x, y = pairs[0][0][None], [pairs[0][1]]
    predictor.predict(x)
    predictor.energy(x, y)
    assert seen == [during] * 2
    assert torch.get_float32_matmul_precision() == "highest"


# -- what is learned of data -----------------------------------------------------------------------------


def test_statistics_are_of_all_parts_of_a_dataset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset_summary, "ITEMS_AT_ONCE", 2)
    inputs = [1.0, 2.0, 3.0, 10.0, 4.0]
    sizes = [1, 3, 1, 1, 2]
    data = [(torch.tensor([x]), torch.full((n, 1), 2 * x)) for x, n in zip(inputs, sizes, strict=True)]
    shape, statistics = inspect_dataset(data)
    assert shape.max_size == 3
    assert (shape.scaling.offset, shape.scaling.span) == ((2.0,), (18.0,))
    assert statistics[0].tolist() == pytest.approx([4.0])
    assert statistics[1].tolist() == pytest.approx([10**0.5])
    data[4] = (torch.tensor([1.0, 2.0]), data[4][1])
    with pytest.raises(DataError, match=r"same shape, got \(1,\) and \(2,\)"):
        inspect_dataset([*data[:4], data[4]])


def test_any_number_of_empty_sets_may_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset_summary, "ITEMS_AT_ONCE", 2)
    boxes = DataDescription(boxes=((0, 4),))
    empty = [(torch.tensor([float(x)]), []) for x in range(5)]
    shape, statistics = inspect_dataset([*empty, (torch.tensor([5.0]), [[0.1, 0.2, 0.3, 0.4]])], description=boxes)
    assert (shape.features, shape.max_size) == (4, 1)
    assert statistics[0].tolist() == [2.5]
    with pytest.raises(DataError, match="Every set of the dataset is empty"):
        inspect_dataset(empty, description=boxes)
    with pytest.raises(DataError, match="set 5 has 1 features an element, expected 2"):
        inspect_dataset([*empty, (torch.tensor([5.0]), [[0.1]])], features=2)


def test_an_endless_dataset_is_read_as_far_as_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(torch.utils.data.IterableDataset[Any]):
        def __iter__(self) -> Any:
            number = 0
            while True:
                number += 1
                yield torch.tensor([float(number)]), torch.full((1, 1), float(number))

    monkeypatch.setattr(dataset_summary, "ITERABLE_EXAMPLES", 7)
    _, statistics = inspect_dataset(Endless())
    assert statistics[0].tolist() == [4.0]


def test_a_dataset_with_an_end_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataset_summary, "ITERABLE_EXAMPLES", 7)
    pairs = [(torch.tensor([float(size)]), torch.full((size, 1), float(size))) for size in range(1, 10)]
    shape, statistics = inspect_dataset(pairs)
    assert (shape.max_size, statistics[0].tolist()) == (9, [5.0])


@pytest.mark.parametrize(
    ("x", "kind"), [(torch.zeros(3), "vector"), (torch.zeros(1, 4, 4), "image"), (torch.zeros(4, 3), "vector")]
)
def test_the_kind_of_inputs_is_guessed_unless_it_is_given(x: Tensor, kind: str) -> None:
    data = [(x, torch.rand(2, 2))]
    assert inspect_dataset(data)[0].input_kind == kind
    if x.dim() == 2:
        assert inspect_dataset(data, description=DataDescription(input_kind="set"))[0].input_kind == "set"


def test_shapes_survive_json() -> None:
    shape, _ = inspect_dataset(
        [(torch.zeros(4, 3), 9 * torch.rand(2, 2))], description=DataDescription(input_kind="set")
    )
    assert from_json(DataShape, to_json(shape)) == shape


def test_codes_are_repeated_batch_by_batch(fitted_variant: SetPredictor, pairs: Pairs) -> None:
    """Of K samples, sets and energies are those of codes that were repeated beforehand."""
    code = fitted_variant.encode(torch.stack([x for x, _ in pairs[:2]]))
    together = fitted_variant.sample(code, make_generator(3), samples=3)[0]
    repeated = code.repeat_interleave(3, dim=0)
    assert torch.equal(together, fitted_variant.sample(repeated, make_generator(3))[0])
    energies = fitted_variant.raw_energy(code, together, 3)
    torch.testing.assert_close(energies, fitted_variant.raw_energy(repeated, together), equal_nan=True)
