"""Networks from a set and a condition to an output for every element: in energies, denoisers and engression."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from desp.nn.attention import SelfAttention, squared_distances
from desp.nn.fourier import fourier_length, with_fourier_features
from desp.nn.pooling import Cache, make_pool
from desp.settings import AttentionSettings, PooledLayersSettings, Pooling

# Cardinality enters as its logarithm, which for sets of some fifty elements is then about 1.
LOG_CARDINALITY_SCALE = 4


class ElementNetwork(nn.Module, ABC):
    """Permutation-equivariant: from codes and padded sets to an output for every element."""

    @abstractmethod
    def forward(
        self, code: Float[Tensor, "b *code"], y: Float[Tensor, "b n c"], cache: Cache = ()
    ) -> Float[Tensor, "b n o"]:
        """The outputs; zero for elements that are masked."""

    def cache(self, size: int) -> Cache:
        """What follows from the weights alone, for sets of `size` rows; nothing, unless overridden."""
        del size
        return ()


class SetNetwork(ElementNetwork):
    """An embedding of every element, layers in which elements may exchange information, and a head on each.

    Denoising trains the gradient of an energy, so second derivatives count. A LeakyReLU has none, so activations
    are SiLU.

    Args:
        settings: width, depth, and which layers. Pooled layers pool the set and broadcast the result to each
            element. Self-attention is for large sets with much local structure; its cost grows with the square of
            the set size. Without attention heads elements learn nothing of each other.
        channels: features of one row of a padded set.
        code_shape: shape of the code of one input, with sigma where it joins the code: (H,) conditions every
            element, (N, H) each its own.
        known_presence: the last feature is presence, above 0 for present elements alone, and carries no noise.
            Absent elements are masked then. For attention only.
        outputs: numbers that the head gives for each element.
    """

    def __init__(
        self,
        settings: PooledLayersSettings | AttentionSettings,
        channels: int,
        code_shape: tuple[int, ...],
        *,
        known_presence: bool = False,
        outputs: int = 1,
    ) -> None:
        super().__init__()
        hidden, self.known_presence = settings.hidden, known_presence
        attention = settings if isinstance(settings, AttentionSettings) else None
        self.frequencies = attention.fourier_frequencies if attention else 0
        self.independent = attention is not None and attention.heads == 0
        if self.independent and known_presence:
            channels -= 1
        from_code = nn.Linear(code_shape[-1], hidden), nn.SiLU(), nn.Linear(hidden, hidden)
        self.from_code = nn.Sequential(*from_code)
        self.from_element = nn.Linear(fourier_length(channels, self.frequencies), hidden)
        self.layers = nn.ModuleList(_make_layer(settings) for _ in range(settings.layers))
        # No bias: a constant added to an energy has no gradient, and DDP waits for gradients of all parameters.
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, outputs, bias=False))

    def forward(
        self, code: Float[Tensor, "b *code"], y: Float[Tensor, "b n c"], cache: Cache = ()
    ) -> Float[Tensor, "b n o"]:
        """The head's output for each element; zero where it is masked. `cache(N)` spares computing it again."""
        condition = self.from_code(code)
        if condition.dim() == 2:
            condition = condition.unsqueeze(1)
        mask = self.mask(y)
        values = self.from_element(self._embedded(y, mask)) + condition
        cache = cache or self.cache(y.shape[1])
        for layer, own in zip(self.layers, self._for_layers(y, mask, cache), strict=True):
            values = layer(values, condition, *own)
        ends = self.head(values)
        return ends if mask is None else ends.masked_fill(~mask.unsqueeze(-1), 0.0)

    def cache(self, size: int) -> Cache:
        """Pooling weights of all layers, one after the other, for sets of `size` rows."""
        layers = (layer for layer in self.layers if isinstance(layer, _PooledLayer))
        return tuple(table for layer in layers for table in layer.pool.cache(size))

    def mask(self, y: Float[Tensor, "b n c"]) -> Bool[Tensor, "b n"] | None:
        """Which elements there are, where that is known; None: all may be."""
        return y[..., -1] > 0 if self.known_presence else None

    def _embedded(self, y: Tensor, mask: Tensor | None) -> Float[Tensor, "b n f"]:
        """The features and their Fourier features. A known presence is left out; the cardinality takes its place
        unless elements are independent."""
        if mask is not None and self.independent:
            y = y[..., :-1]
        elif mask is not None:
            size = mask.sum(dim=1).to(y.dtype).log1p() / LOG_CARDINALITY_SCALE
            y = torch.cat([y[..., :-1], size.view(-1, 1, 1).expand(*y.shape[:2], 1)], dim=-1)
        return with_fourier_features(y, self.frequencies)

    def _for_layers(self, y: Tensor, mask: Tensor | None, cache: Cache) -> Sequence[tuple[Tensor | None, ...]]:
        """What each layer takes beside features and condition: its pooling weights, or whom to attend to and how
        far elements are apart, the same for all."""
        if self.independent:
            return [()] * len(self.layers)
        if isinstance(self.layers[0], _PooledLayer):
            each = len(cache) // len(self.layers)
            return [cache[index * each : (index + 1) * each] for index in range(len(self.layers))]
        distances = squared_distances(y if mask is None else y[..., :-1])
        if mask is not None:  # an empty set attends to all its rows, as a softmax over nothing is NaN
            mask = mask | ~mask.any(dim=1, keepdim=True)
        return [(mask, distances)] * len(self.layers)


