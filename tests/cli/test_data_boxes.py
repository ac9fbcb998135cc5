"""`desp data boxes`, and training on what it writes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tiny_clevr import write_image

Desp = Callable[..., Any]

SHORT = [
    *("--training.steps", "2"),
    *("--training.batch-size", "4"),
    *("--training.validate-every", "2"),
    *("--method.energy.hidden", "8"),
    *("--method.sampler.steps", "2"),
    *("--device", "cpu"),
]


@pytest.fixture
def annotations(tmp_path: Path) -> Path:
    """Twelve images of different sizes with a box of one of two classes each, and one that is missing."""
    images, boxes = [], []
    for index in range(13):
        images.append({"id": index, "file_name": f"{index}.png"})
        boxes.append({"image_id": index, "bbox": [2, 3, 10 + index, 9], "category_id": index % 2})
        if index < 12:
            write_image(tmp_path / "photos" / f"{index}.png", index, 32 + index % 3, 24)
    categories = [{"id": 0, "name": "cat"}, {"id": 1, "name": "dog"}]
    path = tmp_path / "coco.json"
    path.write_text(json.dumps({"images": images, "annotations": boxes, "categories": categories}))
    return path


def test_boxes_are_converted_and_trained_on(desp: Desp, annotations: Path) -> None:
    arguments = ["data", "boxes", annotations, "--images", "photos", "--output"]
    finished = desp(*arguments, "plain.jsonl")
    assert finished.status == 0, finished.err
    assert "Images have 3 different sizes; training resizes them to 128 x 128. --size 128" in finished.message
    assert finished.out.rstrip().endswith("--task.description.categories 4 6 --task.image-size 128")
    finished = desp(*arguments, "boxes.jsonl", "--size", "16")
    assert finished.status == 0, finished.err
    assert "boxes.jsonl: 12 images, 12 boxes, 1 to 1 an image" in finished.message
    assert "boxes.classes.json: 2 classes: cat, dog" in finished.message
    assert "1 left out, 0 boxes clipped to their image" in finished.message
    assert "1 x the image file is missing: image 12, 12.png" in finished.message
    assert "different sizes" not in finished.message
    _, _, command = finished.out.partition("To train: desp ")
    assert command.split() == [
        *("train", "custom", "--data", "boxes.jsonl", "--run", "runs/boxes"),
        *("--task.description.boxes", "0", "4", "--task.description.categories", "4", "6"),
    ]
    trained = desp(*command.split(), *SHORT)
    assert trained.status == 0, trained.err
    saved = json.loads(Path("runs/boxes/settings.json").read_text())
    assert saved["settings"]["task"]["description"]["categories"] == [[4, 6]]
    model = json.loads(Path("runs/boxes/model/config.json").read_text())["desp"]
    assert model["shape"]["description"]["class_names"] == ["cat", "dog"]


def test_only_what_is_written_is_counted(desp: Desp, annotations: Path) -> None:
    """An image that cannot be decoded is found only when it is copied."""
    content = json.loads(annotations.read_text())
    content["annotations"][3]["bbox"] = [-2, 3, 10, 9]  # clipped
    annotations.write_text(json.dumps(content))
    broken = Path("photos/3.png")
    broken.write_bytes(broken.read_bytes()[:-40])
    finished = desp("data", "boxes", annotations, "--images", "photos", "--output", "boxes.jsonl", "--size", "16")
    assert finished.status == 0, finished.err
    assert len(Path("boxes.jsonl").read_text().splitlines()) == 11
    assert "boxes.jsonl: 11 images, 11 boxes, 1 to 1 an image" in finished.message
    assert "2 left out, 0 boxes clipped to their image" in finished.message


def test_images_of_different_sizes_are_resized_when_they_are_trained_on(desp: Desp, annotations: Path) -> None:
    converted = desp("data", "boxes", annotations, "--images", "photos", "--output", "boxes.jsonl")
    _, _, command = converted.out.partition("To train: desp ")
    words = [*command.split()[:-2], *SHORT]
    refused = desp(*words)
    assert refused.status == 2
    assert "line 2: images have different sizes (32 x 24 and 33 x 24)" in refused.message
    assert desp(*words, "--task.image-size", "16").status == 0
    shape = json.loads(Path("runs/boxes/model/config.json").read_text())["desp"]["shape"]
    assert shape["input_shape"] == [3, 16, 16]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["coco.json", "--images", "none", "--output", "out.jsonl"],
            "error: There is no folder of images at none",
        ),
        (["none", "--images", "photos", "--output", "out.jsonl"], "error: There are no annotations at none"),
        (
            ["coco.json", "--images", "photos", "--output", "o.jsonl", "--size", "0"],
            "error: --size must be at least 1",
        ),
    ],
)
def test_boxes_that_cannot_be_converted(desp: Desp, annotations: Path, arguments: list[str], told: str) -> None:
    finished = desp("data", "boxes", *arguments)
    assert finished.status == 2
    assert told in finished.message
    assert not Path("out.jsonl").exists()


def test_help_of_the_converter(desp: Desp) -> None:
    finished = desp("data", "--help")
    for name in ("mnist", "fashion", "clevr", "boxes"):
        assert f"desp data {name}" in finished.out
    assert "--images" in desp("data", "boxes", "--help").out
