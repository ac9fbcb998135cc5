"""Values far from all others are found, named and left out of scales; ordinary data keep theirs bit for bit."""

import logging
import re
from typing import Any

import pytest
import torch
from torch import Tensor

from desp.data.outliers import MAX_OUTLIERS, Extremes
from desp.errors import SettingsError
from desp.nn import InputScaling
from desp.predictor import SetPredictor, inspect_dataset
from desp.predictor.dataset_summary import summarise_dataset
from desp.scaling import FeatureScaling
from desp.settings import DataDescription, InputKind, RepresentationSettings, TrainingSettings, from_json, to_json
from desp.settings.representation import Scaled

Pairs = list[tuple[Tensor, Tensor]]


def pairs(count: int = 40) -> Pairs:
    generator = torch.Generator().manual_seed(0)
    return [
        (10 * torch.rand(2, generator=generator), 50 * torch.rand(3, 2, generator=generator)) for _ in range(count)
    ]


def with_far(value: float, example: int = 7) -> tuple[Pairs, Pairs]:
    """Examples of which one has a far value in its set, and the same without that element."""
    far, near = pairs(), pairs()
    far[example][1][1, 0] = value
    near[example] = (near[example][0], near[example][1][[0, 2]])
    return far, near


@pytest.mark.parametrize("value", [1e9, -1e9, 1e38])
def test_a_far_value_does_not_squeeze_the_others(value: float, caplog: pytest.LogCaptureFixture) -> None:
    far, near = with_far(value)
    shape, _ = inspect_dataset(far)
    assert f"example 7: column 0 of an element is {value:g}, far from all others" in caplog.text
    caplog.clear()
    expected, _ = inspect_dataset(near)
    assert not caplog.records
    assert (shape.scaling.offset[0], shape.scaling.span[0]) == (
        expected.scaling.offset[0],
        expected.scaling.span[0],
    )
    scaled = shape.scaling.scale(far[7][1])
    assert scaled[1, 0] == (1.0 if value > 0 else 0.0)  # the end of the others
    others = [0, 2]
    assert torch.equal(scaled[others, 0], expected.scaling.scale(far[7][1])[others, 0])


