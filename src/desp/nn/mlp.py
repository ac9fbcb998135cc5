"""An MLP with LeakyReLU and its pullback, and initial weights."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from desp.settings import Initialisation

NEGATIVE_SLOPE = 0.01

Pullback = Callable[[Tensor], Tensor]
"""A vector-Jacobian product: from gradients in a function's output to gradients in its input."""


class MLP(nn.Module):
    """Linear layers with LeakyReLU between them and nothing after the last.

    Args:
        widths: features in, of every hidden layer, and out: ``[7, 256, 256]`` has two layers.
        negative_slope: of the LeakyReLU; 0 makes it a ReLU.

    Weights keep torch's default initialisation, which produced the paper's results.
    """

    def __init__(self, widths: Sequence[int], negative_slope: float = NEGATIVE_SLOPE) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        layers: list[nn.Module] = []
        for index, (before, after) in enumerate(pairwise(widths)):
            if index > 0:
                layers.append(nn.LeakyReLU(negative_slope))
            layers.append(nn.Linear(before, after))
        self.layers = nn.Sequential(*layers)

    def forward(self, values: Float[Tensor, "*batch i"]) -> Float[Tensor, "*batch o"]:
        """Apply the layers to the last dimension."""
        return self.layers(values)

    @property
    def linears(self) -> list[nn.Linear]:
        """The linear layers, in order."""
        return [layer for layer in self.layers if isinstance(layer, nn.Linear)]

    def after_first(
        self, first: Float[Tensor, "*batch h"], layers: int | None = None
    ) -> tuple[Float[Tensor, "*batch o"], Pullback]:
        """What follows the first linear layer, with its pullback written out: a gradient needs no autograd.

        Args:
            first: output of the first linear layer; it is overwritten.
            layers: stop after this many linear layers, and their activations; all of them if not given.

        Returns:
            The output, and the pullback from gradients in it to gradients in `first`.
        """
        linears, values, active = self.linears, first, []
        wanted = len(linears) if layers is None else layers
        for layer in linears[1:wanted]:
            active.append(F.leaky_relu(values, self.negative_slope, inplace=True))
            values = layer(active[-1])
        if wanted < len(linears):
            values = F.leaky_relu(values, self.negative_slope, inplace=True)

        def pull(gradient: Tensor) -> Tensor:
            if wanted < len(linears):
                gradient = leaky_relu_pullback(gradient, values, self.negative_slope)
            for layer, after in zip(reversed(linears[1:wanted]), reversed(active), strict=True):
                gradient = leaky_relu_pullback(gradient @ layer.weight, after, self.negative_slope)
            return gradient

        return values, pull


def leaky_relu_pullback(gradient: Tensor, after: Tensor, negative_slope: float) -> Tensor:
    """From a gradient in a LeakyReLU's output to one in its input, given that output."""
    return torch.ops.aten.leaky_relu_backward(gradient, after, negative_slope, True)


def initialise(network: nn.Module, kind: Initialisation) -> None:
    """Draw the initial weights of all linear and convolutional layers anew; ``default`` leaves torch's own."""
    if kind == "default":
        return
    for layer in network.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


# Products with so few features are sums that a compiler fuses with what surrounds them.
FEW = 8


def narrow_linear(values: Float[Tensor, "*batch i"], weight: Float[Tensor, "o i"]) -> Float[Tensor, "*batch o"]:
    """``F.linear`` for few input features, such as an element's coordinates, as a sum of products."""
    if not 0 < weight.shape[1] <= FEW:
        return F.linear(values, weight)
    parts = [values[..., k : k + 1] * weight[:, k] for k in range(weight.shape[1])]
    return sum(parts[1:], parts[0])


def narrow_linear_pullback(
    gradient: Float[Tensor, "*batch o"], weight: Float[Tensor, "o i"], *, fused: bool
) -> Float[Tensor, "*batch i"]:
    """The pullback of `narrow_linear`; as a matrix product unless `fused`."""
    if not fused or not 0 < weight.shape[1] <= FEW:
        return gradient @ weight
    return torch.stack([(gradient * weight[:, k]).sum(dim=-1) for k in range(weight.shape[1])], dim=-1)
