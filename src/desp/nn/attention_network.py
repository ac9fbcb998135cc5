"""Self-attention among elements."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from desp.nn.attention import SelfAttention, squared_distances
from desp.nn.fourier import fourier_length, with_fourier_features
from desp.nn.set_network import Cache, SetNetwork
from desp.settings import AttentionSettings

# Cardinality enters as its logarithm, which for sets of some fifty elements is then about 1.
LOG_OF_MANY = 4


class AttentionNetwork(SetNetwork):
    """Layers of self-attention among the elements.

    A pooling broadcasts the same to every element; attention lets each look at its neighbours, which is what large
    sets with much local structure need. Its cost grows with the square of the set size.

    Args:
        settings: width, depth, heads, Fourier features.
        channels: features of one row of a padded set.
        code_shape: of one input's code.
        known_presence: the last feature is presence, 1 or -1, and carries no noise. Absent elements are masked
            then.
        outputs: numbers that the head gives for each element.
    """

    def __init__(
        self,
        settings: AttentionSettings,
        channels: int,
        code_shape: tuple[int, ...],
        *,
        known_presence: bool = False,
        outputs: int = 1,
    ) -> None:
        layers = (AttentionLayer(settings.hidden, settings.heads) for _ in range(settings.layers))
        features = fourier_length(channels, settings.fourier_features)
        super().__init__(features, code_shape[-1], settings.hidden, layers, outputs)
        self.frequencies, self.known_presence = settings.fourier_features, known_presence

    def embed(self, y: Float[Tensor, "b n c"]) -> Float[Tensor, "b n f"]:
        """The features and their Fourier features; the cardinality takes the place of a known presence."""
        mask = self.mask(y)
        if mask is not None:
            size = mask.sum(dim=1).to(y.dtype).log1p() / LOG_OF_MANY
            y = torch.cat([y[..., :-1], size.view(-1, 1, 1).expand(*y.shape[:2], 1)], dim=-1)
        return with_fourier_features(y, self.frequencies)

    def mask(self, y: Float[Tensor, "b n c"]) -> Bool[Tensor, "b n"] | None:
        """Present elements, where they are known."""
        return y[..., -1] > 0 if self.known_presence else None

    def apply_layers(
        self,
        values: Float[Tensor, "b n h"],
        condition: Float[Tensor, "b m h"],
        y: Float[Tensor, "b n c"],
        cache: Cache,
    ) -> Float[Tensor, "b n h"]:
        """One attention layer after the other."""
        del cache
        mask = self.mask(y)
        distances = squared_distances(y if mask is None else y[..., :-1])
        if mask is not None:  # an empty set attends to all its rows, as a softmax over nothing is NaN
            mask = mask | ~mask.any(dim=1, keepdim=True)
        for layer in self.layers:
            values = layer(values, condition, mask, distances)
        return values


class AttentionLayer(nn.Module):
    """Self-attention and a feed-forward layer, both modulated by the condition (adaptive layer norm)."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.before_attention, self.before_step = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.attention = SelfAttention(hidden, heads, near=True)
        # Scale and shift start at the identity.
        self.from_code = nn.Linear(hidden, 4 * hidden)
        nn.init.zeros_(self.from_code.weight)
        nn.init.zeros_(self.from_code.bias)
        self.step_in, self.step_out = nn.Linear(hidden, 2 * hidden), nn.Linear(2 * hidden, hidden)

    def forward(
        self,
        values: Float[Tensor, "b n h"],
        condition: Float[Tensor, "b m h"],
        mask: Bool[Tensor, "b n"] | None,
        distances: Float[Tensor, "b n n"],
    ) -> Float[Tensor, "b n h"]:
        """The elements' new features; `condition` is the projected code, for all (m = 1) or for each its own."""
        factor, offset, step_factor, step_offset = self.from_code(F.silu(condition)).chunk(4, dim=-1)
        looking = torch.addcmul(offset, self.before_attention(values), 1 + factor)
        values = values + self.attention(looking, mask, distances)
        step = torch.addcmul(step_offset, self.before_step(values), 1 + step_factor)
        return values + self.step_out(F.silu(self.step_in(step)))
