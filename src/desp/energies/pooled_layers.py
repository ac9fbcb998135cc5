"""An energy with several pooled layers and smooth activations."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from desp.energies.base import Tables
from desp.energies.layered import LayeredEnergy
from desp.nn import make_pool
from desp.settings import PooledLayersSettings, Pooling


class PooledLayersEnergy(LayeredEnergy):
    """Every layer pools anew and tells each element the result.

    E_DS pools once, so an element learns nothing of the others but through the pooled features' gradient.

    Args:
        channels: features of one row of a padded set.
        code_features: features of the code.
        settings: width, depth, pooling.
        input_encoder: h(x).
    """

    def __init__(
        self, channels: int, code_features: int, settings: PooledLayersSettings, input_encoder: nn.Module
    ) -> None:
        layers = (PooledLayer(settings.hidden, settings.pooling) for _ in range(settings.layers))
        super().__init__(channels, code_features, settings.hidden, layers, input_encoder)

    def through_layers(
        self,
        values: Float[Tensor, "b n h"],
        told: Float[Tensor, "b m h"],
        y: Float[Tensor, "b n c"],
        tables: Tables,
    ) -> Float[Tensor, "b n h"]:
        """One pooling after the other, each with its own tables."""
        del y
        each = len(tables) // len(self.layers)
        for index, layer in enumerate(self.layers):
            values = layer(values, told, tables[index * each : (index + 1) * each])
        return values

    def tables(self, size: int) -> Tables:
        """Pooling weights of all layers, one after the other."""
        layers = (layer for layer in self.layers if isinstance(layer, PooledLayer))
        return tuple(table for layer in layers for table in layer.pool.tables(size))


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
        self, values: Float[Tensor, "b n h"], told: Float[Tensor, "b m h"], tables: Tables
    ) -> Float[Tensor, "b n h"]:
        """The elements' new features; `told` is the code, for all (m = 1) or for each its own."""
        size = max(values.shape[1], 1)
        pooled = self.pool(F.silu(self.before_pool(values)), tables=tables) / size
        heard = self.from_set(pooled).unsqueeze(1) + self.from_code(F.silu(told))
        return values + self.out(F.silu(self.from_element(F.silu(values)) + heard))
