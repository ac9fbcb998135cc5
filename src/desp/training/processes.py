"""Collective operations among training processes, which all call them at the same step.

With one process they do nothing.
"""

import gc
from collections.abc import Iterable

import torch
import torch.distributed
from accelerate import Accelerator
from accelerate.utils import broadcast
from torch import Tensor

if torch.distributed.is_available():
    # Before there is a group of processes: functions there take it as a default argument when they are defined,
    # and would then keep it, and its threads, for ever.
    import torch.distributed.nn.functional


def any_process(accelerator: Accelerator, flag: bool) -> bool:
    """Whether `flag` is true in any process."""
    if accelerator.num_processes == 1:
        return flag
    return bool(accelerator.reduce(torch.tensor(int(flag), device=accelerator.device), "sum") > 0)


def mean_of_processes(accelerator: Accelerator, numbers: dict[str, float]) -> dict[str, float]:
    """The mean of each number over all processes."""
    if accelerator.num_processes == 1 or not numbers:
        return numbers
    values = torch.tensor(list(numbers.values()), device=accelerator.device)
    return dict(zip(numbers, accelerator.reduce(values, "mean").tolist(), strict=True))


def broadcast_from_first(accelerator: Accelerator, values: Tensor) -> list[float]:
    """The numbers of the first process, in all processes."""
    if accelerator.num_processes == 1:
        return values.tolist()
    return broadcast(values.to(accelerator.device)).tolist()


def average_buffers(accelerator: Accelerator, buffers: Iterable[Tensor]) -> None:
    """Replace each buffer by its mean over processes, as batch-norm statistics are of a process's own batches."""
    if accelerator.num_processes == 1:
        return
    for buffer in buffers:
        if buffer.is_floating_point():
            buffer.copy_(accelerator.reduce(buffer.clone(), "mean"))


def leave_processes() -> None:
    """End this process's part in a launch of several; all of them call it last. Alone, it does nothing.

    The threads that exchange tensors end here, if this module was imported before the first `Accelerator` was
    made, and nothing that was trained is still in use. Were they left, one that lets go of a tensor while the
    interpreter shuts down would abort the process, and the launcher would count a training that is done as failed.
    """
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        gc.collect()  # wrapped models hold the group
        torch.distributed.destroy_process_group()
