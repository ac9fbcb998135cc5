"""How the sets of a run are drawn, and the images that they belong to, as files for pictures hold them."""

import base64
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor

from desp.boxes import FARTHEST_NORMALISED
from desp.comparison.features import features_of
from desp.data.base import to_float
from desp.data.images import Bytes, UnusableImage, image_size, read_image
from desp.errors import DataError, DespError
from desp.runs.folder import LoadedRun
from desp.sets import presence_mask
from desp.settings import FilesSettings
from desp.tasks.base import Paths, ShownExample, default_axes

# Longest side of an image in samples.json, in pixels: five of them take some 200 kB.
LONGEST_SIDE = 128
# The PNG filter that subtracts the row above, and the PNG colour type RGB.
_UP, _RGB = 2, 2
# Longest side of an image in a picture of its own.
MAX_PLOTTED_SIDE = 1024


def drawing_axes(run: LoadedRun) -> dict[str, Any]:
    """What the columns of drawn sets are: the task's axes, with boxes and classes by the data's description.

    No data are read: a user's own may be gone when a run predicts.
    """
    shape, own = run.predictor.shape, run.settings.task.own_data
    if not own and run.task.axes.get("paths"):
        return run.task.axes
    columns = shape.description.columns_to_draw(shape.features)
    axes = default_axes(shape.features, shape.description.feature_columns) if own else run.task.axes
    axes = axes | {"names": [axes["names"][column] for column in columns]} | _box_axes(run, columns)
    if not own:
        return axes
    features = features_of(shape.description, shape.features, columns)
    names = list(shape.description.input_columns)
    return axes | {"features": [feature.as_json() for feature in features], "input_names": names}


def _box_axes(run: LoadedRun, columns: list[int]) -> dict[str, Any]:
    """Where the first box of an element is, its class, and how large the image is, where that is known; empty
    without boxes."""
    described = run.predictor.shape.description
    if not described.boxes:
        return {}
    found: dict[str, Any] = {"boxes": _moved(described.boxes[0], columns)}
    if described.categories:
        found |= {"categories": _moved(described.categories[0], columns), "classes": list(described.class_names)}
    if (extent := _image_extent(run)) is not None:
        found["extent"] = extent
    return found


def _image_extent(run: LoadedRun) -> list[int] | None:
    """Width and height of the image in the unit of boxes; None where there is no image, or where a user's own
    boxes are not scaled, as their range alone tells the unit."""
    shape, task = run.predictor.shape, run.settings.task
    if shape.input_kind != "image":
        return None
    if isinstance(task, FilesSettings) and task.image_size:  # boxes in pixels are refused
        return [1, 1]
    if task.own_data and not shape.scaling.boxes:
        return None
    first, _ = shape.description.boxes[0]
    reach = max(shape.scaling.offset[column] + shape.scaling.span[column] for column in (first, first + 1))
    _, height, width = shape.input_shape
    return [1, 1] if reach <= FARTHEST_NORMALISED else [width, height]


def _moved(columns: tuple[int, int], order: list[int]) -> list[int]:
    """The range of some columns in the order of drawn ones, in which they stay together."""
    first = order.index(columns[0])
    return [first, first + columns[1] - columns[0]]


# -- examples --------------------------------------------------------------------------------------------


def shown_values(
    run: LoadedRun, example: ShownExample, sets: Sequence[Tensor], energies: Float[Tensor, " k"]
) -> dict[str, Any]:
    """An input with its true sets and K predicted ones, as JSON values; columns are in the order of pictures."""
    if run.task.axes.get("paths"):
        return _shown_paths(run, example, sets, energies)
    shape = run.predictor.shape
    columns = shape.description.columns_to_draw(shape.features)
    return {
        "label": example.label,
        "input": example.input,
        **_input_to_draw(run, example.x),
        **_items(example),
        "truth": [rounded(item[:, columns]) for item in example.truth],
        "samples": [
            {"set": rounded(item[:, columns]), "energy": float(energy)}
            for item, energy in zip(sets, energies, strict=True)
        ],
    }


def _shown_paths(
    run: LoadedRun, example: ShownExample, sets: Sequence[Tensor], energies: Float[Tensor, " k"]
) -> dict[str, Any]:
    """Elements as paths, whole for pictures of their own; drawn as elements, where they end."""
    x = example.x[presence_mask(example.x)]
    true, predicted = ([paths_of(run, x, item) for item in each] for each in (example.truth, sets))
    return {
        "label": example.label,
        "input": example.input,
        "paths": {
            "observed": [rounded(path) for path in true[0].observed],
            "truth": [[rounded(path) for path in item.future] for item in true],
            "samples": [[rounded(path) for path in item.future] for item in predicted],
        },
        "truth": [rounded(item.future[:, -1]) for item in true],
        "samples": [
            {"set": rounded(item.future[:, -1]), "energy": float(energy)}
            for item, energy in zip(predicted, energies, strict=True)
        ],
    }