@pytest.mark.parametrize("value", [1e9, 1e38])
def test_a_far_input_does_not_squeeze_the_others(value: float, caplog: pytest.LogCaptureFixture) -> None:
    data, near = pairs(), pairs()
    data[5][0][1] = value
    del near[5]
    _, statistics = inspect_dataset(data)
    assert f"example 5: column 1 of the input is {value:g}" in caplog.text
    _, expected = inspect_dataset(near)
    torch.testing.assert_close(statistics[:, 1], expected[:, 1], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("scaling", [True, "standard"])
def test_other_elements_are_scaled_as_if_the_far_one_were_not_there(scaling: Scaled) -> None:
    data, near = with_far(1e38)
    found, expected = (inspect_dataset(item, scaled=scaling)[0].scaling for item in (data, near))
    assert found.span == pytest.approx(expected.span, rel=0.1)


def test_training_and_predictions_stay_finite_with_a_far_input_and_a_far_element() -> None:
    data, _ = with_far(1e38)
    data[5][0][1] = 1e38
    predictor = SetPredictor()
    predictor.fit(data, TrainingSettings(steps=20, batch_size=40, on_divergence="stop"))
    sets = predictor.predict(torch.stack([data[5][0], data[6][0]]), 3)
    assert all(bool(torch.isfinite(item).all()) for prediction in sets for item in prediction.sets)
    assert all(float(item.abs().max()) < 1e6 for prediction in sets for item in prediction.sets if len(item))


@pytest.mark.parametrize(
    "values",
    [
        torch.randn(1000, 1, generator=torch.Generator().manual_seed(0)).double(),
        torch.randn(1000, 1, generator=torch.Generator().manual_seed(0)).double().mul(2).exp(),
        torch.cat([torch.zeros(990, 1), torch.ones(10, 1)]).double(),
        torch.cat([torch.rand(900, 1), torch.full((100, 1), 1e6)]).double(),
        torch.tensor([[0.0], [1.0], [1e9]]).double(),
    ],
    ids=["normal", "log-normal", "seldom 1", "two clusters", "three values"],
)
def test_ordinary_data_have_no_far_values(values: Tensor) -> None:
    extremes = Extremes(1)
    extremes.add(values, torch.arange(len(values)))
    assert extremes.outliers() == []


def test_many_parts_are_as_one_and_only_a_sample_is_kept() -> None:
    values = torch.rand(5000, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    values[4321, 2] = -1e6
    whole, parts = Extremes(3), Extremes(3)
    whole.add(values, torch.arange(5000))
    parts.most_sampled = 1000
    for first in range(0, 5000, 7):
        parts.add(values[first : first + 7], torch.arange(first, min(first + 7, 5000)))
    assert whole.outliers() == parts.outliers()
    (found,) = parts.outliers()
    assert (found.example, found.feature, found.value) == (4321, 2, -1e6)
    assert (found.low, found.high) == (float(values[:, 2].sort().values[1]), float(values[:, 2].max()))
    assert torch.equal(parts.sample, values[:: parts.every])
    assert len(parts.sample) <= 1000


def test_a_thousandth_of_all_may_be_far() -> None:
    values = torch.rand(100_000, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    values[:MAX_OUTLIERS] = 1e9
    for count, expected in ((MAX_OUTLIERS, MAX_OUTLIERS), (MAX_OUTLIERS + 1, 0)):
        values[:count] = 1e9
        extremes = Extremes(1)
        extremes.add(values, torch.arange(len(values)))
        assert len(extremes.outliers()) == expected


def test_limits_are_saved() -> None:
    scaling = FeatureScaling((0.0, 0.0), (1.0, 1.0)).clipped({1: (-2.0, 3.0)})
    again = from_json(FeatureScaling, to_json(scaling))
    assert again == scaling
    assert again.scale(torch.tensor([[9.0, 9.0]])).tolist() == [[9.0, 3.0]]
    older = {name: value for name, value in to_json(scaling).items() if name not in ("lowest", "highest")}
    assert from_json(FeatureScaling, older) == FeatureScaling((0.0, 0.0), (1.0, 1.0))


def test_without_scaling_nothing_is_clipped(caplog: pytest.LogCaptureFixture) -> None:
    far, _ = with_far(1e9)
    shape, _ = inspect_dataset(far, scaled=False)
    assert shape.scaling == FeatureScaling.identity(2)
    assert not caplog.records


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ([(1.0, [[1.0]])] * 3, "All 3 examples are equal"),
        ([(torch.full((3, 8, 8), 255.0), [[float(place)]]) for place in range(3)], "Images hold floats up to 255"),
        ([(1.0, [[1.7e9 + 128 * place]]) for place in range(3)], "Column 0 of elements .* float32 hardly tells"),
    ],
    ids=["equal", "floats as bytes", "times"],
)
def test_what_looks_like_a_mistake_is_logged(data: Any, text: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        inspect_dataset(data)
    (record,) = caplog.records
    assert re.search(text, record.getMessage())


def test_what_is_ordinary_has_no_findings() -> None:
    images = [(torch.randint(256, (3, 8, 8), dtype=torch.uint8), [[float(place)]]) for place in range(3)]
    for data in (pairs(), images, [(1.0, [[1.0]])]):
        assert summarise_dataset(data).findings() == []
    sets: Any = [(torch.tensor([[0.5 * place, 1.0], [0.0, 0.0]]), [[1.0 * place]]) for place in range(12)]
    assert summarise_dataset(sets, description=DataDescription(input_kind="set")).findings() == []


def test_far_elements_of_input_sets_are_found() -> None:
    sets: Any = [(torch.tensor([[0.5 * place, 1.0], [0.0, 0.0]]), [[1.0 * place]]) for place in range(12)]
    sets[4][0][0, 0] = 1e9
    summary = summarise_dataset(sets, description=DataDescription(input_kind="set"))
    (finding,) = summary.findings("line {}".format)
    assert finding.startswith("line 4: column 0 of the input is 1e+09")
    assert float(summary.statistics()[0, 0]) < 10


@pytest.mark.parametrize("scaled", ["none", "auto"])
def test_scaled_is_no_setting(scaled: str) -> None:
    """The settings' "none" is true as a text, so features would be scaled."""
    with pytest.raises(SettingsError, match=r"^scaled must be True, False or 'standard', got "):
        inspect_dataset(pairs(), scaled=scaled)


def test_an_input_without_numbers() -> None:
    with pytest.raises(ValueError, match=r"An input of shape \(0,\) holds no numbers"):
        SetPredictor().fit([([], [[1.0]])] * 3)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 1.0), (3.0, 7.0)])
