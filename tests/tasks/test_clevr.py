"""CLEVR's scores: what is ranked by what, what a user gets of several samples, and which data are scored."""

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from torch import Tensor

from desp.cli.run_arguments import with_data_dir
from desp.data.clevr import ImageTable
from desp.data.clevr_generated import GeneratedTable, draw_table
from desp.errors import DataError, SettingsError
from desp.metrics.average_precision import average_precision
from desp.predictor import SetPredictor
from desp.recipes import get_recipe
from desp.runs.folder import RunFolder
from desp.sets import SetBatch
from desp.settings import (
    ClevrSettings,
    DescentSettings,
    RepresentationSettings,
    SetRiskSettings,
    TrainingSettings,
    TSPNSettings,
)
from desp.tasks import EvaluationSetup, make_task
from desp.tasks.clevr import ClevrTask, _longer
from tiny_clevr import tiny_scene, write_scenes, write_tiny_clevr

UNSCALED = RepresentationSettings(padding="presence", scaling="none")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_clevr(tmp_path_factory.mktemp("clevr"), training=24, test=12)


def task_of(folder: Path, **settings: str) -> ClevrTask:
    task = make_task(ClevrSettings(data_dir=str(folder), **settings))
    assert isinstance(task, ClevrTask)
    return task


def setup_of(
    task: ClevrTask, knowing: Callable[..., SetPredictor], draw: Callable[..., Tensor], samples: int = 1
) -> EvaluationSetup:
    shape, _ = task.shape(None, False)
    return EvaluationSetup(knowing(draw, shape, UNSCALED), seed=0, samples=samples, protocol=task.protocol("full"))


def rows_of(task: ClevrTask, x: Tensor) -> Tensor:
    """The true padded sets of test images, with presence, in the order in which they are asked for."""
    table = task.data.test.table(task.settings.predict)
    index = [next(i for i, image in enumerate(table.images) if torch.equal(image.float(), one)) for one in x]
    return table.at(torch.tensor(index)).batch().sets.with_presence()


@pytest.mark.parametrize(("predict", "samples"), [("boxes", 1), ("state", 1), ("objects", 1), ("objects", 3)])
def test_the_truth_has_an_average_precision_of_one(
    folder: Path, predict: str, samples: int, knowing: Callable[..., SetPredictor]
) -> None:
    task = task_of(folder, predict=predict)
    found = task.evaluate(setup_of(task, knowing, lambda x, _: rows_of(task, x), samples))
    for scores in (found.raw, found.returned):
        assert scores["score"] == pytest.approx(1)
        assert [scores[metric.name] for metric in task.target.metrics] == pytest.approx([1] * 5)
        assert scores["right_size"] == 1
        assert scores["size_rmse"] == 0
    assert found.real_data["ap50" if predict == "boxes" else "ap0125"] == 1
    assert task.name == ("clevr-boxes" if predict == "boxes" else "clevr-state")


def test_objects_are_scored_by_their_states_and_pooled_by_their_boxes(
    folder: Path, knowing: Callable[..., SetPredictor]
) -> None:
    task = task_of(folder, predict="objects")

    def without_boxes(x: Tensor, generator: torch.Generator) -> Tensor:
        rows = rows_of(task, x)
        rows[..., :4] = torch.rand(rows[..., :4].shape, generator=generator)
        return rows

    assert task.evaluate(setup_of(task, knowing, without_boxes)).raw["score"] == pytest.approx(1)
    pooled = task.evaluate(setup_of(task, knowing, without_boxes, 5))
    assert pooled.raw["score"] == pytest.approx(1)
    assert pooled.returned["score"] < 0.2  # boxes that lie elsewhere in every sample have no majority

    def with_other_colours(x: Tensor, generator: torch.Generator) -> Tensor:
        """The colours of two samples in five are the first one."""
        rows = rows_of(task, x)
        wrong = (torch.arange(len(x)) % 5 < 2).view(-1, 1, 1)
        first = torch.zeros(8)
        first[0] = 1
        rows[..., 9:17] = torch.where(wrong, first, rows[..., 9:17])
        return rows

    voted = task.evaluate(setup_of(task, knowing, with_other_colours, 5))
    assert voted.returned["ap0125"] == pytest.approx(1)
    assert voted.raw["ap0125"] < 1


