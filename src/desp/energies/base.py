"""What an energy is."""

from abc import ABC, abstractmethod

from jaxtyping import Float
from torch import Tensor, nn

Tables = tuple[Tensor, ...]
"""Tensors derived from the weights alone, such as a pooling's weight for every rank."""


class SetEnergy(nn.Module, ABC):
    """E(x, Y) of equation 1, in parts, so that a chain repeats only what depends on its sets.

    Args:
        input_encoder: h(x), any module from a batch of inputs to codes (B, H) or (B, N, H).
    """

    def __init__(self, input_encoder: nn.Module) -> None:
        super().__init__()
        self.input_encoder = input_encoder

    def encode(self, x: Float[Tensor, "b *input"]) -> Float[Tensor, "b *code"]:
        """h(x): the code of each input."""
        return self.input_encoder(x)

    def tables(self, size: int) -> Tables:
        """What depends on the weights and the padded set size alone; a chain computes it once."""
        del size
        return ()

    @abstractmethod
    def score(
        self, code: Float[Tensor, "b *code"], y: Float[Tensor, "b n c"], tables: Tables | None = None
    ) -> Float[Tensor, " b"]:
        """The energy of padded sets `y` for encoded inputs, twice differentiable in `y`.

        Args:
            code: h(x) from `encode`.
            y: padded sets.
            tables: from `tables`; computed here if not given.
        """

    def forward(self, x: Float[Tensor, "b *input"], y: Float[Tensor, "b n c"]) -> Float[Tensor, " b"]:
        """The energy of padded sets `y` for inputs `x`."""
        return self.score(self.encode(x), y)
