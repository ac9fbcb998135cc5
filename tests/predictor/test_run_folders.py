"""Folders in which a fit is refused, or that another process uses, stay as they are."""

import json
import shutil
import threading
from collections.abc import Container, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from small_predictors import SHORT, VARIANTS, ragged_pairs

from desp.errors import CheckpointError, RunError
from desp.locks import sole_use
from desp.predictor import SetPredictor
from desp.predictor.compared_examples import ComparedExamples, difference
from desp.training import TrainingCallback

pytestmark = pytest.mark.usefixtures("unchecked")


def new() -> SetPredictor:
    return VARIANTS["default"].predictor(device="cpu")


def files_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "seed": ({}, {"seed": 4}, r"was begun with other settings \(seed: 3 then, 4 now\)\. Resume with the same"),
    "width": ({"method__energy__hidden": 9}, {}, r"method\.energy\.hidden: 8 then, 9 now"),
    "representation": ({"representation__max_size": 9}, {}, r"representation\.max_size: None"),
    "average": (
        {},
        {
            "inputs": ragged_pairs(),
            "training": replace(SHORT, ema_decay=0.5),
            "validation_data": ragged_pairs()[:3],
        },
        "does not fit these settings",
    ),
}


def changed(places: Container[int], examples: int = 12) -> list[Any]:
    """Pairs whose sets are others at some places."""
    pairs = (ragged_pairs() * -(-examples // 12))[:examples]
    return [(x, y + (index in places)) for index, (x, y) in enumerate(pairs)]


OTHER_DATA: dict[str, tuple[Any, str]] = {
    "fewer": (
        ragged_pairs()[:-2],
        r"\(12 training examples then, 10 now, without held-out ones\)\. Resume with the same data and the same "
        r"arguments \(they decide what is held out\), or",
    ),
    "another order": (
        ragged_pairs()[::-1],
        r"\(12 training examples as before, but others, or in another order\)",
    ),
    "other sets": ([(x, y + 0.01) for x, y in ragged_pairs()], "as before, but others"),
    "7 of 12": (changed(range(7)), "as before, but others"),
    "other inputs": ([(x + 0.01, y) for x, y in ragged_pairs()], "as before, but others"),
}


class Whenever(torch.utils.data.Dataset[Any]):
    """Examples that are changed at random whenever they are read."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = ragged_pairs()[index]
        return x, y + torch.rand(())


class Sometimes(torch.utils.data.Dataset[Any]):
    """Examples of which each is flipped with probability one half whenever it is read."""

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(0)

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = ragged_pairs()[index]
        return x, 1 - y if torch.rand((), generator=self.generator) < 0.5 else y


class Stream(torch.utils.data.IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return iter(ragged_pairs())


@pytest.mark.parametrize(("parts", "options", "message"), REFUSED.values(), ids=REFUSED)
def test_a_run_that_cannot_be_resumed_stays_as_it_is(
    tmp_path: Path, parts: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    """Settings and examples too, which a run that is resumed replaces."""
    new().fit(ragged_pairs(), SHORT, folder=tmp_path, seed=3)
    before = files_of(tmp_path)
    given = {"inputs": ragged_pairs()[::-1], "training": SHORT, "seed": 3, **options}
    predictor = new().set_params(**parts)
    with pytest.raises(CheckpointError, match=message):
        predictor.fit(**given, folder=tmp_path, resume=True)
    assert files_of(tmp_path) == before


@pytest.mark.parametrize(("pairs", "message"), OTHER_DATA.values(), ids=OTHER_DATA)
def test_a_run_is_not_resumed_with_other_data(tmp_path: Path, pairs: Any, message: str) -> None:
    new().fit(ragged_pairs(), SHORT, folder=tmp_path)
    before = files_of(tmp_path)
    with pytest.raises(RunError, match=rf"was begun with other data .*{message}"):
        new().fit(pairs, SHORT, folder=tmp_path, resume=True)
    assert files_of(tmp_path) == before


def lists() -> list[Any]:
    return [(x.tolist(), y.double().numpy()) for x, y in ragged_pairs()]


@pytest.mark.parametrize(
    ("begun", "resumed"),
    [
        (ragged_pairs, lists),
        (ragged_pairs, lambda: changed(range(4, 9))),
        (Whenever, Whenever),
        (Stream, Stream),
    ],
    ids=["other containers", "5 of 12 repaired", "changed at random", "iterable"],
)
def test_a_run_is_resumed_with_its_data(tmp_path: Path, begun: Any, resumed: Any) -> None:
    new().fit(begun(), SHORT, folder=tmp_path)
    assert new().fit(resumed(), replace(SHORT, steps=5), folder=tmp_path, resume=True).steps == 5


def test_examples_are_compared_up_to_the_end(tmp_path: Path) -> None:
    """Not the first 16 alone."""
    new().fit(changed((), 64), SHORT, folder=tmp_path)
    with pytest.raises(RunError, match="64 training examples as before, but others"):
        new().fit(changed(range(16, 64), 64), SHORT, folder=tmp_path, resume=True)


def test_data_of_which_some_are_changed_at_random_are_not_called_others() -> None:
    data = Sometimes()
    for _ in range(100):
        assert difference(ComparedExamples.of(data, 2), data, 2) is None


def test_a_run_that_has_more_steps_than_asked_for_says_how_many(tmp_path: Path) -> None:
    for steps, done in (6, 6), (4, 6), (8, 8):
        resume = steps != 6
        outcome = new().fit(ragged_pairs(), replace(SHORT, steps=steps), folder=tmp_path, resume=resume)
        saved = json.loads((tmp_path / "settings.json").read_text())["settings"]["training"]["steps"]
        assert (outcome.steps, saved) == (done, done)


def test_folders_of_older_versions_know_nothing_of_their_data(tmp_path: Path) -> None:
    new().fit(ragged_pairs(), SHORT, folder=tmp_path)
    settings = json.loads((tmp_path / "settings.json").read_text())
    del settings["compared_examples"]
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    assert new().fit(ragged_pairs()[::-1], replace(SHORT, steps=5), folder=tmp_path, resume=True).steps == 5


@pytest.mark.parametrize("there", [False, True])
def test_without_a_run_to_resume_a_new_one_begins(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, there: bool
) -> None:
    """So that a job's script can always pass resume=True."""
    folder = tmp_path / "run"
    if there:
        folder.mkdir()
    seen: list[int | None] = []

    class Watching(TrainingCallback):
        def on_start(self, steps_done: int, steps: int | None) -> None:
            del steps
            seen.append(steps_done)

    for steps in (3, 5):
        training = replace(SHORT, steps=steps)
        new().fit(ragged_pairs(), training, folder=folder, resume=True, callback=Watching())
    assert seen == [0, 3]
    assert caplog.text.count(f"{folder} holds no run to resume: a new one begins") == 1


def test_a_run_that_lost_its_checkpoints_is_not_resumed(tmp_path: Path) -> None:
    new().fit(ragged_pairs(), SHORT, folder=tmp_path)
    shutil.rmtree(tmp_path / "checkpoints")
    with pytest.raises(RunError, match="has lost its checkpoints, so it cannot be resumed"):
        new().fit(ragged_pairs(), SHORT, folder=tmp_path, resume=True)


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    new().fit(ragged_pairs(), SHORT, folder=tmp_path)
    for folder in ("checkpoints", "model"):
        shutil.rmtree(tmp_path / folder)
    assert new().fit(ragged_pairs(), SHORT, folder=tmp_path, resume=True).steps == SHORT.steps
    assert "was stopped before its first checkpoint: training begins anew" in caplog.text


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_that_another_process_uses_stays_as_it_is(tmp_path: Path, resume: bool) -> None:
    """Also while its run has no checkpoint yet."""
    new().fit(ragged_pairs(), SHORT, folder=tmp_path)
    for checkpoint in [] if resume else tmp_path.glob("checkpoints/*"):
        checkpoint.unlink()
    refused: list[str] = []

    def fit() -> None:
        try:
            new().fit(ragged_pairs()[::-1], replace(SHORT, steps=5), folder=tmp_path, resume=resume)
        except RunError as error:
            refused.append(str(error))

    with sole_use(tmp_path):
        before = files_of(tmp_path)
        other = threading.Thread(target=fit)  # the folder belongs to the thread that uses it
        other.start()
        other.join()
        assert files_of(tmp_path) == before
    assert len(refused) == 1
    assert f"{tmp_path} is in use: process" in refused[0]


def assert_refused(folder: Path, message: str) -> None:
    before = files_of(folder)
    for resume in (False, True):
        with pytest.raises(RunError, match=message):
            new().fit(ragged_pairs(), SHORT, folder=folder, resume=resume)
    assert files_of(folder) == before


def test_files_of_others_are_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "inputs.npy").write_bytes(b"mine")
    assert_refused(tmp_path, "is not empty and not a run folder. Choose another folder")


@pytest.mark.parametrize("text", ['{"editor": "vim"}', '{"settings": ["a"]}', '{"settings": {"task": 1}}', "[]"])
def test_settings_of_other_programs_are_not_written_over(tmp_path: Path, text: str) -> None:
    (tmp_path / "settings.json").write_text(text)
    assert_refused(tmp_path, "settings.json")


def test_runs_of_the_command_are_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"settings": {"task": {"kind": "files"}}}')
    assert_refused(tmp_path, "desp train")
