"""An energy that is a sum over the elements of a set network's outputs."""

from jaxtyping import Float
from torch import Tensor

from desp.energies.base import Prepared, SetEnergy
from desp.nn import SetNetwork
from desp.settings import AttentionSettings, PooledLayersSettings


class NetworkEnergy(SetEnergy):
    """A sum over elements of what a set network gives for each.

    Args:
        settings: of the network: pooled layers, or attention.
        channels: features of one row of a padded set.
        code_shape: shape of the code of one input, with sigma where it joins the code.
        known_presence: attention masks absent elements.
    """

    def __init__(
        self,
        settings: PooledLayersSettings | AttentionSettings,
        channels: int,
        code_shape: tuple[int, ...],
        *,
        known_presence: bool = False,
    ) -> None:
        super().__init__()
        self.network = SetNetwork(settings, channels, code_shape, known_presence=known_presence)

    def prepare(self, code: Float[Tensor, "b *code"], size: int) -> Prepared:
        """The code, and what the network derives from its weights."""
        return (code, *self.network.cache(size))

    def energy(
        self, code: Float[Tensor, "b *code"], y: Float[Tensor, "b n c"], *cache: Tensor
    ) -> Float[Tensor, " b"]:
        """The energy of padded sets for encoded inputs."""
        return self.network(code, y, cache).sum(dim=(1, 2))
