"""Box annotations in the formats of COCO and Pascal VOC, as JSON lines of images with sets of boxes."""

import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from desp.data.images import UnusableImage, image_size, read_image
from desp.data.skips import Skips
from desp.data.voc_xml import UnusableXml, read_voc_xml
from desp.errors import DataError
from desp.extras import require
from desp.settings import DataDescription
from desp.storage import read_object, write_atomically, write_json, write_text

Corners = tuple[float, float, float, float]
"""Left, top, right, bottom."""

ASPECT_TOLERANCE = 0.01
"""Relative difference of aspect ratios that still counts as the annotated image."""
CLASSES = ".classes.json"
"""Ending of the file that names the classes; it replaces the ending of the data file."""
RECOVERY_HINT = "Convert the annotations again with `desp data boxes`, or delete it."


@dataclass
class BoxedImage:
    """An image with its boxes.

    Attributes:
        path: of the image file.
        shape: width and height of the image file, in pixels.
        width, height: size of the image that the annotated boxes refer to, in pixels.
        boxes: corners in [0, 1], each with the name of its class.
        clipped: number of boxes that left the image and were clipped to it.
    """

    path: Path
    shape: tuple[int, int]
    width: float
    height: float
    boxes: list[tuple[Corners, str]] = field(default_factory=list)
    clipped: int = 0


@dataclass(frozen=True)
class BoxAnnotations:
    """Images with boxes, and the classes of the boxes.

    Attributes:
        images: images that can be used; an image may have no boxes.
        classes: different names, in the order of the one-hot columns. A single class needs no columns.
        skips: images and boxes that cannot be used.
    """

    images: list[BoxedImage]
    classes: tuple[str, ...]
    skips: Skips

    @property
    def clipped(self) -> int:
        """How many boxes left their image and were clipped to it."""
        return sum(image.clipped for image in self.images)

    def description(self) -> DataDescription:
        """What the columns of an element are."""
        end = 4 + len(self.classes)
        return DataDescription(boxes=((0, 4),), categories=((4, end),) if len(self.classes) > 1 else ())

    def shapes(self) -> set[tuple[int, int]]:
        """Widths and heights of the image files."""
        return {image.shape for image in self.images}

    def elements(self, image: BoxedImage) -> list[list[float]]:
        """The set of an image: x1, y1, x2, y2, and one-hot columns where there are several classes."""
        several = self.classes if len(self.classes) > 1 else ()
        return [
            [round(value, 6) for value in box] + [float(name == own) for name in several]
            for box, own in image.boxes
        ]


def read_annotations(path: Path, images: Path) -> BoxAnnotations:
    """Read a COCO JSON file, or a folder of Pascal VOC XML files.

    A box that leaves its image is clipped. One that lies outside, or has no area, is left out of its set. An image
    that is missing or broken is left out.

    Args:
        path: the file or folder.
        images: the folder of the images that it names.

    Raises:
        DataError: neither format, or nothing in it can be used.
    """
    if not images.is_dir():
        raise DataError(f"There is no folder of images at {images}.")
    if path.is_dir():
        reader, known = _read_voc(path, images)
    elif path.is_file():
        reader, known = _read_coco(path, images)
    else:
        raise DataError(
            f"There are no annotations at {path}: expected a COCO JSON file or a folder of VOC XML files."
        )
    if not any(image.boxes for image in reader.images.values()):
        raise DataError(f"{path}: no box can be used. Left out: {reader.skips.summary()}.")
    return BoxAnnotations(list(reader.images.values()), known, reader.skips)


