"""Images, boxes and visible shares of scenes, against brute force."""

import math
from dataclasses import fields, replace

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from desp.data.clevr_rays import NO_HIT_DISTANCE, exposure, first_hits, solids_of
from desp.data.clevr_render import Rendering, generate, render, trace
from desp.data.clevr_scenes import CAMERA, LIGHTS, Scenes, draw_alternatives, fullest, project
from desp.data.clevr_shading import World, irradiance, meet, reflected
from desp.data.clevr_silhouettes import MIN_PIXELS, view_directions, visibility, whole_boxes
from desp.randomness import make_generator

CUBE, SPHERE, CYLINDER = range(3)


def scene(*objects: tuple[int, int, float, float, float], metal: bool = False) -> Scenes:
    """A scene of objects (shape, size, x, y, rotation), with the camera and lights in their middle positions."""
    count = len(objects)

    def column(values: list[float], kind: torch.dtype) -> Tensor:
        return torch.tensor([values + [0] * (10 - count)], dtype=kind)

    shapes, sizes = (column([each[place] for each in objects], torch.int64) for place in (0, 1))
    x, y, rotation = (column([each[place] for each in objects], torch.float32) for place in (2, 3, 4))
    positions = torch.stack([x, y, torch.tensor((0.35, 0.7))[sizes]], dim=-1)
    materials = torch.full_like(shapes, int(metal))
    mask = torch.arange(10).unsqueeze(0) < count
    camera, lights = torch.tensor([CAMERA]), torch.tensor([LIGHTS])
    return Scenes(positions, rotation, shapes, materials, 1 + 0 * shapes, sizes, mask, camera, lights)


def inside(scenes: Scenes, points: Tensor) -> Tensor:
    """Whether points (1, P, 3) are inside each object (N, P), from the definitions of the shapes."""
    offset = points[0].unsqueeze(0) - scenes.positions[0].unsqueeze(1)
    angle = scenes.rotations[0].unsqueeze(1)
    x = offset[..., 0] * angle.cos() + offset[..., 1] * angle.sin()
    y = offset[..., 1] * angle.cos() - offset[..., 0] * angle.sin()
    z, extent = offset[..., 2], scenes.half_extents()[0].unsqueeze(1)
    box = torch.stack([x, y, z]).abs().amax(0) < extent
    ball = (x * x + y * y + z * z).sqrt() < extent
    tube = ((x * x + y * y).sqrt() < extent) & (z.abs() < extent)
    return torch.where(
        scenes.shapes[0].unsqueeze(1) == CUBE,
        box,
        torch.where(scenes.shapes[0].unsqueeze(1) == SPHERE, ball, tube),
    )


def random_places(count: int) -> Tensor:
    return torch.rand(1, count, 2, generator=make_generator(0, "places"))


@pytest.mark.parametrize("shape", [CUBE, SPHERE, CYLINDER])
def test_intersections_follow_a_march_along_the_ray(shape: int) -> None:
    scenes = scene((shape, 1, 0.3, -0.4, 0.7))
    directions = view_directions(scenes, 0.35 + 0.3 * random_places(400))
    hits = first_hits(solids_of(scenes), scenes.camera.unsqueeze(-1), directions)
    steps = torch.linspace(6, 16, 5001)
    met = 0
    for ray in range(400):
        path = scenes.camera + steps.unsqueeze(1) * directions[0, :, ray]
        entered = inside(scenes, path.unsqueeze(0))[0]
        assert entered.any() == (hits.index[0, ray] == 0) or entered.sum() < 20
        if entered.any() and hits.index[0, ray] == 0:
            met += 1
            assert hits.distance[0, ray].item() == pytest.approx(steps[entered.int().argmax()].item(), abs=0.01)
    assert met > 80


def test_rays_that_meet_nothing_reach_the_ground_or_go_far() -> None:
    scenes = scene((SPHERE, 0, 0.0, 0.0, 0.0))
    directions = torch.tensor([[[0.0, 0.0, -1.0], [0.0, 0.0, 1.0], [3.0, 0.0, -1.0]]]).transpose(1, 2)
    hits = first_hits(solids_of(scenes), torch.tensor([[[2.0], [2.0], [1.5]]]), directions)
    assert hits.index.tolist() == [[10, 10, 10]]
    assert hits.distance.tolist() == [[1.5, NO_HIT_DISTANCE, 1.5]]


