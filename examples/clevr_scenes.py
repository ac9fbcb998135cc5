"""Generated CLEVR scenes, drawn with their boxes: what the task predicts from an image.

White: boxes by the published formula, which the task takes as truth. Black, dotted: exact boxes of whole objects,
hidden parts included. The square images are drawn with the aspect ratio of CLEVR's.

python examples/clevr_scenes.py --output scenes.png --count 8 --seed 0
"""

import argparse
from pathlib import Path

import torch
from torch import Tensor

from desp.data.clevr_generated import draw_table

COLUMNS = 4
WIDTH = 2.2
"""Of an image, in inches of 100 pixels."""
ASPECT = 320 / 480
STYLES = (("white", "-"), ("black", ":"))
"""Of boxes by the formula, and of exact ones."""


def draw(images: Tensor, formula: list[Tensor], exact: list[Tensor], output: Path) -> None:
    """Write a grid of images (M, 3, H, W) with the boxes (n, 4) of each, normalised to 0 to 1."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    rows = -(-len(images) // COLUMNS)
    figure = Figure(figsize=(WIDTH * COLUMNS, WIDTH * ASPECT * rows), dpi=100)
    grid = figure.subplots(rows, COLUMNS, squeeze=False)
    for axes in grid.flat:
        axes.axis("off")
    for axes, image, *boxes in zip(grid.flat, images, formula, exact, strict=False):
        axes.imshow(image.permute(1, 2, 0).numpy(), extent=(0, 1, 1, 0), aspect=ASPECT, interpolation="nearest")
        for (colour, line), some in zip(STYLES, boxes, strict=True):
            for left, top, right, bottom in some.tolist():
                place, width, height = (left, top), right - left, bottom - top
                axes.add_patch(Rectangle(place, width, height, fill=False, edgecolor=colour, linestyle=line))
    figure.subplots_adjust(0.005, 0.005, 0.995, 0.995, wspace=0.02, hspace=0.02)
    figure.savefig(output, pil_kwargs={"optimize": True})


def main(output: Path, count: int = 8, seed: int = 0) -> None:
    """Draw scenes, render them, and write the picture."""
    generated = draw_table(count, torch.Generator().manual_seed(seed), "boxes", at_once=16)
    table, exact = generated.table, generated.exact_boxes
    formula = [table.example(index)[1][0] for index in range(count)]
    draw(table.images, formula, [boxes[: len(own)] for boxes, own in zip(exact, formula, strict=True)], output)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="PNG file to write")
    parser.add_argument("--count", type=int, default=8, help="scenes")
    parser.add_argument("--seed", type=int, default=0, help="of the scenes")
    given = parser.parse_args()
    main(given.output, given.count, given.seed)
