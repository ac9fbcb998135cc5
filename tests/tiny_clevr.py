"""A tiny CLEVR in the official layout, for tests and for scripts that they start."""

import json
import math
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

ATTRIBUTES = {
    "material": ["rubber", "metal"],
    "color": ["gray", "red", "blue", "green", "brown", "purple", "cyan", "yellow"],
    "shape": ["cube", "sphere", "cylinder"],
    "size": ["small", "large"],
}


def tiny_object(random: np.random.Generator) -> dict[str, Any]:
    """An object whose box lies within the image."""
    attributes = {key: names[random.integers(len(names))] for key, names in ATTRIBUTES.items()}
    height = {"small": 0.35, "large": 0.7}[attributes["size"]]
    return {
        **attributes,
        "rotation": 0.0,
        "3d_coords": [*random.uniform(-2, 2, size=2).tolist(), height],
        "pixel_coords": [int(random.integers(150, 330)), int(random.integers(120, 200)), 10.5],
    }


def tiny_scene(split: str, index: int, objects: int) -> dict[str, Any]:
    """A scene as in the official files."""
    random = np.random.default_rng(1000 * (split == "val") + index)
    angle = float(random.uniform(-math.pi, math.pi))
    return {
        "split": split,
        "image_index": index,
        "image_filename": f"CLEVR_{split}_{index:06d}.png",
        "directions": {"right": [math.cos(angle), math.sin(angle), 0.0]},
        "objects": [tiny_object(random) for _ in range(objects)],
    }


def write_scenes(folder: Path, split: str, scenes: list[Any], note: str = "made up") -> Path:
    """Write a scene file."""
    path = folder / "scenes" / f"CLEVR_{split}_scenes.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"info": {"note": note}, "scenes": scenes}), encoding="utf-8")
    return path


def write_image(path: Path, seed: int, width: int = 24, height: int = 16) -> None:
    """An image of noise."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(256, size=(height, width, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


def write_tiny_clevr(folder: Path, training: int = 20, test: int = 5) -> Path:
    """Write images of 24 x 16 and scenes of 0 to 10 objects; every fifth image is 128 x 128."""
    for split, count in (("train", training), ("val", test)):
        scenes = [tiny_scene(split, index, index % 11) for index in range(count)]
        for index, scene in enumerate(scenes):
            size = (24, 16) if index % 5 else (128, 128)
            write_image(folder / "images" / split / scene["image_filename"], index, *size)
        write_scenes(folder, split, scenes)
    return folder


def png_that_claims(width: int, height: int) -> bytes:
    """A small PNG file whose header says that it is that large."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = zlib.compress(bytes(100))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
