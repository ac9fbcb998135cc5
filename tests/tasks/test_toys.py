"""Polygons and Digits as tasks: inputs as users write them, and scores of predictors with known worth."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import desp.tasks.class_conditional
from desp.data.polygons import polygon
from desp.errors import DataError
from desp.predictor import SetPredictor
from desp.sets import SetBatch
from desp.settings import DigitsSettings, PolygonsSettings, TaskSettings
from desp.tasks import Evaluation, EvaluationSetup, Protocol, Task, make_task
from desp.tasks.calibration import MIN_CALIBRATION_EXAMPLES
from desp.tasks.digits import DigitsTask
from desp.tasks.polygons import PolygonsTask

Make = Callable[..., SetPredictor]
HERE = Path(".")


# Spread and calibration are slow to measure, and nothing here reads them: on few sets.
FEW = Protocol(
    test_examples=(600,),
    predictions_per_input=1000,
    sets_per_collection=10,
    calibration_examples=MIN_CALIBRATION_EXAMPLES,
)


@pytest.fixture
def polygons() -> PolygonsTask:
    return PolygonsTask(PolygonsSettings())


@pytest.fixture
def digits() -> DigitsTask:
    return DigitsTask(DigitsSettings())


def scored(task: Task, predictor: SetPredictor, seed: int = 0, tests: int | None = None) -> Evaluation:
    """An evaluation on few sets."""
    usual = 100 if isinstance(task, DigitsTask) else 600
    return task.evaluate(
        EvaluationSetup(predictor, seed=seed, samples=1, protocol=replace(FEW, test_examples=(tests or usual,)))
    )


def test_tasks_from_settings() -> None:
    assert isinstance(make_task(PolygonsSettings()), PolygonsTask)
    assert isinstance(make_task(DigitsSettings()), DigitsTask)


# -- inputs --------------------------------------------------------------------------------------------


def test_polygons_are_asked_for_by_their_corners() -> None:
    task = PolygonsTask(PolygonsSettings(corners=(3, 5, 8)))
    shape, _ = task.shape(None, True)
    assert (shape.input_shape, shape.features, shape.max_size) == ((3,), 2, 8)
    assert task.read_input(5, "here", HERE, shape).tolist() == [0, 1, 0]
    assert task.read_input(8.0, "here", HERE, shape).tolist() == [0, 0, 1]


@pytest.mark.parametrize("wrong", [4, 0, -5, 5.5, "5", True, None, [5], {"n": 5}])
def test_other_corners_are_refused(wrong: Any) -> None:
    task = PolygonsTask(PolygonsSettings(corners=(3, 5, 8)))
    with pytest.raises(DataError, match=r"line 4: expected one of 3 \(3 corners\), 5 .*, 8 .*, got"):
        task.read_input(wrong, "line 4", HERE, task.shape(None, True)[0])


def test_digits_are_asked_for_by_number() -> None:
    task = DigitsTask(DigitsSettings())
    shape, _ = task.shape(None, True)
    assert shape.max_size == 64
    assert task.read_input(0, "here", HERE, shape).tolist() == [1, 0]
    assert task.read_input(1, "here", HERE, shape).tolist() == [0, 1]


@pytest.mark.parametrize("wrong", [7, -1, 0.5, "1", True, None, [0]])
def test_other_digits_are_refused(wrong: Any) -> None:
    task = DigitsTask(DigitsSettings())
    with pytest.raises(DataError, match=r"line 4: expected one of 0 \(one\), 1 \(seven\), got"):
        task.read_input(wrong, "line 4", HERE, task.shape(None, True)[0])


def test_examples_show_every_input_with_truth(polygons: PolygonsTask, digits: DigitsTask) -> None:
    assert [(item.input, item.label) for item in polygons.shown_examples(0)][:2] == [
        (4, "4 corners"),
        (5, "5 corners"),
    ]
    for kind, item in enumerate(polygons.shown_examples(3)):
        assert int(item.x.argmax()) == kind
        assert [len(truth) for truth in item.truth] == [kind + 4] * 3
    assert [item.label for item in digits.shown_examples(0)] == ["one", "seven"]
    for item in digits.shown_examples(3):
        assert len(item.truth) == 4
        assert {len(truth) for truth in item.truth} <= {42, 48, 64}


def test_generated_data_cannot_change(polygons: PolygonsTask) -> None:
    assert polygons.fingerprint() is None
    assert polygons.data_label == "generated"


# -- scores --------------------------------------------------------------------------------------------


def test_true_polygons_score_as_real_data(polygons: PolygonsTask, polygon_predictor: Make) -> None:
    evaluation = scored(polygons, polygon_predictor(), tests=2500)  # few sets off the grid make most of the mean
    assert evaluation.real_data["score"] == pytest.approx(5e-7, rel=0.2)
    assert evaluation.raw["score"] == pytest.approx(evaluation.real_data["score"], rel=0.2)
    assert evaluation.returned["score"] == pytest.approx(evaluation.raw["score"], rel=1e-6)
    assert evaluation.returned["score_median"] < 2 * evaluation.returned["score"]
    assert evaluation.returned["size_rmse"] == 0
    assert evaluation.returned["right_size"] == 1
    assert evaluation.returned["kuiper"] < 2.3 / math.sqrt(1000)
    assert evaluation.details["kuiper"].keys() == {"4", "5", "6", "7", "8"}
    assert evaluation.returned["kuiper"] == max(evaluation.details["kuiper"].values())
    assert evaluation.energy == 1.0  # of the final sets, by `raw_energy`


def test_polygons_that_never_turn_are_found_out(polygons: PolygonsTask, polygon_predictor: Make) -> None:
    def upright(x: Tensor, generator: torch.Generator) -> Tensor:
        return polygon(x.argmax(dim=1) + 4, torch.zeros(len(x)), 8)

    evaluation = scored(polygons, polygon_predictor(upright))
    assert evaluation.returned["score"] < 1e-10
    assert evaluation.returned["kuiper"] == pytest.approx(1.0, abs=1e-2)


def test_polygons_with_a_corner_too_few_are_found_out(polygons: PolygonsTask, polygon_predictor: Make) -> None:
    def incomplete(x: Tensor, generator: torch.Generator) -> Tensor:
        return polygon(x.argmax(dim=1) + 3, torch.zeros(len(x)), 8)

    evaluation = scored(polygons, polygon_predictor(incomplete))
    assert evaluation.returned["score"] > 1e-3
    assert evaluation.returned["size_rmse"] == 1
    assert evaluation.returned["right_size"] == 0
    assert math.isnan(evaluation.returned["kuiper"])  # nothing to say of rotations
    assert set(evaluation.details["kuiper"].values()) == {None}


def test_rotations_are_unknown_where_one_number_of_corners_is_rarely_right(
    polygons: PolygonsTask, polygon_predictor: Make
) -> None:
    """The worst of the others would look better than what is not known."""

    def no_pentagons(x: Tensor, generator: torch.Generator) -> Tensor:
        corners = x.argmax(dim=1) + 4
        return polygon(corners - (corners == 5).long(), torch.zeros(len(x)), 8)

    evaluation = scored(polygons, polygon_predictor(no_pentagons))
    rotations = evaluation.details["kuiper"]
    assert [count for count, value in rotations.items() if value is None] == ["5"]
    assert math.isnan(evaluation.returned["kuiper"])


def test_weights_that_lost_an_answer_are_not_kept(polygons: PolygonsTask, polygon_predictor: Make) -> None:
    """Though each of their polygons is perfect, and no farther from the truth than a turned one."""

    def upright(x: Tensor, generator: torch.Generator) -> Tensor:
        return polygon(x.argmax(dim=1) + 4, torch.zeros(len(x)), 8)

    def rough(x: Tensor, generator: torch.Generator) -> Tensor:
        true = polygon_predictor()
        turned = true.sample(true.encode(x), generator)[0]
        return turned + 0.1 * torch.randn(turned.shape, generator=generator) * (turned != 0)

    score = polygons.validation(0)
    assert score is not None
    best, lost, off = (score(polygon_predictor(*kind)) for kind in ((), (upright,), (rough,)))
    assert best < min(lost, off) - 0.003
    assert score(polygon_predictor()) == best


def test_what_a_user_gets_is_scored_apart_from_the_raw_output(
    polygons: PolygonsTask, polygon_predictor: Make
) -> None:
    """Padding rows that are not quite zero cost something raw, and nothing once they are removed."""

    def untidy(x: Tensor, generator: torch.Generator) -> Tensor:
        sets = polygon(x.argmax(dim=1) + 4, torch.zeros(len(x)), 8)
        return torch.where(sets == 0, 0.014, sets)

    evaluation = scored(polygons, polygon_predictor(untidy))
    assert evaluation.returned["score"] < 1e-10
    assert evaluation.raw["score"] > 1e-5


def test_evaluations_repeat_with_their_seed(polygons: PolygonsTask, polygon_predictor: Make) -> None:
    first = scored(polygons, polygon_predictor(), 1)
    assert scored(polygons, polygon_predictor(), 1) == first
    other = scored(polygons, polygon_predictor(), 2)
    assert other.raw != first.raw
    assert other.real_data == first.real_data


def test_true_digits_score_as_real_data_in_both_styles(digits: DigitsTask, digit_predictor: Make) -> None:
    evaluation = scored(digits, digit_predictor(), tests=600)  # enough for shares
    assert evaluation.real_data["score"] == pytest.approx(9.4e-5, rel=0.05)
    assert evaluation.raw["score"] == pytest.approx(evaluation.real_data["score"], rel=0.05)
    assert evaluation.returned["score"] == pytest.approx(evaluation.raw["score"], rel=1e-5)
    shares = evaluation.details["style_shares"]
    assert {digit: set(styles) for digit, styles in shares.items()} == {
        "one": {"plain", "hook"},
        "seven": {"plain", "crossed"},
    }
    for name in ("style_shares", "style_shares_real"):
        for styles in evaluation.details[name].values():
            assert sum(styles.values()) == pytest.approx(1)
            assert all(0.4 < share < 0.6 for share in styles.values())
    assert evaluation.returned["rarest_style"] == min(
        share for styles in shares.values() for share in styles.values()
    )


def test_digits_in_one_style_are_found_out(digits: DigitsTask, digit_predictor: Make) -> None:
    true = digit_predictor().draw  # type: ignore[attr-defined]

    def plain(x: Tensor, generator: torch.Generator) -> Tensor:
        sets = true(x, generator)
        common = torch.tensor([42, 48])[x.argmax(dim=1)]
        return sets * (torch.arange(64) < common.unsqueeze(1)).unsqueeze(-1)

    evaluation = scored(digits, digit_predictor(plain))
    assert evaluation.returned["score"] == pytest.approx(evaluation.real_data["score"], rel=0.2)
    assert evaluation.returned["rarest_style"] < 0.01


def test_real_digits_are_compared_with_predictions_of_the_same_digit(
    digits: DigitsTask, digit_predictor: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests alternate between the digits; real ones come in random order."""
    asked: list[dict[str, dict[str, SetBatch]]] = []

    def noted(real: dict[str, SetBatch], predicted: dict[str, SetBatch], by: str) -> tuple[Any, Any]:
        asked.append({"real": real, "predicted": predicted})
        return {}, {}

    monkeypatch.setattr(desp.tasks.class_conditional, "distribution_scores", noted)
    scored(digits, digit_predictor())
    for groups in asked[0].values():
        # A one has 42 points, or 64 with its hook; a seven has 48 or 64.
        sizes = {name: set(sets.sizes.tolist()) for name, sets in groups.items()}
        assert sizes == {"one": {42, 64}, "seven": {48, 64}}


def test_digits_that_are_always_ones_are_found_out(digits: DigitsTask, digit_predictor: Make) -> None:
    true = digit_predictor().draw  # type: ignore[attr-defined]
    ones = torch.tensor([[1.0, 0.0]])
    evaluation = scored(digits, digit_predictor(lambda x, generator: true(ones.expand(len(x), 2), generator)))
    # Half of the digits are right; the sevens are some ten times as far away as real ones.
    assert evaluation.returned["score"] > 4 * evaluation.real_data["score"]


@pytest.mark.parametrize(("settings", "rows"), [(PolygonsSettings(), 8), (DigitsSettings(), 64)])
def test_sets_have_a_size_of_their_own(settings: TaskSettings, rows: int) -> None:
    task = make_task(settings, seed=0)
    assert task.shape(rows, scaling=True)[0].max_size == task.shape(None, scaling=True)[0].max_size == rows
    with pytest.raises(DataError, match=rf"Sets have {rows} rows, but representation\.max_size is 12"):
        task.shape(12, scaling=True)
