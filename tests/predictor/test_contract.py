"""What every predictor promises, whatever its estimator and energy."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset

from desp.errors import DataError, RunError, SettingsError
from desp.predictors import DataShape, EnergyPredictor, Prediction
from desp.randomness import make_generator
from desp.sets import SetBatch
from desp.settings import LangevinSettings, PredictorSettings, TrainingSettings

Pairs = list[tuple[Tensor, Tensor]]


class MapStyle(Dataset[tuple[Tensor, Tensor]]):
    """A torch dataset with a length."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.pairs[index]


class Stream(IterableDataset[tuple[Tensor, Tensor]]):
    """A torch dataset without one."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return iter(self.pairs)


def fit(settings: PredictorSettings, data: Any, training: TrainingSettings, **options: Any) -> EnergyPredictor:
    predictor = EnergyPredictor(settings, device="cpu")
    predictor.fit(data, training, **options)
    return predictor


def one(prediction: Prediction | list[Prediction]) -> Prediction:
    assert isinstance(prediction, Prediction)
    return prediction


def many(predictions: Prediction | list[Prediction]) -> list[Prediction]:
    assert isinstance(predictions, list)
    return predictions


def assert_same_sets(a: Prediction, b: Prediction) -> None:
    assert len(a) == len(b)
    for left, right in zip(a.sets, b.sets, strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=0)
    torch.testing.assert_close(a.energies, b.energies, rtol=0, atol=0, equal_nan=True)


def is_random(settings: PredictorSettings) -> bool:
    return settings.estimator.kind != "set-risk"


def differ(a: Prediction, b: Prediction) -> bool:
    return any(not torch.equal(left, right) for left, right in zip(a.sets, b.sets, strict=True))


# -- fitting -------------------------------------------------------------------------------------------


def test_fits_a_list_a_dataset_and_a_stream(
    variant: PredictorSettings, fitted_variant: EnergyPredictor, pairs: Pairs, short: TrainingSettings
) -> None:
    from_list = fitted_variant
    from_dataset = fit(variant, MapStyle(pairs), short)
    from_stream = fit(variant, Stream(pairs), short)
    x = pairs[0][0]
    assert_same_sets(one(from_list.predict(x, 2)), one(from_dataset.predict(x, 2)))
    assert from_stream.shape == from_list.shape == DataShape((3,), features=2, max_size=4)
    assert len(one(from_stream.predict(x, 2))) == 2


def test_fit_moves_the_weights(variant: PredictorSettings, fitted_variant: EnergyPredictor) -> None:
    fresh = EnergyPredictor(variant)
    fresh.build(fitted_variant.shape)
    before, after = fresh.weights(), fitted_variant.weights()
    names = [name for name, _ in fitted_variant.network.named_parameters() if "bias" not in name]
    assert names
    assert [name for name in names if torch.equal(before[name], after[name])] == []


def test_numbers_of_double_precision_are_taken(variant: PredictorSettings, short: TrainingSettings) -> None:
    random = np.random.default_rng(0)
    data = [(random.normal(size=3), random.random((index % 3 + 1, 2))) for index in range(6)]
    predictor = fit(variant, data, short)
    (mean,) = (value for name, value in predictor.weights().items() if name.endswith("input_encoder.0.mean"))
    assert mean.dtype == torch.float32
    prediction = one(predictor.predict(data[0][0], 2))
    assert {item.dtype for item in prediction.sets} == {torch.float32}
    assert prediction.energies.dtype == torch.float32


def test_whole_numbers_are_taken(settings: PredictorSettings, short: TrainingSettings) -> None:
    data = [(index, [[index, 1]]) for index in range(6)]
    assert one(fit(settings, data, short).predict(3)).sets[0].shape == (1, 2)


# -- prediction ----------------------------------------------------------------------------------------


def test_one_input_gives_k_sets(variant: PredictorSettings, fitted_variant: EnergyPredictor, pairs: Pairs) -> None:
    prediction = one(fitted_variant.predict(pairs[0][0], samples=5))
    assert len(prediction) == 5
    assert {item.shape[1] for item in prediction.sets} == {2}
    if variant.padding.kind == "zero":  # every row is an element
        assert [len(item) for item in prediction.sets] == [4] * 5
    assert prediction.energies.shape == (5,)
    best = 0 if prediction.energies.isnan().all() else int(prediction.energies.argmin())
    assert torch.equal(prediction.best, prediction.sets[best])


def test_a_batch_gives_a_list(fitted_variant: EnergyPredictor, pairs: Pairs) -> None:
    batch = torch.stack([x for x, _ in pairs[:3]])
    predictions = many(fitted_variant.predict(batch, samples=2))
    assert [len(item) for item in predictions] == [2, 2, 2]
    assert len(many(fitted_variant.predict(batch[:1]))) == 1  # a batch of one is still a batch
    again = many(fitted_variant.predict(batch.tolist(), samples=2))[1]
    assert again.energies.tolist() == pytest.approx(predictions[1].energies.tolist(), nan_ok=True)


def test_each_prediction_belongs_to_its_input(variant: PredictorSettings, short: TrainingSettings) -> None:
    """Sets and energies of a batch are those of its inputs one by one: rows and samples are not mixed up."""
    generator = torch.Generator().manual_seed(1)
    data = [(10 * torch.randn(3, generator=generator), torch.rand(2, 2, generator=generator)) for _ in range(6)]
    predictor = fit(variant, data, short)
    batch = torch.stack([x for x, _ in data])
    predictions = many(predictor.predict(batch, samples=3))
    raw, _ = predictor.sample(batch.repeat_interleave(3, dim=0), make_generator(0, "predict"))
    for x, rows, prediction in zip(batch, raw.split(3), predictions, strict=True):
        expected = predictor.raw_energy(x.expand(3, -1), rows)
        assert expected.isnan().any() == (not predictor.network.scores_sets)
        torch.testing.assert_close(prediction.energies, expected, rtol=1e-4, atol=1e-5, equal_nan=True)
        torch.testing.assert_close(prediction.sets, predictor.decode_sets(rows).to_ragged())
    batch[2] *= -1
    others = many(predictor.predict(batch, samples=3))
    changed = [index for index in range(6) if differ(predictions[index], others[index])]
    assert changed == [2]


def test_same_seed_same_sets(variant: PredictorSettings, fitted_variant: EnergyPredictor, pairs: Pairs) -> None:
    batch = torch.stack([x for x, _ in pairs])
    first, again, others = (many(fitted_variant.predict(batch, 3, seed=seed)) for seed in (4, 4, 5))
    for left, right in zip(first, again, strict=True):
        assert_same_sets(left, right)
    assert any(map(differ, first, others)) == is_random(variant)


def test_samples_of_one_input_differ_but_for_direct_risk(
    variant: PredictorSettings, fitted_variant: EnergyPredictor, pairs: Pairs
) -> None:
    predictions = many(fitted_variant.predict(torch.stack([x for x, _ in pairs]), 2))
    same = all(len(a) == len(b) and torch.allclose(a, b) for a, b in (item.sets for item in predictions))
    assert same == (not is_random(variant))


def test_another_sampler_can_be_asked_for(fitted: EnergyPredictor, pairs: Pairs) -> None:
    quiet = LangevinSettings(steps=2, stochastic_steps=0)
    prediction = one(fitted.predict(pairs[0][0], 2, sampler=quiet))
    assert torch.equal(prediction.sets[0], prediction.sets[1])


def test_energies_are_those_of_the_raw_sets(fitted_variant: EnergyPredictor, pairs: Pairs) -> None:
    x = pairs[0][0].expand(3, -1)
    raw, _ = fitted_variant.sample(x, make_generator(7, "predict"))
    expected = fitted_variant.raw_energy(x, raw)
    found = one(fitted_variant.predict(pairs[0][0], 3, seed=7)).energies
    torch.testing.assert_close(found, expected, equal_nan=not fitted_variant.network.scores_sets)


def test_energy_of_a_prediction_that_lost_nothing(fitted: EnergyPredictor, pairs: Pairs) -> None:
    """Where every row is present and nothing is scaled, the sets that come back say all."""
    prediction = one(fitted.predict(pairs[0][0], 3))
    again = fitted.energy(pairs[0][0].expand(3, -1), prediction.sets)
    torch.testing.assert_close(prediction.energies, again)
    single = fitted.energy(pairs[0][0], prediction.sets[1])
    assert single.shape == ()
    assert float(single) == pytest.approx(float(prediction.energies[1]), rel=1e-4)


def test_energy_takes_ragged_sets_and_ignores_their_order(fitted: EnergyPredictor, pairs: Pairs) -> None:
    inputs, sets = torch.stack([x for x, _ in pairs]), [y for _, y in pairs]
    energies = fitted.energy(inputs, sets)
    assert energies.shape == (len(pairs),)
    turned = fitted.energy(inputs, [y.flip(0) for y in sets])
    torch.testing.assert_close(turned, energies, rtol=1e-4, atol=1e-6)
    assert fitted.energy(inputs, SetBatch.from_ragged(sets)).tolist() == pytest.approx(energies.tolist())
    with pytest.raises(DataError, match="one set for each of 12 inputs, got 2"):
        fitted.energy(inputs, sets[:2])


def test_only_present_elements_come_back(
    with_presence: PredictorSettings, pairs: Pairs, short: TrainingSettings
) -> None:
    predictor = fit(with_presence, pairs, short)
    x = pairs[0][0].expand(20, -1)
    raw, _ = predictor.sample(x, make_generator(0, "predict"))
    assert raw.shape == (20, 4, 3)
    prediction = one(predictor.predict(pairs[0][0], 20))
    for row, item in zip(raw, prediction.sets, strict=True):
        torch.testing.assert_close(item, row[row[:, 2] > 0, :2])
    sizes = {len(item) for item in prediction.sets}
    assert len(sizes) > 1, "the threshold should let different numbers of rows pass"


def test_sets_may_be_empty(with_presence: PredictorSettings, short: TrainingSettings) -> None:
    data = [(torch.tensor([0.0]), torch.empty(0, 2)), (torch.tensor([1.0]), torch.rand(2, 2))]
    predictor = fit(with_presence, data, short)
    absent = torch.zeros(1, 2, 3)  # two rows, none of them present
    expected = predictor.raw_energy(torch.zeros(1, 1), absent)[0]
    torch.testing.assert_close(predictor.energy(0.0, torch.empty(0, 2)), expected)
    torch.testing.assert_close(predictor.energy(0.0, []), expected)
    assert float(predictor.energy(0.0, torch.zeros(1, 2))) != float(expected)  # an element at zero is one


# -- inputs --------------------------------------------------------------------------------------------


def test_numbers_as_inputs(variant: PredictorSettings, short: TrainingSettings) -> None:
    predictor = fit(variant, [(float(index), torch.rand(2, 2)) for index in range(5)], short)
    assert predictor.shape.input_shape == (1,)
    assert len(one(predictor.predict(2.0))) == len(one(predictor.predict([2.0]))) == 1
    assert len(many(predictor.predict([[1.0], [2.0]]))) == 2


def test_images_as_inputs(variant: PredictorSettings, short: TrainingSettings) -> None:
    data = [(torch.rand(3, 9, 7), torch.rand(index % 2 + 1, 2)) for index in range(5)]
    predictor = fit(variant, data, short)
    assert predictor.shape.input_kind == "image"
    assert len(one(predictor.predict(data[0][0], 2))) == 2
    assert len(many(predictor.predict(torch.stack([x for x, _ in data])))) == 5


def test_inputs_are_standardised(settings: PredictorSettings, pairs: Pairs, short: TrainingSettings) -> None:
    """The unit of the inputs does not matter."""
    plain = fit(settings, pairs, short)
    scaled = fit(settings, [(1000 * x + 5000, y) for x, y in pairs], short)
    a, b = one(plain.predict(pairs[0][0], 2)), one(scaled.predict(1000 * pairs[0][0] + 5000, 2))
    for left, right in zip(a.sets, b.sets, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("wrong", [torch.zeros(4), torch.zeros(2, 4), torch.zeros(1, 2, 3), 1.0])
def test_inputs_of_another_shape_are_refused(fitted: EnergyPredictor, wrong: Any) -> None:
    shape = str(tuple(torch.as_tensor(wrong).shape))
    with pytest.raises(DataError) as raised:
        fitted.predict(wrong)
    assert "(3,)" in str(raised.value)
    assert f"got shape {shape}" in str(raised.value)


def test_nan_and_words_as_inputs_are_refused(fitted: EnergyPredictor) -> None:
    with pytest.raises(DataError, match="NaN"):
        fitted.predict([0.0, float("nan"), 1.0])
    with pytest.raises(DataError, match="number"):
        fitted.predict(["a", "b", "c"])


def test_inputs_without_an_encoder_are_refused(settings: PredictorSettings, short: TrainingSettings) -> None:
    with pytest.raises(DataError, match="input_encoder"):
        fit(settings, [(torch.rand(4, 4), torch.rand(2, 2)) for _ in range(3)], short)


# -- mistakes ------------------------------------------------------------------------------------------


def test_an_unfitted_predictor_says_so(contrastive: EnergyPredictor, tmp_path: Any) -> None:
    for use in (
        lambda: contrastive.predict(1.0),
        lambda: contrastive.energy(1.0, [[1.0]]),
        lambda: contrastive.save_pretrained(tmp_path / "model"),
        lambda: contrastive.device,
    ):
        with pytest.raises(RunError, match="fit"):
            use()


@pytest.mark.parametrize("samples", [0, -1])
def test_samples_must_be_positive(fitted: EnergyPredictor, pairs: Pairs, samples: int) -> None:
    with pytest.raises(SettingsError, match=f"at least 1, got {samples}"):
        fitted.predict(pairs[0][0], samples)


# -- randomness ----------------------------------------------------------------------------------------


def test_the_global_generator_is_left_alone(
    variant: PredictorSettings, pairs: Pairs, short: TrainingSettings
) -> None:
    """A user's own draws do not change because a predictor was used in between."""
    state, numbers = torch.get_rng_state(), np.random.get_state()[1].copy()
    predictor = fit(variant, pairs, short)
    assert torch.equal(torch.get_rng_state(), state)
    predictor.build(predictor.shape)
    predictor.predict(pairs[0][0], 2)
    assert torch.equal(torch.get_rng_state(), state)
    assert np.array_equal(np.random.get_state()[1], numbers)


def test_a_fit_depends_on_its_seed_alone(
    variant: PredictorSettings, fitted_variant: EnergyPredictor, pairs: Pairs, short: TrainingSettings
) -> None:
    torch.manual_seed(1)
    first = fit(variant, pairs, short, seed=3)
    torch.manual_seed(2)
    second, other = fit(variant, pairs, short, seed=3), fitted_variant
    for name, value in first.weights().items():
        torch.testing.assert_close(second.weights()[name], value, rtol=0, atol=0)
    assert any(not torch.equal(value, other.weights()[name]) for name, value in first.weights().items())


def test_weights_depend_on_the_seed_alone(variant: PredictorSettings) -> None:
    shape = DataShape((3,), features=2, max_size=4)
    weights = []
    for global_seed, seed in ((1, 0), (2, 0), (1, 1)):
        torch.manual_seed(global_seed)
        predictor = EnergyPredictor(variant)
        predictor.build(shape, seed=seed)
        weights.append(predictor.weights())
    same, other = weights[1], weights[2]
    assert all(torch.equal(value, same[name]) for name, value in weights[0].items())
    assert any(not torch.equal(value, other[name]) for name, value in weights[0].items())
