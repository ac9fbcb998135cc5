"""Scenes keep the rules of CLEVR, and their camera is the one that the published files come from."""

import math
from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from desp.data import clevr_scenes
from desp.data.clevr_scenes import (
    ALTERNATIVES,
    CAMERA,
    COLOURS,
    FOCAL_LENGTH,
    LIGHTS,
    MATERIALS,
    RADII,
    SHAPES,
    SIZES,
    TARGET,
    Scenes,
    camera_axes,
    draw_alternatives,
    fullest,
    project,
)
from desp.randomness import make_generator


def draw_scenes(count: int, generator: torch.Generator) -> Scenes:
    """Scenes in which objects keep their distances; some objects may be hidden."""
    return fullest(draw_alternatives(count, generator))


@pytest.fixture(scope="module")
def scenes() -> Scenes:
    return draw_scenes(300, make_generator(0))


def test_shapes_and_types(scenes: Scenes) -> None:
    assert len(scenes) == 300
    assert scenes.positions.shape == (300, 10, 3)
    assert scenes.positions.dtype == torch.float32
    for indices, names in (
        (scenes.shapes, SHAPES),
        (scenes.materials, MATERIALS),
        (scenes.colours, COLOURS),
        (scenes.size_indices, SIZES),
    ):
        assert indices.shape == (300, 10)
        assert indices.dtype == torch.int64
        counts = indices[scenes.mask].bincount(minlength=len(names))
        assert len(counts) == len(names)
        assert (counts > 0.75 * scenes.mask.sum() / len(names)).all()


def test_three_to_ten_objects_come_first(scenes: Scenes) -> None:
    counts = scenes.mask.sum(1)
    assert set(counts.tolist()) == set(range(3, 11))
    assert (scenes.mask == (torch.arange(10) < counts.unsqueeze(1))).all()
    # Uniform: 300 / 8 = 37.5 each, with a standard deviation of 5.7.
    assert counts.bincount(minlength=11)[3:].min() > 18


def test_objects_keep_their_distances(scenes: Scenes) -> None:
    """By the published rule, pair by pair."""
    for index in range(len(scenes)):
        right_x, right_y = scenes.right()[index].double().tolist()
        directions = ((right_x, right_y), (-right_x, -right_y), (right_y, -right_x), (-right_y, right_x))
        rows = [row for row in range(10) if scenes.mask[index, row]]
        places = {row: scenes.positions[index, row].double().tolist() for row in rows}
        radii = {row: (0.35, 0.7)[int(scenes.size_indices[index, row])] for row in rows}
        for first, second in combinations(rows, 2):
            x, y = (places[first][axis] - places[second][axis] for axis in (0, 1))
            assert math.hypot(x, y) - radii[first] - radii[second] >= 0.25
            for direction in directions:
                assert not 0 < x * direction[0] + y * direction[1] < 0.4


def test_objects_stand_on_the_ground_within_reach(scenes: Scenes) -> None:
    assert scenes.positions[scenes.mask][:, :2].abs().max() <= 3
    assert scenes.positions[scenes.mask][:, :2].abs().max() > 2.9
    heights = torch.tensor(RADII)[scenes.size_indices]
    torch.testing.assert_close(scenes.positions[..., 2], heights)
    assert scenes.rotations.min() >= 0
    assert 6.2 < scenes.rotations.max() < 2 * math.pi


def test_first_places_are_uniform() -> None:
    """The first object has no others to avoid."""
    scenes = draw_scenes(2000, make_generator(1))
    places = scenes.positions[:, 0, :2]
    assert places.mean(0).abs().max() < 0.15
    torch.testing.assert_close(places.std(0), torch.full((2,), 6 / math.sqrt(12)), atol=0.08, rtol=0)


def test_camera_and_lights_are_jittered(scenes: Scenes) -> None:
    camera = scenes.camera - torch.tensor(CAMERA)
    assert 0.45 < camera.abs().max() <= 0.5
    lights = scenes.lights - torch.tensor(LIGHTS)
    assert 0.9 < lights.abs().max() <= 1.0


