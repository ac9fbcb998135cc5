"""Numbers of steps: their means, and the first one that is not finite."""

import pytest
import torch
from accelerate import Accelerator
from torch import Tensor

from desp.errors import TrainingError
from desp.training.monitor import Monitor

NAN, INF = float("nan"), float("inf")


def add(monitor: Monitor, step: int, loss: float, norm: float = 1.0, energy: float = 0.0) -> None:
    monitor.add(step, torch.tensor(loss), torch.tensor(norm), {"energy": torch.tensor(energy)})


@pytest.fixture
def monitor() -> Monitor:
    """An empty one."""
    return Monitor(Accelerator(cpu=True))


def test_means_since_the_last_flush(monitor: Monitor) -> None:
    add(monitor, 0, 1.0, 2.0, -3.0)
    add(monitor, 1, 3.0, 4.0, -5.0)
    assert monitor.flush() == {"loss": 2.0, "gradient_norm": 3.0, "energy": -4.0}
    add(monitor, 2, 7.0)
    assert monitor.flush()["loss"] == 7.0
    assert monitor.flush() == {}


def test_numbers_may_be_overwritten_by_the_next_step(monitor: Monitor) -> None:
    """A captured step writes its results to the same memory every time."""
    loss = torch.zeros(())
    for step, value in enumerate([1.0, 2.0, 6.0]):
        monitor.add(step, loss.fill_(value), loss, {})
    assert monitor.flush()["loss"] == 3.0


@pytest.mark.parametrize(
    ("loss", "norm"), [(NAN, 1.0), (INF, 1.0), (-INF, 1.0), (1.0, NAN), (1.0, INF), (INF, -INF)]
)
def test_the_first_bad_step_is_named(monitor: Monitor, loss: float, norm: float) -> None:
    add(monitor, 40, 1.0)
    add(monitor, 41, loss, norm)
    add(monitor, 42, 1.0)
    add(monitor, 43, NAN)
    with pytest.raises(TrainingError, match=r"in step 42\.$") as caught:
        monitor.check()
    assert caught.value.step == 42
    with pytest.raises(TrainingError, match=r"in step 42\.$"):
        monitor.flush()
    add(monitor, 44, 5.0)  # the flush cleared it
    assert monitor.flush()["loss"] == 5.0


def test_the_first_step_can_be_bad(monitor: Monitor) -> None:
    """Steps are told as logs and checkpoints count them: the first is 1."""
    add(monitor, 0, NAN)
    with pytest.raises(TrainingError, match=r"in step 1\.$"):
        monitor.flush()


def test_what_was_gathered_can_be_saved_and_continued(monitor: Monitor) -> None:
    assert monitor.tensors() == {}
    other = Monitor(monitor.accelerator)
    add(other, 9, NAN)
    for step, loss in enumerate([0.1, 0.2, 0.7]):
        add(monitor, step, loss)
        if step == 1:
            other.load(monitor.tensors())
    add(other, 2, 0.7)
    assert other.flush() == monitor.flush()
    other.load({})
    assert other.flush() == {}


def test_the_first_bad_step_of_any_process_counts(monitor: Monitor, monkeypatch: pytest.MonkeyPatch) -> None:
    others = [-1, -1]

    def gather(own: Tensor) -> Tensor:
        return torch.cat([own, torch.tensor(others)])

    monkeypatch.setattr(monitor.accelerator, "gather", gather)
    add(monitor, 0, 1.0)
    monitor.check()
    add(monitor, 7, NAN)
    others[:] = [-1, 5, 6]
    with pytest.raises(TrainingError, match=r"in step 6\.$"):
        monitor.flush()
    add(monitor, 8, 2.0)
    others[:] = [-1, 0]
    with pytest.raises(TrainingError, match=r"in step 1\.$"):
        monitor.check()
