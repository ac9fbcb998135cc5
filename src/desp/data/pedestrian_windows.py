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
        paths: (M, N, 20, 2) positions in metres; zero where there is nobody.
        mask: (M, N), who is there.
    """

    paths: Float[Tensor, "m n 20 2"]
    mask: Bool[Tensor, "m n"]

    def __len__(self) -> int:
        return len(self.mask)

    @classmethod
    def of(cls, paths: Sequence[Float[Tensor, "_ 20 2"]], max_size: int | None = None) -> "Windows":
        """Windows of any numbers of people, padded to the largest or to `max_size`."""
        size = max([max_size or 1, *map(len, paths)])
        padded, mask = torch.zeros(len(paths), size, FRAMES, 2), torch.zeros(len(paths), size, dtype=torch.bool)
        for number, window in enumerate(paths):
            padded[number, : len(window)], mask[number, : len(window)] = window, True
        return cls(padded, mask)


def windows_of(rows: Rows) -> list[Float[Tensor, "_ 20 2"]]:
    """All windows of a recording in which somebody is there throughout, by time; people by their number.

    A window is twenty frames that follow each other at the recording's usual distance. Who is missing in one of
    them is left out.
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
    """Windows turned by any angle, mirrored or not, with all lengths scaled, and some with noise on what was seen.

    Args:
        windows: on the generator's device.
        generator: of the changes.
        largest_scale: by which lengths are multiplied or divided at most; 1: not at all.
        largest_noise: in half of the windows, all observed positions have noise with a standard deviation of up to
            so many metres. What comes after them stays.
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
    """Windows of up to so many people, chosen at random."""
    keys = torch.rand(windows.mask.shape, generator=generator, device=windows.mask.device)
    chosen = keys.masked_fill(~windows.mask, 2.0).argsort(dim=1)[:, :most]  # who is not there comes last
    paths = windows.paths.take_along_dim(chosen.view(*chosen.shape, 1, 1), dim=1)
    return Windows(paths, windows.mask.gather(1, chosen))