@pytest.mark.parametrize("shape", [CUBE, SPHERE, CYLINDER])
def test_tops_face_up(shape: int) -> None:
    world = World.of(scene((shape, 1, 1.0, 1.0, 0.3)))
    surface = meet(world, torch.tensor([[[1.0], [1.0], [9.0]]]), torch.tensor([[[1e-4], [1e-4], [-1.0]]]))
    assert surface.normals[0, :, 0].tolist() == pytest.approx((0, 0, 1), abs=5e-3)
    assert surface.index.item() == 0


@pytest.mark.parametrize("degrees", [0, 30, 45, 200])
def test_sides_of_a_turned_cube_face_outward(degrees: int) -> None:
    angle = math.radians(degrees)
    outward = torch.tensor([math.cos(angle), math.sin(angle), 0.0])
    world = World.of(scene((CUBE, 1, 0.0, 0.0, angle)))
    start = 5 * outward + torch.tensor([0.0, 0.0, 0.7])
    surface = meet(world, start.view(1, 3, 1), -outward.view(1, 3, 1) + 1e-5)
    torch.testing.assert_close(surface.normals[0, :, 0], outward, atol=1e-3, rtol=0)


def surface_points(scenes: Scenes) -> Tensor:
    """Many points on the surface of the first object, (1, P, 3)."""
    extent = scenes.half_extents()[0, 0]
    directions = torch.randn(40_000, 3, generator=make_generator(1, "points"))
    shape = int(scenes.shapes[0, 0])
    if shape == CUBE:
        corners = torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * 3)
        points = torch.cat([corners, directions / directions.abs().amax(1, keepdim=True)])
    elif shape == SPHERE:
        points = directions / directions.norm(dim=1, keepdim=True)
    else:
        angle = torch.linspace(0, 2 * math.pi, 20_000)
        circle = torch.stack([angle.cos(), angle.sin(), torch.ones_like(angle)], dim=1)
        points = torch.cat([circle, circle * torch.tensor([1.0, 1.0, -1.0])])
    angle = scenes.rotations[0, 0]
    turn = torch.tensor([[angle.cos(), -angle.sin(), 0], [angle.sin(), angle.cos(), 0], [0, 0, 1]])
    return (scenes.positions[0, 0] + extent * points @ turn.T).unsqueeze(0)


@pytest.mark.parametrize("shape", [CUBE, SPHERE, CYLINDER])
@pytest.mark.parametrize("place", [(0.0, 0.0), (2.5, -2.0), (-2.9, 2.9), (-1.0, -2.8)])
def test_boxes_hold_all_of_an_object_and_no_more(shape: int, place: tuple[float, float]) -> None:
    scenes = scene((shape, 1, *place, 0.6))
    seen = project(surface_points(scenes), scenes.camera)[0]
    expected = torch.cat([seen.amin(0), seen.amax(0)]).clamp(0, 1)
    boxes = whole_boxes(scenes)
    torch.testing.assert_close(boxes[0, 0], expected, atol=4e-4, rtol=0)
    assert (boxes[0, 1:] == 0).all()


def test_visible_share_of_two_objects() -> None:
    """Against a fine grid of rays over the whole image."""
    behind, before = (SPHERE, 1, -0.8, 0.7, 0.0), (CUBE, 1, 0.8, -0.2, 0.4)
    scenes = scene(behind, before)
    marks = (torch.arange(700) + 0.5) / 700
    places = torch.cartesian_prod(marks, marks).unsqueeze(0)

    def covered(some: Scenes) -> Tensor:
        return first_hits(solids_of(some), some.camera.unsqueeze(-1), view_directions(some, places)).index[0]

    visible = covered(scenes) == 0
    expected = visible.sum() / (covered(scene(behind)) == 0).sum()
    assert 0.2 < expected < 0.9
    seen = visibility(scenes, 64)
    assert seen.share[0, 0].item() == pytest.approx(expected.item(), abs=0.02)
    assert seen.share[0, 1] == 1
    assert seen.pixels[0, 0].item() == pytest.approx(visible.float().mean().item() * 480 * 320, rel=0.03)


def test_what_is_wholly_hidden_keeps_its_box() -> None:
    towards = torch.tensor(CAMERA[:2]) / math.hypot(*CAMERA[:2])
    near = (1.5 * towards).tolist()
    rendering = render(scene((SPHERE, 0, 0.0, 0.0, 0.0), (CUBE, 1, *near, 0.0)), make_generator(0), 16)
    assert rendering.visible[0, 0] == 0
    assert rendering.boxes[0, 0, 2] > rendering.boxes[0, 0, 0]
    assert rendering.visible[0, 1] == 1
    assert (rendering.visible[0, 2:] == 0).all()


