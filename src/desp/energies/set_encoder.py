"""E_SE, the set encoder energy (equation 9)."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from desp.energies.base import SetEnergy, Tables
from desp.nn import SetEncoder, initialise
from desp.settings import SetEncoderSettings


def code_distance(set_code: Float[Tensor, "b h"], code: Float[Tensor, "b h"]) -> Float[Tensor, " b"]:
    """Equation 9: the Huber distance of two codes, mean over their numbers."""
    return F.smooth_l1_loss(set_code, code, beta=1.0, reduction="none").mean(dim=-1)


class SetEncoderEnergy(SetEnergy):
    """Huber distance between the set's code g(Y) and the input's code h(x), mean over latent features.

    Args:
        channels: features of one row of a padded set.
        settings: widths, depth, length of the code.
        input_encoder: h(x), from inputs to codes (B, latent); where the set encoder is shared, from inputs to
            padded sets, which it then encodes.
    """

    def __init__(self, channels: int, settings: SetEncoderSettings, input_encoder: nn.Module) -> None:
        super().__init__(input_encoder)
        self.set_encoder = SetEncoder(
            channels,
            settings.hidden,
            settings.latent,
            settings.layers,
            settings.pooling,
            settings.divide_by_size,
            settings.negative_slope,
        )
        initialise(self.set_encoder, settings.initialisation)
        self.shared = settings.shared

    def encode(self, x: Float[Tensor, "b *input"]) -> Float[Tensor, "b *code"]:
        """h(x), or g of the input where that is a set like those to predict."""
        code = self.input_encoder(x)
        return self.set_encoder(code) if self.shared else code

    def tables(self, size: int) -> Tables:
        """Pooling weights."""
        return self.set_encoder.pool.tables(size)

    def score(
        self, code: Float[Tensor, "b *code"], y: Float[Tensor, "b n c"], tables: Tables | None = None
    ) -> Float[Tensor, " b"]:
        """The energy of padded sets for encoded inputs."""
        set_code = self.set_encoder(y, tables=tables)
        return code_distance(set_code, code)

    def prepare(self, code: Float[Tensor, "b *code"], size: int) -> Tables:
        """The code, and what the set encoder derives from its weights."""
        return (code, *self.set_encoder.prepare(len(code), size))

    def value_and_gradient(
        self, y: Float[Tensor, "b n c"], prepared: Tables, *, fused: bool = False
    ) -> tuple[Float[Tensor, " b"], Float[Tensor, "b n c"]]:
        """The energy and its gradient, written out: the Huber distance has the clamped difference as slope."""
        code, *of_encoder = prepared
        set_code, pull = self.set_encoder.with_pullback(y, tuple(of_encoder), fused=fused)
        slope = (set_code - code).clamp(-1, 1) / code.shape[-1]
        return code_distance(set_code, code), pull(slope)
