"""Windows of recordings: the paths of all people who are there from the first to the last of twenty frames."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from desp.data.pedestrian_files import Rows

OBSERVED, PREDICTED = 8, 12
FRAMES = OBSERVED + PREDICTED


@dataclass(frozen=True)
class Windows:
    """M windows of up to N people.

    Attributes:
        paths: (M, N, 20, 2) positions in metres; absent people are zero.
        mask: (M, N), which rows are people.
    """

    paths: Float[Tensor, "m n 20 2"]
    mask: Bool[Tensor, "m n"]

    def __len__(self) -> int:
        return len(self.mask)

    @classmethod
    def of(cls, paths: Sequence[Float[Tensor, "_ 20 2"]], max_size: int | None = None) -> "Windows":
        """Windows with any number of people, padded to the largest one, or to `max_size` if that is larger."""
        size = max([max_size or 1, *map(len, paths)])
        padded, mask = torch.zeros(len(paths), size, FRAMES, 2), torch.zeros(len(paths), size, dtype=torch.bool)
        for number, window in enumerate(paths):
            padded[number, : len(window)], mask[number, : len(window)] = window, True
        return cls(padded, mask)


def windows_of(rows: Rows) -> list[Float[Tensor, "_ 20 2"]]:
    """All windows of a recording with at least one person, by time; people by their number.

    A window is twenty frames that follow each other at the recording's usual interval. People who are missing in
    one of the frames are left out.
    """
    frames, at = np.unique(rows[:, 0], return_inverse=True)
    people, who = np.unique(rows[:, 1], return_inverse=True)
    places = np.full((len(people), len(frames), 2), np.nan)
    places[who, at] = rows[:, 2:]
    if len(frames) < FRAMES:
        return []
    usual = np.median(np.diff(frames))
    found = []
    for first in range(len(frames) - FRAMES + 1):
        window = places[:, first : first + FRAMES]
        there = np.isfinite(window).all(axis=(1, 2))
        even = frames[first + FRAMES - 1] - frames[first] == usual * (FRAMES - 1)
        if there.any() and even:
            found.append(torch.from_numpy(window[there]).float())
    return found


def split_in_time(rows: Rows, share: float) -> tuple[Rows, Rows]:
    """The first part of a recording, and the last `share` of its frames: no window lies in both."""
    frames = np.unique(rows[:, 0])
    border = frames[min(int(len(frames) * (1 - share)), len(frames) - 1)]
    return rows[rows[:, 0] < border], rows[rows[:, 0] >= border]


def augmented(
    windows: Windows, generator: torch.Generator, largest_scale: float, largest_noise: float = 0.0
) -> Windows:
    """Windows turned by random angles, mirrored or not, scaled, and some with noise on observed positions.

    Args:
        windows: on the generator's device.
        generator: of the random changes.
        largest_scale: the largest factor by which lengths are multiplied or divided; 1: no scaling.
        largest_noise: largest standard deviation, in metres, of the noise on observed positions of half of the
            windows. Future positions stay.
    """
    paths, mask = windows.paths, windows.mask
    chance = torch.rand(5, len(paths), 1, 1, generator=generator, device=paths.device)
    angle, mirror = 2 * math.pi * chance[0], torch.where(chance[1] < 0.5, 1.0, -1.0)
    cos, sin = angle.cos(), angle.sin()
    x, y = paths[..., 0], paths[..., 1] * mirror
    turned = torch.stack([cos * x - sin * y, sin * x + cos * y], dim=-1)
    changed = turned * torch.exp(math.log(largest_scale) * (2 * chance[2] - 1)).unsqueeze(-1)
    if largest_noise:
        deviation = torch.where(chance[3] < 0.5, largest_noise * chance[4], 0.0).unsqueeze(-1)
        seen = paths[:, :, :OBSERVED].shape
        noise = deviation * torch.randn(seen, generator=generator, device=paths.device)
        changed = changed + F.pad(noise, (0, 0, 0, PREDICTED))
    return Windows(changed * mask.view(*mask.shape, 1, 1), mask)


def some_people(windows: Windows, most: int, generator: torch.Generator) -> Windows:
    """Windows with at most `most` people each, chosen at random."""
    keys = torch.rand(windows.mask.shape, generator=generator, device=windows.mask.device)
    chosen = keys.masked_fill(~windows.mask, 2.0).argsort(dim=1)[:, :most]  # absent rows come last
    paths = windows.paths.take_along_dim(chosen.view(*chosen.shape, 1, 1), dim=1)
    return Windows(paths, windows.mask.gather(1, chosen))
