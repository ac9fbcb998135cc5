"""Collective operations among training processes; with one process they do nothing."""

import gc
from collections.abc import Iterable

import torch
import torch.distributed
from accelerate import Accelerator
from accelerate.utils import broadcast
from torch import Tensor

from desp.training.monitor import Monitor

if torch.distributed.is_available():
    # Before there is a group of processes: functions there take it as a default argument when they are defined,
    # and would then keep it, and its threads, for ever.
    import torch.distributed.nn.functional


class Processes:
    """All processes of a run. Each method must be called by all of them at the same step."""

    def __init__(self, accelerator: Accelerator) -> None:
        self.accelerator = accelerator
        self.alone = accelerator.num_processes == 1

    def any(self, flag: bool) -> bool:
        """Whether it is true for one of them."""
        if self.alone:
            return flag
        return bool(self.accelerator.reduce(torch.tensor(int(flag), device=self.accelerator.device), "sum") > 0)

    def mean(self, numbers: dict[str, float]) -> dict[str, float]:
        """The means of all of them."""
        if self.alone or not numbers:
            return numbers
        values = torch.tensor(list(numbers.values()), device=self.accelerator.device)
        return dict(zip(numbers, self.accelerator.reduce(values, "mean").tolist(), strict=True))

    def first(self, score: float) -> float:
        """The score of the first one."""
        if self.alone:
            return score
        return float(broadcast(torch.tensor(score, dtype=torch.float64, device=self.accelerator.device)))

    def share_buffers(self, tensors: Iterable[Tensor]) -> None:
        """Give all of them the mean of each buffer: of batch norm, each has seen its own batches only."""
        if self.alone:
            return
        for buffer in tensors:
            if buffer.is_floating_point():
                buffer.copy_(self.accelerator.reduce(buffer.clone(), "mean"))

    def agree_on_bad_steps(self, monitor: Monitor) -> None:
        """A step that is bad for one is bad for all."""
        if not self.alone:
            monitor.agree(self.accelerator.gather(monitor.bad_step.reshape(1)))


def leave_processes() -> None:
    """End this process's part in a launch of several; all of them call it last. Alone, it does nothing.

    The threads that exchange tensors end here, if this module was imported before the first `Accelerator` was
    made, and nothing that was trained is still in use. Were they left, one that lets go of a tensor while the
    interpreter shuts down would abort the process, and the launcher would count a training that is done as failed.
    """
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        gc.collect()  # wrapped models hold the group
        torch.distributed.destroy_process_group()
