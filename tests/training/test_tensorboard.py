"""Logging for TensorBoard."""

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from tiny_problem import SHORT, make_predictor, make_trainer

from desp.errors import MissingExtraError, SettingsError
from desp.training.device import make_accelerator

SETTINGS = replace(SHORT, tensorboard=True)


def test_event_files_appear(tmp_path: Path) -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    accelerator = make_accelerator("cpu", SETTINGS, tmp_path)
    make_trainer(make_predictor(), SETTINGS, accelerator=accelerator, folder=tmp_path).fit()
    (file,) = tmp_path.rglob("*tfevents*")
    reader = events.EventAccumulator(str(file.parent))
    reader.Reload()
    assert {"loss", "gradient_norm", "learning_rate"} <= set(reader.Tags()["scalars"])
    assert [event.step for event in reader.Scalars("loss")] == [1, 2, 3, 4, 5, 6]


def test_trackers_are_finished_and_the_processes_go_on() -> None:
    accelerator, finished = make_accelerator("cpu", SHORT, None), []
    accelerator.trackers = [SimpleNamespace(finish=lambda: finished.append("finished"))]
    make_trainer(make_predictor(), replace(SHORT, steps=1), accelerator=accelerator).fit()
    assert finished == ["finished"]


def test_the_extra_is_named_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(MissingExtraError, match=r'TensorBoard.*pip install "desp\[log\]"'):
        make_accelerator("cpu", SETTINGS, tmp_path)


def test_a_folder_is_needed() -> None:
    pytest.importorskip("tensorboard")
    with pytest.raises(SettingsError, match="needs a run folder"):
        make_accelerator("cpu", SETTINGS, None)
