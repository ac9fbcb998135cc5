"""The score of Digits, and the style of a predicted digit."""

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
RAREST_STYLE = Metric("rarest_style", 1.0, "higher", "smallest share of a style; 0.5 where both are found equally")


class DigitTemplates:
    """Ten random draws of both styles of both digits, from a fixed seed: the same for models and real data.

    A single draw moves the score by 7 %, so scores are averaged over the ten.
    """

    def __init__(self, device: torch.device | str = "cpu") -> None:
        # Drawn on the CPU, so that scores on all devices mean the same.
        generator = make_generator("digit templates")
        draws = [draw_styles(digit, DRAWS, generator) for digit in DIGITS]
        self.templates = torch.stack(draws).to(device)  # (digit, style, draw, N, 2)

    def distances(self, sets: Float[Tensor, "b n 2"], digits: Int[Tensor, " b"]) -> Float[Tensor, "b 2 draws"]:
        """Chamfer distances of zero-padded sets to both styles of their digit, for every draw."""
        parts = []
        for some, kinds in zip(sets.split(SETS_AT_ONCE), digits.split(SETS_AT_ONCE), strict=True):
            templates = self.templates[kinds].flatten(1, 2)  # (B, 2 * draws, N, 2)
            columns = [chamfer(some, templates[:, index]) for index in range(templates.shape[1])]
            parts.append(torch.stack(columns, dim=1).view(len(some), 2, DRAWS))
        return torch.cat(parts)

    def score(self, sets: Float[Tensor, "b n 2"], digits: Int[Tensor, " b"]) -> Float[Tensor, " b"]:
        """The smaller distance to one draw of each style, averaged over the draws."""
        return self.distances(sets, digits).amin(dim=1).mean(dim=1)

    def style(self, sets: Float[Tensor, "b n 2"], digits: Int[Tensor, " b"]) -> Int[Tensor, " b"]:
        """The style whose draws are nearer on average: 0 plain, 1 with the optional part."""
        return self.distances(sets, digits).mean(dim=2).argmin(dim=1)
