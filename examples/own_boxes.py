"""Boxes of three classes in images, in the format of your own data: PNG files, and JSON lines that name them.

Scenes are generated, so nothing is downloaded. Each line has an image and its set. An element is left, top, right,
bottom of an object, normalised by width and height, then its shape as one-hot columns. scenes.classes.json names
the shapes.

python examples/own_boxes.py --output scenes --count 60
desp train custom --data scenes/scenes.jsonl --use-method box-denoiser --task.image-size 64 \\
    --task.description.boxes 0 4 --task.description.categories 4 7 \\
    --method.hidden 64 --method.layers 2 --training.batch-size 8 --training.steps 200 --run runs/scenes
desp predict runs/scenes --input scenes/0000.png --best --draw pictures
"""

import argparse
import json
from pathlib import Path

import torch
from PIL import Image

from desp.data.clevr_generated import boxes_of
from desp.data.clevr_render import generate

CLASSES = ("cube", "sphere", "cylinder")
SIZE = 192, 128
"""Width and height of the files, whose proportions are CLEVR's."""
AT_ONCE = 20


def write_scenes(folder: Path, count: int, seed: int) -> Path:
    """Write so many images, the lines that name them, and the names of the classes; returns the file of lines."""
    generator, lines = torch.Generator().manual_seed(seed), []
    for first in range(0, count, AT_ONCE):
        scenes, rendering = generate(min(AT_ONCE, count - first), generator)
        elements = torch.cat([boxes_of(scenes), torch.eye(len(CLASSES))[scenes.shapes]], dim=-1)
        for index, (image, rows, there) in enumerate(zip(rendering.images, elements, scenes.mask, strict=True)):
            name = f"{first + index:04d}.png"
            Image.fromarray(image.permute(1, 2, 0).numpy()).resize(SIZE).save(folder / name)
            rounded = [[round(value, 4) for value in row] for row in rows[there].tolist()]
            lines.append(json.dumps({"input": name, "set": rounded}) + "\n")
    (folder / "scenes.jsonl").write_text("".join(lines))
    (folder / "scenes.classes.json").write_text(json.dumps({"classes": CLASSES}))
    return folder / "scenes.jsonl"


def main(output: Path, count: int = 60, seed: int = 0) -> None:
    """Write the data into a folder, which is made if it is not there."""
    output.mkdir(parents=True, exist_ok=True)
    print(f"{write_scenes(output, count, seed)}: {count} images with boxes of {', '.join(CLASSES)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="folder to write to")
    parser.add_argument("--count", type=int, default=60, help="scenes")
    parser.add_argument("--seed", type=int, default=0, help="of the scenes")
    given = parser.parse_args()
    main(given.output, given.count, given.seed)
