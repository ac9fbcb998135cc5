"""Diffusion of boxes in an image that is read where the boxes are."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from desp.boxes import corners_to_centres
from desp.constants import constant
from desp.methods.base import MethodParts
from desp.methods.boxes import require_boxes
from desp.methods.denoising import Diffusion, NetworkField
from desp.nn import SIGMA_FEATURES
from desp.nn.box_network import BoxNetwork
from desp.nn.centre_head import CentreHead
from desp.nn.pyramid import require_pyramid
from desp.randomness import make_generator
from desp.samplers.diffusion import to_symmetric
from desp.sets import presence_mask
from desp.settings import BoxDenoiserSettings

# Noise levels of the energy, each twice the one before; on CLEVR from about one pixel to half of a typical box.
ENERGY_SIGMAS = (0.03, 0.06, 0.12, 0.24)
DENOISED_AT_ONCE = 512


class BoxDenoiser(Diffusion):
    """A denoiser whose boxes read the image's features inside and around themselves.

    A single code vector does not localise to the pixel; what is read at a noisy box says how to move it. The
    energy is the error of denoising, summed over noise levels.

    Raises:
        SettingsError: the encoder is no pyramid, or elements are no boxes.
    """

    settings: BoxDenoiserSettings

    def _make_field(self, parts: MethodParts) -> None:
        settings, (*locations, features) = self.settings, parts.code_shape
        own_shape = *locations, features - SIGMA_FEATURES
        shapes = require_pyramid(own_shape, parts.shape.input_shape, settings.kind)
        require_boxes(parts.shape)
        self.centres = CentreHead(own_shape[1], settings.hidden, shapes)
        network = BoxNetwork(
            settings,
            parts.set_shape[1],
            parts.code_shape,
            shapes,
            parts.shape.scaling,
            known_presence=self.known_presence,
        )
        self.field = NetworkField(network)

    def auxiliary_losses(self, code: Tensor, y: Tensor) -> dict[str, Tensor]:
        """A detector's loss."""
        boxes = corners_to_centres(self.shape.scaling.unscale(y[..., :-1])[..., :4])
        focal, error = self.centres.loss(code, boxes, presence_mask(y))
        return {"centre_loss": self.settings.centre_weight * (focal + error)}

    def energy_batch(self, code: Tensor, y: Float[Tensor, "b n c"]) -> Float[Tensor, " b"]:
        """How far denoising leads away from sets: |denoised - set|^2 / (2 sigma^2), summed over noise levels.

        Times 2 d log sigma it approximates the variational bound of -log p between these levels (Kingma et al.
        2021): the energy is that bound up to a positive factor, and a constant for each input and cardinality. The
        noise is always the same, and belongs to the ranks of elements from left to right, those in one place
        ranked by their other features, so that their order does not count.
        """
        shape = (len(ENERGY_SIGMAS), *self.set_shape)
        noises = torch.randn(shape, generator=make_generator("box energy"), dtype=torch.float64).to(y)
        sigmas = constant(ENERGY_SIGMAS, y.device, y.dtype)
        # Few sets are denoised at all levels at once: launches take longer than what they compute.
        levels = max(1, DENOISED_AT_ONCE // max(1, len(y)))
        parts = zip(sigmas.split(levels), noises.split(levels), strict=True)
        return torch.stack([self._error(code, y, *part) for part in parts]).sum(dim=0)

    def _error(
        self,
        code: Tensor,
        y: Float[Tensor, "b n c"],
        sigmas: Float[Tensor, " levels"],
        noises: Float[Tensor, "levels n c"],
    ) -> Float[Tensor, " b"]:
        """The error of denoising as in `energy_batch`, summed over these noise levels."""
        levels = len(sigmas)
        code, several = (item.repeat(levels, *(1,) * (item.dim() - 1)) for item in (code, y))
        flow, clean, sigma = self._flow(code, several), to_symmetric(several), sigmas.repeat_interleave(len(y))
        noise = noises[:, _ranks(y)].flatten(0, 1)
        _, denoised = flow.denoise(clean + sigma.view(-1, 1, 1) * noise * flow.mask, sigma)
        errors = ((denoised - clean) * flow.mask).square().sum(dim=(1, 2)) / (2 * sigma.square())
        return errors.unflatten(0, (levels, -1)).sum(dim=0)


def _ranks(y: Float[Tensor, "b n c"]) -> Int[Tensor, "b n"]:
    """The rank of each element by its first feature, then by the second, and so on; absent ones follow."""
    keys = torch.cat([(~presence_mask(y)).unsqueeze(-1).to(y.dtype), y], dim=-1)
    order = torch.arange(y.shape[1], device=y.device).expand(y.shape[:2])
    for key in keys.flip(-1).unbind(-1):  # the most important key is the last one, as sorts are stable
        order = order.gather(1, key.gather(1, order).argsort(dim=1, stable=True))
    return order.argsort(dim=1)
