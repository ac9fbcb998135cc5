"""Datasets as users have them: in other units, too large, broken."""

from typing import Any

import pytest
import torch
from small_predictors import Pairs, Parts
from torch import Tensor

from desp.errors import DataError
from desp.predictor import SetPredictor, inspect_dataset
from desp.randomness import make_generator
from desp.scaling import FeatureScaling
from desp.sets import SetBatch
from desp.settings import (
    ContrastiveSettings,
    DataDescription,
    DeepSetsSettings,
    DescentSettings,
    LangevinSettings,
    SetRiskSettings,
    TrainingSettings,
)


def fit(settings: Parts, data: Any, training: TrainingSettings) -> SetPredictor:
    predictor = settings.predictor(device="cpu")
    predictor.fit(data, training)
    return predictor


def predicted(predictor: SetPredictor, x: Any, samples: int = 1) -> list[Tensor]:
    return predictor.predict_one(x, samples).sets


# -- units ---------------------------------------------------------------------------------------------


CHAIN = LangevinSettings(steps=20, stochastic_steps=20, noise_scale=0.02)
ENERGY = DeepSetsSettings(hidden=32)
TRUTH = {-1.0: [[-200.0, 3000.0]], 1.0: [[100.0, 2900.0], [300.0, 2000.0]]}
IN_METRES = [(x, torch.tensor(y)) for x, y in TRUTH.items()]


def test_learns_sets_of_different_sizes_in_metres() -> None:
    """Negative numbers, thousands, one or two elements: what is predicted is what was there."""
    method = SetRiskSettings(energy=ENERGY, descent=DescentSettings(steps=5), distance="hungarian")
    training = TrainingSettings(
        steps=80, batch_size=16, learning_rate=1e-3, clip_norm=0.1, warmup_steps=10, ema_decay=0.95
    )
    predictor = fit(Parts(method), IN_METRES, training)
    for x, elements in TRUTH.items():
        for item in predicted(predictor, x, 3):
            ordered = item[item[:, 0].argsort()]
            assert ordered.shape == (len(elements), 2)
            error = (ordered - torch.tensor(elements)).abs().amax(dim=0)
            assert float(error[0]) < 125  # a quarter of the feature's range
            assert float(error[1]) < 250


def test_contrastive_energies_prefer_what_was_there() -> None:
    """In metres, too: sets have a lower energy for their own inputs than exchanged (seeds 0 to 3: below -.12)."""
    method = ContrastiveSettings(energy=ENERGY, training_sampler=CHAIN, data_noise=0.03)
    training = TrainingSettings(steps=60, batch_size=16, learning_rate=1e-3, clip_norm=0.1, warmup_steps=10)
    predictor = fit(Parts(method), IN_METRES, training)
    inputs, sets = torch.tensor([[x] for x in TRUTH]), list(TRUTH.values())
    assert float((predictor.energy(inputs, sets) - predictor.energy(inputs, sets[::-1])).sum()) < -0.05


def test_units_change_nothing_but_the_units(with_presence: Parts, pairs: Pairs, short: TrainingSettings) -> None:
    """The same sets, written in metres from elsewhere, give the same predictions written so."""
    corners = torch.tensor([[0.0, 0.0], [1.0, 1.0]])  # so that the range of the plain data is exactly [0, 1]
    plain = [*pairs, (pairs[0][0], corners)]
    span, offset = torch.tensor([2000.0, 0.01]), torch.tensor([-7000.0, 3.0])
    a = fit(with_presence, plain, short)
    b = fit(with_presence, [(x, y * span + offset) for x, y in plain], short)
    assert a.shape.scaling == FeatureScaling.identity(2)
    assert b.shape.scaling != FeatureScaling.identity(2)
    for left, right in zip(predicted(a, pairs[0][0], 3), predicted(b, pairs[0][0], 3), strict=True):
        torch.testing.assert_close((right - offset) / span, left, rtol=1e-2, atol=1e-3)


def test_scaling_can_be_switched_off(with_presence: Parts, pairs: Pairs, short: TrainingSettings) -> None:
    data = [(x, y + 3) for x, y in pairs]
    unscaled = FeatureScaling.identity(2)
    assert fit(with_presence.represented(scaling="none"), data, short).shape.scaling == unscaled
    assert fit(with_presence, data, short).shape.scaling != unscaled


def test_encoding_and_decoding_sets_are_inverse(
    with_presence: Parts, pairs: Pairs, short: TrainingSettings
) -> None:
    data = [(x, 300 * y - 50) for x, y in pairs]
    predictor = fit(with_presence, data, short)
    given = SetBatch.from_ragged([y for _, y in data])
    values = predictor.sets_to_tensor(given)
    assert values.shape == (12, 4, 3)
    assert float(values.min()) >= 0
    assert float(values.max()) <= 1
    back = predictor.sets_from_tensor(values)
    torch.testing.assert_close(back.elements, given.elements, rtol=1e-5, atol=1e-3)
    assert torch.equal(back.mask, given.mask)


# -- broken datasets -----------------------------------------------------------------------------------


def test_a_set_above_the_largest_size_is_refused(settings: Parts, pairs: Pairs, short: TrainingSettings) -> None:
    with pytest.raises(DataError, match=r"set 2 has 3 elements, but at most 2.*max_size"):
        fit(settings.represented(max_size=2), pairs, short)
    assert fit(settings.represented(max_size=9), pairs, short).shape.max_size == 9


