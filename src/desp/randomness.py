"""Randomness as a pure function of names and numbers.

Every random draw in the project comes from a `torch.Generator` with a seed that is derived here; initial weights
come from torch's global generator, which is seeded in this way and restored afterwards. A seed is derived from
what it is for, e.g. ``(seed, "train", attempt, step, process)``, never from how often something was called. A run
that is stopped and resumed therefore draws the same numbers, and on the CPU continues bit for bit, without any
generator state in its checkpoint.
"""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral
from typing import Any

import torch

from desp.errors import SettingsError

_drawing_weights = threading.RLock()


def check_seed(seed: Any) -> int:
    """A user's seed as a plain number: one of numpy's would give other draws than the same number of Python's.

    Raises:
        SettingsError: it is no whole number, or below 0.
    """
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise SettingsError(f"The seed must be a whole number, got {seed!r} of type {type(seed).__name__}.")
    if seed < 0:  # it is part of names: RECIPE-seedN
        raise SettingsError(f"The seed must be at least 0, got {seed}.")
    return int(seed)


def derive_seed(*path: int | str) -> int:
    """Map a path such as ``(seed, "chain", step)`` to 63 well-mixed bits, the same on every machine."""
    text = "/".join(f"{type(part).__name__}:{part}" for part in path)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def make_generator(*path: int | str, device: torch.device | str = "cpu") -> torch.Generator:
    """Make the generator that belongs to `path` on `device`."""
    return torch.Generator(device=device).manual_seed(derive_seed(*path))


@contextmanager
def seeded_weights(*path: int | str) -> Iterator[None]:
    """Seed torch's global generator by `path`, as layers draw their initial weights from it; put it back after.

    Weights are drawn on the CPU, so only its generator is seeded. `torch.manual_seed` would seed GPUs as well.
    Threads take turns.
    """
    with _drawing_weights, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(derive_seed(*path))
        yield
