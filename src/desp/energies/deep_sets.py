"""E_DS, the Deep Sets energy (equation 8)."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from desp.energies.base import Prepared, SetEnergy
from desp.nn import MLP, Pullback, make_pool, narrow_linear, narrow_linear_pullback
from desp.settings import DeepSetsSettings


class DeepSetsEnergy(SetEnergy):
    """f(pool of g([h(x); y]) over elements), then the squared norm under a learned triangular matrix.

    The last step is not in the paper but in its code; it keeps the energy non-negative.

    Args:
        settings: widths, depths, pooling.
        channels: features of one row of a padded set.
        code_shape: shape of the encoder's output for one input; (H,) joins every element, (N, H) each its own.
    """

    def __init__(self, settings: DeepSetsSettings, channels: int, code_shape: tuple[int, ...]) -> None:
        super().__init__()
        hidden = settings.hidden
        self.element_mlp = MLP([channels + code_shape[-1], *[hidden] * settings.element_layers])
        self.pool = make_pool(settings.pooling, hidden)
        self.set_mlp = MLP([hidden] * (settings.set_layers + 1))
        self.lower = nn.Parameter(torch.empty(hidden, hidden))
        nn.init.kaiming_normal_(self.lower)
        self.divide_by_size = settings.divide_by_size

    def energy(self, code: Float[Tensor, "b *code"], y: Float[Tensor, "b n c"]) -> Float[Tensor, " b"]:
        """The energy of padded sets for encoded inputs."""
        pooled = self.pool(self.element_mlp(self._joined(code, y))) / self._divisor(y.shape[1])
        return (self.set_mlp(pooled) @ self.lower.tril()).square().sum(dim=-1)

    def prepare(self, code: Float[Tensor, "b *code"], size: int) -> Prepared:
        """The code, its part of the first layer's output, the quadratic form that ends the energy, and pooling
        weights.

        With v the last hidden features, the energy is |v M + m|^2 for M = W^T L, m = b L, where W and b are the
        last layer's weight and bias: its gradient in v takes a single product, with 2 M M^T.
        """
        last, lower = self.set_mlp.linears[-1], self.lower.tril()
        matrix, shift = last.weight.T @ lower, last.bias @ lower
        linear = 2 * (matrix @ shift)
        quadratic, constant = 2 * matrix @ matrix.T, shift.square().sum()
        return (code, self._offset(code), quadratic, linear, constant, *self.pool.cache(size))

    def value_and_gradient(
        self, y: Float[Tensor, "b n c"], prepared: Prepared, *, fused: bool = False
    ) -> tuple[Float[Tensor, " b"], Float[Tensor, "b n c"]]:
        """The energy and its gradient, written out."""
        code, offset, quadratic, linear, constant, *pool_cache = prepared
        first = self.element_mlp.linears[0]
        to_first = first.weight[:, -y.shape[2] :]  # elements are joined behind the code
        values, pull_values = self.element_mlp.after_first(
            offset + narrow_linear(y, to_first) if fused else first(self._joined(code, y))
        )
        pooled, pull_pooled = self.pool.with_pullback(values, tuple(pool_cache))
        divisor = self._divisor(y.shape[1])
        hidden, pull_hidden = self._hidden(pooled / divisor)
        gradient = hidden @ quadratic + linear
        energies = (hidden * (gradient + linear)).sum(dim=-1) / 2 + constant
        pulled = pull_values(pull_pooled(pull_hidden(gradient) / divisor))
        return energies, narrow_linear_pullback(pulled, to_first, fused=fused)

    def _offset(self, code: Float[Tensor, "b *code"]) -> Float[Tensor, "b n h"]:
        """The code's part of the first layer's output, the same for all elements (n = 1) or for each its own."""
        if code.dim() == 2:
            code = code.unsqueeze(1)
        first = self.element_mlp.linears[0]
        return F.linear(code, first.weight[:, : code.shape[-1]], first.bias)

    @staticmethod
    def _joined(code: Float[Tensor, "b *code"], y: Float[Tensor, "b n c"]) -> Float[Tensor, "b n i"]:
        """The code in front of every element."""
        if code.dim() == 2:
            code = code.unsqueeze(1).expand(-1, y.shape[1], -1)
        return torch.cat([code, y], dim=-1)

    def _hidden(self, pooled: Float[Tensor, "b h"]) -> tuple[Float[Tensor, "b h"], Pullback]:
        """What the last layer of the set's network gets, with its pullback to the pooled features."""
        first, *others = self.set_mlp.linears
        if not others:
            return pooled, lambda gradient: gradient
        hidden, pull = self.set_mlp.after_first(first(pooled), layers=len(others))
        return hidden, lambda gradient: pull(gradient) @ first.weight

    def _divisor(self, size: int) -> int:
        """What pooled features of padded size N are divided by; for all poolings but softmax the same as dividing
        before pooling, as the released code does."""
        return max(size, 1) if self.divide_by_size else 1
