"""Fourier features: networks resolve small differences of position, or of noise level, by them more easily."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

SIGMA_FREQUENCIES = (1, 2, 4)
SIGMA_FEATURES = 1 + 2 * len(SIGMA_FREQUENCIES)


def with_fourier_features(values: Float[Tensor, "*batch c"], count: int) -> Float[Tensor, "*batch f"]:
    """The features, and sine and cosine of each with 1 to `count` periods over a length of 4.

    All frequencies rather than powers of two: what repeats over the data, such as the pixels of an image, has some
    number of periods, and a network is slow to form a frequency from others.
    """
    if count == 0:
        return values
    periods = torch.arange(1, count + 1, device=values.device, dtype=values.dtype)
    turns = (math.pi / 2 * periods.unsqueeze(-1)) * values.unsqueeze(-2)  # (..., count, C)
    waves = torch.stack([turns.sin(), turns.cos()], dim=-2)
    return torch.cat([values, waves.flatten(start_dim=-3)], dim=-1)


def fourier_length(channels: int, count: int) -> int:
    """How many numbers `with_fourier_features` makes of `channels`."""
    return channels * (1 + 2 * count)


def with_sigma(code: Float[Tensor, "b *code"], sigma: Float[Tensor, " b"]) -> Float[Tensor, "b *joined"]:
    """The code (B, H) or (B, N, H) with its set's noise level appended.

    That is the logarithm of sigma, scaled to about [-2, 1] for .001 to 50, and a few Fourier features of it.
    """
    place = sigma.log() / 4
    waves = [wave(math.pi / 2 * each * place) for each in SIGMA_FREQUENCIES for wave in (torch.sin, torch.cos)]
    features = torch.stack([place, *waves], dim=-1)
    if code.dim() == 3:
        features = features.unsqueeze(1).expand(-1, code.shape[1], -1)
    return torch.cat([code, features.to(code.dtype)], dim=-1)


def sigma_of(code: Float[Tensor, "b places h"]) -> Float[Tensor, " b"]:
    """The noise level that `with_sigma` appended to codes."""
    return (4 * code[:, 0, -SIGMA_FEATURES]).exp()
