"""The published box formula, and the state of objects, against plain Python."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from desp.data.clevr_boxes import (
    COLOURS,
    MATERIALS,
    SHAPES,
    SIZES,
    STATE_CATEGORIES,
    STATE_FEATURES,
    formula_boxes,
    scene_state,
)


def plain_box(
    shape: str, pixel: tuple[float, float], at: tuple[float, float, float], right: tuple[float, float]
) -> list[float]:
    """One box with numbers alone, written down step by step."""
    (px, py), (x, y, z), (cosine, sine) = pixel, at, right
    x = x * cosine + y * sine
    y = x * -sine + y * cosine
    below = above = left = right_side = 6.9 * z * (15 - y) / 2.0
    if shape == "cylinder":
        d, h = 9.4 + y, 6.4
        below *= (z * (h / d + 1)) / ((z * (h / d + 1)) - (z * (h - z) / d))
        above = below * (h - z + d) / (h + z + d)
        left *= 11 / (10 + y)
        right_side = left
    if shape == "cube":
        below *= 1.3 * 10 / (10 + y)
        above = left = right_side = below
    return [(px - left) / 480.0, (py - above) / 320.0, (px + right_side) / 480.0, (py + below) / 320.0]


def boxes_of(shapes: list[str], *columns: list[tuple[float, ...]]) -> torch.Tensor:
    pixels, positions, right = (torch.tensor(column, dtype=torch.float64) for column in columns)
    return formula_boxes(pixels, positions, torch.tensor([SHAPES.index(shape) for shape in shapes]), right)


coordinate = st.floats(-3, 3)
objects = st.tuples(
    st.sampled_from(SHAPES),
    st.tuples(st.floats(0, 480), st.floats(0, 320)),
    st.tuples(coordinate, coordinate, st.sampled_from([0.35, 0.7])),
    st.floats(-math.pi, math.pi).map(lambda angle: (math.cos(angle), math.sin(angle))),
)


@given(st.lists(objects, min_size=1, max_size=10))
def test_boxes_are_those_of_plain_python(scene: list[tuple[str, tuple, tuple, tuple]]) -> None:
    shapes, *columns = (list(column) for column in zip(*scene, strict=True))
    expected = torch.tensor([plain_box(*item) for item in scene], dtype=torch.float64)
    torch.testing.assert_close(boxes_of(shapes, *columns), expected, rtol=1e-12, atol=1e-12)


# In the middle of the image, z = 1, and a depth of 0, where every term can be worked out by hand:
# half = 6.9 * 15 / 2 = 51.75, cube = 1.3 half = 67.275, and for the cylinder side = 1.1 half = 56.925,
# up = half * (15.8 / 9.4) / (10.4 / 9.4) = half * 15.8 / 10.4, down = up * 14.8 / 16.8.
UP = 51.75 * 15.8 / 10.4
BY_HAND = {
    "sphere": (51.75, 51.75, 51.75),
    "cube": (67.275, 67.275, 67.275),
    "cylinder": (UP, UP * 14.8 / 16.8, 56.925),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_boxes_by_hand(shape: str) -> None:
    up, down, side = BY_HAND[shape]
    box = boxes_of([shape], [(240, 160)], [(0, 0, 1)], [(1, 0)])
    pixels = box * torch.tensor([480, 320, 480, 320])
    expected = torch.tensor([[240 - side, 160 - down, 240 + side, 160 + up]], dtype=torch.float64)
    torch.testing.assert_close(pixels, expected)


def test_the_depth_is_computed_from_the_rotated_coordinate() -> None:
    """With right = (0, 1), X' = Y = 2 and Y' = -2; a true rotation would give Y' = -X = -1."""
    box = boxes_of(["sphere"], [(0, 0)], [(1, 2, 1)], [(0, 1)])
    assert float(box[0, 2]) == pytest.approx(6.9 * 17 / 2 / 480)


def test_boxes_of_no_objects_and_of_more_dimensions() -> None:
    nothing = formula_boxes(
        torch.zeros(0, 2), torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64), torch.zeros(0, 2)
    )
    assert nothing.shape == (0, 4)
    random = torch.Generator().manual_seed(0)
    pixels, positions, right = (torch.rand(2, 5, size, generator=random) for size in (2, 3, 2))
    shapes = torch.randint(3, (2, 5), generator=random)
    together = formula_boxes(pixels, positions, shapes, right)
    for scene in range(2):
        alone = formula_boxes(pixels[scene], positions[scene], shapes[scene], right[scene])
        assert torch.equal(together[scene], alone)


@given(
    st.lists(
        st.tuples(
            st.tuples(coordinate, coordinate, coordinate),
            st.sampled_from(MATERIALS),
            st.sampled_from(COLOURS),
            st.sampled_from(SHAPES),
            st.sampled_from(SIZES),
        ),
        min_size=1,
        max_size=10,
    )
)
def test_states_are_coordinates_and_one_hot_attributes(scene: list[tuple]) -> None:
    positions = torch.tensor([item[0] for item in scene], dtype=torch.float64)
    kinds = (MATERIALS, COLOURS, SHAPES, SIZES)
    indices = [torch.tensor([names.index(item[1 + i]) for item in scene]) for i, names in enumerate(kinds)]
    states = scene_state(positions, *indices)
    expected = [
        [value / 3 for value in item[0]]
        + [float(item[1 + i] == name) for i, kind in enumerate(kinds) for name in kind]
        for item in scene
    ]
    torch.testing.assert_close(states, torch.tensor(expected, dtype=torch.float64))
    assert states.shape[-1] == STATE_FEATURES
    for first, end in STATE_CATEGORIES:
        assert (states[:, first:end].sum(dim=1) == 1).all()


def test_attributes_are_those_of_clevr() -> None:
    assert (len(MATERIALS), len(COLOURS), len(SHAPES), len(SIZES)) == (2, 8, 3, 2)
    assert [end - first for first, end in STATE_CATEGORIES] == [2, 8, 3, 2]
