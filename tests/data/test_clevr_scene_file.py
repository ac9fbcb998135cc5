"""Scene files: what they say, and which scenes cannot be used."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from desp.data.clevr_files import split_files
from desp.data.clevr_scene_file import AnnotatedScenes, read_scenes
from desp.errors import DataError
from tiny_clevr import ATTRIBUTES, tiny_scene, write_image, write_scenes

Edit = Callable[[dict[str, Any]], None]


def read(folder: Path, scenes: list[Any], images: int | None = None, note: str = "made up") -> AnnotatedScenes:
    for index in range(len(scenes) if images is None else images):
        write_image(folder / "images" / "train" / f"CLEVR_train_{index:06d}.png", index, 4, 4)
    write_scenes(folder, "train", scenes, note)
    return read_scenes(split_files(folder, "train"))


def with_one_edited(folder: Path, edit: Edit) -> AnnotatedScenes:
    """Three scenes, of which the second is edited."""
    scenes = [tiny_scene("train", index, 2) for index in range(3)]
    edit(scenes[1])
    return read(folder, scenes)


def test_scenes_are_read_in_their_order_and_padded(tmp_path: Path) -> None:
    scenes = [tiny_scene("train", index, count) for index, count in ((2, 10), (0, 0), (1, 1))]
    found = read(tmp_path, scenes)
    assert found.names == tuple(scene["image_filename"] for scene in scenes)
    assert found.sizes.tolist() == [10, 0, 1]
    assert found.boxes.shape == (3, 10, 4)
    assert found.states.shape == (3, 10, 18)
    assert found.boxes.dtype == found.states.dtype == torch.float32
    absent = torch.arange(10) >= found.sizes.unsqueeze(1)
    assert not found.boxes[absent].any()
    assert not found.states[absent].any()
    assert (found.clipped, found.skips.total) == (0, 0)
    for scene, states, boxes in zip(scenes, found.states, found.boxes, strict=True):
        for item, state, box in zip(scene["objects"], states, boxes, strict=False):
            expected = [value / 3 for value in item["3d_coords"]]
            expected += [float(item[key] == name) for key, names in ATTRIBUTES.items() for name in names]
            torch.testing.assert_close(state, torch.tensor(expected))
            x, y = item["pixel_coords"][0] / 480, item["pixel_coords"][1] / 320
            assert box[0] < x < box[2]
            assert box[1] < y < box[3]
            torch.testing.assert_close(x - box[0], box[2] - x)


def test_which_data_they_are(tmp_path: Path) -> None:
    scenes = [tiny_scene("train", 0, 2)]
    assert read(tmp_path, scenes).label == "CLEVR v1.0"
    assert read(tmp_path, scenes, note="re-rendered with other lamps").label == "re-rendered CLEVR"
    path = tmp_path / "scenes" / "CLEVR_train_scenes.json"
    for content in (
        {"scenes": scenes},
        {"scenes": scenes, "info": {"version": "1.0"}},
        {"scenes": scenes, "info": 3},
    ):
        path.write_text(json.dumps(content))
        assert read_scenes(split_files(tmp_path, "train")).label == "CLEVR v1.0"


def remove(*keys: str) -> Edit:
    def edit(scene: dict[str, Any]) -> None:
        *path, last = keys
        for key in path:
            scene = scene[key] if key != "object" else scene["objects"][1]
        del scene[last]

    return edit


def put(value: Any, *keys: str) -> Edit:
    def edit(scene: dict[str, Any]) -> None:
        *path, last = keys
        for key in path:
            scene = scene[key] if key != "object" else scene["objects"][1]
        scene[last] = value

    return edit


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (remove("image_filename"), "image_filename: expected str, got nothing"),
        (put(["a.png"], "image_filename"), "image_filename: expected str, got list"),
        (remove("objects"), "objects: expected list, got nothing"),
        (remove("directions"), "directions: expected dict, got nothing"),
        (remove("directions", "right"), "right: expected list, got nothing"),
        (put([0.5], "directions", "right"), "right: expected 2 finite numbers, got [0.5]"),
        (remove("object", "color"), "color: expected str, got nothing"),
        (put("pink", "object", "color"), "color: expected one of gray, .*, got 'pink'"),
        (put([1, 2], "object", "3d_coords"), "3d_coords: expected 3 finite numbers, got [1, 2]"),
        (put([1, True, 0], "object", "3d_coords"), "3d_coords: expected 3 finite numbers"),
        (put(["1", 2, 0], "object", "3d_coords"), "3d_coords: expected 3 finite numbers"),
        (put([float("nan"), 2, 0], "object", "pixel_coords"), "pixel_coords: expected 2 finite numbers"),
        (put([10**400, 2, 0], "object", "pixel_coords"), "pixel_coords: expected 2 finite numbers"),
        (put([3], "objects"), "material: expected str, got nothing"),
    ],
)
def test_scenes_with_missing_or_wrong_keys_are_left_out(tmp_path: Path, edit: Edit, told: str) -> None:
    found = with_one_edited(tmp_path, edit)
    assert found.names == ("CLEVR_train_000000.png", "CLEVR_train_000002.png")
    assert found.skips.counts["a key is missing or wrong"] == 1
    (example,) = found.skips.examples["a key is missing or wrong"]
    start, _, end = told.partition(".*")
    assert example.startswith(f"scene 1 ({start}")
    assert end in example


def test_a_scene_that_is_no_object_is_left_out(tmp_path: Path) -> None:
    assert read(tmp_path, [tiny_scene("train", 0, 2), 7], images=1).skips.total == 1


def test_images_and_scenes_without_each_other(tmp_path: Path) -> None:
    scenes = [tiny_scene("train", index, 2) for index in (0, 5, 1)]
    found = read(tmp_path, [*scenes, scenes[0]], images=3)
    assert found.names == ("CLEVR_train_000000.png", "CLEVR_train_000001.png")
    assert found.skips.lines() == [
        "1 x the image of a scene is missing: scene 1 (CLEVR_train_000005.png)",
        "1 x the image of a scene has another scene: scene 3 (CLEVR_train_000000.png)",
        "1 x image without a scene: CLEVR_train_000002.png",
    ]


def test_no_scene_leads_out_of_the_folder(tmp_path: Path) -> None:
    write_image(tmp_path / "images" / "secret.png", 0)
    found = with_one_edited(tmp_path, put("../secret.png", "image_filename"))
    assert "the image of a scene is missing" in found.skips.counts


def test_scenes_of_too_many_objects_are_left_out(tmp_path: Path) -> None:
    found = read(tmp_path, [tiny_scene("train", 0, 11), tiny_scene("train", 1, 10)])
    assert found.sizes.tolist() == [10]
    assert found.skips.lines() == ["1 x more than 10 objects: scene 0 (CLEVR_train_000000.png: 11)"]


def test_boxes_that_leave_the_image_are_clipped_and_counted(tmp_path: Path) -> None:
    found = with_one_edited(tmp_path, put([0, 319, 9], "object", "pixel_coords"))
    assert (len(found), found.clipped, found.skips.total) == (3, 1, 0)
    box = found.boxes[1, 1]
    assert box[0] == 0
    assert box[3] == 1
    assert box[2] > 0
    assert box[1] < 1


@pytest.mark.parametrize(
    "edit",
    [
        put([-300, 160, 9], "object", "pixel_coords"),  # beside the image
        put([240, 900, 9], "object", "pixel_coords"),
        put([0, 0, -0.7], "object", "3d_coords"),  # below the floor: a negative size
        put([0, 0, 0], "object", "3d_coords"),
    ],
)
def test_scenes_with_a_box_that_cannot_be_used_are_left_out(tmp_path: Path, edit: Edit) -> None:
    found = with_one_edited(tmp_path, edit)
    assert found.names == ("CLEVR_train_000000.png", "CLEVR_train_000002.png")
    line = "1 x a box lies outside of the image or has no area: CLEVR_train_000001.png"
    assert found.skips.lines() == [line]
    assert found.clipped == 0


def test_a_box_that_is_not_finite_is_left_out(tmp_path: Path) -> None:
    """A cube at the depth where the formula divides by zero."""
    scenes = [tiny_scene("train", index, 1) for index in range(2)]
    scenes[0]["directions"]["right"] = [1.0, 0.0, 0.0]
    scenes[0]["objects"][0].update({"shape": "cube", "3d_coords": [0, -10, 0.7]})
    assert read(tmp_path, scenes).names == ("CLEVR_train_000001.png",)


def test_nothing_that_can_be_used(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"none of its scenes can be used: 1 x more than 10 objects: scene 0 \(CLEVR"
    ):
        read(tmp_path, [tiny_scene("train", 0, 11)])
    with pytest.raises(DataError, match="none of its scenes can be used: 1 x image without a scene"):
        read(tmp_path, [])


@pytest.mark.parametrize("content", ["{", "", "\xff", "[" * 100_000])
def test_a_scene_file_that_is_no_json(tmp_path: Path, content: str) -> None:
    read(tmp_path, [tiny_scene("train", 0, 2)])
    path = tmp_path / "scenes" / "CLEVR_train_scenes.json"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(DataError, match=f"{path} cannot be read as JSON .*Unpack or copy it again"):
        read_scenes(split_files(tmp_path, "train"))


@pytest.mark.parametrize("content", ["[]", "{}", '{"scenes": {}}'])
def test_a_scene_file_without_scenes(tmp_path: Path, content: str) -> None:
    read(tmp_path, [tiny_scene("train", 0, 2)])
    (tmp_path / "scenes" / "CLEVR_train_scenes.json").write_text(content)
    with pytest.raises(DataError, match="expected a JSON object with a list 'scenes'"):
        read_scenes(split_files(tmp_path, "train"))
