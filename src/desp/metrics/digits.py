"""The score of Digits, and the style of a predicted digit."""

from functools import cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

from desp.data.digits import DIGITS, draw_styles
from desp.distances import chamfer
from desp.metrics.base import Metric
from desp.randomness import make_generator

DRAWS = 10
SETS_AT_ONCE = 500
DIGIT_SCORE = Metric("score", 1e-5, "lower", "Chamfer distance to the nearer style")
_RAREST = "fraction of a digit's predictions in its rarer style, for the worse digit; 0.5: both are as frequent"
RAREST_STYLE = Metric("rarest_style", 1.0, "higher", _RAREST)


@cache
def templates(device: torch.device) -> Float[Tensor, "digit style draw n 2"]:
    """Ten random draws of both styles of both digits, from a fixed seed: the same for models and real data.

    A single draw moves the score by 7 %, so scores are averaged over the ten.
    """
    # Drawn on the CPU, so that scores on all devices mean the same.
    generator = make_generator("digit templates")
    return torch.stack([draw_styles(digit, DRAWS, generator) for digit in DIGITS]).to(device)


def style_distances(sets: Float[Tensor, "b n 2"], digits: Int[Tensor, " b"]) -> Float[Tensor, "b 2 draws"]:
    """Chamfer distances of zero-padded sets to both styles of their digit, for every draw."""
    parts = []
    for some, kinds in zip(sets.split(SETS_AT_ONCE), digits.split(SETS_AT_ONCE), strict=True):
        wanted = templates(sets.device)[kinds].flatten(1, 2)  # (B, 2 * draws, N, 2)
        columns = [chamfer(some, wanted[:, index]) for index in range(wanted.shape[1])]
        parts.append(torch.stack(columns, dim=1).view(len(some), 2, DRAWS))
    return torch.cat(parts)


def digit_score(sets: Float[Tensor, "b n 2"], digits: Int[Tensor, " b"]) -> Float[Tensor, " b"]:
    """The smaller distance to one draw of each style, averaged over the draws."""
    return style_distances(sets, digits).amin(dim=1).mean(dim=1)


def digit_style(sets: Float[Tensor, "b n 2"], digits: Int[Tensor, " b"]) -> Int[Tensor, " b"]:
    """The style whose draws are nearer on average: 0 plain, 1 with the optional part."""
    return style_distances(sets, digits).mean(dim=2).argmin(dim=1)
