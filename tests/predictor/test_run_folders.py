"""Folders in which a fit is refused, or that another process uses, stay as they are."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from small_predictors import SHORT, VARIANTS, ragged_pairs

from desp.errors import CheckpointError, RunError
from desp.locks import sole_use
from desp.predictor import SetPredictor

pytestmark = pytest.mark.usefixtures("unchecked")


def new() -> SetPredictor:
    return VARIANTS["default"].predictor(device="cpu")


def files_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "seed": ({}, {"seed": 4}, r"was begun with other settings \(seed: 3 then, 4 now\)\. Resume with the same"),
    "width": ({"method__energy__hidden": 9}, {}, r"method\.energy\.hidden: 8 then, 9 now"),
    "representation": ({"representation__max_size": 9}, {}, r"representation\.max_size: None"),
    "data": ({}, {"inputs": [(torch.rand(7), torch.rand(2, 2)) for _ in range(9)]}, "does not fit these settings"),
    "average": ({}, {"training": replace(SHORT, ema_decay=0.5)}, "does not fit these settings"),
}


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
