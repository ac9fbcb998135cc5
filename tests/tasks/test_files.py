"""A user's data as a task: a held-out part that stays held out, and scores of known worth."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from PIL import Image
from torch import Tensor

from desp.errors import DataError, RunError
from desp.predictor import DataShape, SetPredictor
from desp.runs.folder import RunFolder
from desp.sets import SetBatch
from desp.settings import (
    DataDescription,
    EnergyDenoisingSettings,
    FilesSettings,
    PooledLayersSettings,
    RepresentationSettings,
    RunSettings,
    TrainingSettings,
)
from desp.tasks import EvaluationSetup, Protocol
from desp.tasks.files import FilesTask

HERE = Path(".")
PRESENCE = RepresentationSettings(padding="presence")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Forty sets of one to three points, each for an input of its own."""
    path = tmp_path / "data.jsonl"
    lines = [
        json.dumps({"input": [index, 0], "set": [[100.0 * index, -1.0 * place] for place in range(index % 3 + 1)]})
        for index in range(40)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def task_of(path: Path, held_out: float = 0.25, seed: int = 0) -> FilesTask:
    return FilesTask(FilesSettings(path=str(path), held_out=held_out), seed)


def numbers_of(part: Any) -> set[float]:
    return {float(x[0]) for x, _ in part.examples}


def boxed_images(folder: Path, boxes: list[list[float]]) -> Path:
    for index in range(4):
        Image.new("RGB", (6 + index, 4)).save(folder / f"{index}.png")
    lines = [json.dumps({"input": f"{index}.png", "set": [[*box, 0, 1] for box in boxes]}) for index in range(4)]
    (folder / "boxes.jsonl").write_text("\n".join(lines) + "\n")
    return folder / "boxes.jsonl"


BOXES = DataDescription(boxes=((0, 4),), categories=((4, 6),))


def test_boxes_in_resized_images_are_normalised(tmp_path: Path) -> None:
    settings = FilesSettings(
        path=str(boxed_images(tmp_path, [[1, 1, 5, 3]])), description=BOXES, held_out=0.25, image_size=8
    )
    with pytest.raises(DataError, match=r"a box reaches 5. Where images are resized .*boxes must be normalised"):
        FilesTask(settings, 0).shape(None, True)
    boxed_images(tmp_path, [[0.1, 0.2, 0.9, 1.0]])
    assert FilesTask(settings, 0).shape(None, True)[0].input_shape == (3, 8, 8)


@pytest.mark.parametrize(("names", "found"), [(["cat", "dog"], ("cat", "dog")), (["cat"], ())])
def test_class_names_beside_the_file_are_kept_where_they_fit(
    tmp_path: Path, names: list[str], found: tuple[str, ...]
) -> None:
    path = boxed_images(tmp_path, [[0.1, 0.2, 0.9, 1.0]])
    (tmp_path / "boxes.classes.json").write_text(json.dumps({"classes": names}))
    settings = FilesSettings(path=str(path), description=BOXES, held_out=0.25, image_size=8)
    assert FilesTask(settings, 0).shape(None, True)[0].description.class_names == found
    own = replace(BOXES, class_names=("one", "two"))
    shape, _ = FilesTask(replace(settings, description=own), 0).shape(None, True)
    assert shape.description.class_names == ("one", "two")


# -- the held-out part ---------------------------------------------------------------------------------


def test_the_held_out_part_is_held_out(data: Path) -> None:
    held_out, validation, rest = task_of(data).parts
    assert (len(held_out), len(validation), len(rest)) == (10, 6, 24)
    parts = [numbers_of(part) for part in (held_out, validation, rest)]
    assert sum(len(part) for part in parts) == 40
    assert set().union(*parts) == set(range(40))


def test_training_sees_none_of_it(data: Path) -> None:
    task = task_of(data)
    shape, _ = task.shape(None, True)
    source = task.source(shape, TrainingSettings(batch_size=12), 0, Accelerator(cpu=True))
    batches = source.batches(0)
    seen = {number for _ in range(4) for number in next(batches).x[:, 0].tolist()}
    assert seen == numbers_of(task.parts[2])  # two passes over the twenty-four


def test_the_split_follows_the_seed(data: Path) -> None:
    first = numbers_of(task_of(data, seed=1).parts[0])
    assert numbers_of(task_of(data, seed=1).parts[0]) == first
    assert numbers_of(task_of(data, seed=2).parts[0]) != first


@pytest.mark.parametrize(
    ("share", "sizes"), [(0.001, (1, 1, 38)), (0.24, (10, 6, 24)), (0.5, (20, 4, 16)), (0.999, (39, 0, 1))]
)
def test_there_is_always_something_to_score_and_to_train_on(
    data: Path, share: float, sizes: tuple[int, int, int]
) -> None:
    assert tuple(len(part) for part in task_of(data, share).parts) == sizes


def test_no_more_are_kept_for_choices_than_needed(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FilesTask, "protocols", {"full": Protocol(validation_examples=5)})
    assert tuple(len(part) for part in task_of(data).parts) == (10, 5, 25)
    assert tuple(len(part) for part in task_of(data, 0.05).parts) == (2, 2, 36)  # nor more than are scored


def test_a_handful_of_examples_leaves_nothing_to_validate_on(data: Path) -> None:
    assert task_of(data, 0.999).validation(0) is None


def test_examples_for_choices_are_those_kept_apart(data: Path) -> None:
    for seed in range(4):
        task = task_of(data, seed=seed)
        first: Any = task.validation_batch(0, 1)
        ((x, (truth,)),) = task.parts[1].examples[:1]
        assert torch.equal(first.x[0], x)
        assert torch.equal(first.sets.to_ragged()[0], truth)
    assert len(task_of(data).validation_batch(0, 99).x) == 6  # type: ignore[union-attr]


def test_workers_are_those_of_the_settings(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr("desp.data.base.DataLoader", lambda *_, num_workers, **__: asked.append(num_workers) or [])
    task = task_of(data)
    training = TrainingSettings(data_workers=3)
    list(task.source(task.shape(None, True)[0], training, 0, Accelerator(cpu=True)).batches(0))
    assert asked == [3]


def test_held_out_sets_fit_too(data: Path) -> None:
    """The largest set and the range are those of the whole file; means are of the training part."""
    task = task_of(data)
    shape, statistics = task.shape(None, True)
    assert (shape.input_shape, shape.features, shape.max_size, shape.input_kind) == ((2,), 2, 3, "vector")
    assert shape.scaling.offset == (0.0, -2.0)
    assert shape.scaling.span == (3900.0, 2.0)
    inputs = torch.stack([x for x, _ in task.parts[2].examples])
    assert statistics[0].tolist() == pytest.approx(inputs.mean(dim=0).tolist())
    assert statistics[1].tolist() == pytest.approx(inputs.std(dim=0, correction=0).tolist())


def test_a_file_is_needed_with_two_examples(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="--data FILE"):
        FilesTask(FilesSettings(), 0)
    path = tmp_path / "one.jsonl"
    path.write_text('{"input": 1, "set": [[1]]}\n')
    with pytest.raises(DataError, match="at least two"):
        task_of(path).shape(None, True)
    missing = task_of(tmp_path / "missing.jsonl")
    for use in (missing.fingerprint, lambda: missing.parts[0]):
        with pytest.raises(DataError, match="no data file"):
            use()


def test_a_changed_file_is_noticed(data: Path, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    settings = RunSettings(recipe="custom", task=FilesSettings(path=str(data)))
    folder.begin(settings, 0, task_of(data).fingerprint())
    folder.check_data(folder.load_task())
    before = data.read_bytes()
    data.write_bytes(before.replace(b"[100.0,", b"[101.0,"))
    with pytest.raises(RunError, match=r"data\.jsonl has changed"):
        folder.check_data(folder.load_task())
    data.write_bytes(before)
    folder.check_data(folder.load_task())


def test_older_runs_call_the_fingerprint_data(data: Path, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.begin(RunSettings(recipe="custom", task=FilesSettings(path=str(data))), 0, task_of(data).fingerprint())
    text = folder.settings_file.read_text()
    assert '"data_fingerprint"' in text
    folder.settings_file.write_text(text.replace('"data_fingerprint"', '"data"'))
    assert folder.read_settings_file()["data_fingerprint"] == task_of(data).fingerprint()
    folder.check_data(folder.load_task())
    data.write_bytes(data.read_bytes().replace(b"[100.0,", b"[101.0,"))
    with pytest.raises(RunError, match=r"data\.jsonl has changed"):
        folder.check_data(folder.load_task())


# -- inputs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "shape", "value", "expected"),
    [
        ("vector", (2,), [1, 2.5], [1, 2.5]),
        ("vector", (1,), 3, [3]),
        ("set", (3, 2), [[5], [6]], [[5, 1], [6, 1], [0, 0]]),
        ("set", (2, 2), [], [[0, 0], [0, 0]]),
    ],
)
def test_inputs_are_read_as_the_predictor_takes_them(
    data: Path, kind: Any, shape: tuple[int, ...], value: Any, expected: Any
) -> None:
    wanted = DataShape(shape, features=2, max_size=3, input_kind=kind)
    assert task_of(data).read_input(value, "line 1", HERE, wanted).tolist() == expected


@pytest.mark.parametrize(
    ("kind", "shape", "value"),
    [
        ("vector", (2,), [1]),
        ("vector", (2,), "cat.png"),
        ("vector", (2,), None),
        ("vector", (2,), [1, float("nan")]),
        ("set", (3, 2), [1, 2]),
        ("set", (1, 2), [[1], [2]]),
        ("set", (3, 2), [[1, 2]]),
        ("image", (3, 4, 4), "missing.png"),
        ("image", (3, 4, 4), 5),
    ],
)
def test_other_inputs_are_refused(data: Path, kind: Any, shape: tuple[int, ...], value: Any) -> None:
    wanted = DataShape(shape, features=2, max_size=3, input_kind=kind)
    with pytest.raises(DataError, match="line 7"):
        task_of(data).read_input(value, "line 7", HERE, wanted)


def test_examples_are_held_out_ones(data: Path) -> None:
    task = task_of(data)
    examples = task.shown_examples(0)
    assert len(examples) == 5
    assert {item.input[0] for item in examples} <= numbers_of(task.parts[0])
    assert all(len(item.truth) == 1 for item in examples)
    assert task.axes["names"] == ["column 0", "column 1"]


# -- scores --------------------------------------------------------------------------------------------


@pytest.fixture
def task(data: Path) -> FilesTask:
    return task_of(data)


@pytest.fixture
def predictor(task: FilesTask, knowing: Callable[..., SetPredictor]) -> Callable[..., SetPredictor]:
    """Makes predictors that remember the file; every `wrong`-th prediction is an empty set."""
    shape, _ = task.shape(None, True)
    truth = {float(x[0]): y for x, (y,) in task.whole.examples}

    def make(wrong: int | None = None) -> SetPredictor:
        def draw(x: Tensor, generator: torch.Generator) -> Tensor:
            sets = [truth[float(row[0])].flip(0) for row in x]
            values = made.sets_to_tensor(SetBatch.from_ragged(sets, 3, 2))
            if wrong:
                values[::wrong] = 0
            return values

        made = knowing(draw, shape, PRESENCE)
        return made

    return make


def test_a_perfect_predictor_scores_zero(task: FilesTask, predictor: Callable[..., SetPredictor]) -> None:
    evaluation = task.evaluate(EvaluationSetup(predictor(), seed=0, samples=2, protocol=task.protocol("quick")))
    assert evaluation.returned == pytest.approx(
        {"score": 0, "score_best_of_k": 0, "size_rmse": 0, "right_size": 1}, abs=1e-9
    )
    assert evaluation.details == {"held_out": 10, "samples": 2}
    assert evaluation.raw == evaluation.real_data == {}
    assert evaluation.energy == 1.0  # of the final sets, by `raw_energy`


def test_the_best_of_k_forgives_the_others(task: FilesTask, predictor: Callable[..., SetPredictor]) -> None:
    evaluation = task.evaluate(
        EvaluationSetup(predictor(wrong=2), seed=0, samples=2, protocol=task.protocol("quick"))
    )  # the first of two is empty
    assert evaluation.returned["score_best_of_k"] == pytest.approx(0, abs=1e-9)
    assert evaluation.returned["score"] > 0.01
    assert evaluation.returned["right_size"] == 0.5
    sizes = torch.tensor([len(item) for _, (item,) in task.parts[0].examples], dtype=torch.float64)
    assert evaluation.returned["size_rmse"] == pytest.approx(float((sizes.square().mean() / 2).sqrt()))


def test_validation_scores_examples_that_are_neither_trained_nor_scored_on(
    task: FilesTask, predictor: Callable[..., SetPredictor]
) -> None:
    validate = task.validation(0)
    assert validate is not None
    assert validate(predictor()) == pytest.approx(0, abs=1e-9)
    spy: Any = predictor()
    validate(spy)
    assert {number for call in spy.asked for number in call.x[:, 0].tolist()} == numbers_of(task.parts[1])


@pytest.mark.parametrize("name", ["inputs", "sets", "sizes"])
def test_the_fingerprint_of_a_folder_is_that_of_all_its_arrays(tmp_path: Path, name: str) -> None:
    arrays = {"inputs": np.zeros((3, 2)), "sets": np.ones((3, 2, 1)), "sizes": np.array([1, 2, 2])}
    for key, array in arrays.items():
        np.save(tmp_path / f"{key}.npy", array)
    before = task_of(tmp_path).fingerprint()
    assert task_of(tmp_path).fingerprint() == before
    np.save(tmp_path / f"{name}.npy", arrays[name] + 1)
    assert task_of(tmp_path).fingerprint() != before


# -- repeated inputs --------------------------------------------------------------------------------------


def repeated(path: Path, inputs: list[Any]) -> Path:
    lines = [json.dumps({"input": x, "set": [[float(index), 1.0]]}) for index, x in enumerate(inputs)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("seed", range(4))
def test_equal_inputs_are_in_one_part(tmp_path: Path, seed: int) -> None:
    task = task_of(repeated(tmp_path / "data.jsonl", [[index // 3, 0] for index in range(90)]), 0.2, seed)
    parts = [numbers_of(part) for part in task.parts]
    assert [len(part.examples) for part in task.parts] == [18, 12, 60]
    assert sum(len(part) for part in parts) == len(set().union(*parts)) == 30


def test_the_split_by_examples_is_the_one_without_repeated_inputs(tmp_path: Path, data: Path) -> None:
    path = repeated(tmp_path / "repeated.jsonl", [[index % 5, 0] for index in range(40)])
    by_examples = FilesTask(FilesSettings(path=str(path), held_out=0.25, split="examples"), 0)
    found = [[int(answers[0][0, 0]) for _, answers in part.examples] for part in by_examples.parts]
    expected = [[int(x[0]) for x, _ in part.examples] for part in task_of(data).parts]
    assert found == expected


def test_a_single_input_is_split_by_examples(tmp_path: Path) -> None:
    task = task_of(repeated(tmp_path / "data.jsonl", [1.0] * 40))
    assert tuple(len(part) for part in task.parts) == (10, 6, 24)
    assert task.split_findings() == []


def test_few_different_inputs_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = repeated(tmp_path / "data.jsonl", [index % 3 for index in range(40)])
    task_of(path).shape(None, True)
    assert "there are only 3 different inputs" in caplog.text
    assert "--task.split examples" in caplog.text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.001, "0.001 of 40 examples is none"), (0.95, "Only 2 of 40 examples are left to train on")],
)
def test_odd_shares_are_told(data: Path, share: float, text: str) -> None:
    (finding,) = task_of(data, share).split_findings()
    assert text in finding


def test_ordinary_shares_have_nothing_to_tell(data: Path) -> None:
    assert task_of(data).split_findings() == []


def test_a_far_value_is_named_by_its_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "data.jsonl"
    lines = [json.dumps({"input": index, "set": [[0.01 * index if index != 6 else 1e9]]}) for index in range(40)]
    path.write_text("\n\n".join(lines))
    task_of(path).shape(None, True)
    assert f"{path}, line 13: column 0 of an element is 1e+09" in caplog.text
    assert len(caplog.records) == 1
    caplog.clear()
    sets = np.arange(40.0).reshape(40, 1, 1)
    sets[6] = -1e9
    np.savez(tmp_path / "data.npz", inputs=np.arange(40), sets=sets)
    task_of(tmp_path / "data.npz").shape(None, True)
    assert "row 6: column 0 of an element is -1e+09" in caplog.text


# -- one answer or several -----------------------------------------------------------------------------------


def lines_of(tmp_path: Path, *lines: dict[str, Any]) -> FilesTask:
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return task_of(path)


def test_inputs_that_come_once_say_nothing_of_how_many_sets_are_right(data: Path) -> None:
    assert task_of(data).answers_hint() is None


def test_repeated_inputs_tell_whether_one_set_or_several_are_right(tmp_path: Path) -> None:
    """The order of elements does not matter."""
    once = {"input": [2.0], "set": [[3.0], [4.0]]}
    again = {"input": [1.0], "set": [[1.0], [2.0]]}, {"input": [1.0], "set": [[2.0], [1.0]]}
    hint = lines_of(tmp_path, once, *again).answers_hint()
    assert hint is not None
    assert (hint.inputs, hint.differing, hint.several) == (1, 0, False)
    hint = lines_of(tmp_path, once, once, *again, {"input": [1.0], "set": [[2.0]]}).answers_hint()
    assert hint is not None
    assert (hint.several, hint.text) == (
        True,
        "of 2 inputs with more than one set, 1 have sets that differ",
    )


def test_of_aligned_sets_the_order_counts(tmp_path: Path) -> None:
    path = tmp_path / "aligned.jsonl"
    lines = [{"input": [[1.0], [2.0]], "set": order} for order in ([[0.0], [1.0]], [[1.0], [0.0]])]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    task = FilesTask(FilesSettings(path=str(path), description=DataDescription(aligned=True)), 0)
    hint = task.answers_hint()
    assert hint is not None
    assert hint.several


def test_large_files_are_not_read_again_for_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = lines_of(tmp_path, {"input": [1.0], "answers": [[[1.0]], []]}, {"input": [2.0], "set": []})
    monkeypatch.setattr("desp.tasks.files.MOST_READ_AGAIN", 1)
    assert task.answers_hint() is None


def test_listed_answers_are_several(tmp_path: Path) -> None:
    hint = lines_of(
        tmp_path, {"input": [1.0], "answers": [[[1.0]], []]}, {"input": [2.0], "set": []}
    ).answers_hint()
    assert hint is not None
    assert (hint.inputs, hint.several) == (1, True)


# -- validation ----------------------------------------------------------------------------------------------


def test_a_validation_scores_each_example_with_the_same_noise(data: Path) -> None:
    task = task_of(data)
    shape, statistics = task.shape(None, "standard")
    predictor = SetPredictor(EnergyDenoisingSettings(energy=PooledLayersSettings(hidden=8)))
    predictor.build(shape, input_statistics=statistics)
    validate = task.validation_by_example(0)
    assert validate is not None
    scores = validate(predictor)
    assert scores.shape == (6,)
    assert torch.equal(validate(predictor), scores)
    predictor.build(shape, seed=1, input_statistics=statistics)
    assert not torch.equal(validate(predictor), scores)


@pytest.mark.parametrize(
    ("inputs", "size", "examples", "samples"),
    [(40, 1, 6, 16), (40, 500, 6, 6), (400, 1, 60, 6), (400, 250, 40, 2), (400, 2000, 20, 2)],
    ids=str,
)
def test_large_sets_are_predicted_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inputs: int, size: int, examples: int, samples: int
) -> None:
    """Fewer samples of each input at first, then fewer inputs."""
    asked = []

    def distances(setup: EvaluationSetup, batch: Any, count: int) -> Tensor:
        del setup
        asked.append((len(batch.x), count))
        return torch.zeros(len(batch.x), count + 1, count + 1)

    monkeypatch.setattr(EvaluationSetup, "distances", distances)
    path = tmp_path / "large.npz"
    np.savez(path, inputs=np.arange(1.0 * inputs), sets=np.zeros((inputs, size, 1)))
    validate = task_of(path).validation_by_example(0)
    assert validate is not None
    validate(SetPredictor())
    assert asked == [(examples, samples)]
