"""Diffusion of boxes in an image that is read where the boxes are."""

from torch import Tensor

from desp.boxes import corners_to_centres
from desp.methods.base import MethodParts, require_boxes
from desp.methods.denoising import Diffusion, NetworkField
from desp.nn import SIGMA_FEATURES
from desp.nn.box_network import BoxNetwork
from desp.nn.centre_head import CentreHead
from desp.nn.pyramid import require_pyramid
from desp.sets import presence_mask
from desp.settings import BoxDenoiserSettings


class BoxDenoiser(Diffusion):
    """A denoiser whose boxes read the image's features inside and around themselves.

    One vector says little of where things are to a pixel; what is read at a noisy box says how to move it.

    Raises:
        SettingsError: the encoder is no pyramid, or elements are no boxes.
    """

    settings: BoxDenoiserSettings

    def _make_field(self, parts: MethodParts) -> None:
        settings, (*places, features) = self.settings, parts.code_shape
        own_shape = *places, features - SIGMA_FEATURES
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
