"""What an energy is."""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

Prepared = tuple[Tensor, ...]
"""What `SetField.prepare` gives: the code, then tensors that follow from it and the weights."""


class SetField(nn.Module, ABC):
    """What samplers follow: a vector field over padded sets, and its energy where it is the gradient of one.

    Attributes:
        conservative: whether the field is the gradient of an energy; else values are NaN.
    """

    conservative: bool = True

    @abstractmethod
    def prepare(self, code: Float[Tensor, "b *code"], size: int) -> Prepared:
        """All that stays the same over a chain of sets of `size` rows: what `value_and_gradient` takes."""

    @abstractmethod
    def value_and_gradient(
        self, y: Float[Tensor, "b n c"], prepared: Prepared, *, fused: bool = False
    ) -> tuple[Float[Tensor, " b"], Float[Tensor, "b n c"]]:
        """The energy of each padded set, and its gradient in that set.

        Where autograd is on, both can be differentiated once more.

        Args:
            y: padded sets.
            prepared: from `prepare`.
            fused: true where matrix products round their factors (to bfloat16 anywhere, to tf32 on GPUs). Products
                with an element's few features are then float32 sums, as rounding would cost more there than it
                saves, and kernels for several layers at once may be used. In full precision it stays off: sums in
                another order give FSPool other ranks where values are nearly equal.
        """


class SetEnergy(SetField):
    """E(x, Y) of equation 1, in parts, so that a chain repeats only what depends on its sets.

    A new energy needs `energy` alone. One that overrides `prepare` and `value_and_gradient` with its analytic
    gradient makes chains faster. Its settings build it: ``Energy(settings, channels, code_shape)``, where
    `channels` is the number of features of one row of a padded set, and `code_shape` the shape of the encoder's
    output for one input, (H,) or (N, H).
    """

    def encode(self, encoded: Float[Tensor, "b *code"]) -> Float[Tensor, "b *joined"]:
        """The code, from the encoder's output; an energy that encodes inputs itself overrides this."""
        return encoded

    def code_features(self, code_shape: tuple[int, ...]) -> int:
        """Length of the code that `encode` returns where the encoder's output for one input has `code_shape`."""
        return code_shape[-1]

    @abstractmethod
    def energy(self, code: Float[Tensor, "b *code"], y: Float[Tensor, "b n c"]) -> Float[Tensor, " b"]:
        """The energy of padded sets `y` for encoded inputs, twice differentiable in `y`."""

    def pairwise(self, code: Float[Tensor, "b *code"], y: Float[Tensor, "m n c"]) -> Float[Tensor, "b m"]:
        """The energy of every set for every input. An energy that compares codes encodes each set once, and
        overrides this."""
        codes, sets = code.repeat_interleave(len(y), dim=0), y.repeat(len(code), 1, 1)
        return self.energy(codes, sets).view(len(code), len(y))

    def prepare(self, code: Float[Tensor, "b *code"], size: int) -> Prepared:
        """The code. An energy may append tensors computed from its weights and the code; `energy` then receives
        them as further arguments after `y`, unless `value_and_gradient` is overridden, which then takes them
        itself."""
        del size
        return (code,)

    def value_and_gradient(
        self, y: Float[Tensor, "b n c"], prepared: Prepared, *, fused: bool = False
    ) -> tuple[Float[Tensor, " b"], Float[Tensor, "b n c"]]:
        """The energy and its gradient, by autograd."""
        del fused
        code, *cache = prepared
        if torch.compiler.is_compiling():
            return _traced_gradient(self, code, y, cache)
        differentiable = torch.is_grad_enabled()
        with torch.enable_grad():
            leaf = y if differentiable and y.requires_grad else y.detach().requires_grad_()
            values = self.energy(code, leaf, *cache)
            (gradient,) = torch.autograd.grad(values.sum(), leaf, create_graph=differentiable)
        return (values if differentiable else values.detach()), gradient

    def forward(self, code: Float[Tensor, "b *code"], y: Float[Tensor, "b n c"]) -> Float[Tensor, " b"]:
        """The energy of padded sets `y` for encoded inputs."""
        return self.energy(code, y)


def _traced_gradient(energy: SetEnergy, code: Tensor, y: Tensor, cache: list[Tensor]) -> tuple[Tensor, Tensor]:
    """By a function transform, which compiles as a whole where autograd.grad would break the graph."""

    def total(sets: Tensor) -> tuple[Tensor, Tensor]:
        values = energy.energy(code, sets, *cache)
        return values.sum(), values

    gradient, values = torch.func.grad(total, has_aux=True)(y)
    return values, gradient
