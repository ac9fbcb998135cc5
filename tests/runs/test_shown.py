"""What files for pictures hold of a run: which columns are boxes, and images that are small."""

import base64
import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from desp.data.shape import DataShape
from desp.errors import DataError
from desp.report.figures.boxes import box_window
from desp.report.figures.points import Axes2D, as_points
from desp.runs.folder import LoadedRun
from desp.runs.shown import MAX_PLOTTED_SIDE, drawing_axes, drawn_image, image_uri, shown_values
from desp.scaling import FeatureScaling
from desp.settings import DataDescription, FilesSettings, PolygonsSettings, RunSettings
from desp.tasks.base import ShownExample

DESCRIBED = DataDescription(boxes=((1, 5),), categories=((5, 7),), class_names=("cat", "dog"), position=((7, 9),))


def run_of(shape: DataShape, own_data: bool = True, image_size: int = 0, **axes: Any) -> LoadedRun:
    task: Any = SimpleNamespace(axes=axes)
    own = FilesSettings(path="a", image_size=image_size)
    predictor: Any = SimpleNamespace(shape=shape)
    return LoadedRun(RunSettings(recipe="mine", task=own if own_data else PolygonsSettings()), 0, task, predictor)


def axes_of(shape: DataShape, **options: Any) -> dict[str, Any]:
    return drawing_axes(run_of(shape, **options))


def test_boxes_and_classes_move_with_the_columns_that_are_drawn() -> None:
    scaling = FeatureScaling.from_range((0,) * 9, (1,) * 9, DESCRIBED.boxes)
    axes = axes_of(DataShape((3, 8, 6), 9, 2, scaling, "image", DESCRIBED))
    assert axes["names"][:3] == ["column 7", "column 8", "column 0"]
    assert (axes["boxes"], axes["categories"], axes["classes"]) == ([3, 7], [7, 9], ["cat", "dog"])
    assert axes["extent"] == [1, 1]


def test_boxes_in_pixels_have_the_extent_of_the_image() -> None:
    boxes = DataDescription(boxes=((0, 4),))
    scaling = FeatureScaling.from_range((0, 0, 1, 1), (100, 80, 30, 30), boxes.boxes)
    shape = DataShape((3, 80, 100), 4, 2, scaling, "image", boxes)
    assert axes_of(shape)["extent"] == [100, 80]
    assert "extent" not in axes_of(DataShape((2,), 4, 2, scaling, description=boxes))


def test_unscaled_boxes_are_drawn_without_the_image_unless_their_unit_is_known() -> None:
    shape = DataShape((3, 80, 100), 4, 2, input_kind="image", description=DataDescription(boxes=((0, 4),)))
    of_task = {"names": ["left", "top", "right", "bottom"]}
    example = ShownExample("first", None, torch.zeros(3, 80, 100), [torch.tensor([[10.0, 20, 90, 70]])])
    for options, extent in (({}, None), ({"image_size": 100}, [1, 1]), ({"own_data": False, **of_task}, [1, 1])):
        run = run_of(shape, **options)
        assert drawing_axes(run).get("extent") == extent
        assert ("image" in shown_values(run, example, [], torch.zeros(0))) is (extent is not None)
    view = box_window([as_points([[10.0, 20, 90, 70]])], [], Axes2D.from_samples({"axes": axes_of(shape)}))
    assert ((view[0] < 20) & (view[1] > 70)).all()


def test_other_sets_have_the_axes_of_their_task() -> None:
    own = {"names": ["x", "y"], "closed": True, "row_first": False}
    assert axes_of(DataShape((2,), 2, 2), own_data=False, **own) == own


@pytest.mark.parametrize(("channels", "size"), [(3, (40, 20)), (1, (40, 20)), (3, (400, 200)), (4, (2, 2))])
def test_images_are_small_colour_pngs(channels: int, size: tuple[int, int]) -> None:
    image = torch.full((channels, *size), 51, dtype=torch.uint8)
    for pixels in (image, image.float() / 255):
        text = image_uri(pixels)
        content = base64.b64decode(text.removeprefix("data:image/png;base64,"))
        with Image.open(io.BytesIO(content)) as picture:
            assert picture.mode == "RGB"
            assert picture.size == (min(size[1], 64), min(size[0], 128))
            assert (np.array(picture) == 51).all()


def test_a_png_has_the_pixels_of_its_image() -> None:
    image = torch.randint(256, (3, 9, 5), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    content = base64.b64decode(image_uri(image).removeprefix("data:image/png;base64,"))
    with Image.open(io.BytesIO(content)) as picture:
        assert np.array_equal(np.array(picture), image.permute(1, 2, 0).numpy())


def test_large_images_are_drawn_smaller_in_their_proportions(tmp_path: Path) -> None:
    Image.new("RGB", (2 * MAX_PLOTTED_SIDE, 100)).save(tmp_path / "wide.png")
    assert drawn_image(tmp_path / "wide.png").shape == (50, MAX_PLOTTED_SIDE, 3)
    Image.new("L", (5, 7)).save(tmp_path / "small.png")
    assert drawn_image(tmp_path / "small.png").shape == (7, 5, 3)
    (tmp_path / "broken.png").write_text("no")
    with pytest.raises(DataError, match=r"broken.png cannot be drawn: the image is broken"):
        drawn_image(tmp_path / "broken.png")
