"""Whatever a crash leaves on disk, a resumed run ends where an uninterrupted one does."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_problem import EVERY_STEP, SHORT, Recorder, Scores, assert_same, make_predictor, make_trainer, scored

from desp.training.checkpoints import load_checkpoint

# Every validation but the third is an improvement, and every second step is saved.
SCORES = (4.0, 3.0, 3.5, 2.0)
SETTINGS = replace(EVERY_STEP, steps=4, checkpoint_every=2)


class Crash(BaseException):
    """The machine loses its power."""


class Scripted(Scores):
    """Scores by the step, also of a resumed run."""

    def __init__(self) -> None:
        super().__init__()

    def __call__(self) -> float:
        self.scores = iter([SCORES[self.trainer.state.step - 1]])
        return super().__call__()


@pytest.fixture
def renames(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Which checkpoints got their names so far; `crash at N` put first crashes before the N-th."""
    names: list[str] = []
    rename = os.replace

    def watched(source: Path, target: Path) -> None:
        if Path(target).suffix == ".safetensors":
            if names and names[0] == f"crash at {len(names)}":
                raise Crash
            names.append(Path(target).name)
        rename(source, target)

    monkeypatch.setattr(os, "replace", watched)
    return names


def test_the_best_is_on_disk_before_a_checkpoint_speaks_of_it(tmp_path: Path, renames: list[str]) -> None:
    trainer = scored(Scripted(), SETTINGS, folder=tmp_path / "whole")
    expected = trainer.fit()
    assert (expected.score, expected.score_step) == (2.0, 4)
    best, second, fourth = "best.safetensors", "step-00000002.safetensors", "step-00000004.safetensors"
    assert renames == [best, second, best, second, fourth, best, fourth]
    for place in range(1, 8):
        folder = tmp_path / str(place)
        renames[:] = [f"crash at {place}"]
        with pytest.raises(Crash):
            scored(Scripted(), SETTINGS, folder=folder).fit()
        renames[:] = []
        newest = sorted((folder / "checkpoints").glob("step-*"))
        spoken_of = load_checkpoint(newest[-1]).state["best_step"] if newest else None
        if spoken_of is not None:
            assert load_checkpoint(folder / "checkpoints" / best).state["step"] >= spoken_of
        resumed = scored(Scripted(), SETTINGS, folder=folder).fit(resume=True)
        assert (resumed.score, resumed.score_step, resumed.steps) == (2.0, 4, 4)
        assert_same(resumed.weights, expected.weights)
        assert_same(load_checkpoint(folder / "checkpoints" / best).tensors, expected.weights)


def test_the_best_is_written_only_when_it_changed(tmp_path: Path, renames: list[str]) -> None:
    scored(Scores(1, 2, 3, 4), SETTINGS, folder=tmp_path).fit()
    assert renames.count("best.safetensors") == 1


def test_what_a_crash_left_half_written_is_removed_when_a_run_goes_on(tmp_path: Path) -> None:
    make_trainer(make_predictor(), folder=tmp_path).fit()
    left = tmp_path / "checkpoints" / ".step-00000008.safetensors.abc.tmp"
    left.write_bytes(b"half")
    make_trainer(make_predictor(), replace(SHORT, steps=8), folder=tmp_path).fit(resume=True)
    names = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    assert names == {"step-00000006.safetensors", "step-00000008.safetensors"}


def test_a_run_that_is_refused_leaves_what_another_may_be_writing(tmp_path: Path) -> None:
    make_trainer(make_predictor(), folder=tmp_path).fit()
    left = tmp_path / "checkpoints" / ".step-00000008.safetensors.abc.tmp"
    left.write_bytes(b"half")
    with pytest.raises(Exception, match="already holds a run"):
        make_trainer(make_predictor(), folder=tmp_path, callback=Recorder()).fit()
    assert left.exists()
