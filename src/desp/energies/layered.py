"""Energies that are a sum over the elements of a set network's outputs."""

from jaxtyping import Float
from torch import Tensor

from desp.energies.base import SetEnergy
from desp.nn import AttentionNetwork, Cache, PooledNetwork, SetNetwork
from desp.settings import AttentionSettings, PooledLayersSettings


class LayeredEnergy(SetEnergy):
    """A sum over elements of what a network gives for each.

    Args:
        network: one output for each element.
    """

    def __init__(self, network: SetNetwork) -> None:
        super().__init__()
        self.network = network

    def cache(self, size: int) -> Cache:
        """The network's."""
        return self.network.cache(size)

    def energy(
        self, code: Float[Tensor, "b *code"], y: Float[Tensor, "b n c"], cache: Cache | None = None
    ) -> Float[Tensor, " b"]:
        """The energy of padded sets for encoded inputs."""
        return self.network(code, y, cache).sum(dim=(1, 2))


def pooled_layers(settings: PooledLayersSettings, channels: int, code_shape: tuple[int, ...]) -> LayeredEnergy:
    """An energy of pooled layers."""
    return LayeredEnergy(PooledNetwork(settings, channels, code_shape))


def attention(
    settings: AttentionSettings, channels: int, code_shape: tuple[int, ...], *, known_presence: bool = False
) -> LayeredEnergy:
    """An energy of attention layers, which mask absent elements where presence is known."""
    return LayeredEnergy(AttentionNetwork(settings, channels, code_shape, known_presence=known_presence))
