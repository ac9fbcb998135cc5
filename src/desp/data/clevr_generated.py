"""Generated CLEVR scenes as images with sets."""

import torch
from jaxtyping import Float
from torch import Tensor

from desp.data.base import Batch
from desp.data.clevr import ImageTable
from desp.data.clevr_boxes import MAX_OBJECTS, formula_boxes, scene_state
from desp.data.clevr_render import generate
from desp.data.clevr_scenes import Scenes
from desp.settings import ClevrTarget

# Images of a table that are drawn together, whatever their number: a longer table begins with a shorter one.
IMAGES_AT_ONCE = 16


def draw_images(batch_size: int, generator: torch.Generator, target: ClevrTarget) -> Batch:
    """Fresh scenes, rendered on the generator's device; boxes are those of the published formula.

    No shape depends on what is drawn, so that it can be captured as a part of a training step.
    """
    scenes, rendering = generate(batch_size, generator)
    elements = boxes_of(scenes) if target == "boxes" else states_of(scenes)
    return ImageTable(rendering.images, elements, scenes.mask.sum(dim=1)).batch()


def draw_table(count: int, generator: torch.Generator, target: ClevrTarget) -> tuple[ImageTable, Tensor]:
    """So many images with their sets, and the exact boxes (M, N, 4) of whole objects."""
    images, elements, sizes, exact = [], [], [], []
    for _ in range(0, count, IMAGES_AT_ONCE):
        scenes, rendering = generate(IMAGES_AT_ONCE, generator)
        images.append(rendering.images)
        elements.append(boxes_of(scenes) if target == "boxes" else states_of(scenes))
        sizes.append(scenes.mask.sum(dim=1))
        exact.append(rendering.boxes)
    table = ImageTable(torch.cat(images), torch.cat(elements), torch.cat(sizes))
    return table.at(slice(count)), torch.cat(exact)[:count]


def boxes_of(scenes: Scenes) -> Float[Tensor, "b n 4"]:
    """Boxes by the published formula, clipped to the image; zero behind the last object."""
    right = scenes.right().unsqueeze(1).expand(-1, MAX_OBJECTS, -1)
    boxes = formula_boxes(scenes.pixel_coords(), scenes.positions, scenes.shapes, right).clamp(0, 1)
    return boxes.masked_fill(~scenes.mask.unsqueeze(-1), 0.0)


def states_of(scenes: Scenes) -> Float[Tensor, "b n 18"]:
    """The state of each object; zero behind the last."""
    states = scene_state(scenes.positions, scenes.materials, scenes.colours, scenes.shapes, scenes.size_indices)
    return states.masked_fill(~scenes.mask.unsqueeze(-1), 0.0)
