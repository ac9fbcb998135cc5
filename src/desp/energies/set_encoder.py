"""E_SE, the set encoder energy (equation 9)."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from desp.energies.base import Prepared, SetEnergy
from desp.nn import SetEncoder
from desp.settings import SetEncoderEnergySettings


def code_distance(set_code: Float[Tensor, "b h"], code: Float[Tensor, "b h"]) -> Float[Tensor, " b"]:
    """Equation 9: the Huber distance of two codes, mean over their numbers."""
    return F.smooth_l1_loss(set_code, code, beta=1.0, reduction="none").mean(dim=-1)


class SetEncoderEnergy(SetEnergy):
    """Huber distance between the set's code g(Y) and the input's code h(x), mean over latent features.

    Args:
        settings: widths, depth, length of the code.
        channels: features of one row of a padded set.
        code_shape: shape of the encoder's output for one input: (latent,), or a padded set (N, channels) where the
            set encoder is shared.
    """

    def __init__(self, settings: SetEncoderEnergySettings, channels: int, code_shape: tuple[int, ...]) -> None:
        super().__init__()
        del code_shape  # checked by the settings
        self.set_encoder = SetEncoder(settings, channels)
        self.shared, self.latent = settings.shared, settings.latent

    def encode(self, encoded: Float[Tensor, "b *code"]) -> Float[Tensor, "b *joined"]:
        """h(x), or g of the input where that is a set like those to predict."""
        return self.set_encoder(encoded) if self.shared else encoded

    def code_features(self, code_shape: tuple[int, ...]) -> int:
        """The dimension of the latent space."""
        del code_shape
        return self.latent

    def energy(self, code: Float[Tensor, "b *code"], y: Float[Tensor, "b n c"]) -> Float[Tensor, " b"]:
        """The energy of padded sets for encoded inputs."""
        return code_distance(self.set_encoder(y), code)

    def pairwise(self, code: Float[Tensor, "b *code"], y: Float[Tensor, "m n c"]) -> Float[Tensor, "b m"]:
        """The energy of every set for every input."""
        sets = self.set_encoder(y).repeat(len(code), 1)
        return code_distance(sets, code.repeat_interleave(len(y), dim=0)).view(len(code), len(y))

    def prepare(self, code: Float[Tensor, "b *code"], size: int) -> Prepared:
        """The code, and what the set encoder derives from its weights."""
        return (code, *self.set_encoder.prepare(len(code), size))

    def value_and_gradient(
        self, y: Float[Tensor, "b n c"], prepared: Prepared, *, fused: bool = False
    ) -> tuple[Float[Tensor, " b"], Float[Tensor, "b n c"]]:
        """The energy and its gradient, written out: the Huber distance has the clamped difference as gradient."""
        code, *of_encoder = prepared
        set_code, pull = self.set_encoder.with_pullback(y, tuple(of_encoder), fused=fused)
        gradient = (set_code - code).clamp(-1, 1) / code.shape[-1]
        return code_distance(set_code, code), pull(gradient)
