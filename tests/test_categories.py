"""Kinds of elements: one-hot going in, one-hot coming out."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from desp.categories import are_one_hot, argmax_one_hot
from desp.errors import DataError, SettingsError
from desp.predictor import SetPredictor
from desp.settings import (
    DataDescription,
    EDMSettings,
    EnergyDenoisingSettings,
    PooledLayersSettings,
    TrainingSettings,
)

METHOD = EnergyDenoisingSettings(energy=PooledLayersSettings(hidden=24), sampler=EDMSettings(steps=8))
ONE_HOT = DataDescription(categories=((1, 4),))
SHORT = TrainingSettings(steps=150, batch_size=16, learning_rate=3e-3, warmup_steps=10)


def molecules(count: int = 60) -> list[tuple[Tensor, Tensor]]:
    """A place and one of three kinds; which kind follows from the input."""
    generator = torch.Generator().manual_seed(0)
    data = []
    for index in range(count):
        kind, size = index % 3, 1 + index % 2
        place = torch.rand(size, 1, generator=generator)
        data.append((torch.eye(3)[kind], torch.cat([place, torch.eye(3)[[kind] * size]], dim=1)))
    return data


def test_the_largest_of_a_group_decides() -> None:
    values = torch.tensor([[0.3, 0.2, 0.9, 0.1], [-5.0, 2.0, 0.5, 1.0]])
    assert argmax_one_hot(values, [(1, 4)]).tolist() == [[pytest.approx(0.3), 0, 1, 0], [-5, 1, 0, 0]]
    assert torch.equal(argmax_one_hot(values, []), values)
    assert torch.equal(argmax_one_hot(values[:0], [(0, 2)]), values[:0])
    both = argmax_one_hot(values, [(0, 2), (2, 4)])
    assert are_one_hot(both, [(0, 2), (2, 4)])
    assert not are_one_hot(values, [(0, 2)])


@pytest.mark.parametrize(
    "group",
    [[0.6, 0.9, 0.7], [0.1, 0.4, 0.3], [-0.2, -0.1, -0.4], [1.5, 2.4, 1.6], [0.5, 0.5 + 1e-12, 0.5]],
)
def test_the_largest_is_found_among_numbers_that_round_to_the_same(group: list[float]) -> None:
    values = torch.tensor([[7.0, *group]], dtype=torch.float64)
    result = argmax_one_hot(values, [(1, 4)])
    assert result.tolist() == [[7, 0, 1, 0]]
    assert result.dtype == torch.float64
    assert values[0, 1:].tolist() == group  # what came in is left as it was


@pytest.mark.parametrize(
    "element", [[0.5, 0.5], [1.0, 1.0], [0.0, 0.0], [2.0, -1.0], [0.999, 0.001], [0.0, 0.9999]]
)
def test_what_is_not_one_hot(element: list[float]) -> None:
    good = [0.0, 1.0]
    assert are_one_hot(torch.tensor([good, good]), [(0, 2)])
    assert not are_one_hot(torch.tensor([good, element]), [(0, 2)])
    assert not are_one_hot(torch.tensor([[*good, *element]]), [(0, 2), (2, 4)])


def test_predictions_hold_one_kind_and_the_right_one() -> None:
    data = molecules()
    predictor = SetPredictor(METHOD, device="cpu")
    predictor.fit(data, SHORT, description=ONE_HOT)
    for kind in range(3):
        prediction = predictor.predict_one(torch.eye(3)[kind], samples=10)
        elements = torch.cat(prediction.sets)
        assert are_one_hot(elements, [(1, 4)])
        assert float(elements[:, 1 + kind].mean()) > 0.8


@pytest.mark.parametrize("groups", [((1, 2),), ((-1, 2),), ((0, 2), (1, 3)), ((3, 1),)])
def test_groups_that_cannot_be(groups: Any) -> None:
    with pytest.raises(
        SettingsError, match=r"categories must be a tuple of ranges .* two columns each that do not overlap"
    ):
        replace(ONE_HOT, categories=groups)


def test_groups_must_lie_within_the_features() -> None:
    wide = replace(ONE_HOT, categories=((0, 9),))
    with pytest.raises(SettingsError, match="within the 4 features"):
        SetPredictor(METHOD, device="cpu").fit(molecules(), SHORT, description=wide)


def test_energies_are_those_of_what_is_returned() -> None:
    predictor = SetPredictor(METHOD, device="cpu")
    predictor.fit(molecules(), replace(SHORT, steps=5), description=ONE_HOT)
    prediction = predictor.predict_one(torch.eye(3)[0], samples=4)
    again = predictor.energy(torch.eye(3)[0].expand(4, -1), prediction.sets)
    torch.testing.assert_close(prediction.energies, again, rtol=1e-4, atol=1e-4)


def test_data_that_are_not_one_hot() -> None:
    data = molecules()
    data[7] = (data[7][0], data[7][1] * 0.5)
    with pytest.raises(DataError, match=r"columns \(\(1, 4\),\) \(categories\) must be one-hot"):
        SetPredictor(METHOD, device="cpu").fit(data, SHORT, description=ONE_HOT)


def test_they_are_saved(tmp_path: Any) -> None:
    predictor = SetPredictor(METHOD, device="cpu")
    predictor.fit(molecules(), replace(SHORT, steps=1), description=ONE_HOT)
    predictor.save_pretrained(tmp_path)
    loaded = SetPredictor.from_pretrained(tmp_path, device="cpu")
    assert (loaded.method_settings, loaded.shape.description) == (METHOD, ONE_HOT)


def test_each_element_has_its_own_one() -> None:
    """As many ones as elements are not enough."""
    assert not are_one_hot(torch.tensor([[1.0, 1.0], [0.0, 0.0]]), [(0, 2)])
