"""What every predictor promises, whatever its method and energy."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from small_predictors import Pairs, Parts
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset

from desp.errors import DataError, RunError, SettingsError
from desp.predictor import DataShape, Prediction, SetPredictor
from desp.randomness import make_generator
from desp.sets import SetBatch
from desp.settings import LangevinSettings, TrainingSettings


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


def fit(settings: Parts, data: Any, training: TrainingSettings, **options: Any) -> SetPredictor:
    predictor = settings.predictor(device="cpu")
    predictor.fit(data, training, **options)
    return predictor


def assert_same_sets(a: Prediction, b: Prediction) -> None:
    assert len(a) == len(b)
    for left, right in zip(a.sets, b.sets, strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=0)
    torch.testing.assert_close(a.energies, b.energies, rtol=0, atol=0, equal_nan=True)


def is_random(settings: Parts) -> bool:
    return settings.method.kind != "set-risk"


def differ(a: Prediction, b: Prediction) -> bool:
    return any(not torch.equal(left, right) for left, right in zip(a.sets, b.sets, strict=True))


# -- fitting -------------------------------------------------------------------------------------------


def test_fits_a_list_a_dataset_and_a_stream(
    variant: Parts, fitted_variant: SetPredictor, pairs: Pairs, short: TrainingSettings
) -> None:
    from_list = fitted_variant
    from_dataset = fit(variant, MapStyle(pairs), short)
    from_stream = fit(variant, Stream(pairs), short)
    x = pairs[0][0]
    assert_same_sets(from_list.predict_one(x, 2), from_dataset.predict_one(x, 2))
    assert from_stream.shape == from_list.shape == DataShape((3,), features=2, max_size=4)
    assert len(from_stream.predict_one(x, 2)) == 2


def test_fit_moves_the_weights(variant: Parts, fitted_variant: SetPredictor) -> None:
    fresh = variant.predictor()
    fresh.build(fitted_variant.shape)
    before, after = fresh.method.state_dict(), fitted_variant.method.state_dict()
    names = [name for name, _ in fitted_variant.method.named_parameters() if "bias" not in name]
    assert names
    assert [name for name in names if torch.equal(before[name], after[name])] == []


def test_numbers_of_double_precision_are_taken(variant: Parts, short: TrainingSettings) -> None:
    random = np.random.default_rng(0)
    data = [(random.normal(size=3), random.random((index % 3 + 1, 2))) for index in range(6)]
    predictor = fit(variant, data, short)
    (mean,) = (value for name, value in predictor.method.state_dict().items() if name.endswith("encoder.0.mean"))
    assert mean.dtype == torch.float32
    prediction = predictor.predict_one(data[0][0], 2)
    assert {item.dtype for item in prediction.sets} == {torch.float32}
    assert prediction.energies.dtype == torch.float32


def test_whole_numbers_are_taken(settings: Parts, short: TrainingSettings) -> None:
    data = [(index, [[index, 1]]) for index in range(6)]
    assert fit(settings, data, short).predict_one(3).sets[0].shape == (1, 2)


# -- prediction ----------------------------------------------------------------------------------------


def test_one_input_gives_k_sets(variant: Parts, fitted_variant: SetPredictor, pairs: Pairs) -> None:
    prediction = fitted_variant.predict_one(pairs[0][0], samples=5)
    assert len(prediction) == 5
    assert {item.shape[1] for item in prediction.sets} == {2}
    if variant.representation.padding == "zero":  # every row is an element
        assert [len(item) for item in prediction.sets] == [4] * 5
    assert prediction.energies.shape == (5,)
    sizes = [len(item) for item in prediction.sets]
    usual = max(sizes, key=sizes.count) if variant.method.predicts_cardinality else None
    energies = [
        float(energy) if usual in (None, size) else float("inf")  # of other sizes they do not compare
        for energy, size in zip(prediction.energies.nan_to_num(), sizes, strict=True)
    ]
    assert torch.equal(prediction.lowest_energy, prediction.sets[energies.index(min(energies))])


def test_a_batch_gives_a_list(fitted_variant: SetPredictor, pairs: Pairs) -> None:
    batch = torch.stack([x for x, _ in pairs[:3]])
    predictions = fitted_variant.predict(batch, samples=2)
    assert [len(item) for item in predictions] == [2, 2, 2]
    assert len(fitted_variant.predict(batch[:1])) == 1  # a batch of one is still a batch
    again = fitted_variant.predict(batch.tolist(), samples=2)[1]
    assert again.energies.tolist() == pytest.approx(predictions[1].energies.tolist(), nan_ok=True)


def test_each_prediction_belongs_to_its_input(variant: Parts, short: TrainingSettings) -> None:
    """Sets and energies of a batch are those of its inputs one by one: rows and samples are not mixed up."""
    generator = torch.Generator().manual_seed(1)
    data = [(10 * torch.randn(3, generator=generator), torch.rand(2, 2, generator=generator)) for _ in range(6)]
    predictor = fit(variant, data, short)
    batch = torch.stack([x for x, _ in data])
    predictions = predictor.predict(batch, samples=3)
    raw, _ = predictor.sample(predictor.encode(batch.repeat_interleave(3, dim=0)), make_generator(0, "predict"))
    for x, rows, prediction in zip(batch, raw.split(3), predictions, strict=True):
        expected = predictor.raw_energy(predictor.encode(x.expand(3, -1)), rows)
        assert expected.isnan().any() == (not predictor.method_settings.has_energy)
        torch.testing.assert_close(prediction.energies, expected, rtol=1e-4, atol=1e-5, equal_nan=True)
        torch.testing.assert_close(prediction.sets, predictor.sets_from_tensor(rows).to_ragged())
    batch[2] *= -1
    others = predictor.predict(batch, samples=3)
    changed = [index for index in range(6) if differ(predictions[index], others[index])]
    assert changed == [2]


def test_same_seed_same_sets(variant: Parts, fitted_variant: SetPredictor, pairs: Pairs) -> None:
    batch = torch.stack([x for x, _ in pairs])
    first, again, others = (fitted_variant.predict(batch, 3, seed=seed) for seed in (4, 4, 5))
    for left, right in zip(first, again, strict=True):
        assert_same_sets(left, right)
    assert any(map(differ, first, others)) == is_random(variant)


def test_samples_of_one_input_differ_but_for_direct_risk(
    variant: Parts, fitted_variant: SetPredictor, pairs: Pairs
) -> None:
    predictions = fitted_variant.predict(torch.stack([x for x, _ in pairs]), 2)
    same = all(len(a) == len(b) and torch.allclose(a, b) for a, b in (item.sets for item in predictions))
    assert same == (not is_random(variant))


def test_another_sampler_can_be_asked_for(fitted: SetPredictor, pairs: Pairs) -> None:
    quiet = LangevinSettings(steps=2, stochastic_steps=0)
    prediction = fitted.predict_one(pairs[0][0], 2, sampler=quiet)
    assert torch.equal(prediction.sets[0], prediction.sets[1])


def test_energies_are_those_of_the_raw_sets(fitted_variant: SetPredictor, pairs: Pairs) -> None:
    code = fitted_variant.encode(pairs[0][0].expand(3, -1))
    raw, _ = fitted_variant.sample(code, make_generator(7, "predict"))
    expected = fitted_variant.raw_energy(code, raw)
    found = fitted_variant.predict_one(pairs[0][0], 3, seed=7).energies
    torch.testing.assert_close(found, expected, equal_nan=not fitted_variant.method_settings.has_energy)


def test_energy_of_a_prediction_that_lost_nothing(fitted: SetPredictor, pairs: Pairs) -> None:
    """Where every row is present and nothing is scaled, the sets that come back say all."""
    prediction = fitted.predict_one(pairs[0][0], 3)
    again = fitted.energy(pairs[0][0].expand(3, -1), prediction.sets)
    torch.testing.assert_close(prediction.energies, again)
    single = fitted.energy(pairs[0][0][None], prediction.sets[1:2])
    assert single.shape == (1,)
    assert float(single) == pytest.approx(float(prediction.energies[1]), rel=1e-4)


def test_energy_takes_ragged_sets_and_ignores_their_order(fitted: SetPredictor, pairs: Pairs) -> None:
    inputs, sets = torch.stack([x for x, _ in pairs]), [y for _, y in pairs]
    energies = fitted.energy(inputs, sets)
    assert energies.shape == (len(pairs),)
    turned = fitted.energy(inputs, [y.flip(0) for y in sets])
    torch.testing.assert_close(turned, energies, rtol=1e-4, atol=1e-6)
    assert fitted.energy(inputs, SetBatch.from_ragged(sets)).tolist() == pytest.approx(energies.tolist())
    with pytest.raises(DataError, match="one set for each of 12 inputs, got 2"):
        fitted.energy(inputs, sets[:2])


def test_only_present_elements_come_back(with_presence: Parts, pairs: Pairs, short: TrainingSettings) -> None:
    predictor = fit(with_presence, pairs, short)
    code = predictor.encode(pairs[0][0].expand(20, -1))
    raw, _ = predictor.sample(code, make_generator(0, "predict"))
    assert raw.shape == (20, 4, 3)
    prediction = predictor.predict_one(pairs[0][0], 20)
    for row, item in zip(raw, prediction.sets, strict=True):
        torch.testing.assert_close(item, row[row[:, 2] > 0, :2])
    sizes = {len(item) for item in prediction.sets}
    assert len(sizes) > 1, "the threshold should let different numbers of rows pass"


def test_sets_may_be_empty(with_presence: Parts, short: TrainingSettings) -> None:
    data = [(torch.tensor([0.0]), torch.empty(0, 2)), (torch.tensor([1.0]), torch.rand(2, 2))]
    predictor = fit(with_presence, data, short)
    absent = torch.zeros(1, 2, 3)  # two rows, none of them present
    expected = predictor.raw_energy(predictor.encode(torch.zeros(1, 1)), absent)
    torch.testing.assert_close(predictor.energy([0.0], [torch.empty(0, 2)]), expected)
    torch.testing.assert_close(predictor.energy([0.0], [[]]), expected)
    assert float(predictor.energy([0.0], [torch.zeros(1, 2)])) != float(expected)  # an element at zero is one


# -- inputs --------------------------------------------------------------------------------------------


def test_numbers_as_inputs(variant: Parts, short: TrainingSettings) -> None:
    predictor = fit(variant, [(float(index), torch.rand(2, 2)) for index in range(5)], short)
    assert predictor.shape.input_shape == (1,)
    assert len(predictor.predict_one(2.0)) == len(predictor.predict_one([2.0])) == 1
    assert len(predictor.predict([[1.0], [2.0]])) == len(predictor.predict([1.0, 2.0])) == 2


def test_images_as_inputs(variant: Parts, short: TrainingSettings) -> None:
    data = [(torch.rand(3, 9, 7), torch.rand(index % 2 + 1, 2)) for index in range(5)]
    predictor = fit(variant, data, short)
    assert predictor.shape.input_kind == "image"
    assert len(predictor.predict_one(data[0][0], 2)) == 2
    assert len(predictor.predict(torch.stack([x for x, _ in data]))) == 5


def test_inputs_are_standardised(settings: Parts, pairs: Pairs, short: TrainingSettings) -> None:
    """The unit of the inputs does not matter."""
    plain = fit(settings, pairs, short)
    scaled = fit(settings, [(1000 * x + 5000, y) for x, y in pairs], short)
    a, b = plain.predict_one(pairs[0][0], 2), scaled.predict_one(1000 * pairs[0][0] + 5000, 2)
    for left, right in zip(a.sets, b.sets, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("wrong", [torch.zeros(4), torch.zeros(2, 4), torch.zeros(1, 2, 3), 1.0])
def test_inputs_of_another_shape_are_refused(fitted: SetPredictor, wrong: Any) -> None:
    shape = str(tuple(torch.as_tensor(wrong).shape))
    with pytest.raises(DataError) as raised:
        fitted.predict(wrong)
    assert "(B, 3)" in str(raised.value)
    assert f"got shape {shape}" in str(raised.value)


def test_one_input_is_no_batch(fitted: SetPredictor, pairs: Pairs) -> None:
    x, y = pairs[0]
    for use in (lambda: fitted.predict(x), lambda: fitted.energy(x, [y])):
        with pytest.raises(DataError, match="use predict_one"):
            use()
    with pytest.raises(DataError, match=r"one input of shape \(3,\), got \(2, 3\)"):
        fitted.predict_one(torch.stack([x, x]))


def test_nan_and_words_as_inputs_are_refused(fitted: SetPredictor) -> None:
    with pytest.raises(DataError, match="NaN"):
        fitted.predict([[0.0, float("nan"), 1.0]])
    with pytest.raises(DataError, match="number"):
        fitted.predict([["a", "b", "c"]])


def test_inputs_without_an_encoder_are_refused(settings: Parts, short: TrainingSettings) -> None:
    with pytest.raises(DataError, match="input_encoder"):
        fit(settings, [(torch.rand(4, 4), torch.rand(2, 2)) for _ in range(3)], short)


# -- mistakes ------------------------------------------------------------------------------------------


def test_an_unfitted_predictor_says_so(contrastive: SetPredictor, tmp_path: Any) -> None:
    for use in (
        lambda: contrastive.predict([1.0]),
        lambda: contrastive.predict_one(1.0),
        lambda: contrastive.energy([1.0], [[[1.0]]]),
        lambda: contrastive.method,
        lambda: contrastive.save_pretrained(tmp_path / "model"),
        lambda: contrastive.device,
    ):
        with pytest.raises(RunError, match="fit"):
            use()


@pytest.mark.parametrize("samples", [0, -1])
def test_samples_must_be_positive(fitted: SetPredictor, pairs: Pairs, samples: int) -> None:
    with pytest.raises(SettingsError, match=f"at least 1, got {samples}"):
        fitted.predict_one(pairs[0][0], samples)


# -- randomness ----------------------------------------------------------------------------------------


def test_the_global_generator_is_left_alone(variant: Parts, pairs: Pairs, short: TrainingSettings) -> None:
    """A user's own draws do not change because a predictor was used in between."""
    state, numbers = torch.get_rng_state(), np.random.get_state()[1].copy()
    predictor = fit(variant, pairs, short)
    assert torch.equal(torch.get_rng_state(), state)
    predictor.build(predictor.shape)
    predictor.predict_one(pairs[0][0], 2)
    assert torch.equal(torch.get_rng_state(), state)
    assert np.array_equal(np.random.get_state()[1], numbers)


def test_a_fit_depends_on_its_seed_alone(
    variant: Parts, fitted_variant: SetPredictor, pairs: Pairs, short: TrainingSettings
) -> None:
    torch.manual_seed(1)
    first = fit(variant, pairs, short, seed=3)
    torch.manual_seed(2)
    second, other = fit(variant, pairs, short, seed=3), fitted_variant
    for name, value in first.method.state_dict().items():
        torch.testing.assert_close(second.method.state_dict()[name], value, rtol=0, atol=0)
    assert any(
        not torch.equal(value, other.method.state_dict()[name])
        for name, value in first.method.state_dict().items()
    )


def test_weights_depend_on_the_seed_alone(variant: Parts) -> None:
    shape = DataShape((3,), features=2, max_size=4)
    weights = []
    for global_seed, seed in ((1, 0), (2, 0), (1, 1)):
        torch.manual_seed(global_seed)
        predictor = variant.predictor()
        predictor.build(shape, seed=seed)
        weights.append(predictor.method.state_dict())
    same, other = weights[1], weights[2]
    assert all(torch.equal(value, same[name]) for name, value in weights[0].items())
    assert any(not torch.equal(value, other[name]) for name, value in weights[0].items())
