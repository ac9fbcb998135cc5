"""What an energy is."""

from abc import ABC, abstractmethod

from jaxtyping import Float
from torch import Tensor, nn


class SetEnergy(nn.Module, ABC):
    """E(x, Y) of equation 1, in two parts, so that a chain encodes its input only once.

    Args:
        input_encoder: h(x), any module from a batch of inputs to codes (B, H) or (B, N, H).
    """

    def __init__(self, input_encoder: nn.Module) -> None:
        super().__init__()
        self.input_encoder = input_encoder

    def encode(self, x: Float[Tensor, "b *input"]) -> Float[Tensor, "b *code"]:
        """h(x): the code of each input."""
        return self.input_encoder(x)

    @abstractmethod
    def score(self, code: Float[Tensor, "b *code"], y: Float[Tensor, "b n c"]) -> Float[Tensor, " b"]:
        """The energy of padded sets `y` for encoded inputs, twice differentiable in `y`."""

    def forward(self, x: Float[Tensor, "b *input"], y: Float[Tensor, "b n c"]) -> Float[Tensor, " b"]:
        """The energy of padded sets `y` for inputs `x`."""
        return self.score(self.encode(x), y)
