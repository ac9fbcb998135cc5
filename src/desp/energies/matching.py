"""E_SE made of an encoder that was trained for something else."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from desp.energies.base import SetEnergy, Tables
from desp.energies.set_encoder import code_distance


class CodeMatchingEnergy(SetEnergy):
    """How far a set's own code is from the input's, where inputs are sets like those to predict.

    An auto-encoder's decoder is trained to make sets for codes, and nothing ties the code of what it made to the
    code it was given. This energy, equation 9 with the input encoder in both places, does. Presence stays as it
    is: only the features of present elements have a gradient.

    Args:
        input_encoder: h(x), from sets (B, N, D + 1) with presence to codes (B, H).
        unscaled: from elements as energies see them to elements as inputs hold them.
    """

    def __init__(self, input_encoder: nn.Module, unscaled: Callable[[Tensor], Tensor]) -> None:
        super().__init__(input_encoder)
        self.unscaled = unscaled

    def score(
        self, code: Float[Tensor, "b *code"], y: Float[Tensor, "b n c"], tables: Tables | None = None
    ) -> Float[Tensor, " b"]:
        """The Huber distance of the codes, mean over their numbers."""
        del tables
        presence = (y[..., -1:] > 0.5).to(y.dtype)
        own = self.input_encoder(torch.cat([self.unscaled(y[..., :-1]) * presence, presence], dim=-1))
        return code_distance(own, code)
