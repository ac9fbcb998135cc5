"""Noise levels as features, for networks that shall know how noisy their input is."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

FREQUENCIES = (1, 2, 4)
LEVEL_FEATURES = 1 + 2 * len(FREQUENCIES)


def level_features(level: Float[Tensor, " b"]) -> Float[Tensor, "b f"]:
    """The logarithm of each level, scaled to about [-2, 1] for levels of .001 to 50, and a few of its waves."""
    place = level.log() / 4
    waves = [wave(math.pi / 2 * each * place) for each in FREQUENCIES for wave in (torch.sin, torch.cos)]
    return torch.stack([place, *waves], dim=-1)


def with_level(code: Float[Tensor, "b *code"], level: Float[Tensor, " b"]) -> Float[Tensor, "b *joined"]:
    """The code (B, H) or (B, N, H) with its set's noise level behind it."""
    features = level_features(level)
    if code.dim() == 3:
        features = features.unsqueeze(1).expand(-1, code.shape[1], -1)
    return torch.cat([code, features.to(code.dtype)], dim=-1)
