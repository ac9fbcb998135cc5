"""What a scene file of CLEVR says: boxes and states of the scenes that can be used."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from desp.data.clevr_boxes import COLOURS, MATERIALS, MAX_OBJECTS, SHAPES, SIZES, formula_boxes, scene_state
from desp.data.clevr_files import SplitFiles
from desp.data.skips import Skips
from desp.errors import DataError
from desp.sets import prefix_mask

OFFICIAL, RE_RENDERED = "CLEVR v1.0", "re-rendered CLEVR"

WRONG_KEY = "a key is missing or wrong"
OUTSIDE = "a box lies outside of the image or has no area"

_ATTRIBUTES = {"material": MATERIALS, "color": COLOURS, "shape": SHAPES, "size": SIZES}


@dataclass(frozen=True)
class AnnotatedScenes:
    """M scenes that can be used, as far as the scene file and the names of images tell; images are not opened.

    Attributes:
        names: of their images.
        boxes: (M, 10, 4) x1, y1, x2, y2 in [0, 1], zero behind the last object.
        states: (M, 10, 18), likewise.
        sizes: (M,) how many objects.
        clipped: number of boxes that left the image and were clipped to it.
        skips: what cannot be used.
        label: `OFFICIAL` or `RE_RENDERED`.
    """

    names: tuple[str, ...]
    boxes: Float[Tensor, "m n 4"]
    states: Float[Tensor, "m n 18"]
    sizes: Int[Tensor, " m"]
    clipped: int
    skips: Skips
    label: str

    def __len__(self) -> int:
        return len(self.names)

    def at(self, places: Int[Tensor, " k"]) -> "AnnotatedScenes":
        """The scenes at these places, in this order."""
        return replace(
            self,
            names=tuple(self.names[place] for place in places.tolist()),
            boxes=self.boxes[places],
            states=self.states[places],
            sizes=self.sizes[places],
        )


class _Unusable(Exception):
    """A scene that cannot be used: the reason, as it is counted, and what exactly is wrong."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason)
        self.reason, self.detail = reason, detail


@dataclass(frozen=True)
class _Object:
    pixel: list[float]
    position: list[float]
    attributes: list[int]


@dataclass(frozen=True)
class _Scene:
    name: str
    right: list[float]
    objects: list[_Object]


def read_scenes(files: SplitFiles) -> AnnotatedScenes:
    """Read the scenes whose images are there; boxes that leave the image are clipped to it.

    Raises:
        DataError: the scene file is not JSON or has no scenes, or none of them can be used.
    """
    content = _read_json(files.scene_file)
    skips, images = Skips(), set(files.images)
    scenes: dict[str, _Scene] = {}
    named: set[str] = set()
    for index, record in enumerate(content["scenes"]):
        try:
            name = _image_name(record, images, named)
            named.add(name)
            scenes[name] = _read_scene(record, name)
        except _Unusable as problem:
            skips.add(problem.reason, f"scene {index} ({problem.detail})")
    for name in files.images:
        if name not in named:
            skips.add("image without a scene", name)
    return _as_tensors(list(scenes.values()), skips, _label(content), files.scene_file)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read as JSON ({error}). Unpack or copy it again.") from error
    if not isinstance(content, dict) or not isinstance(content.get("scenes"), list):
        raise DataError(f"{path}: expected a JSON object with a list 'scenes', as in the official files.")
    return content


def _label(content: dict[str, Any]) -> str:
    info = content.get("info")
    note = info.get("note") if isinstance(info, dict) else None
    return RE_RENDERED if "re-rendered" in str(note) else OFFICIAL


# -- one scene -------------------------------------------------------------------------------------------


def _image_name(record: Any, images: set[str], named: set[str]) -> str:
    """The name of a scene's image, one of those that are there: so no scene can lead to another folder."""
    name: str = _field(record, "image_filename", str)
    if name not in images:
        raise _Unusable("the image of a scene is missing", name)
    if name in named:
        raise _Unusable("the image of a scene has another scene", name)
    return name


def _read_scene(record: dict[str, Any], name: str) -> _Scene:
    objects = _field(record, "objects", list)
    if len(objects) > MAX_OBJECTS:
        raise _Unusable(f"more than {MAX_OBJECTS} objects", f"{name}: {len(objects)}")
    right = _numbers(_field(record, "directions", dict), "right", 2)
    return _Scene(name, right, [_read_object(item) for item in objects])