def test_all_slots_are_ranked_by_presence_over_all_images(
    folder: Path, knowing: Callable[..., SetPredictor]
) -> None:
    task = task_of(folder)

    def draw(x: Tensor, generator: torch.Generator) -> Tensor:
        rows = rows_of(task, x)
        absent = rows[..., -1] < 0.5
        rows[..., :4] = torch.where(
            absent.unsqueeze(-1), 0.5 + 0.1 * torch.rand(rows[..., :4].shape), rows[..., :4]
        )
        rows[..., -1] = torch.rand(absent.shape, generator=generator)
        drawn.append(rows)
        return rows

    drawn: list[Tensor] = []
    found = task.evaluate(setup_of(task, knowing, draw))
    truth = task.data.test.table("boxes").batch().sets
    rows = torch.cat(drawn)
    everything = torch.ones(rows.shape[:2], dtype=torch.bool)
    wanted = average_precision(rows[..., :4], rows[..., -1], everything, truth.elements, truth.mask)
    assert found.raw["ap50"] == pytest.approx(wanted[0.5])
    assert 0 < found.raw["ap50"] < 1
    kept = average_precision(rows[..., :4], rows[..., -1], rows[..., -1] > 0.5, truth.elements, truth.mask)
    assert found.returned["ap50"] == pytest.approx(kept[0.5])
    assert found.details["confidence"]["raw"] == "presence"


def test_samples_are_pooled_into_what_a_user_gets(folder: Path, knowing: Callable[..., SetPredictor]) -> None:
    """Every third sample lacks all boxes, and each has noise: raw is one sample, returned what most agree on."""
    task = task_of(folder)

    def draw(x: Tensor, generator: torch.Generator) -> Tensor:
        rows = rows_of(task, x)
        rows[..., :4] += 0.004 * torch.randn(rows[..., :4].shape, generator=generator)
        rows[::3, :, -1] = 0.0
        return rows

    found = task.evaluate(setup_of(task, knowing, draw, samples=9))
    assert found.raw["right_size"] < 0.2
    assert found.returned["ap50"] == pytest.approx(1)
    assert found.returned["right_size"] == 1
    assert found.details["confidence"]["returned"] == "share of samples that agree"
    assert found.details["samples"] == 9


