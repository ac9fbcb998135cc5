"""What an estimator is."""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from desp.sets import SizeGroup


class Estimator(nn.Module, ABC):
    """A loss with the modules it trains.

    `forward` returns the loss itself. Distributed wrappers average the gradients of what their `forward`
    returns; were it an energy from which a chain took gradients, that averaging would silently not happen.
    """

    capturable: bool = True
    """Whether forward and backward can be recorded as a CUDA graph (no work on the host in between)."""

    groups: tuple[SizeGroup, ...] = ()
    """How many rows which sets of every batch need; none if any may need all. Most estimators compute all."""

    @property
    def engine_used(self) -> str:
        """How its chains ran last: ``eager``, ``compiled`` or ``graph``."""
        return "eager"

    def go_on_with(self, engine: str) -> None:
        """Run chains on the CPU as before a run was interrupted, if the engine is ours to choose."""
        del engine

    @property
    def memory(self) -> dict[str, Tensor]:
        """What it remembers from step to step beside its weights; saved with them."""
        return {}

    def remember(self, memory: dict[str, Tensor], device: torch.device) -> None:
        """Go on with what `memory` gave."""
        del memory, device

    def failure(self, numbers: dict[str, float]) -> str | None:
        """Why the latest steps, by their means, were in vain although all was finite; None: they were not."""
        del numbers
        return None

    @abstractmethod
    def forward(
        self, x: Float[Tensor, "b *input"], y: Float[Tensor, "b n c"], generator: torch.Generator
    ) -> tuple[Float[Tensor, ""], dict[str, Tensor]]:
        """The loss of a batch of inputs and padded sets, and detached numbers worth logging."""
