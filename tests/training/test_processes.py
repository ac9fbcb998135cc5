"""What one of several processes makes of what the others say; the others are made up.

`test_distributed.py` starts real ones.
"""

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from tiny_problem import (
    RICH,
    SHORT,
    ActingSource,
    Recorder,
    Scores,
    assert_same,
    diverging_trainer,
    make_predictor,
    make_trainer,
    polygons,
    weights_of,
)
from torch import Tensor

from desp.errors import TrainingError, TrainingInterrupted
from desp.training import Trainer
from desp.training.processes import any_process, average_buffers, broadcast_from_first, mean_of_processes

SELDOM = replace(SHORT, log_every=100, checkpoint_every=100)


class OneOfTwo(Accelerator):
    """One of two processes; the other one's part in what they exchange is given.

    Args:
        index: which of the two this is.
        bad_step: the other's first bad step, counted from 0, or -1.
        number: what the other adds to a sum, and has for every number of which the mean is taken.
    """

    def __init__(self, index: int = 0, *, bad_step: int = -1, number: float = 0.0) -> None:
        super().__init__(cpu=True)
        self.index, self.bad_step, self.number = index, bad_step, number

    num_processes = 2
    process_index = property(lambda self: self.index)
    is_main_process = property(lambda self: self.index == 0)

    def gather(self, tensor: Tensor) -> Tensor:
        return torch.cat([tensor, torch.full_like(tensor, self.bad_step)])

    def reduce(self, tensor: Tensor, reduction: str = "sum") -> Tensor:
        total = tensor + self.number
        return total if reduction == "sum" else total / 2


def trainer_of(accelerator: Accelerator, settings: object = SHORT, **options: object) -> Trainer:
    """On data that do not depend on the process."""
    source = options.pop("source", polygons())
    return make_trainer(make_predictor(), settings, accelerator=accelerator, source=source, **options)


def test_each_process_has_noise_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("desp.training.loop.average_buffers", lambda *_: None)  # the made-up process has none
    alone, first, second = (
        trainer_of(accelerator).fit().weights for accelerator in (Accelerator(cpu=True), OneOfTwo(0), OneOfTwo(1))
    )
    assert_same(alone, first)
    assert not all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("settings", [SHORT, replace(SELDOM, log_every=4), replace(SELDOM, checkpoint_every=4)])
def test_a_step_that_is_bad_for_another_process_is_bad_here(settings: object, tmp_path: Path) -> None:
    trainer = trainer_of(OneOfTwo(bad_step=0), settings, folder=tmp_path)
    with pytest.raises(TrainingError, match=r"in step 1\."):
        trainer.fit()
    assert trainer.state.step == (1 if settings is SHORT else 4)
    assert not list(tmp_path.rglob("*.safetensors"))


def stopped_by_signal(at: int) -> ActingSource:
    return ActingSource(at, lambda: os.kill(os.getpid(), signal.SIGINT))


def test_a_stop_request_does_not_save_what_is_bad_for_another_process(tmp_path: Path) -> None:
    accelerator = OneOfTwo(bad_step=2, number=1.0)
    with pytest.raises(TrainingError, match=r"in step 3\."):
        trainer_of(accelerator, SELDOM, folder=tmp_path, source=stopped_by_signal(2)).fit()
    assert not list(tmp_path.rglob("*.safetensors"))


def test_training_stops_when_another_process_is_asked_to() -> None:
    with pytest.raises(TrainingInterrupted, match="after step 1 of 6"):
        trainer_of(OneOfTwo(number=1.0)).fit()


@pytest.mark.parametrize(("fraction", "rollbacks"), [(1.0, 0), (1.1, 1)])
def test_all_processes_judge_by_the_mean_of_all(
    fraction: float, rollbacks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here no sample diverges; if all of the other's do, half of all did, which is as many as may."""
    accelerator = OneOfTwo(number=fraction)
    trainer = diverging_trainer(lambda *_: 0.0, replace(SHORT, steps=2, log_every=100), accelerator=accelerator)
    monkeypatch.setattr("desp.training.loop.any_process", lambda _, flag: flag)  # nobody asks to stop
    if rollbacks:
        with pytest.raises(TrainingError, match=r"By step 2, 55\.0% of the samples diverge"):
            trainer.fit()
    else:
        assert trainer.fit().steps == 2


@pytest.mark.parametrize("index", [0, 1])
def test_all_wait_until_a_checkpoint_is_written(index: int, tmp_path: Path) -> None:
    """Or one might end, or look for it, before it is there."""

    class Waiting(OneOfTwo):
        def wait_for_everyone(self) -> None:
            steps.append([path.name for path in (tmp_path / "checkpoints").glob("step-*")][-1:])

    steps: list[list[str]] = []
    trainer_of(Waiting(index), replace(SHORT, steps=2), folder=tmp_path).fit()
    assert steps == [["step-00000002.safetensors"] if index == 0 else []]


def test_only_the_first_process_writes(tmp_path: Path) -> None:
    """Also when it validates, resumes and goes back."""
    for index in range(2):
        scores = iter(range(100))
        trainer = trainer_of(
            OneOfTwo(index), RICH, folder=tmp_path / str(index), validate=lambda scores=scores: float(next(scores))
        )
        trainer.fit()
    assert {path.name for path in (tmp_path / "0").iterdir()} == {"checkpoints", "log.jsonl"}
    assert not (tmp_path / "1").exists()


def test_the_second_process_neither_sweeps_nor_rewinds(tmp_path: Path) -> None:
    with pytest.raises(TrainingInterrupted):
        trainer_of(Accelerator(cpu=True), RICH, folder=tmp_path, source=stopped_by_signal(4)).fit()
    (tmp_path / "checkpoints" / ".step-00000009.safetensors.x.tmp").write_bytes(b"being written")
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write('{"step": 9}\n')
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    callback = Recorder()
    trainer_of(OneOfTwo(1), RICH, folder=tmp_path, callback=callback).fit(resume=True)
    assert callback.starts == [(5, 12)]
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_buffers_become_the_mean_of_all_processes() -> None:
    buffers = [torch.tensor([1.0, 4.0]), torch.tensor(7)]
    average_buffers(OneOfTwo(number=3.0), buffers)
    assert buffers[0].tolist() == [2.0, 3.5]
    assert int(buffers[1]) == 7  # a count is the same in all


def test_alone_every_question_answers_itself() -> None:
    alone = Accelerator(cpu=True)
    assert (any_process(alone, True), any_process(alone, False)) == (True, False)
    assert mean_of_processes(alone, {"a": 0.1}) == {"a": 0.1}
    assert broadcast_from_first(alone, torch.tensor([0.1], dtype=torch.float64)) == [0.1]
    assert broadcast_from_first(alone, torch.tensor([0.5, 0.25])) == [0.5, 0.25]


def test_scores_are_passed_on_as_they_are() -> None:
    """In double precision, or a score would be no improvement on itself."""
    assert broadcast_from_first(OneOfTwo(1), torch.tensor([0.1], dtype=torch.float64)) == [0.1]
    scores = Scores(0.3, 0.1, 0.2)
    scores.trainer = trainer_of(OneOfTwo(1), replace(SHORT, steps=3, validate_every=1), validate=scores)
    outcome = scores.trainer.fit()
    assert (outcome.score, outcome.score_step) == (0.1, 2)
    assert_same(outcome.weights, scores.seen[1])
    assert not all(torch.equal(outcome.weights[name], value) for name, value in weights_of(scores.trainer).items())