def _make_layer(settings: PooledLayersSettings | AttentionSettings) -> nn.Module:
    if isinstance(settings, AttentionSettings):
        return _AttentionLayer(settings.hidden, settings.heads, settings.local_heads)
    return _PooledLayer(settings.hidden, settings.pooling)


class _PooledLayer(nn.Module):
    """Adds to every element what follows from itself, the code and the pooled set.

    E_DS pools once, so an element learns nothing of the others but through the pooled features' gradient.
    """

    def __init__(self, hidden: int, pooling: Pooling) -> None:
        super().__init__()
        self.before_pool = nn.Linear(hidden, hidden)
        self.pool = make_pool(pooling, hidden)
        self.from_set = nn.Linear(hidden, hidden)
        self.from_element = nn.Linear(hidden, hidden)
        self.from_code = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, hidden)

    def forward(
        self, values: Float[Tensor, "b n h"], condition: Float[Tensor, "b m h"], *cache: Tensor
    ) -> Float[Tensor, "b n h"]:
        """The elements' new features; `condition` is the projected code, for all (m = 1) or for each its own."""
        size = max(values.shape[1], 1)
        pooled = self.pool(F.silu(self.before_pool(values)), cache=cache) / size
        context = self.from_set(pooled).unsqueeze(1) + self.from_code(F.silu(condition))
        return values + self.out(F.silu(self.from_element(F.silu(values)) + context))


class _AttentionLayer(nn.Module):
    """Self-attention, if there are heads, and a feed-forward step, both modulated by the condition (adaptive layer
    norm)."""

    def __init__(self, hidden: int, heads: int, local_heads: bool) -> None:
        super().__init__()
        self.before_attention = nn.LayerNorm(hidden) if heads else None
        self.before_step = nn.LayerNorm(hidden)
        self.attention = SelfAttention(hidden, heads, local_heads=local_heads) if heads else None
        # Scale and shift start at the identity.
        self.from_code = nn.Linear(hidden, (4 if heads else 2) * hidden)
        nn.init.zeros_(self.from_code.weight)
        nn.init.zeros_(self.from_code.bias)
        # The feed-forward step; `before_step` is its norm.
        self.step_in, self.step_out = nn.Linear(hidden, 2 * hidden), nn.Linear(2 * hidden, hidden)

    def forward(
        self,
        values: Float[Tensor, "b n h"],
        condition: Float[Tensor, "b m h"],
        mask: Bool[Tensor, "b n"] | None = None,
        distances: Float[Tensor, "b n n"] | None = None,
    ) -> Float[Tensor, "b n h"]:
        """The elements' new features; `condition` is the projected code, for all (m = 1) or for each its own."""
        *modulation, ffn_scale, ffn_shift = self.from_code(F.silu(condition)).split(values.shape[-1], dim=-1)
        if self.attention is not None and self.before_attention is not None:
            scale, shift = modulation
            attention_input = torch.addcmul(shift, self.before_attention(values), 1 + scale)
            values = values + self.attention(attention_input, mask, distances)
        ffn_input = torch.addcmul(ffn_shift, self.before_step(values), 1 + ffn_scale)
        return values + self.step_out(F.silu(self.step_in(ffn_input)))
