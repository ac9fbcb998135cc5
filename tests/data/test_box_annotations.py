"""Boxes from COCO and Pascal VOC: converted, clipped, or left out and counted."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from desp.data.box_annotations import BoxAnnotations, classes_file, read_annotations, write_boxes
from desp.data.files import read_data_file
from desp.data.images import read_image
from desp.errors import DataError
from tiny_clevr import png_that_claims, write_image

CORNERS = ("xmin", "ymin", "xmax", "ymax")
CATEGORIES = [{"id": 7, "name": "dog"}, {"id": 3, "name": "cat"}]


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """a.png and b.png of 40 x 20, below/c.png of 20 x 20."""
    folder = tmp_path / "photos"
    for seed, (name, width) in enumerate({"a.png": 40, "b.png": 40, "below/c.png": 20}.items()):
        write_image(folder / name, seed, width, 20)
    return folder


def coco_image(key: Any, name: Any, **more: Any) -> dict[str, Any]:
    return {"id": key, "file_name": name, **more}


def coco_box(image: Any, box: Any, category: Any = 3, **more: Any) -> dict[str, Any]:
    return {"image_id": image, "bbox": box, "category_id": category, **more}


def coco(folder: Path, records: list[Any], boxes: list[Any], categories: Any = CATEGORIES) -> BoxAnnotations:
    path = folder.parent / "coco.json"
    content = {"images": records, "annotations": boxes}
    path.write_text(json.dumps(content if categories is None else {**content, "categories": categories}))
    return read_annotations(path, folder)


def voc(folder: Path, **files: str) -> BoxAnnotations:
    path = folder.parent / "voc"
    path.mkdir(exist_ok=True)
    for name, text in files.items():
        (path / f"{name}.xml").write_text(text)
    return read_annotations(path, folder)


def voc_text(name: str, *objects: tuple[str, int, int, int, int], size: tuple[int, int] | None = (40, 20)) -> str:
    lines = [f"<filename>{name}</filename>"]
    if size:
        lines.append(f"<size><width>{size[0]}</width><height>{size[1]}</height></size>")
    for kind, *box in objects:
        corners = "".join(f"<{key}>{value}</{key}>" for key, value in zip(CORNERS, box, strict=True))
        lines.append(f"<object><name>{kind}</name><bndbox>{corners}</bndbox></object>")
    return f"<annotation>{''.join(lines)}</annotation>"


# -- COCO ------------------------------------------------------------------------------------------------


def test_categories_of_one_name_are_one_class(images: Path) -> None:
    """Some tools write a category twice, such as a supercategory with its only member; a class has one column."""
    named = [{"id": 0, "name": "cat"}, {"id": 1, "name": "dog"}, {"id": 2, "name": "cat"}]
    boxes = [coco_box(1, [0, 0, 40, 20], category) for category in range(3)]
    found = coco(images, [coco_image(1, "a.png")], boxes, named)
    assert found.classes == ("cat", "dog")
    assert [element[4:] for element in found.elements(found.images[0])] == [[1, 0], [0, 1], [1, 0]]
    alone = coco(images, [coco_image(1, "a.png")], boxes[:1], named[::2])
    assert (alone.classes, alone.description().categories) == (("cat",), ())
    assert alone.elements(alone.images[0]) == [[0.0, 0.0, 1.0, 1.0]]


def test_coco_boxes_become_corners_and_one_hot_classes(images: Path) -> None:
    found = coco(
        images,
        [coco_image(1, "a.png", width=40, height=20), coco_image("x", "below/c.png"), coco_image(2, "b.png")],
        [coco_box(1, [10, 5, 20, 10], 7), coco_box("x", [0, 0, 20, 20]), coco_box(1, [0, 0, 1.5, 2])],
    )
    assert found.classes == ("cat", "dog")  # in the order of their ids
    assert [image.path.name for image in found.images] == ["a.png", "c.png", "b.png"]
    sets = [found.elements(image) for image in found.images]
    assert sets[0] == [[0.25, 0.25, 0.75, 0.75, 0.0, 1.0], [0.0, 0.0, 0.0375, 0.1, 1.0, 0.0]]
    assert sets[1] == [[0.0, 0.0, 1.0, 1.0, 1.0, 0.0]]
    assert sets[2] == []  # nothing is on it, which is an answer too
    assert (found.skips.total, found.clipped) == (0, 0)
    assert found.shapes() == {(40, 20), (20, 20)}
    assert (found.description().boxes, found.description().categories) == (((0, 4),), ((4, 6),))


@pytest.mark.parametrize("categories", [CATEGORIES[:1], None, []])
def test_one_class_needs_no_columns(images: Path, categories: Any) -> None:
    found = coco(images, [coco_image(1, "a.png")], [coco_box(1, [0, 0, 40, 20], 7)], categories)
    assert found.elements(found.images[0]) == [[0.0, 0.0, 1.0, 1.0]]
    assert found.classes == (("dog",) if categories else ("object",))
    assert found.description().categories == ()


@given(left=st.floats(-100, 100), top=st.floats(-100, 100), width=st.floats(-10, 200), height=st.floats(-10, 200))
def test_boxes_are_clipped_or_left_out(
    tmp_path_factory: pytest.TempPathFactory, left: float, top: float, width: float, height: float
) -> None:
    images = tmp_path_factory.getbasetemp() / "clipped" / "photos"
    if not images.exists():
        write_image(images / "a.png", 0, 40, 20)
    boxes = [coco_box(1, [left, top, width, height]), coco_box(1, [0, 0, 40, 20])]
    found = coco(images, [coco_image(1, "a.png")], boxes)
    visible = (max(left, 0), max(top, 0), min(left + width, 40), min(top + height, 20))
    if visible[0] / 40 < visible[2] / 40 and visible[1] / 20 < visible[3] / 20:
        box, _ = found.images[0].boxes[0]
        assert box == pytest.approx([visible[0] / 40, visible[1] / 20, visible[2] / 40, visible[3] / 20])
        assert found.clipped == (visible != (left, top, left + width, top + height))
        assert found.skips.total == 0
    else:
        assert found.skips.counts == {"the box lies outside of the image or has no area": 1}
        assert len(found.images[0].boxes) == 1


@pytest.mark.parametrize(
    ("box", "reason"),
    [
        (coco_box(1, [-9, 0, 5, 5]), "the box lies outside of the image or has no area"),
        (coco_box(1, [5, 5, -3, 3]), "the box lies outside of the image or has no area"),
        (coco_box(1, [5, 5, 3]), "the box is not four finite numbers"),
        (coco_box(1, [5, 5, float("nan"), 3]), "the box is not four finite numbers"),
        (coco_box(1, [5, 5, 10**400, 3]), "the box is not four finite numbers"),
        (coco_box(1, ["5", 5, 3, 3]), "the box is not four finite numbers"),
        (coco_box(1, None), "the box is not four finite numbers"),
        (coco_box(9, [5, 5, 3, 3]), "the box names an unknown image"),
        (coco_box([1], [5, 5, 3, 3]), "the box names an unknown image"),
        (3, "the box names an unknown image"),
        (coco_box(1, [5, 5, 3, 3], 99), "the box has an unknown category"),
        (coco_box(1, [5, 5, 3, 3], [3]), "the box has an unknown category"),
        (coco_box(1, [5, 5, 3, 3], iscrowd=1), "the box is of a crowd"),
    ],
)
def test_boxes_that_cannot_be_used(images: Path, box: Any, reason: str) -> None:
    found = coco(images, [coco_image(1, "a.png")], [box, coco_box(1, [0, 0, 4, 4])])
    assert found.skips.counts == {reason: 1}
    assert found.skips.examples[reason][0].startswith("annotation without id, at position 0 from 0")
    assert len(found.images[0].boxes) == 1


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (coco_image(2, "missing.png"), "the image file is missing"),
        (coco_image(2, "below"), "the image file is missing"),
        (coco_image(2, f"{'a' * 300}.png"), "the image file is missing"),
        (coco_image(2, "broken.png"), "the image is broken"),
        (coco_image(2, "huge.png"), "the image has more than 64 million pixels"),
        (coco_image(1, "b.png"), "a second record of the same image"),
        (coco_image(None, "b.png"), "the image has no id"),
        (coco_image(2, None), "the image is not named, or not by a path below the folder"),
        (coco_image(2, ""), "the image is not named, or not by a path below the folder"),
        (coco_image(2, "../secret.png"), "the image is not named, or not by a path below the folder"),
        (coco_image(2, "/secret.png"), "the image is not named, or not by a path below the folder"),
        (coco_image(2, "b.png", width=20, height=40), "the image has other proportions than annotated"),
        ("b.png", "the image has no id"),
    ],
)
def test_images_that_cannot_be_used(images: Path, record: Any, reason: str) -> None:
    (images / "broken.png").write_bytes(b"broken")
    (images / "huge.png").write_bytes(png_that_claims(30_000, 30_000))
    write_image(images.parent / "secret.png", 0)
    found = coco(images, [coco_image(1, "a.png"), record], [coco_box(1, [0, 0, 4, 4]), coco_box(2, [0, 0, 4, 4])])
    known = {"the box names an unknown image": 1} if reason.startswith(("a second", "the image has no id")) else {}
    assert found.skips.counts == {reason: 1, **known}
    key = record["id"] if isinstance(record, dict) else None
    place = "image without id, at position 1 from 0" if key is None else f"image {key}"
    assert found.skips.examples[reason][0].startswith(f"{place}, ")
    assert len(found.images) == 1


def test_records_are_named_by_id_and_boxes_as_they_are_written(images: Path) -> None:
    records = [coco_image(7, "a.png"), coco_image(99, "gone.png")]
    boxes = [
        coco_box(7, [0, 0, 4, 4], id=1),
        coco_box(7, [50, 2, 5, 6.5], id=998),
        coco_box(7, [1, 2], id="x"),
        coco_box(5, [0, 0, 4, 4], id=0),
    ]
    assert coco(images, records, boxes).skips.lines() == [
        "1 x the image file is missing: image 99, gone.png",
        "1 x the box lies outside of the image or has no area: annotation 998: [50, 2, 5, 6.5]",
        "1 x the box is not four finite numbers: annotation x: [1, 2]",
        "1 x the box names an unknown image: annotation 0: 5",
    ]


def test_images_may_be_smaller_than_those_annotated(images: Path) -> None:
    found = coco(images, [coco_image(1, "a.png", width=640, height=320)], [coco_box(1, [160, 80, 320, 160])])
    assert found.elements(found.images[0]) == [[0.25, 0.25, 0.75, 0.75, 1.0, 0.0]]


# -- Pascal VOC ------------------------------------------------------------------------------------------


def test_voc_boxes_begin_at_pixel_one(images: Path) -> None:
    found = voc(
        images,
        one=voc_text("a.png", ("dog", 1, 1, 40, 20), ("cat", 11, 6, 30, 15)),
        two=voc_text("below/c.png", size=None),
    )
    assert found.classes == ("cat", "dog")
    sets = [found.elements(image) for image in found.images]
    assert sets == [[[0.0, 0.0, 1.0, 1.0, 0.0, 1.0], [0.25, 0.25, 0.75, 0.75, 1.0, 0.0]], []]


def test_voc_files_that_cannot_be_used(images: Path) -> None:
    found = voc(
        images,
        a=voc_text("a.png", ("dog", 1, 1, 40, 20), ("cat", 50, 6, 60, 15)),
        b="<!DOCTYPE a><a/>",
        c=voc_text("missing.png"),
        d=voc_text("a.png"),
    )
    assert found.skips.lines() == [
        "1 x the box lies outside of the image or has no area: a.xml, object 1: [50.0, 6.0, 60.0, 15.0]",
        "1 x the XML file cannot be used: b.xml (it has a DOCTYPE, which may define entities and is not accepted)",
        "1 x the image file is missing: c.xml, missing.png",
        "1 x a second record of the same image: d.xml, a.png",
    ]
    assert found.classes == ("dog",)  # that of the box left out is none


# -- nothing to use --------------------------------------------------------------------------------------


def test_nothing_that_can_be_used(images: Path) -> None:
    with pytest.raises(DataError, match=r"no box can be used. Left out: 1 x the box lies outside"):
        coco(images, [coco_image(1, "a.png")], [coco_box(1, [90, 0, 5, 5])])
    with pytest.raises(DataError, match=r"Left out: 1 x the image file is missing: a.xml, missing.png"):
        voc(images, a=voc_text("missing.png", ("dog", 1, 1, 40, 20)))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "cannot be read as JSON"),
        ("[" * 100_000, "cannot be read as JSON"),
        ("[]", "expected a COCO file, an object with the lists 'images' and 'annotations'"),
        ('{"images": []}', "expected a COCO file"),
        ('{"images": [], "annotations": [], "categories": [{"name": "cat"}]}', "whole numbers as 'id', each once"),
        (
            '{"images": [], "annotations": [], "categories": [{"id": 1}, {"id": 1}]}',
            "whole numbers as 'id', each once",
        ),
    ],
)
def test_other_files_are_refused(images: Path, content: str, told: str) -> None:
    path = images.parent / "coco.json"
    path.write_text(content)
    with pytest.raises(DataError, match=told):
        read_annotations(path, images)


def test_missing_files_and_folders(images: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"There is no folder of images at {tmp_path / 'none'}"):
        read_annotations(tmp_path, tmp_path / "none")
    with pytest.raises(
        DataError, match=f"There are no annotations at {tmp_path / 'none'}: expected a COCO JSON file"
    ):
        read_annotations(tmp_path / "none", images)
    with pytest.raises(DataError, match=f"{images} holds no XML files"):
        read_annotations(images, images)


# -- JSON lines ------------------------------------------------------------------------------------------


def two_images(images: Path) -> BoxAnnotations:
    boxes = [coco_box(1, [10, 5, 20, 10], 7), coco_box(2, [0, 0, 4, 4])]
    return coco(images, [coco_image(1, "a.png"), coco_image(2, "b.png")], boxes)


def test_lines_can_be_read_as_data(images: Path, tmp_path: Path) -> None:
    output = tmp_path / "converted" / "boxes.jsonl"
    write_boxes(two_images(images), output)
    data = read_data_file(output)
    assert data.input_kind == "image"
    x, elements = data[0]
    assert np.array_equal(x.numpy(), np.array(Image.open(images / "a.png")).transpose(2, 0, 1))
    assert elements.tolist() == [[0.25, 0.25, 0.75, 0.75, 0.0, 1.0]]
    assert json.loads(output.read_text().splitlines()[0])["input"] == "../photos/a.png"
    described = {"classes": ["cat", "dog"], "boxes": [[0, 4]], "categories": [[4, 6]]}
    assert json.loads(classes_file(output).read_text()) == described


def test_copies_have_one_size(images: Path, tmp_path: Path) -> None:
    records = [coco_image(1, "a.png"), coco_image(2, "below/c.png"), coco_image(3, "short.png")]
    (images / "short.png").write_bytes((images / "b.png").read_bytes()[:500])  # whole enough to tell its size
    write_image(images / "below" / "a.png", 5)
    records.append(coco_image(4, "below/a.png"))
    found = coco(images, records, [coco_box(key, [0, 0, 9, 9]) for key in (1, 2, 3, 4)])
    assert len(found.images) == 4
    written = write_boxes(found, tmp_path / "boxes.jsonl", size=16)
    assert [image.path.name for image in written.images] == ["a.png", "c.png", "a.png"]
    data = read_data_file(tmp_path / "boxes.jsonl")
    assert [tuple(x.shape) for x, _ in data] == [(3, 16, 16)] * 3
    assert np.array_equal(data[2][0].numpy(), read_image(images / "below" / "a.png", 16))
    names = sorted(path.name for path in (tmp_path / "boxes-images").iterdir())
    assert names == ["000000-a.png", "000001-c.png", "000003-a.png"]
    assert found.skips.counts == {"the image is broken": 1}


def test_no_image_can_be_copied(images: Path, tmp_path: Path) -> None:
    (images / "short.png").write_bytes((images / "b.png").read_bytes()[:500])
    found = coco(images, [coco_image(1, "short.png")], [coco_box(1, [0, 0, 9, 9])])
    with pytest.raises(
        DataError, match=r"No image can be used. Left out: 1 x the image is broken: short.png \(image"
    ):
        write_boxes(found, tmp_path / "boxes.jsonl", size=16)
    assert not (tmp_path / "boxes.jsonl").exists()
