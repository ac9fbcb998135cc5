"""The feature pyramid: shapes of its levels, and where each place of the image ends up."""

import pytest
import torch

from desp.nn.pyramid import FeaturePyramid, level_shapes, split_levels
from desp.settings import PyramidEncoderSettings


def pyramid(channels: int = 3) -> FeaturePyramid:
    torch.manual_seed(0)
    return FeaturePyramid(PyramidEncoderSettings(hidden=8, out=6), channels).eval()


@pytest.mark.parametrize(("height", "width"), [(128, 128), (64, 96), (37, 50), (16, 16)])
def test_codes_have_a_row_for_every_place_of_every_level(height: int, width: int) -> None:
    shapes = level_shapes(height, width)
    code = pyramid()(torch.rand(2, 3, height, width))
    assert code.shape == (2, sum(rows * columns for rows, columns in shapes), 6)
    levels = split_levels(code, shapes)
    assert [tuple(level.shape) for level in levels] == [(2, *shape, 6) for shape in shapes]
    assert torch.equal(torch.cat([level.flatten(1, 2) for level in levels], dim=1), code)


def test_strides_are_four_eight_and_sixteen() -> None:
    assert level_shapes(128, 64) == [(32, 16), (16, 8), (8, 4)]


def test_rows_and_columns_are_not_exchanged() -> None:
    image = torch.rand(1, 3, 64, 64)
    changed = image.clone()
    changed[..., 0:4, 60:64] += 1  # the last place of the finest level's first row
    network = pyramid()
    for layer in network.lateral[1:]:  # nothing from above, which sees the whole image
        torch.nn.init.zeros_(layer.weight)
        torch.nn.init.zeros_(layer.bias)
    shapes = level_shapes(64, 64)
    before, after = (split_levels(network(item), shapes)[0] for item in (image, changed))
    difference = (after - before).abs().amax(dim=-1)[0]
    assert difference[0, -1] > 0
    assert difference[-1, 0] == 0


def test_an_image_is_encoded_alike_alone_and_in_a_batch() -> None:
    images, network = torch.rand(3, 3, 32, 32), pyramid()
    torch.testing.assert_close(network(images)[1:2], network(images[1:2]))


def test_channels_are_those_of_the_images() -> None:
    assert pyramid(channels=1)(torch.rand(1, 1, 32, 32)).shape[0] == 1
