"""Noise levels sigma as features of the code, for noise-conditional networks."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

FREQUENCIES = (1, 2, 4)
SIGMA_FEATURES = 1 + 2 * len(FREQUENCIES)


def sigma_features(sigma: Float[Tensor, " b"]) -> Float[Tensor, "b f"]:
    """The logarithm of each sigma, scaled to about [-2, 1] for .001 to 50, and a few Fourier features of it."""
    place = sigma.log() / 4
    waves = [wave(math.pi / 2 * each * place) for each in FREQUENCIES for wave in (torch.sin, torch.cos)]
    return torch.stack([place, *waves], dim=-1)


def with_sigma(code: Float[Tensor, "b *code"], sigma: Float[Tensor, " b"]) -> Float[Tensor, "b *joined"]:
    """The code (B, H) or (B, N, H) with its set's noise level appended."""
    features = sigma_features(sigma)
    if code.dim() == 3:
        features = features.unsqueeze(1).expand(-1, code.shape[1], -1)
    return torch.cat([code, features.to(code.dtype)], dim=-1)
