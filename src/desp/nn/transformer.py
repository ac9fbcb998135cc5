"""A transformer without positions, from a code and random points to the elements of a set."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from desp.nn.attention import SelfAttention
from desp.settings import TSPNSettings


class TransformerDecoder(nn.Module):
    """Random points, each joined to the code, become elements by attending to each other.

    The decoder of the transformer set prediction network (Kosiorek et al. 2020). Nothing tells elements apart but
    the points they start from, so a permutation of those permutes the elements and changes nothing else.

    Args:
        code_features: H of the codes (B, H).
        features: D of an element, and of a point.
        settings: widths, heads, depth.
    """

    def __init__(self, code_features: int, features: int, settings: TSPNSettings) -> None:
        super().__init__()
        hidden = settings.hidden
        self.mean = nn.Parameter(torch.zeros(features))
        self.log_deviation = nn.Parameter(torch.zeros(features))
        self.join = nn.Linear(code_features + features, hidden)
        blocks = (_TransformerBlock(hidden, settings.heads, settings.feedforward) for _ in range(settings.layers))
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(hidden)
        self.out = nn.Linear(hidden, features)

    def forward(
        self, code: Float[Tensor, "b h"], noise: Float[Tensor, "b n d"], presence: Bool[Tensor, "b n"]
    ) -> Float[Tensor, "b n d"]:
        """The elements of sets; absent ones are zero and are masked in attention.

        Args:
            code: of the inputs.
            noise: unit normal numbers, which become points of the learned normal distribution.
            presence: which elements there are.
        """
        points = self.mean + self.log_deviation.exp() * noise
        joined = torch.cat([code.unsqueeze(1).expand(-1, noise.shape[1], -1), points], dim=-1)
        values = self.join(joined)
        # An empty set attends to everything: a softmax over nothing is NaN, and its rows are zeroed in the end.
        mask = presence | ~presence.any(dim=1, keepdim=True)
        for block in self.blocks:
            values = block(values, mask)
        return self.out(self.norm(values)).masked_fill(~presence.unsqueeze(-1), 0.0)


class _TransformerBlock(nn.Module):
    """A pre-norm transformer block: self-attention and a feed-forward network, each with a residual connection.

    Normalised first, it trains at a constant learning rate without a warm-up (Xiong et al. 2020).

    Args:
        hidden: features of an element.
        heads: among which features are divided.
        feedforward: width of the layer between.
    """

    def __init__(self, hidden: int, heads: int, feedforward: int) -> None:
        super().__init__()
        self.before_attention, self.before_layers = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.attention = SelfAttention(hidden, heads)
        self.widen, self.narrow = nn.Linear(hidden, feedforward), nn.Linear(feedforward, hidden)

    def forward(self, values: Float[Tensor, "b n h"], mask: Bool[Tensor, "b n"]) -> Float[Tensor, "b n h"]:
        """The elements' new features; only `mask` ones are attended to, at least one in each set."""
        values = values + self.attention(self.before_attention(values), mask)
        return values + self.narrow(F.relu(self.widen(self.before_layers(values))))