def test_two_values_are_scaled_by_their_range_and_others_by_their_deviation(low: float, high: float) -> None:
    """Whatever part of a long dataset they are seen in."""
    labels = [low] * 1500 + [high] * 700
    data: Any = [([1.0], [[label, 0.1 * (place % 10)]]) for place, label in enumerate(labels)]
    scaling = inspect_dataset(data, scaled="standard")[0].scaling
    assert scaling.scale(torch.tensor([[low, 0.0], [high, 0.0]]))[:, 0].tolist() == [0.0, 1.0]
    assert scaling.span[1] == pytest.approx(4 * 0.0825**0.5)
    third = [*data, ([1.0], [[(low + high) / 2, 0.0]])]
    assert inspect_dataset(third, scaled="standard")[0].scaling.span[0] != high - low


# -- prediction -------------------------------------------------------------------------------------------


def test_inputs_unlike_those_of_training_are_named(caplog: pytest.LogCaptureFixture) -> None:
    predictor = SetPredictor(representation=RepresentationSettings(max_size=3))
    predictor.fit(pairs(), TrainingSettings(steps=1))
    predictor.predict(torch.tensor([[1.0, 2.0], [9.0, 9.0]]))
    assert not caplog.records
    predictor.predict(torch.tensor([[1.0, 2.0], [1e6, 0.0], [5.0, 5.0], [0.0, -1e30]]))
    assert "2 of 4 inputs lie more than 10 standard deviations" in caplog.text
    assert "Counted from 0: 1, 3" in caplog.text


def timestamps(apart: float) -> Tensor:
    """Seconds since 1970 in float64, around `apart` behind a number of float32; these are 128 apart there."""
    deviations = torch.randn(200, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return 1.7e9 + apart + 3 * deviations


@pytest.mark.parametrize(("apart", "deviation"), [(64, 64), (20, 1)])
@pytest.mark.parametrize("kind", ["vector", "set"])
def test_inputs_that_float32_rounds_are_standardised_as_they_arrive(
    kind: InputKind, apart: float, deviation: float, caplog: pytest.LogCaptureFixture
) -> None:
    """Where it rounds all of them to one number, that keeps its unit."""
    x = timestamps(apart)
    if kind == "set":
        x = torch.cat([x, torch.ones_like(x)], dim=1).unsqueeze(1)
    data = [(item, torch.rand(1, 1)) for item in x]
    predictor = SetPredictor(device="cpu")
    predictor.fit(data, TrainingSettings(steps=1), description=DataDescription(input_kind=kind))
    predictor.predict(x, 1)
    assert "standard deviations" not in caplog.text
    scaling = next(part for part in predictor.method.encoder.modules() if isinstance(part, InputScaling))
    assert float(scaling.deviation[0]) == pytest.approx(deviation, rel=0.02)
    assert float(scaling(predictor.as_batch(x)).abs().max()) < 3


def test_a_one_that_was_seldom_is_not_far(caplog: pytest.LogCaptureFixture) -> None:
    data = [(torch.tensor([float(place == 5)]), torch.rand(1, 1)) for place in range(300)]
    predictor = SetPredictor()
    predictor.fit(data, TrainingSettings(steps=1))
    predictor.predict([[1.0], [0.0]])
    assert not caplog.records
    predictor.predict([[3.0]])
    assert "1 of 1 inputs" in caplog.text


@pytest.mark.parametrize("shape", [(16, 12, 3), (16, 12, 1)])
def test_images_with_channels_last_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"looks like \(height, width, channels\). Turn them: tensor.permute"):
        SetPredictor().fit([(torch.rand(shape), [[1.0]])] * 2, TrainingSettings(steps=1))


def test_maps_of_many_channels_are_taken() -> None:
    predictor = SetPredictor()
    predictor.fit([(torch.rand(16, 3, 3), [[float(place)]]) for place in range(3)], TrainingSettings(steps=1))
    with pytest.raises(ValueError, match=r"Channels come first: pass images.permute\(0, 3, 1, 2\)"):
        predictor.predict(torch.rand(1, 3, 3, 16))
