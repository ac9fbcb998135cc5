"""Generated CLEVR scenes as images with sets."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from desp.data.base import Batch
from desp.data.clevr import ImageTable, elements_of
from desp.data.clevr_boxes import MAX_OBJECTS, formula_boxes, scene_state
from desp.data.clevr_render import generate
from desp.data.clevr_scenes import Scenes
from desp.sets import prefix_mask
from desp.settings import ClevrTarget


@dataclass(frozen=True)
class GeneratedTable:
    """M generated images with their sets, and what is known of them beside.

    Attributes:
        table: boxes are those of the published formula.
        exact_boxes: (M, N, 4) of whole objects, hidden parts included.
        visible: (M, N) share of each object's area that is not hidden.
    """

    table: ImageTable
    exact_boxes: Float[Tensor, "m n 4"]
    visible: Float[Tensor, "m n"]

    def first_hidden(self, most_visible: float) -> int | None:
        """The first image with an object whose visible share is at most `most_visible`; None if there is none."""
        there = prefix_mask(self.table.sizes, self.visible.shape[1])
        found = ((self.visible <= most_visible) & there).any(dim=1).nonzero()
        return int(found[0]) if len(found) else None

    def to(self, device: torch.device | str) -> "GeneratedTable":
        """Move all tensors to `device`."""
        return GeneratedTable(self.table.to(device), self.exact_boxes.to(device), self.visible.to(device))


def draw_images(batch_size: int, generator: torch.Generator, target: ClevrTarget) -> Batch:
    """Fresh scenes, rendered on the generator's device; boxes are those of the published formula.

    No shape depends on what is drawn, so a CUDA graph can capture it.
    """
    scenes, rendering = generate(batch_size, generator)
    elements = elements_of(boxes_of(scenes), states_of(scenes), target)
    return ImageTable(rendering.images, elements, scenes.mask.sum(dim=1)).batch()


def draw_table(count: int, generator: torch.Generator, target: ClevrTarget, at_once: int) -> GeneratedTable:
    """`count` images with their sets, drawn and rendered on the generator's device, where they stay.

    `at_once` of them are drawn together, whatever the `count`, so that a longer table begins with a shorter one.
    """
    parts = []
    for _ in range(0, count, at_once):
        scenes, rendering = generate(at_once, generator)
        elements = elements_of(boxes_of(scenes), states_of(scenes), target)
        sizes = scenes.mask.sum(dim=1)
        parts.append((rendering.images, elements, sizes, rendering.boxes, rendering.visible))
    images, elements, sizes, exact, visible = (torch.cat(column)[:count] for column in zip(*parts, strict=True))
    return GeneratedTable(ImageTable(images, elements, sizes), exact, visible)


def boxes_of(scenes: Scenes) -> Float[Tensor, "b n 4"]:
    """Boxes by the published formula, clipped to the image; zero behind the last object."""
    right = scenes.right().unsqueeze(1).expand(-1, MAX_OBJECTS, -1)
    boxes = formula_boxes(scenes.pixel_coords(), scenes.positions, scenes.shapes, right).clamp(0, 1)
    return boxes.masked_fill(~scenes.mask.unsqueeze(-1), 0.0)


def states_of(scenes: Scenes) -> Float[Tensor, "b n 18"]:
    """The state of each object; zero behind the last."""
    states = scene_state(scenes.positions, scenes.materials, scenes.colours, scenes.shapes, scenes.size_indices)
    return states.masked_fill(~scenes.mask.unsqueeze(-1), 0.0)
