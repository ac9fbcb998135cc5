"""Digits: predict a point cloud of a one or a seven."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from desp.data.base import Batch
from desp.data.digits import DIGITS, POINTS, draw_digits
from desp.metrics.digits import DIGIT_SCORE, RAREST_STYLE, digit_score, digit_style
from desp.predictor import SetPredictor
from desp.sets import SetBatch
from desp.settings import DigitsSettings
from desp.tasks.class_conditional import SPREAD_METRICS, ClassConditionalTask, Collections
from desp.tasks.scoring import EvaluationSetup


class DigitsTask(ClassConditionalTask):
    """Score: the smaller Chamfer distance to one draw of each style, mean over tests and ten draws.

    The number of points differs with the style, and both styles are right. So cardinalities are not scored, and
    the shares of the styles tell whether both answers are found.
    """

    name = "digits"
    metrics = (DIGIT_SCORE, RAREST_STYLE, *SPREAD_METRICS)
    inputs = (0, 1)
    labels = tuple(digit.name for digit in DIGITS)
    max_size = POINTS
    shown = (40, 4)

    def __init__(self, settings: DigitsSettings, seed: int = 0) -> None:
        del settings, seed
        self.axes = {"names": ["row", "column"], "closed": False, "row_first": True}

    def draw(self, batch_size: int, generator: torch.Generator) -> Batch:
        """Ones and sevens in both styles."""
        return draw_digits(batch_size, generator)

    def scorer(self, predictor: SetPredictor) -> Callable[[Tensor, Tensor], Tensor]:
        """The distance to the nearer style, on the predictor's device."""
        device = predictor.device
        return lambda sets, classes: digit_score(sets.to(device), classes.to(device))

    def collections(self, setup: EvaluationSetup, real: Batch, predicted: Batch) -> Collections:
        """The true and the predicted sets, by digit."""
        return _by_digit(real, setup.predictor.device), _by_digit(predicted, setup.predictor.device)

    def measure(
        self, setup: EvaluationSetup, predicted: Batch, scores: Tensor, collections: Collections
    ) -> tuple[dict[str, float], dict[str, Any]]:
        """The shares of both styles."""
        del predicted, scores
        of_real, shares = (_style_shares(sets, setup.protocol.predictions_per_input) for sets in collections)
        rarest = min(share for styles in shares.values() for share in styles.values())
        return {"rarest_style": rarest}, {"style_shares": shares, "style_shares_real": of_real}


def _by_digit(batch: Batch, device: torch.device) -> dict[str, SetBatch]:
    classes, sets = batch.x.argmax(dim=1).to(device), batch.sets.to(device)
    return {
        digit.name: SetBatch(sets.elements[classes == number], sets.mask[classes == number])
        for number, digit in enumerate(DIGITS)
    }


def _style_shares(sets: dict[str, SetBatch], count: int | None) -> dict[str, dict[str, float]]:
    """The share of each style among the first `count` sets of each digit."""
    shares = {}
    for number, digit in enumerate(DIGITS):
        some = sets[digit.name].elements[:count]
        second = float(digit_style(some, torch.full((len(some),), number, device=some.device)).double().mean())
        shares[digit.name] = {digit.styles[0]: 1 - second, digit.styles[1]: second}
    return shares
