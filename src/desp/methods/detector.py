"""A plain detector of boxes: what people would use where one answer is right."""

import torch
from jaxtyping import Float
from torch import Tensor

from desp.errors import SettingsError
from desp.methods.base import Method, MethodParts
from desp.nn.centre_head import CentreHead
from desp.nn.pyramid import level_shapes
from desp.samplers import ChainInfo, Record
from desp.sets import present
from desp.settings import DetectorSettings, SamplerSettings


class Detector(Method):
    """Centres of boxes as peaks of a heat map, with an offset and a size at each.

    The value of a peak is the presence of its box, so all `max_size` highest peaks are detections, ranked by it.

    Raises:
        SettingsError: the encoder is no pyramid.
    """

    def __init__(self, settings: DetectorSettings, parts: MethodParts) -> None:
        super().__init__(parts)
        self.settings = settings
        shapes = level_shapes(*parts.shape.input_shape[1:])
        places = sum(rows * columns for rows, columns in shapes)
        if len(parts.code_shape) != 2 or parts.code_shape[0] != places:
            raise SettingsError(
                f"The detector needs the encoder 'pyramid', which gives {places} places; this one gives shape "
                f"{parts.code_shape} for one input."
            )
        self.head = CentreHead(parts.code_shape[1], settings.hidden, shapes)

    def forward(
        self, x: Float[Tensor, "b *input"], y: Float[Tensor, "b n c"], generator: torch.Generator
    ) -> tuple[Float[Tensor, ""], dict[str, Tensor]]:
        """Loss of the heat map, and of the boxes at true centres."""
        del generator
        boxes = self.shape.scaling.unscale(y[..., :-1])
        focal, error = self.head.loss(self.encode(x), boxes, present(y))
        return focal + self.settings.box_weight * error, {"focal_loss": focal.detach(), "box_loss": error.detach()}

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
        return torch.cat([self.shape.scaling.scale(boxes), scores.unsqueeze(-1)], dim=-1), ChainInfo()