@pytest.fixture(scope="module")
def generated() -> tuple[Scenes, Rendering]:
    return generate(80, make_generator(0), size=16)


def test_generated_objects_are_visible(generated: tuple[Scenes, Rendering]) -> None:
    scenes, rendering = generated
    # Chosen by a coarser grid than this one, so some tolerance.
    pixels = visibility(scenes, 40).pixels[scenes.mask]
    assert pixels.min() > 0.9 * MIN_PIXELS
    assert (pixels >= MIN_PIXELS).float().mean() > 0.99
    assert (rendering.visible[scenes.mask] > 0).all()
    assert (rendering.visible < 0.6).logical_and(scenes.mask).any()


def test_generated_batches_have_fixed_shapes(generated: tuple[Scenes, Rendering]) -> None:
    scenes, rendering = generated
    assert rendering.images.shape == (80, 3, 16, 16)
    assert rendering.images.dtype == torch.uint8
    assert rendering.boxes.shape == (80, 10, 4)
    assert rendering.visible.shape == (80, 10)
    assert (rendering.boxes[scenes.mask][:, 2:] > rendering.boxes[scenes.mask][:, :2]).all()
    assert ((rendering.boxes >= 0) & (rendering.boxes <= 1)).all()
    assert set(scenes.mask.sum(1).tolist()) == set(range(3, 11))


def test_no_batch_at_all() -> None:
    scenes, rendering = generate(0, make_generator(0), size=8)
    assert len(scenes) == 0
    assert rendering.images.shape == (0, 3, 8, 8)


def test_one_seed_one_image() -> None:
    first, second, other = (generate(2, make_generator(seed), size=24) for seed in (1, 1, 2))
    for field in fields(Rendering):
        assert (getattr(first[1], field.name) == getattr(second[1], field.name)).all()
    assert (first[1].images != other[1].images).any()


def test_a_scene_looks_the_same_in_any_batch() -> None:
    scenes = fullest(draw_alternatives(3, make_generator(3)))
    together = trace(scenes, 16)
    alone = torch.cat([trace(scenes.scenes(torch.tensor([row])), 16) for row in range(3)])
    torch.testing.assert_close(together, alone)


def test_images_look_like_clevr() -> None:
    """Gray ground, bright near the camera; a red object where its box is."""
    image = render(scene((SPHERE, 1, 0.0, 0.0, 0.0)), make_generator(0), 64).images[0].float()
    corners = image[:, [0, 0, 63, 63], [0, 63, 0, 63]]
    assert (corners.std(0) < 8).all()
    assert (corners > 80).all()
    assert corners[:, 3].mean() > corners[:, 1].mean() + 20
    red, green, _ = image[:, 31, 32]
    assert red > 2 * green


def test_light_moves_shadows() -> None:
    """Points on the ground beside a sphere, one away from the light and one towards it."""
    solids = solids_of(scene((SPHERE, 1, 0.0, 0.0, 0.0)))
    points = torch.tensor([[[-1.2, 1.2], [0.0, 0.0], [0.0, 0.0]]])
    ground = torch.full((1, 2), 10)
    for side in (1.0, -1.0):
        light = torch.tensor([[[4.0 * side, 0.0, 4.0]]])
        shares = exposure(solids, light, 0.3, points, ground)[0, 0].tolist()
        assert shares == pytest.approx([0, 1] if side > 0 else [1, 0], abs=0.02)


@pytest.mark.parametrize("shape", [CUBE, SPHERE, CYLINDER])
def test_shadows_are_as_wide_as_a_light_of_that_radius_makes_them(shape: int) -> None:
    """Against many small lights, each hard. The approximation is off by some percent in the penumbra alone."""
    scenes, radius = scene((shape, 1, 0.0, 0.0, 0.4)), 0.5
    solids = solids_of(scenes)
    light = torch.tensor([3.0, -1.0, 4.0])
    along = torch.linspace(-4, 2, 40)
    points = torch.stack([along, -0.2 * along - 0.1, torch.zeros(40)]).unsqueeze(0)
    ground = torch.full((1, 40), 10)
    spread = torch.randn(100, 3, generator=make_generator(2, "light"))
    spread = spread / spread.norm(dim=1, keepdim=True) * torch.rand(100, 1, generator=make_generator(3)) ** (1 / 3)
    places = (light + radius * spread).unsqueeze(0)
    expected = exposure(solids, places, 1e-4, points, ground)[0, :-1].mean(0)
    shares = exposure(solids, light.view(1, 1, 3), radius, points, ground)[0, 0]
    outside = ~inside(scenes, points.transpose(1, 2) + torch.tensor([0.0, 0.0, 0.1]))[0]
    assert expected[outside].min() < 0.02
    assert (shares - expected)[outside].abs().max() < 0.35
    assert (shares - expected)[outside].abs().mean() < 0.04