def paths_of(run: LoadedRun, x: Tensor, elements: Tensor) -> Paths:
    """The paths that elements stand for, in a task whose axes have `paths`."""
    found = run.task.paths(x.cpu(), elements.cpu())
    if found is None:
        raise TypeError(f"the task '{run.task.name}' draws paths, but gives none")
    return found


def _input_to_draw(run: LoadedRun, x: Tensor) -> dict[str, Any]:
    """An input that is more than a few numbers."""
    shape, own = run.predictor.shape, run.settings.task.own_data
    if shape.input_kind == "image" and shape.description.boxes:
        return {} if _image_extent(run) is None else {"image": image_uri(x)}  # boxes are drawn over it
    if shape.input_kind == "image" and own:
        return {"input_image": image_uri(x)}
    if shape.aligned:  # each element of the input has its own in every set
        return {"elements": rounded(x[presence_mask(x)][:, :-1])}
    if shape.input_kind == "set" and own:
        return {"input_elements": rounded(x[presence_mask(x)][:, :-1])}
    return {}


def _items(example: ShownExample) -> dict[str, Any]:
    """The elements as people know them, with small pictures, where a task tells."""
    if not example.items:
        return {}
    items = [
        {
            "name": item.name,
            "facts": list(item.facts),
            "image": None if item.image is None else file_uri(item.image),
        }
        for item in example.items
    ]
    return {"items": items, "reasons": list(example.reasons)}


def rounded(values: Tensor) -> list[list[float]]:
    """Five significant digits are plenty for a picture and keep the page small."""
    return [[float(f"{number:.5g}") for number in row] for row in values.tolist()]


def chosen_cases(ranking: Sequence[tuple[float, int]], each: int = 2) -> list[tuple[str, float, int]]:
    """The best, median and worst examples of a ranking, lower is better: for each its group, and its score and
    number as the ranking has them. Where examples are few, none is there twice."""
    ordered = sorted(ranking)
    each = min(each, max(1, len(ordered) // 3))
    middle = (len(ordered) - each) // 2
    groups = {"best": range(each), "median": range(middle, middle + each)}
    groups["worst"] = range(len(ordered) - each, len(ordered))
    taken: set[int] = set()
    chosen = []
    for group, places in groups.items():
        for place in places:
            if 0 <= place < len(ordered) and place not in taken:
                taken.add(place)
                chosen.append((group, *ordered[place]))
    return chosen


# -- images ----------------------------------------------------------------------------------------------


def image_uri(image: UInt8[Tensor, "c height width"] | Float[Tensor, "c height width"]) -> str:
    """An image of bytes, or of intensities in [0, 1], as a small PNG inside a text.

    It is written at the end of every training, so it must not need the extra for pictures.
    """
    values = to_float(image.cpu().unsqueeze(0), torch.float32)[0].clamp(0, 1)
    values = values[:3] if len(values) >= 3 else values[:1].expand(3, -1, -1)
    share = min(1.0, LONGEST_SIDE / max(values.shape[1:]))
    height, width = (max(1, round(share * side)) for side in values.shape[1:])
    pixels = (F.adaptive_avg_pool2d(values, (height, width)) * 255).round().byte()
    return f"data:image/png;base64,{base64.b64encode(_png(pixels)).decode('ascii')}"


def file_uri(path: Path) -> str | None:
    """An image file as a small PNG inside a text; None where it cannot be read, or the extra for pictures is not
    installed: a picture is not worth a failed run."""
    try:
        return image_uri(torch.from_numpy(read_image(path, None)))
    except (DespError, UnusableImage):
        return None


def _png(pixels: UInt8[Tensor, "3 height width"]) -> bytes:
    """Colours as a PNG file; rows are differences from the row above, which compress better."""
    _, height, width = pixels.shape
    rows = pixels.permute(1, 2, 0).reshape(height, -1)
    above = torch.cat([torch.zeros_like(rows[:1]), rows[:-1]])
    filtered = torch.cat([torch.full((height, 1), _UP, dtype=torch.uint8), rows - above], dim=1)
    header = struct.pack(">IIBBBBB", width, height, 8, _RGB, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(filtered.numpy().tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        for name, content in chunks
    )


# -- predictions to draw ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlottedInput:
    """What was predicted for an input, as plain values for a picture.

    Attributes:
        name: of the picture, without its ending.
        written: the input as it was written.
        image: (height, width, 3) bytes, where inputs are images.
        sets: with their columns in the order in which they are drawn.
        energies: of the sets; None where there are none.
        confidence: of each element of the best set of boxes.
    """

    name: str
    written: Any
    image: Bytes | None
    sets: list[list[list[float]]]
    energies: list[float | None]
    confidence: list[float] | None


def drawn_image(path: Path) -> Bytes:
    """An image file (height, width, 3); large ones are made smaller.

    Raises:
        DataError: it cannot be read.
    """
    try:
        width, height = image_size(path)
        share = min(1.0, MAX_PLOTTED_SIDE / max(width, height))
        size = max(1, round(share * height)), max(1, round(share * width))
        return read_image(path, size).transpose(1, 2, 0)
    except UnusableImage as error:
        raise DataError(f"{path} cannot be drawn: {error}.") from error
