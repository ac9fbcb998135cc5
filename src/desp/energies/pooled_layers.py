"""An energy with several pooled layers and smooth activations."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from desp.energies.base import SetEnergy, Tables
from desp.nn import make_pool
from desp.settings import PooledLayersSettings, Pooling


class PooledLayersEnergy(SetEnergy):
    """A sum over elements of what they are worth to the set, after they have heard of it several times.

    E_DS pools once, so an element learns nothing of the others but through the pooled features' gradient. Here
    every layer pools anew and tells each element the result. Denoising trains the energy's gradient, so second
    derivatives count, of which a LeakyReLU has none: activations are SiLU.

    Args:
        channels: features of one row of a padded set.
        code_features: features of the code.
        settings: width, depth, pooling.
        input_encoder: h(x); codes of shape (B, H) are told to every element, (B, N, H) to their own.
    """

    def __init__(
        self, channels: int, code_features: int, settings: PooledLayersSettings, input_encoder: nn.Module
    ) -> None:
        super().__init__(input_encoder)
        hidden = settings.hidden
        self.from_code = nn.Sequential(nn.Linear(code_features, hidden), nn.SiLU(), nn.Linear(hidden, hidden))
        self.from_element = nn.Linear(channels, hidden)
        self.layers = nn.ModuleList(PooledLayer(hidden, settings.pooling) for _ in range(settings.layers))
        # No offset at the end: only gradients are trained, and processes wait for those of every weight.
        self.worth = nn.Sequential(nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 1, bias=False))

    def score(
        self, code: Float[Tensor, "b *code"], y: Float[Tensor, "b n c"], tables: Tables | None = None
    ) -> Float[Tensor, " b"]:
        """The energy of padded sets for encoded inputs."""
        told = self.from_code(code)
        if told.dim() == 2:
            told = told.unsqueeze(1)
        values = self.from_element(y) + told
        tables = self.tables(y.shape[1]) if tables is None else tables
        each = len(tables) // len(self.layers)
        for index, layer in enumerate(self.layers):
            values = layer(values, told, tables[index * each : (index + 1) * each])
        return self.worth(values).sum(dim=(1, 2))

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
