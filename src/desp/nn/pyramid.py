"""A feature pyramid: an image as feature vectors at the locations of three grids, which elements of sets read."""

from itertools import pairwise

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from desp.errors import SettingsError
from desp.settings import PyramidEncoderSettings

# Strides of the levels, and blocks and channels (as multiples of the settings' width) of the trunk's stages.
STRIDES = (4, 8, 16)
STAGES = ((2, 1), (2, 2), (2, 4), (2, 4))


def level_shapes(height: int, width: int) -> list[tuple[int, int]]:
    """Rows and columns of each level's grid, from fine to coarse."""
    return [(-(-height // stride), -(-width // stride)) for stride in STRIDES]


def split_levels(
    code: Float[Tensor, "b locations c"], shapes: list[tuple[int, int]]
) -> list[Float[Tensor, "b rows columns c"]]:
    """The levels of a code as grids, without a copy."""
    parts = code.split([rows * columns for rows, columns in shapes], dim=1)
    return [part.unflatten(1, shape) for part, shape in zip(parts, shapes, strict=True)]


class FeaturePyramid(nn.Module):
    """h(x) that keeps where things are: the locations of all levels, one after the other, as rows of one code.

    A residual trunk (He et al. 2016) and a top-down path (Lin et al. 2017). The code is one tensor, so that it is
    repeated, split and captured like all others; `split_levels` gives the grids back.

    Args:
        settings: width of the trunk, features of a place.
        channels: of the images.
    """

    def __init__(self, settings: PyramidEncoderSettings, channels: int) -> None:
        super().__init__()
        width = settings.hidden
        self.stem = nn.Sequential(
            _convolution(channels, width // 2, stride=2),
            nn.ReLU(),
            _convolution(width // 2, width, stride=2),
            nn.ReLU(),
        )
        widths = [width, *(width * factor for _, factor in STAGES)]
        self.stages = nn.ModuleList(
            _stage(before, after, blocks, stride=1 if index == 0 else 2)
            for index, ((before, after), (blocks, _)) in enumerate(zip(pairwise(widths), STAGES, strict=True))
        )
        self.lateral = nn.ModuleList(nn.Conv2d(each, settings.out, 1) for each in widths[1:])
        self.smooth = nn.ModuleList(_convolution(settings.out, settings.out) for _ in STRIDES)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload] # tensor cores read features of one place together

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b locations o"]:
        """Encode images with intensities in [0, 1]."""
        values, found = self.stem((x - 0.5).contiguous(memory_format=torch.channels_last)), []
        for stage, lateral in zip(self.stages, self.lateral, strict=True):
            values = stage(values)
            found.append(lateral(values))
        above, levels = found[-1], []
        for own, smooth in zip(reversed(found[:-1]), reversed(self.smooth), strict=True):
            above = own + F.interpolate(above, size=own.shape[-2:], mode="nearest")
            levels.append(smooth(above).permute(0, 2, 3, 1).flatten(1, 2))
        return torch.cat(levels[::-1], dim=1)


class _Block(nn.Module):
    """Two convolutions with a residual connection."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = _convolution(before, after, stride=stride), _convolution(after, after)
        same = before == after and stride == 1
        self.skip = nn.Identity() if same else _convolution(before, after, stride=stride, size=1)

    def forward(self, values: Float[Tensor, "b c h w"]) -> Float[Tensor, "b o i j"]:
        return F.relu(self.skip(values) + self.second(F.relu(self.first(values))))


def _stage(before: int, after: int, blocks: int, stride: int) -> nn.Sequential:
    rest = (_Block(after, after, 1) for _ in range(blocks - 1))
    return nn.Sequential(_Block(before, after, stride), *rest)


def _convolution(before: int, after: int, *, stride: int = 1, size: int = 3) -> nn.Sequential:
    convolution = nn.Conv2d(before, after, size, stride, padding=size // 2, bias=False)
    nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
    return nn.Sequential(convolution, nn.BatchNorm2d(after))


def build_pyramid(settings: PyramidEncoderSettings, input_shape: tuple[int, ...]) -> nn.Module:
    """The pyramid of images of a shape."""
    return FeaturePyramid(settings, input_shape[0])


def require_pyramid(
    code_shape: tuple[int, ...], image_shape: tuple[int, ...], method: str
) -> list[tuple[int, int]]:
    """Rows and columns of the levels, if codes come from a pyramid for images (C, H, W).

    Raises:
        SettingsError: the encoder is another one.
    """
    shapes = level_shapes(*image_shape[1:]) if len(image_shape) == 3 else []
    locations = sum(rows * columns for rows, columns in shapes)
    if len(code_shape) != 2 or code_shape[0] != locations:
        raise SettingsError(
            f"The method {method} needs images and the encoder 'pyramid', which gives a code for each of "
            f"{locations} locations; this one gives shape {code_shape} for one input."
        )
    return shapes
