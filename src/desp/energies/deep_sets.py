"""E_DS, the Deep Sets energy (equation 8)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from desp.energies.base import SetEnergy, Tables
from desp.nn import MLP, make_pool
from desp.settings import DeepSetsSettings


class DeepSetsEnergy(SetEnergy):
    """f(pool of g([h(x); y]) over elements), then the squared norm under a learned triangular matrix.

    The last step is not in the paper but in its code; it keeps the energy non-negative.

    Args:
        channels: features of one row of a padded set.
        code_features: features of h(x).
        settings: widths, depths, pooling.
        input_encoder: h(x); codes of shape (B, H) are joined to every element, (B, N, H) to their own.
    """

    def __init__(
        self, channels: int, code_features: int, settings: DeepSetsSettings, input_encoder: nn.Module
    ) -> None:
        super().__init__(input_encoder)
        hidden = settings.hidden
        self.element_mlp = MLP([channels + code_features, *[hidden] * settings.element_layers])
        self.pool = make_pool(settings.pooling, hidden)
        self.set_mlp = MLP([hidden] * (settings.set_layers + 1))
        self.lower = nn.Parameter(torch.empty(hidden, hidden))
        nn.init.kaiming_normal_(self.lower)
        self.divide_by_size = settings.divide_by_size

    def tables(self, size: int) -> Tables:
        """Pooling weights and the triangular matrix."""
        return (*self.pool.tables(size), self.lower.tril())

    def score(
        self, code: Float[Tensor, "b *code"], y: Float[Tensor, "b n c"], tables: Tables | None = None
    ) -> Float[Tensor, " b"]:
        """The energy of padded sets for encoded inputs."""
        *pool_tables, lower = self.tables(y.shape[1]) if tables is None else tables
        if code.dim() == 2:
            code = code.unsqueeze(1).expand(-1, y.shape[1], -1)
        values = self.element_mlp(torch.cat([code, y], dim=-1))
        if self.divide_by_size:
            values = values / max(y.shape[1], 1)
        pooled = self.pool(values, tables=tuple(pool_tables))
        return (self.set_mlp(pooled) @ lower).square().sum(dim=-1)