class _Reader:
    """Collects images and boxes, and counts what cannot be used."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.skips = folder, Skips()
        self.images: dict[Any, BoxedImage] = {}

    def add_image(self, key: Any, name: Any, size: tuple[Any, Any], where: str) -> bool:
        """Add an image under a key; returns whether it can be used."""
        problem = self._try_image(key, name, size)
        if problem:
            self.skips.add(problem, f"{where}, {name}")
        return not problem

    def _try_image(self, key: Any, name: Any, size: tuple[Any, Any]) -> str | None:
        """Add an image, or tell why it cannot be used."""
        if key is None:
            return "the image has no id"
        if key in self.images:
            return "a second record of the same image"
        if not isinstance(name, str) or not _stays_below(name):
            return "the image is not named, or not by a path below the folder"
        path = self.folder / name
        if not os.path.isfile(path):  # unlike Path.is_file, it takes names that are too long
            return "the image file is missing"
        try:
            found = image_size(path)
        except UnusableImage as error:
            return error.reason
        width, height = size if all(map(_positive, size)) else found
        if abs(width * found[1] / (height * found[0]) - 1) > ASPECT_TOLERANCE:
            return "the image has other proportions than annotated"
        self.images[key] = BoxedImage(path, found, width, height)
        return None

    def add_box(self, image: BoxedImage, pixels: list[Any], name: str, where: str) -> None:
        """Add a box, given as left, top, right, bottom in pixels; `where` ends with the box as it is written."""
        if not all(map(_number, pixels)):
            self.skips.add("the box is not four finite numbers", where)
            return
        scales = (image.width, image.height, image.width, image.height)
        box = [value / scale for value, scale in zip(pixels, scales, strict=True)]
        left, top, right, bottom = (min(1.0, max(0.0, value)) for value in box)
        if left >= right or top >= bottom:
            self.skips.add("the box lies outside of the image or has no area", where)
            return
        image.clipped += [left, top, right, bottom] != box
        image.boxes.append(((left, top, right, bottom), name))


def _number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1e9 and math.isfinite(value)


def _positive(value: Any) -> bool:
    return _number(value) and value > 0


def _stays_below(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts and "\0" not in name


# -- COCO ------------------------------------------------------------------------------------------------


def _read_coco(path: Path, images: Path) -> tuple[_Reader, tuple[str, ...]]:
    content = _coco_content(path)
    reader, names = _Reader(images), _coco_classes(content, path)
    refused = set()
    for number, record in enumerate(_records(content["images"])):
        key = _key(record.get("id"))
        size = record.get("width"), record.get("height")
        if not reader.add_image(key, record.get("file_name"), size, _name_of("image", record, number)):
            refused.add(key)
    for number, record in enumerate(_records(content["annotations"])):
        where, key = _name_of("annotation", record, number), _key(record.get("image_id"))
        if key in reader.images:
            _add_coco_box(reader, reader.images[key], record, names, where)
        elif key not in refused:
            reader.skips.add("the box names an unknown image", f"{where}: {record.get('image_id')}")
    return reader, tuple(dict.fromkeys(names.values())) or ("object",)


def _coco_content(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read as JSON ({error}). Expected a COCO file.") from error
    wanted = ("images", "annotations")
    if not isinstance(content, dict) or not all(isinstance(content.get(key), list) for key in wanted):
        raise DataError(f"{path}: expected a COCO file, an object with the lists 'images' and 'annotations'.")
    return content


def _coco_classes(content: dict[str, Any], path: Path) -> dict[Any, str]:
    """Names by id, in the order of the ids; several ids may have one name. Empty where there are no categories."""
    records = list(_records(content.get("categories") or []))
    ids = [record.get("id") for record in records]
    if not all(type(item) is int for item in ids) or len(set(ids)) < len(ids):
        raise DataError(f"{path}: expected 'categories' with whole numbers as 'id', each once.")
    names = {record["id"]: str(record.get("name", record["id"])) for record in records}
    return dict(sorted(names.items()))


def _records(value: Any) -> Iterator[dict[str, Any]]:
    """The JSON objects of a list; anything else is given as {}."""
    for item in value if isinstance(value, list) else []:
        yield item if isinstance(item, dict) else {}


def _name_of(noun: str, record: dict[str, Any], position: int) -> str:
    """What messages call a record: by its id, else by its place in the list, counted from 0."""
    key = _key(record.get("id"))
    return f"{noun} without id, at position {position} from 0" if key is None else f"{noun} {str(key)[:60]}"


def _key(value: Any) -> Any:
    """An id as a dictionary key: a number as in COCO, or text as other tools write; else None."""
    return value if isinstance(value, int | str) else None


def _add_coco_box(
    reader: _Reader, image: BoxedImage, record: dict[str, Any], names: dict[Any, str], where: str
) -> None:
    category = _key(record.get("category_id"))
    if names and category not in names:
        reader.skips.add("the box has an unknown category", f"{where}: {category}")
        return
    if record.get("iscrowd"):
        reader.skips.add("the box is of a crowd", where)
        return
    box = record.get("bbox")
    where = f"{where}: {str(box)[:60]}"
    if not isinstance(box, list) or len(box) != 4 or not all(map(_number, box)):
        reader.skips.add("the box is not four finite numbers", where)
        return
    left, top, width, height = box
    reader.add_box(image, [left, top, left + width, top + height], names.get(category, "object"), where)


# -- Pascal VOC ------------------------------------------------------------------------------------------


def _read_voc(folder: Path, images: Path) -> tuple[_Reader, tuple[str, ...]]:
    files = sorted(folder.glob("*.xml"))
    if not files:
        raise DataError(
            f"{folder} holds no XML files. Expected a folder of Pascal VOC files, or a COCO JSON file."
        )
    reader = _Reader(images)
    for path in files:
        try:
            record = read_voc_xml(path)
        except UnusableXml as error:
            reader.skips.add("the XML file cannot be used", f"{path.name} ({error})")
            continue
        if reader.add_image(record.image, record.image, record.size, path.name):
            for number, (name, (left, top, right, bottom)) in enumerate(record.objects):
                # Pixels are counted from 1 there, and the last one belongs to the box.
                pixels, written = [left - 1, top - 1, right, bottom], [left, top, right, bottom]
                where = f"{path.name}, object {number}: {written}"
                reader.add_box(reader.images[record.image], pixels, name, where)
    found = {name for image in reader.images.values() for _, name in image.boxes}
    return reader, tuple(sorted(found))


# -- JSON lines ------------------------------------------------------------------------------------------


def write_boxes(annotations: BoxAnnotations, output: Path, size: int | None = None) -> BoxAnnotations:
    """Write JSON lines, each with an image and its set; and beside them a file that names the classes and the
    columns of boxes and categories.

    Args:
        annotations: what to write.
        output: the file. Paths of images in it are relative to its folder.
        size: if given, images are copied to a folder beside the output, resized to this width and height.

    Returns:
        The annotations that were written, without images that cannot be copied.

    Raises:
        DataError: no image can be copied.
    """
    lines, written = [], []
    for number, image in enumerate(annotations.images):
        path = image.path if size is None else _copied(image.path, number, output, size, annotations.skips)
        if path is not None:
            relative = Path(os.path.relpath(path, output.parent)).as_posix()
            lines.append(json.dumps({"input": relative, "set": annotations.elements(image)}) + "\n")
            written.append(image)
    if not lines:
        raise DataError(f"No image can be used. Left out: {annotations.skips.summary()}.")
    write_text(output, "".join(lines))
    described = annotations.description()
    content = {"classes": annotations.classes, "boxes": described.boxes, "categories": described.categories}
    write_json(classes_file(output), content)
    return replace(annotations, images=written)


def classes_file(data: Path) -> Path:
    """Where `write_boxes` writes the names of the classes of its output."""
    return data.with_suffix(CLASSES)


def class_names_beside(data: Path) -> tuple[str, ...]:
    """Names of the classes of a data file, from the file that `write_boxes` wrote beside it; empty without one.

    Raises:
        RunError: the file beside it is damaged.
    """
    path = classes_file(data)
    if not path.is_file():
        return ()
    return tuple(str(name) for name in read_object(path, RECOVERY_HINT).get("classes") or ())


def _copied(path: Path, number: int, output: Path, size: int, skips: Skips) -> Path | None:
    """The copy of an image; None if it cannot be decoded. Numbers keep files of the same name apart."""
    image_module = require("PIL.Image", "viz", "write images")
    try:
        pixels = read_image(path, size)
    except UnusableImage as error:
        skips.add(error.reason, f"{path.name} ({error.detail})")
        return None
    copy = output.with_name(f"{output.stem}-images") / f"{number:06d}-{path.stem}.png"
    write_atomically(
        copy, lambda temporary: image_module.fromarray(pixels.transpose(1, 2, 0)).save(temporary, "PNG")
    )
    return copy