def test_equal_confidences_count_by_the_mean_over_orders(
    folder: Path, knowing: Callable[..., SetPredictor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the cardinality is predicted first, what is absent is no detection, and all others tie."""
    task = task_of(folder)

    def draw(x: Tensor, generator: torch.Generator) -> Tensor:
        rows = rows_of(task, x)
        rows[::2, :, :4] = 0.01  # every second image has nothing right
        return rows

    setup = setup_of(task, knowing, draw)
    monkeypatch.setattr(setup.predictor, "method_settings", TSPNSettings())
    found = task.evaluate(setup)
    truth = task.data.test.table("boxes").batch().sets
    right = int(truth.sizes[1::2].sum()) / int(truth.sizes.sum())
    assert right**2 < found.raw["ap50"] < right  # at a random place, precision is `right` all along
    assert found.raw["right_size"] == 1
    assert found.details["confidence"]["raw"].startswith("equal")


def test_parts_are_separate_and_validation_is_lower_for_better(
    folder: Path, knowing: Callable[..., SetPredictor]
) -> None:
    task = task_of(folder)
    names = [name for part in (task.data.training, task.data.validation, task.data.test) for name in part.names]
    assert len(names) == len(set(names))
    batch = task.validation_batch(0, 5)
    assert torch.equal(batch.x, task.data.validation.images[:5])

    def perfect(x: Tensor, generator: torch.Generator) -> Tensor:
        return batch.sets.with_presence()

    if int(batch.sets.sizes.sum()):
        assert task.validation_score(setup_of(task, knowing, perfect), batch) == pytest.approx(0)
        setup = setup_of(task, knowing, lambda x, _: torch.zeros(len(x), 10, 5))
        assert task.validation_score(setup, batch) == pytest.approx(1)


def test_scaled_boxes_are_centres_and_sizes(folder: Path) -> None:
    shape, _ = task_of(folder).shape(None, True)
    assert shape.scaling.boxes == ((0, 4),)
    boxes = torch.tensor([[0.2, 0.3, 0.4, 0.7]])
    torch.testing.assert_close(shape.scaling.unscale(shape.scaling.scale(boxes)), boxes)
    assert (shape.input_shape, shape.max_size, shape.features) == ((3, 128, 128), 10, 4)


def test_attributes_of_objects_are_narrow_beside_boxes_and_positions() -> None:
    shape, _ = make_task(ClevrSettings(source="generated", predict="objects")).shape(None, True)
    state = torch.tensor([0.5, 0.5, 0.2, 0.2, -1.0, 1.0, 0.0, 1.0, 0.0, *[0.0] * 13]).expand(1, -1)
    scaled = shape.scaling.scale(state)[0]
    torch.testing.assert_close(scaled[4:9], torch.tensor([0.0, 1.0, 0.5, 0.53125, 0.46875]))
    torch.testing.assert_close(shape.scaling.unscale(scaled[None]), state)


def test_another_size_is_refused(folder: Path) -> None:
    with pytest.raises(DataError, match=r"up to 10 objects, but representation.max_size is 7"):
        task_of(folder).shape(7, True)


def test_generated_scenes_have_exact_boxes_beside(
    knowing: Callable[..., SetPredictor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("desp.tasks.clevr.IMAGES_AT_ONCE", 3)
    task = make_task(ClevrSettings(source="generated"))
    assert isinstance(task, ClevrTask)
    protocol = replace(task.protocol("quick"), test_examples=(3,))
    table, generated = task._tests(protocol)
    assert generated is not None
    exact = generated.exact_boxes
    sets = table.batch().sets

    def truth(x: Tensor, generator: torch.Generator) -> Tensor:
        return SetBatch(sets.elements, sets.mask).with_presence()

    found = task.evaluate(replace(setup_of(task, knowing, truth), protocol=protocol))
    assert found.raw["ap90"] == pytest.approx(1)
    wanted = average_precision(
        sets.elements, sets.mask.float(), torch.ones_like(sets.mask), exact, sets.mask, ties=sets.mask.int()
    )
    assert found.raw["ap50_exact"] == pytest.approx(wanted[0.5], abs=0.1)
    assert found.raw["ap90_exact"] < found.raw["ap90"]
    assert (task.data_label, task.fingerprint(), task.settings.data_name) == (
        "generated scenes",
        None,
        "generated",
    )


def test_re_rendered_images_have_results_of_their_own(folder: Path, tmp_path: Path) -> None:
    assert task_of(folder).data_name is None
    write_tiny_clevr(tmp_path, training=3, test=1)
    write_scenes(tmp_path, "val", [tiny_scene("val", 0, 3)], note="re-rendered, not the original")
    assert task_of(tmp_path).data_name == "re-rendered"
    assert make_task(ClevrSettings(source="generated")).data_name is None


@pytest.mark.parametrize("data_dir", ["", "/somewhere"])
def test_a_run_on_generated_scenes_is_resumed_with_its_settings_whole(tmp_path: Path, data_dir: str) -> None:
    task = ClevrSettings(source="generated", data_dir=data_dir)
    settings = replace(get_recipe("clevr-detector").build(), task=task)
    assert ClevrSettings().with_data_of(task) == task
    folder = RunFolder(tmp_path / "run")
    folder.begin(settings, seed=0, fingerprint=None)
    for _ in range(2):
        folder.check_same(settings, seed=0)
        assert folder.note_data_folder(settings.task) is None
        assert folder.load_settings()[0] == settings


def test_generated_scenes_read_no_folder(tmp_path: Path) -> None:
    settings = replace(get_recipe("clevr-detector").build(), task=ClevrSettings(source="generated"))
    assert with_data_dir(settings, None) == settings
    with pytest.raises(SettingsError, match="--data-dir goes with runs that read a dataset"):
        with_data_dir(settings, tmp_path)


def test_sets_without_presence_cannot_be_ranked(folder: Path, knowing: Callable[..., SetPredictor]) -> None:
    task = task_of(folder)
    shape, _ = task.shape(None, False)
    zero = RepresentationSettings(padding="zero", scaling="none")
    made = knowing(lambda x, _: torch.zeros(len(x), 10, 4), shape, zero)
    setup = EvaluationSetup(made, seed=0, samples=1, protocol=task.protocol("quick"))
    with pytest.raises(SettingsError, match=r"representation\.padding must be presence for CLEVR"):
        task.evaluate(setup)


def test_a_longer_table_of_generated_scenes_begins_with_a_shorter_one() -> None:
    short, long = (draw_table(count, torch.Generator().manual_seed(0), "boxes", at_once=3) for count in (2, 4))
    assert (len(short.table), len(long.table), len(long.exact_boxes), len(long.visible)) == (2, 4, 4, 4)
    assert torch.equal(short.table.images, long.table.images[:2])
    assert torch.equal(short.exact_boxes, long.exact_boxes[:2])
    assert torch.equal(short.visible, long.visible[:2])


def batches(scenes: int, seed: int = 0) -> list[Tensor]:
    task = make_task(replace(ClevrSettings(source="generated"), scenes=scenes, augment=False))
    shape, _ = task.shape(None, True)
    source = task.source(shape, TrainingSettings(batch_size=4), seed, Accelerator(cpu=True))
    return [batch.x for batch in islice(source.batches(0), 2)]


def test_scenes_rendered_before_training_come_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("desp.tasks.clevr.IMAGES_AT_ONCE", 2)
    first, second = batches(2)
    assert "rendering 2 scenes on a CPU" in caplog.text
    assert len(torch.cat([first, second]).unique(dim=0)) == 2
    assert torch.equal(batches(2)[1], second)
    assert len(torch.cat([first, *batches(2, seed=1)]).unique(dim=0)) == 4


def test_scenes_drawn_for_every_batch_are_new() -> None:
    assert len(torch.cat(batches(0)).unique(dim=0)) == 8


@pytest.mark.parametrize("samples", [2, 5])
def test_samples_of_generated_scenes_are_measured_by_what_is_hidden(
    knowing: Callable[..., SetPredictor], samples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samples see the objects in turn: the first one only the first object, the second only the second, ..."""
    boxes = torch.zeros(1, 10, 4)
    boxes[0, :2] = torch.tensor([[0.1, 0.1, 0.3, 0.3], [0.6, 0.6, 0.8, 0.8]])
    sizes = torch.tensor([2])
    table = ImageTable(torch.zeros(1, 3, 128, 128, dtype=torch.uint8), boxes, sizes)
    generated = GeneratedTable(table, boxes, torch.tensor([[1.0, 0.2] + [0.0] * 8]))
    monkeypatch.setattr("desp.tasks.clevr._generated", lambda *_: generated)
    task = make_task(ClevrSettings(source="generated"))
    assert isinstance(task, ClevrTask)

    def in_turn(x: Tensor, generator: torch.Generator) -> Tensor:
        values = torch.zeros(len(x), 10, 5)
        for row in range(len(x)):
            values[row, 0] = torch.cat([boxes[0, min(row, 1)], torch.ones(1)])
        return values

    found = task.evaluate(setup_of(task, knowing, in_turn, samples))
    assert found.returned["hidden_recall"] == 0
    assert found.returned.get("hidden_recall_of_5") == (1 if samples == 5 else None)
    # Both boxes are right, with a share of samples of 1 / K and 1 - 1 / K.
    assert found.returned["confidence_ece"] == pytest.approx(0.5)
    assert sum(row["detections"] for row in found.details["confidence_bins"]) == 2
    assert "hidden_recall" not in found.raw


def test_descents_are_scored_with_more_steps_too() -> None:
    ten, long = (replace(SetRiskSettings(), sampler=DescentSettings(steps=steps)) for steps in (10, 25))
    assert _longer(ten) == [DescentSettings(steps=20), DescentSettings(steps=30)]
    assert _longer(long) == [DescentSettings(steps=30)]
    assert _longer(TSPNSettings()) == []


def test_longer_descents_have_metrics_of_their_own(
    folder: Path, knowing: Callable[..., SetPredictor], monkeypatch: pytest.MonkeyPatch
) -> None:
    task, seen = task_of(folder), []
    monkeypatch.setattr("desp.tasks.clevr._longer", lambda _: [DescentSettings(steps=20)])
    predict = ClevrTask._predict

    def watched(self: ClevrTask, setup: EvaluationSetup, *rest: Any) -> Any:
        seen.append((setup.sampler, setup.samples))
        return predict(self, replace(setup, sampler=None), *rest)

    monkeypatch.setattr(ClevrTask, "_predict", watched)
    found = task.evaluate(setup_of(task, knowing, lambda x, _: rows_of(task, x), samples=3))
    assert seen == [(None, 3), (DescentSettings(steps=20), 1)]
    assert found.raw["ap50_20_steps"] == pytest.approx(1)
    assert "ap50_20_steps" not in found.returned


@pytest.mark.parametrize(("place", "expected"), [(1, 1), (7, 4), (None, None)])
def test_an_image_with_a_hidden_object_is_shown(
    place: int | None, expected: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its own place among the first, or as the last; absent rows are visible to no degree and do not count."""
    images = torch.arange(9, dtype=torch.uint8).view(9, 1, 1, 1).expand(9, 3, 2, 2)
    visible = torch.ones(9, 10)
    visible[:, 5:] = 0.0
    if place is not None:
        visible[place, 2] = 0.2
    table = GeneratedTable(
        ImageTable(images, torch.zeros(9, 10, 4), torch.full((9,), 5)), torch.zeros(9, 10, 4), visible
    )
    monkeypatch.setattr("desp.tasks.clevr._generated", lambda *_: table)
    shown = make_task(ClevrSettings(source="generated")).shown_examples(0)
    hidden = [index for index, item in enumerate(shown) if "mostly hidden" in item.label]
    assert hidden == ([] if expected is None else [expected])
    assert len(shown) == 5
    assert [int(item.x[0, 0, 0]) for item in shown][-1] == (place if place == 7 else 4)
