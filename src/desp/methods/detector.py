"""A plain detector of boxes: what people would use where one answer is right."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from desp.boxes import centres_to_corners, corners_to_centres
from desp.methods.base import Method, MethodParts
from desp.methods.boxes import require_boxes
from desp.nn.centre_head import CentreHead
from desp.nn.pyramid import require_pyramid
from desp.samplers import ChainInfo, Record
from desp.sets import presence_mask
from desp.settings import DetectorSettings, SamplerSettings, require_setting


class Detector(Method):
    """Centres of boxes as peaks of a heat map, with an offset and a size at each.

    The value of a peak is the presence of its box, so all `max_size` highest peaks are detections, ranked by it.

    Raises:
        SettingsError: the encoder is no pyramid, elements are not boxes alone, or images have fewer locations than
            sets have rows.
    """

    def __init__(self, settings: DetectorSettings, parts: MethodParts) -> None:
        super().__init__(parts)
        self.settings = settings
        shapes = require_pyramid(parts.code_shape, parts.shape.input_shape, settings.kind)
        require_boxes(parts.shape)
        features, locations = parts.shape.features, math.prod(shapes[0])
        require_setting(features == 4, "features", "4 for the method detector: elements are boxes alone", features)
        wanted = f"at most {locations}, the locations of the heat map"
        require_setting(parts.shape.max_size <= locations, "max_size", wanted, parts.shape.max_size)
        self.head = CentreHead(parts.code_shape[1], settings.hidden, shapes)

    def forward(
        self, x: Float[Tensor, "b *input"], y: Float[Tensor, "b n c"], generator: torch.Generator
    ) -> tuple[Float[Tensor, ""], dict[str, Tensor]]:
        """Loss of the heat map, and of the boxes at true centres."""
        del generator
        boxes = corners_to_centres(self.shape.scaling.unscale(y[..., :-1]))
        focal, error = self.head.loss(self.encode(x), boxes, presence_mask(y))
        return focal + error, {"focal_loss": focal.detach(), "box_loss": error.detach()}

    def sample_batch(
        self,
        code: Tensor,
        generator: torch.Generator,
        sampler: SamplerSettings | None,
        record: Record,
        presence: Tensor | None,
    ) -> tuple[Tensor, ChainInfo]:
        """The boxes at the highest peaks, whose values are their presence."""
        del generator, sampler, record, presence
        boxes, scores = self.head.peaks(code, self.shape.max_size)
        return torch.cat(
            [self.shape.scaling.scale(centres_to_corners(boxes)), scores.unsqueeze(-1)], dim=-1
        ), ChainInfo()
