"""Where training runs, and on how many CPU threads."""

import threading
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedDataParallelKwargs

from desp.errors import SettingsError
from desp.extras import require
from desp.process_setting import ProcessSetting
from desp.settings import Device, TrainingSettings

# Elements times the square of the width: a gradient has about eight operations for each.
SMALL_GRADIENT = 6_000_000

_THREADS = ProcessSetting(torch.get_num_threads, torch.set_num_threads)
_making_an_accelerator = threading.Lock()  # the first one makes a state that all of a process share


def default_device(choice: Device) -> torch.device:
    """The device for predictions."""
    if choice == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if choice == "cuda" and not torch.cuda.is_available():
        raise SettingsError(
            'device "cuda" was asked for, but torch sees no CUDA device. Use device="cpu" (on the command line: '
            "--device cpu)."
        )
    return torch.device(choice)


def make_accelerator(device: Device, settings: TrainingSettings, folder: Path | None) -> Accelerator:
    """The accelerator for `device`, with TensorBoard if asked for.

    Raises:
        SettingsError: there is no such device, this process trains on another one already, or the mixed
            precision it was launched with is not supported.
    """
    default_device(device)
    tracking = _tracking(settings, folder)
    try:
        # Each process keeps the running statistics of its own batches; `average_buffers` joins them.
        own_buffers = DistributedDataParallelKwargs(broadcast_buffers=False)
        with _making_an_accelerator:
            accelerator = Accelerator(cpu=device == "cpu", kwargs_handlers=[own_buffers], **tracking)
    except ValueError as error:  # accelerate keeps the device of the first accelerator of a process
        raise SettingsError(f"This process cannot train on {device} now ({error}). Start a new one.") from error
    if device == "cuda" and accelerator.device.type != "cuda":
        raise SettingsError("This process has trained on the CPU already. Start a new one to train on a GPU.")
    if accelerator.mixed_precision == "fp16":
        raise SettingsError(
            "Mixed precision fp16 is not supported, as energies overflow it. Launch with --mixed_precision no."
        )
    return accelerator


def _tracking(settings: TrainingSettings, folder: Path | None) -> dict[str, str]:
    if not settings.tensorboard:
        return {}
    require("tensorboard", "log", "log for TensorBoard")
    if folder is None:
        raise SettingsError("training.tensorboard needs a run folder to write to.")
    return {"log_with": "tensorboard", "project_dir": str(folder)}


def suitable_threads(
    device: torch.device, batch_size: int, max_size: int, hidden: int
) -> AbstractContextManager[None]:
    """One thread where gradients are too small to share out; as many as before afterwards.

    Two are no faster there, and where another program takes one of their cores each waits for the other, many
    times slower than one alone.
    """
    small = device.type == "cpu" and batch_size * max_size * hidden**2 < SMALL_GRADIENT
    return one_thread() if small else nullcontext()


def one_thread() -> AbstractContextManager[None]:
    """One thread while entered, as many as before afterwards."""
    return _THREADS.changed_to(1)
