"""What holds for every task: scores are described by its metrics, and both protocols are there."""

from dataclasses import asdict
from typing import Any

import pytest
import torch

from desp.data.base import Batch
from desp.errors import SettingsError
from desp.metrics import Metric
from desp.metrics.base import describe, find_metric, split_key
from desp.sets import SetBatch
from desp.settings import LangevinSettings, TaskSettings
from desp.tasks import EvaluationSetup, Task
from desp.tasks.base import GeneratedTask

every_task = pytest.mark.parametrize(
    "problem", ["polygons", "digits", "files", "mnist", "clevr", "celeba", "pedestrians"], indirect=True
)


@every_task
@pytest.mark.parametrize("distance", ["chamfer", "hungarian"])
@pytest.mark.parametrize("sampler", [None, LangevinSettings()])
def test_every_score_belongs_to_a_metric(problem: Any, distance: Any, sampler: LangevinSettings | None) -> None:
    task: Task = problem.task
    if distance != "chamfer" and not task.compares_collections:
        pytest.skip("it compares no collections")
    protocol = task.protocol("quick")
    evaluation = task.evaluate(EvaluationSetup(problem.predictor, 3, 2, protocol, sampler, distance))
    keys = {*evaluation.raw, *evaluation.returned, *evaluation.real_data}
    assert "score" in keys
    assert {key for key in keys if find_metric(task.metrics, key) is None} == set()
    used = {metric.name for key in keys if (metric := find_metric(task.metrics, key))}
    # Examples with several valid sets alone have some that may not be found.
    assert used == {metric.name for metric in task.metrics} - {"valid_set_recall"}


@every_task
def test_metrics_have_names_of_their_own(problem: Any) -> None:
    names = [metric.name for metric in problem.task.metrics]
    assert len(set(names)) == len(names)
    assert problem.task.score_name == next(m.text for m in problem.task.metrics if m.name == "score")
    for metric in problem.task.metrics:
        assert metric.direction in ("lower", "higher", "near 0.5")
        assert metric.unit > 0
        assert metric.text


@every_task
def test_protocols_are_asked_for_by_name(problem: Any) -> None:
    assert problem.task.protocols.keys() == {"full", "quick"}
    with pytest.raises(SettingsError, match=r"has no protocol 'slow'. Known are: full, quick"):
        problem.task.protocol("slow")


class Pairs(GeneratedTask):
    """Two points for a number."""

    name = "pairs"

    def draw(self, batch_size: int, generator: torch.Generator) -> Batch:
        x = torch.rand(batch_size, 1, generator=generator)
        return Batch(x, SetBatch.from_ragged([torch.stack([row, -row]) for row in x]))


def test_sets_that_are_drawn_have_as_many_rows_as_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("desp.tasks.base.DRAWN", 10)
    assert [Pairs().shape(asked, True)[0].max_size for asked in (None, 2, 5)] == [2, 2, 5]


def test_keys_find_their_metric() -> None:
    size, released = (Metric(name, 1.0, "lower", name) for name in ("size_rmse", "size_rmse_released"))
    for suffix in (
        "",
        "_all",
        "_first7",
        "_bfloat16_code",
        "_bfloat16_code_first100",
        "_single_chain",
        "_hungarian",
    ):
        assert find_metric((size, released), f"size_rmse{suffix}") is size
        assert find_metric((size, released), f"size_rmse_released{suffix}") is released
    for other in ("size", "size_rmses", "size_rmse_last", "a_size_rmse", "size_rmse_first", "size_rmse_all_all"):
        assert find_metric((size, released), other) is None
    assert describe([size], ["size_rmse_all", "other"]) == {"size_rmse_all": asdict(size)}
    assert find_metric((size, released), "hidden/size_rmse_all") is size
    assert [split_key(key) for key in ("f1", "hidden/f1")] == [(None, "f1"), ("hidden", "f1")]


def test_where_one_answer_is_right() -> None:
    """Reports say so: reconstructions, and objects in an image."""
    kinds = {kind for kind, item in TaskSettings.kinds().items() if item().load().one_answer}
    assert kinds == {"mnist", "clevr"}
