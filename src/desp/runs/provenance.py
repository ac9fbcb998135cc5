"""Where a number comes from: commit, machine, versions, command."""

import os
import platform
import resource
import shlex
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from desp import __version__

# The environment variable that names the commit of code without its repository.
COMMIT_VARIABLE = "DESP_COMMIT"
PACKAGES = ("torch", "accelerate", "numpy", "scipy", "safetensors")


def provenance(device: torch.device) -> dict[str, Any]:
    """Commit, device, versions, command and peak memory of this process."""
    known, program = commit(), Path(sys.argv[0]).name
    program = "desp" if program == "__main__.py" else program  # `python -m desp` is the same
    return {
        "commit": known,
        # Nothing checks a commit that is given.
        "commit_source": "environment" if os.environ.get(COMMIT_VARIABLE) else "git" if known else None,
        "device": device_name(device),
        "versions": {"python": platform.python_version(), "cuda": torch.version.cuda, **_versions()},
        "command": shlex.join([program, *sys.argv[1:]]),
        "peak_memory_mb": round(peak_memory_mb(device), 1),
    }


def commit() -> str | None:
    """The commit of the code: from DESP_COMMIT if it is set, else from git; None if neither is there."""
    given = os.environ.get(COMMIT_VARIABLE)
    if given:
        return given
    try:
        # Tracked there? An installed copy may lie inside a repository of the user's own.
        _git("ls-files", "--error-unmatch", Path(__file__).name)
        changed = _git("status", "--porcelain", "--untracked-files=no")
        return _git("rev-parse", "HEAD") + ("-dirty" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(*arguments: str) -> str:
    done = subprocess.run(  # noqa: S603 - fixed arguments
        ["git", "-C", str(Path(__file__).parent), *arguments],  # noqa: S607 - whichever git the user has
        capture_output=True,
        text=True,
        check=True,
        timeout=10,
    )
    return done.stdout.strip()


def device_name(device: torch.device) -> str:
    """A name that people recognise."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.processor() or platform.machine()} CPU, {torch.get_num_threads()} threads"


def peak_memory_mb(device: torch.device) -> float:
    """Most memory used so far: on the GPU if there is one in use, else by the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes / 2**10 if sys.platform != "darwin" else kilobytes / 2**20


def synchronized_clock(device: torch.device) -> float:
    """Seconds, once all work given to `device` is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def _versions() -> dict[str, str | None]:
    """None for our own where nothing tells it: no made-up version is recorded."""
    own = None if "unknown" in __version__ else __version__
    return {"desp": own, **{name: version(name) for name in PACKAGES}}
