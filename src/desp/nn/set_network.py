"""Networks from a set and a condition to an output for every element: the layers of energies and denoisers."""

from abc import ABC, abstractmethod
from collections.abc import Iterable

from jaxtyping import Bool, Float
from torch import Tensor, nn

Cache = tuple[Tensor, ...]
"""Tensors derived from the weights alone, such as a pooling's weight for every rank."""


class SetNetwork(nn.Module, ABC):
    """An embedding of every element, layers in which elements exchange information, and a head on every element.

    Denoising trains the gradient of an energy, so second derivatives count, of which a LeakyReLU has none:
    activations are SiLU.

    Args:
        element_features: length of an element's embedding.
        code_features: features of the code; codes (B, H) condition every element, (B, N, H) each its own.
        hidden: width of all layers.
        layers: from features of elements (B, N, H) to new ones; made here, so that weights are drawn in order.
        outputs: numbers that the head gives for each element.
    """

    def __init__(
        self,
        element_features: int,
        code_features: int,
        hidden: int,
        layers: Iterable[nn.Module],
        outputs: int = 1,
    ) -> None:
        super().__init__()
        self.from_code = nn.Sequential(nn.Linear(code_features, hidden), nn.SiLU(), nn.Linear(hidden, hidden))
        self.from_element = nn.Linear(element_features, hidden)
        self.layers = nn.ModuleList(layers)
        # No offset at the end: only gradients are trained, and processes wait for those of every weight.
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, outputs, bias=False))

    def forward(
        self, code: Float[Tensor, "b *code"], y: Float[Tensor, "b n c"], cache: Cache | None = None
    ) -> Float[Tensor, "b n o"]:
        """The head's output for each element; zero where it is masked."""
        condition = self.from_code(code)
        if condition.dim() == 2:
            condition = condition.unsqueeze(1)
        values = self.from_element(self.embed(y)) + condition
        cache = self.cache(y.shape[1]) if cache is None else cache
        mask = self.mask(y)
        ends = self.head(self.apply_layers(values, condition, y, cache))
        return ends if mask is None else ends.masked_fill(~mask.unsqueeze(-1), 0.0)

    def cache(self, size: int) -> Cache:
        """What depends on the weights and the padded set size alone."""
        del size
        return ()

    def mask(self, y: Float[Tensor, "b n c"]) -> Bool[Tensor, "b n"] | None:
        """Which elements there are, where that is known; None: all may be."""
        del y
        return None

    def embed(self, y: Float[Tensor, "b n c"]) -> Float[Tensor, "b n f"]:
        """The features of each element that enter the first layer."""
        return y

    @abstractmethod
    def apply_layers(
        self,
        values: Float[Tensor, "b n h"],
        condition: Float[Tensor, "b m h"],
        y: Float[Tensor, "b n c"],
        cache: Cache,
    ) -> Float[Tensor, "b n h"]:
        """The elements' features after all layers.

        Args:
            values: the elements' features before them.
            condition: the projected code, for all elements (m = 1) or for each its own.
            y: the sets themselves.
            cache: from `cache`.
        """
