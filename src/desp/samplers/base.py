"""Interfaces of samplers: gradients in, sets and a record of the chain out.

A chain is the sequence of sets that a sampler passes through: Langevin steps, steps of the probability-flow ODE,
or gradient descent.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from desp.energies import Prepared, SetField

ValueAndGrad = Callable[[Tensor], tuple[Tensor, Tensor]]
"""From sets (B, N, C) to their energies (B,) and the gradient of each energy in its set (B, N, C)."""

ValueAndGradFor = Callable[[Tensor], ValueAndGrad]
"""From codes (B, ...) to a ValueAndGrad for sets of these inputs. What depends on codes alone is computed once."""

Step = tuple[Tensor, Tensor, Tensor]
"""The sets (B, N, C) that a step ended with, and the energies (B,) and gradients (B, N, C) it used."""

Chain = tuple[Tensor, Iterator[Step]]
"""The sets before the first step, and the steps."""

Record = Literal["nothing", "energies", "sets"]
"""What to keep of a chain beside its end: nothing; energies and gradient norms; or these and all sets."""

# Elements whose hidden features, 256 numbers each, take about 2 MB.
ROWS_AT_ONCE = 2048


@dataclass(frozen=True)
class ChainInfo:
    """Diagnostics of a chain.

    Attributes:
        energies: (T, B), what the energy gave at the beginning of each step, after noise where that comes first;
            for edm at that step's sigma, not comparable between steps. None if nothing was recorded.
        gradient_norms: (T, B), the norms of the gradients there; for edm of du / dsigma. None, too, if nothing was
            recorded.
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

    @torch.no_grad()
    def sample(
        self,
        value_and_grad_for: ValueAndGradFor,
        code: Float[Tensor, "b *code"],
        start: Float[Tensor, "b n c"],
        generator: torch.Generator,
        record: Record = "nothing",
    ) -> tuple[Float[Tensor, "b n c"], ChainInfo]:
        """One set for each code, with the record of its chain; `start` is zeros in the paper's implementation."""
        first, steps = self.chain(value_and_grad_for, code, start, generator)
        return record_chain(steps, first, record)

    @abstractmethod
    def chain(
        self, value_and_grad_for: ValueAndGradFor, code: Tensor, start: Tensor, generator: torch.Generator
    ) -> Chain:
        """The sets before the first step, made from `start`, and the steps."""

    def warm_up_gradient(self, value_and_grad_for: ValueAndGradFor, code: Tensor, start: Tensor) -> None:
        """Take one gradient as `sample` takes them, so that it is compiled before a chain is run or captured."""
        value_and_grad_for(code)(start)


def record_chain(
    steps: Iterable[Step], start: Float[Tensor, "b n c"], record: Record
) -> tuple[Float[Tensor, "b n c"], ChainInfo]:
    """Go along a chain; returns the sets it ends with, and its record.

    Args:
        steps: what each did.
        start: the sets before the first.
        record: how much to keep.
    """
    y, energies, norms, trajectory = start, [], [], [start.detach()]
    for y, energy, gradient in steps:
        if record == "nothing":
            continue
        energies.append(energy.detach())
        norms.append(gradient.detach().flatten(1).norm(dim=1))
        if record == "sets":
            trajectory.append(y.detach())
    if not energies:
        return y, ChainInfo()
    all_sets = torch.stack(trajectory) if record == "sets" else None
    return y, ChainInfo(torch.stack(energies), torch.stack(norms), all_sets)


@lru_cache(maxsize=1)
def _keep_freed_memory() -> None:
    """Let the C library keep what chains free and ask for again in every step.

    glibc hands larger blocks back to the system at once, and each page of the next one must be made anew. It
    stops doing so up to the size of the largest block it has seen freed, of 32 MB at most; elsewhere this does
    nothing.
    """
    torch.empty(2**25 - 2**16, dtype=torch.uint8)


def value_and_gradient(
    field: SetField, y: Tensor, prepared: Prepared, *, fused: bool = False, bfloat16: bool = False
) -> tuple[Tensor, Tensor]:
    """Energies and gradients of sets; with `bfloat16` under autocast: layers run in it, the rest does not.

    Args:
        field: whose.
        y: padded sets (B, N, C).
        prepared: from `field.prepare`.
        fused: see `SetField.value_and_gradient`.
        bfloat16: layers in bfloat16. Values that are nearly equal become equal, so ranks change.
    """
    if not bfloat16:
        return field.value_and_gradient(y, prepared, fused=fused)
    with torch.autocast(y.device.type, torch.bfloat16):
        values, gradients = field.value_and_gradient(y, prepared, fused=fused)
    return values.to(y.dtype), gradients.to(y.dtype)


def value_and_grad_of(
    field: SetField,
    code: Tensor,
    size: int,
    function: Callable[..., tuple[Tensor, Tensor]] = value_and_gradient,
    rows: int = ROWS_AT_ONCE,
) -> ValueAndGrad:
    """Energies and gradients of sets of `size` rows; what stays the same over a chain is computed once.

    On the CPU a large batch goes in parts, whose features stay in the cache, unless autograd records it.

    Args:
        field: an energy, or another field.
        code: of the inputs.
        size: N.
        function: `value_and_gradient`, or what a compiler made of it.
        rows: elements in a part, about.
    """
    precision = torch.get_float32_matmul_precision()
    # Training an energy takes derivatives of its gradient, which are too coarse in bfloat16.
    bfloat16 = precision == "medium" and not (torch.is_grad_enabled() and field.conservative)
    # To bfloat16 anywhere, to tf32 on GPUs; see `fused` of `SetField.value_and_gradient`.
    rounded = precision == "medium" or (precision == "high" and code.is_cuda)
    function = partial(function, field, fused=rounded and code.dtype == torch.float32, bfloat16=bfloat16)
    on_cpu = code.device.type == "cpu"
    if on_cpu:
        _keep_freed_memory()
    if not on_cpu or torch.is_grad_enabled() or len(code) * size <= rows:
        prepared = field.prepare(code, size)
        return lambda y: function(y, prepared)
    each = math.ceil(len(code) / math.ceil(len(code) * size / rows))
    parts = [field.prepare(part, size) for part in code.split(each)]

    def in_parts(y: Tensor) -> tuple[Tensor, Tensor]:
        values, gradients = zip(*map(function, y.split(each), parts), strict=True)
        return torch.cat(values), torch.cat(gradients)

    return in_parts
