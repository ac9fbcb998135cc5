"""How many elements a set has, from the code of its input."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from desp.nn.mlp import MLP


class SizeHead(nn.Module):
    """p(size | x) over 0 to N.

    Args:
        code_features: H of the codes (B, H) or (B, N, H).
        max_size: N.
        hidden: width of its hidden layers.
        layers: linear layers.
        ordered: add a bell around a learned size to what each size is worth by itself.
    """

    def __init__(
        self, code_features: int, max_size: int, hidden: int, layers: int = 3, *, ordered: bool = False
    ) -> None:
        super().__init__()
        self.max_size, self.ordered = max_size, ordered
        self.logits = MLP([code_features, *[hidden] * (layers - 1), max_size + 1 + 2 * ordered])

    def forward(self, code: Float[Tensor, "b *code"]) -> Float[Tensor, "b sizes"]:
        """The logarithms of the probabilities of all sizes."""
        whole = code.mean(dim=1) if code.dim() == 3 else code
        logits = self.logits(whole)
        if self.ordered:
            logits, centre, width = logits.split([self.max_size + 1, 1, 1], dim=-1)
            places = torch.linspace(0, 1, self.max_size + 1, device=logits.device, dtype=logits.dtype)
            # Begins as wide as a quarter of all sizes, about, around the middle; never narrower than one. Its
            # slopes get flatter far away, as those of a Gaussian would throw training off when it is narrow.
            narrowest = -math.log(max(self.max_size, 1))
            width = (narrowest + F.softplus(width + math.log(0.25) - narrowest)).exp()
            logits = logits - 2 * ((places - 0.5 - centre) / width).square().log1p()
        return logits.log_softmax(dim=-1)

    def loss(self, code: Float[Tensor, "b *code"], sizes: Int[Tensor, " b"]) -> Float[Tensor, ""]:
        """Mean of -log p(size | x)."""
        return F.nll_loss(self(code), sizes)

    @torch.no_grad()
    def sample(self, code: Float[Tensor, "b *code"], generator: torch.Generator) -> Int[Tensor, " b"]:
        """One size for each input."""
        return torch.multinomial(self(code).exp(), 1, generator=generator).squeeze(1)

    @torch.no_grad()
    def most_probable(self, code: Float[Tensor, "b *code"]) -> Int[Tensor, " b"]:
        """The most probable size for each input; of equal ones the smallest."""
        return self(code).argmax(dim=-1)


def first_rows(sizes: Int[Tensor, " b"], max_size: int) -> Bool[Tensor, "b n"]:
    """The presence of sets whose elements are their first rows."""
    return torch.arange(max_size, device=sizes.device) < sizes.unsqueeze(1)
