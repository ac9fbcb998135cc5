"""Several pooled layers with smooth activations."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from desp.nn.pooling import make_pool
from desp.nn.set_network import Cache, SetNetwork
from desp.settings import PooledLayersSettings, Pooling


class PooledNetwork(SetNetwork):
    """Every layer pools the set and broadcasts the result to each element.

    E_DS pools once, so an element learns nothing of the others but through the pooled features' gradient.

    Args:
        settings: width, depth, pooling.
        channels: features of one row of a padded set.
        code_shape: of one input's code.
        outputs: numbers that the head gives for each element.
    """

    def __init__(
        self, settings: PooledLayersSettings, channels: int, code_shape: tuple[int, ...], outputs: int = 1
    ) -> None:
        layers = (PooledLayer(settings.hidden, settings.pooling) for _ in range(settings.layers))
        super().__init__(channels, code_shape[-1], settings.hidden, layers, outputs)

    def apply_layers(
        self,
        values: Float[Tensor, "b n h"],
        condition: Float[Tensor, "b m h"],
        y: Float[Tensor, "b n c"],
        cache: Cache,
    ) -> Float[Tensor, "b n h"]:
        """One pooling after the other, each with its own cache."""
        del y
        each = len(cache) // len(self.layers)
        for index, layer in enumerate(self.layers):
            values = layer(values, condition, cache[index * each : (index + 1) * each])
        return values

    def cache(self, size: int) -> Cache:
        """Pooling weights of all layers, one after the other."""
        layers = (layer for layer in self.layers if isinstance(layer, PooledLayer))
        return tuple(table for layer in layers for table in layer.pool.cache(size))


class PooledLayer(nn.Module):
    """Adds to every element what follows from itself, the code and the pooled set."""

    def __init__(self, hidden: int, pooling: Pooling) -> None:
        super().__init__()
        self.before_pool = nn.Linear(hidden, hidden)
        self.pool = make_pool(pooling, hidden)
        self.from_set = nn.Linear(hidden, hidden)
        self.from_element = nn.Linear(hidden, hidden)
        self.from_code = nn.Linear(hidden, hidden)
        self.out = nn.Linear(hidden, hidden)

    def forward(
        self, values: Float[Tensor, "b n h"], condition: Float[Tensor, "b m h"], cache: Cache
    ) -> Float[Tensor, "b n h"]:
        """The elements' new features; `condition` is the projected code, for all (m = 1) or for each its own."""
        size = max(values.shape[1], 1)
        pooled = self.pool(F.silu(self.before_pool(values)), cache=cache) / size
        context = self.from_set(pooled).unsqueeze(1) + self.from_code(F.silu(condition))
        return values + self.out(F.silu(self.from_element(F.silu(values)) + context))