def test_projection_follows_an_independent_formula(scenes: Scenes) -> None:
    """Angles from the camera, instead of axes."""
    pixels = scenes.pixel_coords()
    for index in range(5):
        camera = scenes.camera[index].double()
        look = torch.tensor(TARGET).double() - camera
        heading = math.atan2(look[1], look[0])
        pitch = math.atan2(look[2], math.hypot(look[0], look[1]))
        for row in range(10):
            x, y, z = (scenes.positions[index, row].double() - camera).tolist()
            ahead, left = (
                x * math.cos(heading) + y * math.sin(heading),
                y * math.cos(heading) - x * math.sin(heading),
            )
            depth = ahead * math.cos(pitch) + z * math.sin(pitch)
            up = z * math.cos(pitch) - ahead * math.sin(pitch)
            expected = (240 - 480 * FOCAL_LENGTH * left / depth, 160 - 480 * FOCAL_LENGTH * up / depth)
            assert pixels[index, row].tolist() == pytest.approx(expected, abs=0.01)


def test_the_target_is_in_the_middle() -> None:
    seen = project(torch.tensor([[TARGET]]), torch.tensor([CAMERA]))
    torch.testing.assert_close(seen, torch.full((1, 1, 2), 0.5))


def test_axes_are_orthonormal_and_right_is_level() -> None:
    axes = camera_axes(draw_scenes(3, make_generator(2)).camera)
    torch.testing.assert_close(axes @ axes.transpose(1, 2), torch.eye(3).expand(3, 3, 3), atol=1e-6, rtol=0)
    assert (axes[:, 0, 2] == 0).all()
    assert (axes[:, 1, 2] > 0).all()
    torch.testing.assert_close(torch.linalg.cross(axes[:, 0], axes[:, 1]), -axes[:, 2])


def test_alternatives_share_their_view() -> None:
    drawn = draw_alternatives(4, make_generator(3))
    assert len(drawn) == 4 * ALTERNATIVES
    camera = drawn.camera.view(4, ALTERNATIVES, 3)
    assert (camera == camera[:, :1]).all()
    assert (drawn.positions[0] != drawn.positions[1]).any()


def test_the_first_of_the_fullest_is_taken() -> None:
    drawn = draw_alternatives(2, make_generator(4))
    counts = torch.tensor([[3, 5, 4, 5, 2, 5], [4, 3, 3, 3, 3, 3]])
    kept = drawn.keep(torch.arange(10) < counts.view(-1, 1))
    chosen = fullest(kept)
    assert chosen.mask.sum(1).tolist() == [5, 4]
    assert (chosen.positions == kept.positions[[1, ALTERNATIVES]]).all()


def test_objects_without_a_place_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """One try and one alternative: many objects do not fit, but those that are there keep the rules."""
    monkeypatch.setattr(clevr_scenes, "TRIES", 1)
    monkeypatch.setattr(clevr_scenes, "ALTERNATIVES", 1)
    few = draw_scenes(100, make_generator(5))
    assert few.mask.sum(1).double().mean() < 5.5
    test_objects_keep_their_distances(few)


@given(st.integers(0, 10), st.integers(0, 10))
def test_keeping_moves_objects_to_the_front(first: int, second: int) -> None:
    scenes = draw_scenes(1, make_generator(6))
    mask = torch.zeros(1, 10, dtype=torch.bool)
    mask[:, min(first, second) : max(first, second)] = True
    kept = scenes.keep(mask)
    count = int(mask.sum())
    assert kept.mask.tolist() == [[True] * count + [False] * (10 - count)]
    assert (kept.colours[0, :count] == scenes.colours[mask]).all()
    assert (kept.positions[0, :count] == scenes.positions[mask]).all()


def test_one_seed_one_draw() -> None:
    first, second, other = (draw_scenes(5, make_generator(seed)) for seed in (7, 7, 8))
    assert (first.positions == second.positions).all()
    assert (first.positions != other.positions).any()
