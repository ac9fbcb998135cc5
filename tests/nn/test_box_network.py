"""Boxes that read features of an image: interpolation by a reference, symmetry, and derivatives."""

import pytest
import torch
import torch.nn.functional as F

from desp.nn.box_network import BoxNetwork, read_boxes
from desp.nn.fourier import sigma_of, with_sigma
from desp.nn.pyramid import level_shapes
from desp.scaling import FeatureScaling
from desp.settings import BoxDenoiserSettings

SHAPES = level_shapes(32, 48)
PLACES = sum(rows * columns for rows, columns in SHAPES)


def network(known_presence: bool = True, **changes: int) -> BoxNetwork:
    torch.manual_seed(0)
    settings = BoxDenoiserSettings(**{"hidden": 16, "layers": 2, "heads": 2, "points": 3, **changes})
    scaling = FeatureScaling((0.0,) * 4, (1.0,) * 4, boxes=((0, 4),))
    made = BoxNetwork(settings, 5, (PLACES, 6 + 7), SHAPES, scaling, known_presence=known_presence).double()
    for parameter in made.parameters():  # some begin at zero
        torch.nn.init.normal_(parameter, std=0.3)
    return made


def codes(batch: int) -> torch.Tensor:
    return with_sigma(torch.randn(batch, PLACES, 6, dtype=torch.float64), torch.full((batch,), 0.3).double())


def noisy_sets(batch: int, present: int, size: int = 4) -> torch.Tensor:
    sets = torch.randn(batch, size, 5, dtype=torch.float64)
    sets[..., -1] = torch.where(torch.arange(size) < present, 1.0, -1.0)
    return sets


@pytest.mark.parametrize("extent", [1.0, 2.0])
def test_features_of_a_box_are_interpolated_as_grid_sample_does(extent: float) -> None:
    level, points = torch.randn(2, 5, 7, 3, dtype=torch.float64), 4
    boxes = torch.tensor([[[0.5, 0.4, 0.3, 0.5], [0.1, 0.9, 0.6, 0.2]]], dtype=torch.float64).expand(2, -1, -1)
    steps = (torch.arange(points, dtype=torch.float64) + 0.5) / points - 0.5
    x = boxes[..., 0:1] + extent * boxes[..., 2:3] * steps
    y = boxes[..., 1:2] + extent * boxes[..., 3:4] * steps
    shape = (2, 2, points, points)  # rows first
    grid = torch.stack([x.unsqueeze(2).expand(shape), y.unsqueeze(3).expand(shape)], dim=-1)
    wanted = F.grid_sample(
        level.permute(0, 3, 1, 2), 2 * grid.flatten(1, 2) - 1, padding_mode="border", align_corners=False
    )
    wanted = wanted.permute(0, 2, 3, 1).reshape(2, 2, points, points, 3)
    found = read_boxes(level, boxes, points, extent).view(2, 2, points, points, 3).transpose(2, 3)
    torch.testing.assert_close(found, wanted)


def test_the_noise_level_of_codes_is_read_back() -> None:
    sigma = torch.tensor([0.002, 0.5, 80.0], dtype=torch.float64)
    torch.testing.assert_close(sigma_of(with_sigma(torch.zeros(3, 2, 4, dtype=torch.float64), sigma)), sigma)


def test_noisy_boxes_are_read_where_they_are_before_scaling() -> None:
    sigma = torch.tensor([0.3], dtype=torch.float64)
    boxes = torch.tensor([[[0.3, 0.6, 0.2, 0.1]]], dtype=torch.float64)
    scaled = (2 * boxes - 1) * (sigma.square() + 0.25).rsqrt()
    rows = torch.cat([scaled, torch.ones(1, 1, 1, dtype=torch.float64)], dim=-1)
    torch.testing.assert_close(network().boxes(rows, sigma), boxes)


def test_a_permutation_of_boxes_permutes_the_output() -> None:
    code, sets, order = codes(2), noisy_sets(2, 4), torch.tensor([2, 0, 3, 1])
    made = network()
    torch.testing.assert_close(made(code, sets)[:, order], made(code, sets[:, order]))


def test_absent_rows_change_nothing_and_get_nothing() -> None:
    made, code, sets = network(), codes(2), noisy_sets(2, 2)
    other = sets.clone()
    other[:, 2:, :4] = 7.0
    assert torch.equal(made(code, sets)[:, 2:], torch.zeros(2, 2, 5, dtype=torch.float64))
    torch.testing.assert_close(made(code, sets), made(code, other))
    assert torch.isfinite(made(code, noisy_sets(2, 0))).all()


def test_all_rows_count_where_presence_carries_noise() -> None:
    made, code, sets = network(known_presence=False), codes(2), noisy_sets(2, 2)
    other = sets.clone()
    other[:, 2:, :4] = 7.0
    assert made(code, sets)[:, 2:].abs().min() > 0
    assert (made(code, sets)[:, :2] != made(code, other)[:, :2]).all()


def test_the_image_is_seen_where_a_box_is() -> None:
    """Features in one corner change the output of a box there more than that of a box far away."""
    made, code = network(layers=1), codes(1)
    for layer in made.layers:  # no exchange, and no look at the whole image
        for part in (layer.attention.from_heads, layer.from_heads):
            torch.nn.init.zeros_(part.weight)
            torch.nn.init.zeros_(part.bias)
    boxes = torch.tensor([[[0.15, 0.2, 0.2, 0.2], [0.85, 0.8, 0.2, 0.2]]], dtype=torch.float64)
    sigma = sigma_of(code).view(-1, 1, 1)
    rows = torch.cat([(2 * boxes - 1) * (sigma.square() + 0.25).rsqrt(), torch.ones_like(boxes[..., :1])], dim=-1)
    changed = code.clone()
    rows_of, columns_of = SHAPES[0]
    finest = changed[:, : rows_of * columns_of].view(1, rows_of, columns_of, -1)
    finest[:, : rows_of // 2, : columns_of // 2, :6] += 1.0
    difference = (made(changed, rows) - made(code, rows)).abs().amax(dim=-1)[0]
    assert difference[0] > 0
    assert difference[1] == 0


def test_it_can_be_differentiated_twice() -> None:
    made, code = network(layers=1), codes(1)
    sets = noisy_sets(1, 2, size=2)

    def output(values: torch.Tensor) -> torch.Tensor:
        return made(code, torch.cat([values, sets[..., 4:]], dim=-1)).square().sum()

    values = sets[..., :4].clone().requires_grad_()
    assert torch.autograd.gradgradcheck(output, (values,))
