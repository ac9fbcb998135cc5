"""What energies made of layers on every element have in common."""

from abc import abstractmethod
from collections.abc import Iterable

from jaxtyping import Bool, Float
from torch import Tensor, nn

from desp.energies.base import SetEnergy, Tables


class LayeredEnergy(SetEnergy):
    """A sum over elements of what they are worth to the set, after layers in which they hear of it.

    Denoising trains the energy's gradient, so second derivatives count, of which a LeakyReLU has none: activations
    are SiLU.

    Args:
        element_features: numbers by which an element is described.
        code_features: features of the code.
        hidden: width of all layers.
        layers: from features of elements (B, N, H) to new ones; made here, so that weights are drawn in order.
        input_encoder: h(x); codes of shape (B, H) are told to every element, (B, N, H) to their own.
        outputs: numbers that layers end with for each element.
    """

    def __init__(
        self,
        element_features: int,
        code_features: int,
        hidden: int,
        layers: Iterable[nn.Module],
        input_encoder: nn.Module,
        outputs: int = 1,
    ) -> None:
        super().__init__(input_encoder)
        self.from_code = nn.Sequential(nn.Linear(code_features, hidden), nn.SiLU(), nn.Linear(hidden, hidden))
        self.from_element = nn.Linear(element_features, hidden)
        self.layers = nn.ModuleList(layers)
        # No offset at the end: only gradients are trained, and processes wait for those of every weight.
        self.worth = nn.Sequential(nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, outputs, bias=False))

    def score(
        self, code: Float[Tensor, "b *code"], y: Float[Tensor, "b n c"], tables: Tables | None = None
    ) -> Float[Tensor, " b"]:
        """The energy of padded sets for encoded inputs."""
        return self.of_elements(code, y, tables).sum(dim=(1, 2))

    def of_elements(
        self, code: Float[Tensor, "b *code"], y: Float[Tensor, "b n c"], tables: Tables | None = None
    ) -> Float[Tensor, "b n o"]:
        """What the layers end with for each element."""
        told = self.from_code(code)
        if told.dim() == 2:
            told = told.unsqueeze(1)
        values = self.from_element(self.described(y)) + told
        tables = self.tables(y.shape[1]) if tables is None else tables
        heard = self.heard(y)
        ends = self.worth(self.through_layers(values, told, y, tables))
        return ends if heard is None else ends.masked_fill(~heard.unsqueeze(-1), 0.0)

    def heard(self, y: Float[Tensor, "b n c"]) -> Bool[Tensor, "b n"] | None:
        """Which elements count, where that is known; the others might as well not be there."""
        del y
        return None

    def described(self, y: Float[Tensor, "b n c"]) -> Float[Tensor, "b n f"]:
        """The numbers by which elements are described."""
        return y

    @abstractmethod
    def through_layers(
        self,
        values: Float[Tensor, "b n h"],
        told: Float[Tensor, "b m h"],
        y: Float[Tensor, "b n c"],
        tables: Tables,
    ) -> Float[Tensor, "b n h"]:
        """The elements' features after all layers; `told` is the code, for all (m = 1) or for each its own.

        Args:
            values: the elements' features before them.
            told: what the code says.
            y: the sets themselves.
            tables: from `tables`.
        """