def _read_object(record: Any) -> _Object:
    attributes = [_attribute(record, key, names) for key, names in _ATTRIBUTES.items()]
    return _Object(_numbers(record, "pixel_coords", 2), _numbers(record, "3d_coords", 3), attributes)


def _attribute(record: Any, key: str, names: tuple[str, ...]) -> int:
    value = _field(record, key, str)
    if value not in names:
        raise _Unusable(WRONG_KEY, f"{key}: expected one of {', '.join(names)}, got {value[:40]!r}")
    return names.index(value)


def _field(record: Any, key: str, kind: type) -> Any:
    value = record.get(key) if isinstance(record, dict) else None
    if not isinstance(value, kind):
        got = "nothing" if value is None else type(value).__name__
        raise _Unusable(WRONG_KEY, f"{key}: expected {kind.__name__}, got {got}")
    return value


def _numbers(record: Any, key: str, count: int) -> list[float]:
    """The first `count` numbers of a list; CLEVR's have three."""
    values = _field(record, key, list)[:count]
    # A bool is an int, and a whole number may be too long for a float.
    real = all(type(value) in (int, float) and abs(value) < 1e9 and math.isfinite(value) for value in values)
    if len(values) < count or not real:
        raise _Unusable(WRONG_KEY, f"{key}: expected {count} finite numbers, got {str(values)[:60]}")
    return [float(value) for value in values]


# -- all of them -----------------------------------------------------------------------------------------


def _as_tensors(scenes: list[_Scene], skips: Skips, label: str, path: Path) -> AnnotatedScenes:
    names = tuple(scene.name for scene in scenes)
    sizes = torch.tensor([len(scene.objects) for scene in scenes], dtype=torch.int64)
    scene_of = torch.arange(len(scenes)).repeat_interleave(sizes)
    boxes, states = _objects(scenes, scene_of)
    clipped = boxes.clamp(0, 1)
    inside = torch.isfinite(boxes).all(-1) & (clipped[:, 2:] > clipped[:, :2]).all(-1)
    usable = torch.ones(len(scenes), dtype=torch.bool)
    usable[scene_of[~inside]] = False
    for place in (~usable).nonzero().flatten().tolist():
        skips.add(OUTSIDE, names[place])
    if not usable.any():
        raise DataError(f"{path}: none of its scenes can be used: {skips.summary()}.")
    left_image = (clipped != boxes).any(-1) & usable[scene_of]
    boxes, states = _padded(clipped, sizes), _padded(states, sizes)
    every = AnnotatedScenes(names, boxes, states, sizes, int(left_image.sum()), skips, label)
    return every.at(usable.nonzero().flatten())


def _objects(
    scenes: list[_Scene], scene_of: Int[Tensor, " k"]
) -> tuple[Float[Tensor, "k 4"], Float[Tensor, "k 18"]]:
    """Boxes and states of all objects, one scene after the other."""
    objects = [item for scene in scenes for item in scene.objects]
    positions = _rows([item.position for item in objects], 3)
    attributes = _rows([item.attributes for item in objects], len(_ATTRIBUTES)).to(torch.int64)
    materials, colours, shapes, sizes = attributes.unbind(-1)
    right = _rows([scene.right for scene in scenes], 2)[scene_of]
    boxes = formula_boxes(_rows([item.pixel for item in objects], 2), positions, shapes, right)
    return boxes, scene_state(positions, materials, colours, shapes, sizes)


def _rows(values: Sequence[Sequence[float]], width: int) -> Float[Tensor, "k width"]:
    """Rows as float64: the published numbers come from Python's floats."""
    return torch.tensor(values, dtype=torch.float64).reshape(-1, width)


def _padded(values: Float[Tensor, "k d"], sizes: Int[Tensor, " m"]) -> Float[Tensor, "m n d"]:
    """Rows of all objects, shared out to their scenes; zero behind the last of each."""
    present = prefix_mask(sizes, MAX_OBJECTS)
    padded = torch.zeros(*present.shape, values.shape[1])
    padded[present] = values.float()
    return padded
