"""How many elements a set has, from the code of its input."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from desp.nn.mlp import MLP


class CardinalityHead(nn.Module):
    """p(n | x) over cardinalities 0 to N.

    Args:
        code_features: H of the codes (B, H) or (B, N, H).
        max_size: N.
        hidden: width of its hidden layers.
        layers: linear layers.
    """

    def __init__(self, code_features: int, max_size: int, hidden: int, layers: int = 3) -> None:
        super().__init__()
        self.logits = MLP([code_features, *[hidden] * (layers - 1), max_size + 1])

    def forward(self, code: Float[Tensor, "b *code"]) -> Float[Tensor, "b sizes"]:
        """log p(n | x) for every n."""
        pooled = code.mean(dim=1) if code.dim() == 3 else code
        return self.logits(pooled).log_softmax(dim=-1)

    def loss(self, code: Float[Tensor, "b *code"], sizes: Int[Tensor, " b"]) -> Float[Tensor, ""]:
        """Mean of -log p(n | x)."""
        return F.nll_loss(self(code), sizes)

    @torch.no_grad()
    def sample(self, code: Float[Tensor, "b *code"], generator: torch.Generator) -> Int[Tensor, " b"]:
        """One cardinality for each input."""
        return torch.multinomial(self(code).exp(), 1, generator=generator).squeeze(1)

    @torch.no_grad()
    def mode(self, code: Float[Tensor, "b *code"]) -> Int[Tensor, " b"]:
        """The most probable cardinality for each input; of equal ones the smallest."""
        return self(code).argmax(dim=-1)
