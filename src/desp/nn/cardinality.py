"""How many elements a set has, from the code of its input."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from desp.nn.mlp import MLP

FEWEST_TO_CALIBRATE = 20
"""Of fewer examples, a single one that is unexpected would decide the temperature."""
HIGHEST_TEMPERATURE = 100.0
BISECTIONS = 50


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

    @torch.no_grad()
    def calibrate(self, code: Float[Tensor, "b *code"], sizes: Int[Tensor, " b"]) -> float:
        """Temperature scaling (Guo et al. 2017): divide the last layer by the temperature, at least 1, that
        minimises the mean -log p(n | x) of examples that were not trained on.

        Returns:
            The temperature; 1 if there are fewer examples than `FEWEST_TO_CALIBRATE`.
        """
        temperature = fitted_temperature(self(code), sizes) if len(sizes) >= FEWEST_TO_CALIBRATE else 1.0
        for values in self.logits.linears[-1].parameters():
            values.div_(temperature)
        return temperature


def fitted_temperature(logits: Float[Tensor, "b sizes"], sizes: Int[Tensor, " b"]) -> float:
    """The temperature, from 1 to `HIGHEST_TEMPERATURE`, with the smallest mean -log p(n) of logits divided by it.

    That is convex in the inverse temperature, so bisection finds where its derivative is zero: the mean of the
    expected logit less that of n.
    """
    logits = logits.detach().cpu().double()
    true = logits.gather(1, sizes.cpu().unsqueeze(1)).squeeze(1)

    def overconfident(inverse: float) -> bool:
        expected = ((inverse * logits).softmax(dim=1) * logits).sum(dim=1)
        return bool((expected - true).mean() > 0)

    low, high = 1 / HIGHEST_TEMPERATURE, 1.0
    if not overconfident(high):
        return 1.0
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if overconfident(middle) else (middle, high)
    return 1 / low