def test_energy_of_a_set_that_is_too_large_is_refused(fitted: SetPredictor, pairs: Pairs) -> None:
    with pytest.raises(DataError, match="5 elements, but at most 4"):
        fitted.energy(pairs[0][0][None], [torch.rand(5, 2)])
    with pytest.raises(DataError, match="3 features an element, expected 2"):
        fitted.energy(pairs[0][0][None], [torch.rand(1, 3)])


X = torch.zeros(3)
BROKEN: dict[str, tuple[list[Any], str]] = {
    "empty dataset": ([], "at least one"),
    "NaN in a set": ([(X, [[0.1, 0.2]]), (X, [[0.1, float("nan")]])], "set 1: element 0, feature 1 holds NaN"),
    "infinity in a set": ([(X, [[float("inf"), 0.2]])], "NaN or infinity"),
    "another feature count": ([(X, [[0.1, 0.2]]), (X, [[0.1]])], "set 1 has 1 features an element, expected 2"),
    "a flat set": ([(X, [0.1, 0.2])], "two dimensions"),
    "words": ([(X, [["a", "b"]])], "numbers"),
    "NaN in an input": ([(torch.tensor([float("nan")]), [[0.1]])], "Input 0 holds NaN"),
    "inputs of two shapes": ([(X, [[0.1]]), (torch.zeros(4), [[0.1]])], "same shape"),
    "not pairs": ([torch.zeros(3)], "pair"),
    "only empty sets": ([(X, torch.empty(0, 2)), (X, torch.empty(0, 2))], "empty"),
    "sets without features": ([(X, torch.empty(3, 0))], "no features"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_datasets_are_refused(settings: Parts, short: TrainingSettings, case: str) -> None:
    data, message = BROKEN[case]
    with pytest.raises(DataError, match=message):
        fit(settings, data, short)


def test_a_refused_dataset_leaves_no_folder(settings: Parts, tmp_path: Any) -> None:
    folder = tmp_path / "run"
    with pytest.raises(DataError):
        settings.predictor(device="cpu").fit([(X, [[float("nan")]])], folder=folder)
    assert not folder.exists()


# -- what a predictor learns of its data ---------------------------------------------------------------


def test_shapes_and_statistics_of_a_dataset() -> None:
    data = [(torch.tensor([1.0, 10.0]), [[0.0, -1.0]]), (torch.tensor([3.0, 10.0]), [[1.0, 1.0], [0.5, 0.0]])]
    shape, statistics = inspect_dataset(data)
    assert (shape.input_shape, shape.features, shape.max_size) == ((2,), 2, 2)
    assert shape.scaling.offset == (0.0, -1.0)
    assert shape.scaling.span == (1.0, 2.0)
    assert statistics[0].tolist() == [2.0, 10.0]
    assert statistics[1].tolist() == [1.0, 0.0]


def test_statistics_of_inputs_that_are_sets_count_present_elements() -> None:
    x = torch.tensor([[[1.0, 1.0], [3.0, 1.0], [99.0, 0.0]]])  # one feature, then presence
    _, statistics = inspect_dataset([(x[0], [[0.5]])], description=DataDescription(input_kind="set"))
    assert statistics[0].tolist() == [2.0, 0.0]
    assert statistics[1].tolist() == [1.0, 1.0]


def test_boxes_are_looked_for_in_their_own_columns() -> None:
    described = DataDescription(boxes=((2, 6),))
    fine = [[0.9, 0.1, 0.2, 0.3, 0.6, 0.8]]  # columns 0 to 3 would be a box that ends before it begins
    assert inspect_dataset([(X, fine)], description=described)[0].features == 6
    for broken in ([0.1, 0.2, 0.6, 0.3, 0.5, 0.8], [0.1, 0.2, 0.3, 0.9, 0.5, 0.8]):
        with pytest.raises(DataError, match=r"The features in columns 2 to 5 \(boxes\) must be left, top, right"):
            inspect_dataset([(X, [broken])], description=described)


def test_inputs_that_are_all_alike_do_not_deviate() -> None:
    """By rounding, the mean of their squares is less than the square of their mean."""
    x = torch.tensor([0.1], dtype=torch.float64)
    _, statistics = inspect_dataset([(x, [[0.5]])] * 3)
    assert statistics.flatten().tolist() == pytest.approx([0.1, 0.0], abs=1e-7)


def test_large_inputs_have_the_deviation_that_they_have() -> None:
    """Squares of float64 cancel: of these constants they would leave deviations of up to tens."""
    constant = torch.tensor([1e9 + 0.1, 123456789.123, -7e8 / 3], dtype=torch.float64)
    varying = 1e9 * (1 + 1e-6 * torch.randn(700, dtype=torch.float64, generator=make_generator(0)))
    rows = torch.cat([constant.expand(700, 3), varying.unsqueeze(1)], dim=1)
    _, statistics = inspect_dataset([(row, [[0.5]]) for row in rows])
    assert statistics[1, :3].tolist() == [0, 0, 0]
    seen = varying.float().double()  # what the network gets of them
    assert float(statistics[1, 3]) == pytest.approx(float(seen.std(correction=0)), rel=1e-5)