def test_objects_do_not_shade_their_own_lit_side() -> None:
    solids = solids_of(scene((CUBE, 1, 0.0, 0.0, 0.0)))
    top = torch.tensor([[[0.0, 0.3], [0.0, 0.2], [1.3755, 1.3755]]])
    shares = exposure(solids, torch.tensor([[[3.0, 0.0, 4.0]]]), 0.5, top, torch.zeros(1, 2, dtype=torch.int64))
    assert (shares == 1).all()


def test_light_falls_off_with_the_square_of_the_distance() -> None:
    """Right below lights that shine straight down, when the sky is taken away."""
    world = World.of(scene((SPHERE, 0, 3.0, 3.0, 0.0)))
    surface = meet(world, torch.tensor([[[-2.0], [-2.0], [2.0]]]), torch.tensor([[[0.0], [0.0], [-1.0]]]))
    dark = irradiance(replace(world, scenes=replace(world.scenes, lights=torch.full((1, 3, 3), 1e6))), surface)

    def lit(height: float) -> Tensor:
        lights = torch.full((1, 3, 3), 1e6)
        lights[0, 0] = torch.tensor([-2.0, -2.0, height])
        return irradiance(replace(world, scenes=replace(world.scenes, lights=lights)), surface) - dark

    torch.testing.assert_close(lit(1.0), 4 * lit(2.0), rtol=1e-3, atol=1e-5)


def test_mirrors_turn_the_normal_part_alone() -> None:
    turned = reflected(torch.tensor([[[1.0], [2.0], [-3.0]]]), torch.tensor([[[0.0], [0.0], [1.0]]]))
    assert turned.flatten().tolist() == [1, 2, 3]


def test_metal_mirrors_what_is_beside_it() -> None:
    """A red cube beside a gray metal sphere: red appears in the metal, though not in rubber."""

    def redness(metal: bool) -> float:
        scenes = scene((SPHERE, 1, 0.0, 0.0, 0.0), (CUBE, 1, -1.3, -1.5, 0.0), metal=metal)
        scenes = replace(
            scenes,
            colours=torch.tensor([[0, 1] + [0] * 8]),
            materials=scenes.materials * torch.tensor([1] + [0] * 9),
        )
        image, alone = (trace(some, 48) for some in (scenes, scenes.keep(torch.arange(10).unsqueeze(0) < 1)))
        world = World.of(scenes)
        marks = (torch.arange(48) + 0.5) / 48
        places = torch.stack(torch.meshgrid(marks, marks, indexing="xy"), dim=-1).view(1, -1, 2)
        index = meet(world, scenes.camera.unsqueeze(-1), view_directions(scenes, places)).index.view(48, 48)
        change = ((image - alone)[0, 0] - (image - alone)[0, 1])[index == 0]
        return float(change.clamp(min=0).max())

    assert redness(metal=True) > 0.01
    assert redness(metal=False) < 0.002


class _NoValues(TorchDispatchMode):
    """Refuses what makes the host wait for values of a device, or shapes depend on them."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        name = func.overloadpacket.__name__
        assert name not in (
            "_local_scalar_dense",
            "nonzero",
            "masked_select",
            "unique",
            "is_nonzero",
            "equal",
            "lift_fresh",
        ), name
        indices = args[1] if name in ("index", "index_put_") else ()
        assert all(each is None or each.dtype != torch.bool for each in indices), name
        return func(*args, **(kwargs or {}))


def test_nothing_depends_on_values() -> None:
    """`_NoValues` asserts it of every operation."""
    _, expected = generate(1, make_generator(4), size=8)  # makes constants
    with _NoValues():
        _, found = generate(1, make_generator(4), size=8)
    assert torch.equal(found.images, expected.images)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_generation_can_be_captured_as_a_cuda_graph() -> None:
    generator = make_generator(0, device="cuda")
    generate(2, generator, size=16)
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        _, rendering = generate(2, generator, size=16)
    graph.replay()
    first = rendering.images.clone()
    graph.replay()
    assert first.float().std() > 1
    assert (first != rendering.images).any()
