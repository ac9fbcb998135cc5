"""What an energy is."""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

Tables = tuple[Tensor, ...]
"""Tensors derived from the weights alone, such as a pooling's weight for every rank."""


class SetEnergy(nn.Module, ABC):
    """E(x, Y) of equation 1, in parts, so that a chain repeats only what depends on its sets.

    A new energy needs `score` alone; what has none, `value_and_gradient`. One that overrides `prepare` and
    `value_and_gradient` with its gradient written out makes chains faster.

    Args:
        input_encoder: h(x), any module from a batch of inputs to codes (B, H) or (B, N, H).

    Attributes:
        scores_sets: whether there is an energy. What has none gives moves of elements alone, and NaN as energies.
    """

    scores_sets: bool = True

    def __init__(self, input_encoder: nn.Module) -> None:
        super().__init__()
        self.input_encoder = input_encoder

    @property
    def ignores_absent(self) -> bool:
        """Whether rows of absent elements make no difference, so that they need not be there."""
        return False

    def encode(self, x: Float[Tensor, "b *input"]) -> Float[Tensor, "b *code"]:
        """h(x): the code of each input."""
        return self.input_encoder(x)

    def tables(self, size: int) -> Tables:
        """What depends on the weights and the padded set size alone; a chain computes it once."""
        del size
        return ()

    @abstractmethod
    def score(
        self, code: Float[Tensor, "b *code"], y: Float[Tensor, "b n c"], tables: Tables | None = None
    ) -> Float[Tensor, " b"]:
        """The energy of padded sets `y` for encoded inputs, twice differentiable in `y`.

        Args:
            code: h(x) from `encode`.
            y: padded sets.
            tables: from `tables`; computed here if not given.
        """

    def prepare(self, code: Float[Tensor, "b *code"], size: int) -> Tables:
        """All that stays the same over a chain of sets of `size` rows: what `value_and_gradient` takes."""
        return (code, *self.tables(size))

    def value_and_gradient(
        self, y: Float[Tensor, "b n c"], prepared: Tables, *, fused: bool = False
    ) -> tuple[Float[Tensor, " b"], Float[Tensor, "b n c"]]:
        """The energy of each padded set, and its gradient in that set.

        Where autograd is on, both can be differentiated once more.

        Args:
            y: padded sets.
            prepared: from `prepare`.
            fused: give up the plain order of additions for fewer passes. FSPool turns rounding into other ranks
                where values are nearly equal, so this is for products that are rounded anyway (tf32).
        """
        del fused
        code, *tables = prepared
        if torch.compiler.is_compiling():
            return _traced_gradient(self, code, y, tuple(tables))
        again = torch.is_grad_enabled()
        with torch.enable_grad():
            leaf = y if again and y.requires_grad else y.detach().requires_grad_()
            values = self.score(code, leaf, tuple(tables))
            (slope,) = torch.autograd.grad(values.sum(), leaf, create_graph=again)
        return (values if again else values.detach()), slope

    def forward(self, x: Float[Tensor, "b *input"], y: Float[Tensor, "b n c"]) -> Float[Tensor, " b"]:
        """The energy of padded sets `y` for inputs `x`."""
        return self.score(self.encode(x), y)


def _traced_gradient(energy: SetEnergy, code: Tensor, y: Tensor, tables: Tables) -> tuple[Tensor, Tensor]:
    """By a function transform, which compiles as a whole where autograd.grad would break the graph."""

    def total(sets: Tensor) -> tuple[Tensor, Tensor]:
        values = energy.score(code, sets, tables)
        return values.sum(), values

    slope, values = torch.func.grad(total, has_aux=True)(y)
    return values, slope
