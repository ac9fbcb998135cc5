"""The multi-layer perceptron of every network here."""

from collections.abc import Sequence
from itertools import pairwise

from jaxtyping import Float
from torch import Tensor, nn


class MLP(nn.Module):
    """Linear layers with LeakyReLU(0.01) between them and nothing after the last.

    Args:
        widths: features in, of every hidden layer, and out: ``[7, 256, 256]`` has two layers.

    Weights keep torch's default initialisation, which produced the paper's results.
    """

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for index, (before, after) in enumerate(pairwise(widths)):
            if index > 0:
                layers.append(nn.LeakyReLU(0.01))
            layers.append(nn.Linear(before, after))
        self.layers = nn.Sequential(*layers)

    def forward(self, values: Float[Tensor, "*batch i"]) -> Float[Tensor, "*batch o"]:
        """Apply the layers to the last dimension."""
        return self.layers(values)
