"""Interfaces of samplers: gradients in, sets and a record of the chain out."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from desp.energies import SetField
from desp.nn import Cache

Gradient = Callable[[Tensor], tuple[Tensor, Tensor]]
"""From sets (B, N, C) to their energies (B,) and the gradient of each energy in its set (B, N, C)."""

GradientFor = Callable[[Tensor], Gradient]
"""From codes (B, ...) to the gradient of sets for them. What it prepares for a code is paid for once."""

Record = Literal["nothing", "trace", "trajectory"]
"""How much of a chain to keep: only its end, energies and gradient norms too, or all its sets too."""

# Elements whose hidden features, 256 numbers each, take about 2 MB.
ROWS_AT_ONCE = 2048


@dataclass(frozen=True)
class ChainInfo:
    """Diagnostics of a chain.

    Attributes:
        energies: (T, B), the energy wherever a gradient was taken; None if nothing was recorded.
        gradient_norms: (T, B), the norm of each of these gradients; None if nothing was recorded.
        trajectory: (T + 1, B, N, C), start and result included; None unless asked for.
    """

    energies: Float[Tensor, "t b"] | None = None
    gradient_norms: Float[Tensor, "t b"] | None = None
    trajectory: Float[Tensor, "t1 b n c"] | None = None

    @staticmethod
    def combined(infos: "Sequence[ChainInfo]", combine: Callable[[list[Tensor]], Tensor]) -> "ChainInfo":
        """One record of several: `combine` takes the same attribute of all; what one of them lacks is left out."""

        def of(name: str) -> Tensor | None:
            parts = [getattr(info, name) for info in infos]
            return None if any(part is None for part in parts) else combine(parts)

        return ChainInfo(**{field.name: of(field.name) for field in fields(ChainInfo)})

    def map(self, change: Callable[[Tensor], Tensor]) -> "ChainInfo":
        """With `change` applied to all that was recorded."""
        return ChainInfo.combined([self], lambda parts: change(parts[0]))


class Sampler(ABC):
    """Moves start sets along an energy's gradients. Immutable and hashable: equal samplers do the same."""

    @abstractmethod
    def sample(
        self,
        gradient: GradientFor,
        code: Float[Tensor, "b *code"],
        start: Float[Tensor, "b n c"],
        generator: torch.Generator,
        record: Record = "nothing",
    ) -> tuple[Float[Tensor, "b n c"], ChainInfo]:
        """One set for each code, with the record of the way."""

    def probe(self, gradient: GradientFor, code: Tensor, start: Tensor) -> None:
        """Take one gradient of the kind that `sample` takes, for whoever must compile it first."""
        gradient(code)(start)


class ChainRecorder:
    """Collects a `ChainInfo` step by step."""

    def __init__(self, record: Record, start: Tensor) -> None:
        self._record = record
        self._energies: list[Tensor] = []
        self._norms: list[Tensor] = []
        self._sets: list[Tensor] = [start] if record == "trajectory" else []

    def add(self, y: Tensor, energy: Tensor, gradient: Tensor) -> None:
        """Note one step: the sets it ended with, and the energy and gradient it used."""
        if self._record == "nothing":
            return
        self._energies.append(energy.detach())
        self._norms.append(gradient.detach().flatten(1).norm(dim=1))
        if self._record == "trajectory":
            self._sets.append(y.detach())

    def info(self) -> ChainInfo:
        """The record so far."""
        if self._record == "nothing" or not self._energies:
            return ChainInfo()
        return ChainInfo(
            torch.stack(self._energies),
            torch.stack(self._norms),
            torch.stack(self._sets) if self._sets else None,
        )


@lru_cache(maxsize=1)
def _keep_freed_memory() -> None:
    """Let the C library keep what chains free and ask for again in every step.

    glibc hands larger blocks back to the system at once, and each page of the next one must be made anew. It
    stops doing so up to the size of the largest block it has seen freed, of 32 MB at most; elsewhere this does
    nothing.
    """
    torch.empty(2**25 - 2**16, dtype=torch.uint8)


def layers_in_bfloat16() -> bool:
    """Whether torch's float32 matrix products may be rounded that far."""
    return torch.get_float32_matmul_precision() == "medium"


def value_and_gradient(
    field: SetField, y: Tensor, prepared: Cache, *, fused: bool = False, half: bool = False
) -> tuple[Tensor, Tensor]:
    """Energies and gradients of sets; with `half`, the layers run in bfloat16 and all between them as before.

    Args:
        field: whose.
        y: padded sets (B, N, C).
        prepared: from `field.prepare`.
        fused: see `SetField.value_and_gradient`.
        half: bfloat16 layers. Values that are nearly equal become equal, so ranks change.
    """
    if not half:
        return field.value_and_gradient(y, prepared, fused=fused)
    with torch.autocast(y.device.type, torch.bfloat16):
        values, gradients = field.value_and_gradient(y, prepared, fused=fused)
    return values.to(y.dtype), gradients.to(y.dtype)


def products_are_rounded(like: Tensor) -> bool:
    """Whether matrix products on the device of `like` round their factors: bfloat16 anywhere, tf32 on GPUs."""
    rounded = layers_in_bfloat16() or (like.is_cuda and torch.get_float32_matmul_precision() == "high")
    return rounded and like.dtype == torch.float32


def eager_gradient(field: SetField, code: Tensor, size: int) -> Gradient:
    """The gradient of `field` in sets of `size` rows, step by step; what stays the same is computed once."""
    # Training an energy takes derivatives of its gradient, which are too coarse in half precision.
    half = layers_in_bfloat16() and not (torch.is_grad_enabled() and field.conservative)
    # A product with the few features of an element loses more by their rounding than it gains in time.
    fused = products_are_rounded(code)

    def function(y: Tensor, prepared: Cache) -> tuple[Tensor, Tensor]:
        return value_and_gradient(field, y, prepared, fused=fused, half=half)

    return gradient_in_parts(function, field, code, size, ROWS_AT_ONCE)


def gradient_in_parts(
    function: Callable[[Tensor, Cache], tuple[Tensor, Tensor]],
    field: SetField,
    code: Tensor,
    size: int,
    rows: int,
) -> Gradient:
    """`function` with what `field` prepares for it.

    On the CPU a large batch goes in parts of about `rows` elements, whose features stay in the cache, unless a
    tape shall be kept of it.
    """
    on_cpu = code.device.type == "cpu"
    if on_cpu:
        _keep_freed_memory()
    if not on_cpu or torch.is_grad_enabled() or len(code) * size <= rows:
        prepared = field.prepare(code, size)
        return lambda y: function(y, prepared)
    each = math.ceil(len(code) / math.ceil(len(code) * size / rows))
    parts = [field.prepare(part, size) for part in code.split(each)]

    def gradient(y: Tensor) -> tuple[Tensor, Tensor]:
        values, gradients = zip(*map(function, y.split(each), parts), strict=True)
        return torch.cat(values), torch.cat(gradients)

    return gradient
