"""Boxes in a user's own images, from the example's files to pictures of predictions."""

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tiny_clevr import png_that_claims

Desp = Callable[..., Any]

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_boxes.py"
TRAIN = [
    *("train", "custom", "--data", "scenes/scenes.jsonl", "--use-method", "box-denoiser"),
    *("--task.image-size", "32", "--task.description.boxes", "0", "4", "--task.description.categories", "4", "7"),
    *("--method.hidden", "16", "--method.layers", "1", "--method.heads", "2", "--method.noise-draws", "1"),
    *("--method.sampler.steps", "2", "--training.steps", "2", "--training.batch-size", "2"),
    *("--training.validate-every", "0", "--run", "boxes", "--device", "cpu"),
]
PNG = b"\x89PNG"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("own-boxes")


@pytest.fixture(autouse=True)
def home(place: Path, desp: Desp, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the data of the example, and a run on them, made once; tests are in it."""
    monkeypatch.chdir(place)
    if not Path("boxes").exists():
        runpy.run_path(str(EXAMPLE))["main"](Path("scenes"), count=3)
        finished = desp(*TRAIN)
        assert finished.status == 0, finished.err
    return place


def lines_of(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(name).read_text().splitlines()]


def test_the_example_writes_images_with_boxes_of_three_classes() -> None:
    for line in lines_of("scenes/scenes.jsonl"):
        with Image.open(Path("scenes") / line["input"]) as image:
            assert image.size == (192, 128)
        for left, top, right, bottom, *shape in line["set"]:
            assert 0 <= left < right <= 1
            assert 0 <= top < bottom <= 1
            assert sorted(shape) == [0, 0, 1]


def test_the_report_has_the_images(home: Path) -> None:
    samples = json.loads((home / "boxes" / "samples.json").read_text())
    assert samples["axes"]["classes"] == ["cube", "sphere", "cylinder"]
    assert (samples["axes"]["boxes"], samples["axes"]["extent"]) == ([0, 4], [1, 1])
    assert all(item["image"].startswith("data:image/png;base64,") for item in samples["examples"])
    assert "Boxes are drawn over the input" in (home / "boxes" / "report.html").read_text()


def test_an_image_of_any_size_gives_the_best_set_and_a_picture(desp: Desp) -> None:
    finished = desp("predict", "boxes", "--input", "scenes/0001.png", "--best", "--draw", "pictures")
    assert finished.status == 0, finished.err
    assert finished.out.splitlines() == [
        "1 input, the best set of 40 samples: 0001-predicted.jsonl",
        "1 picture: pictures",
    ]
    (line,) = lines_of("0001-predicted.jsonl")
    assert line["input"] == "scenes/0001.png"
    assert len(line["best"]["set"]) == len(line["best"]["confidence"])
    confidence = line["best"]["confidence"]  # of the most probable number of boxes, however few samples have them
    assert confidence == sorted(confidence, reverse=True)
    assert all(0 < share <= 1 for share in confidence)
    assert [path.name for path in Path("pictures").iterdir()] == ["0001-predicted.png"]
    assert Path("pictures/0001-predicted.png").read_bytes().startswith(PNG)


def test_images_named_in_a_file_have_a_picture_each(desp: Desp) -> None:
    arguments = ["predict", "boxes", "--input", "scenes/scenes.jsonl"]
    finished = desp(*arguments, "--output", "out.jsonl", "--samples", 2, "--draw", "many")
    assert finished.status == 0, finished.err
    assert sorted(path.name for path in Path("many").iterdir()) == [
        f"{number + 1:04d}-{number:04d}-predicted.png" for number in range(3)
    ]
    assert [len(line["samples"]) for line in lines_of("out.jsonl")] == [2] * 3
    assert "Pass --output FILE" in desp(*arguments).err


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("none.png", None, "--input: cannot read the image none.png (["),
        ("text.JPG", b"text", "--input: cannot read the image text.JPG: the image is broken"),
        ("huge.png", png_that_claims(9000, 9000), "the image has more than 64 million pixels"),
    ],
)
def test_images_that_cannot_be_read(desp: Desp, name: str, content: bytes | None, told: str) -> None:
    if content is not None:
        Path(name).write_bytes(content)
    finished = desp("predict", "boxes", "--input", name)
    assert finished.status == 2
    assert told in finished.message
    assert not list(Path().glob("*-predicted.jsonl.tmp"))


def test_pictures_go_into_a_folder(desp: Desp) -> None:
    Path("file").write_text("")
    finished = desp("predict", "boxes", "--input", "scenes/0000.png", "--draw", "file")
    assert finished.status == 2
    assert "file is a file. Choose a folder with --draw." in finished.message


def test_other_runs_refuse_an_image_and_draw_sets_of_points(desp: Desp, polygons: Path, tmp_path: Path) -> None:
    refused = desp("predict", polygons, "--input", "scenes/0000.png")
    assert refused.status == 2
    assert "scenes/0000.png is an image, but an input of this run is a vector" in refused.message
    inputs = tmp_path / "in.jsonl"
    inputs.write_text('{"input": 4}\n')
    arguments = ["--input", inputs, "--output", tmp_path / "out.jsonl", "--draw", tmp_path / "points"]
    finished = desp("predict", polygons, *arguments, "--best", "--samples", 3)
    assert finished.status == 0, finished.err
    assert (tmp_path / "points" / "0001-predicted.png").read_bytes().startswith(PNG)
    (line,) = lines_of(str(tmp_path / "out.jsonl"))
    assert list(line["best"]) == ["set"]


def test_the_best_of_one_sample_is_not_called_the_best(desp: Desp, polygons: Path, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"input": 4}\n')
    arguments = ["--input", tmp_path / "in.jsonl", "--output", tmp_path / "out.jsonl", "--best"]
    for samples, told in ((1, "1 set each"), (2, "the best set of 2 samples")):
        assert f"1 input, {told}: " in desp("predict", polygons, *arguments, "--samples", samples).out


def test_help_tells_of_pictures(desp: Desp) -> None:
    text = desp("predict", "--help").out
    assert "desp predict runs/boxes --input photo.jpg --best --draw pictures" in text
    assert "with --best 40" in " ".join(text.replace("│", " ").split())
