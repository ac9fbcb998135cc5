"""Numbers described by waves: a network tells near places apart by those more easily."""

import math

import torch
from jaxtyping import Float
from torch import Tensor


def with_waves(values: Float[Tensor, "*batch c"], count: int) -> Float[Tensor, "*batch f"]:
    """The features, and sine and cosine of each at `count` frequencies; the slowest has a period of 4."""
    turns = [math.pi / 2 * 2**power * values for power in range(count)]
    return torch.cat([values, *(wave(turn) for turn in turns for wave in (torch.sin, torch.cos))], dim=-1)


def wave_features(channels: int, count: int) -> int:
    """How many numbers `with_waves` makes of `channels`."""
    return channels * (1 + 2 * count)
