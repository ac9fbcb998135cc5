"""Comparisons in words. Nothing here loads torch."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

# Standard errors of a paired difference, from which on it is clear.
CLEAR_DIFFERENCE_SE = 2.0
# Distance of the mean rank (0 to 1) from 0.5 below which the spread is called slightly off, and above which far
# off.
SLIGHTLY_OFF, FAR_OFF = 0.1, 0.25
# Sizes that are right so often need no comparison.
OFTEN = 0.9
# Uneven ranks are a finding of their own below this probability.
UNEVEN = 0.001

Verdict = Literal["clearly better", "tie", "clearly worse"]
"""What a model is beside a baseline. clearly: by more than two standard errors of the paired difference. tie: by
less; the difference is not significant, which does not mean that there is none."""

SYSTEMS = {"desp": "desp", "knn": "nearest neighbours", "random": "random training sets", "mlp": "MLP"}
"""What systems are called, by their keys in comparisons."""
_IN_SENTENCES = SYSTEMS | {"mlp": "an MLP"}


def verdict(difference: float, error: float) -> Verdict:
    """What a paired difference, model minus baseline, says; lower is better. A difference of more than two
    standard errors is clear, either way."""
    if abs(difference) <= CLEAR_DIFFERENCE_SE * error:
        return "tie"
    return "clearly better" if difference < 0 else "clearly worse"


@dataclass(frozen=True)
class Spread:
    """Whether predictions are spread as the truth is.

    Attributes:
        words: as a part of a sentence.
        mean_rank: of the truth by its distance to the others, 0 to 1; 0.5 is right.
        standard_error: of the mean rank, if the spread is right.
    """

    words: str
    mean_rank: float
    standard_error: float


def spread_verdict(histogram: Sequence[float], inputs: int, p_value: float | None = None) -> Spread:
    """What the ranks of true sets among K predictions say.

    Args:
        histogram: shares of the ranks 0 to K.
        inputs: how many were ranked.
        p_value: of uniform ranks, by which the shape of the histogram is judged where its mean is right.
    """
    last = len(histogram) - 1
    mean = sum(rank * share for rank, share in enumerate(histogram)) / last
    error = math.sqrt((last + 2) / (12 * last) / max(inputs, 1))
    off = mean - 0.5
    if abs(off) <= CLEAR_DIFFERENCE_SE * error:
        uneven = p_value is not None and p_value < UNEVEN
        words = "spread too widely for some inputs, too little for others" if uneven else "spread like the data"
        return Spread(f"predictions are {words}", mean, error)
    how = "slightly " if abs(off) < SLIGHTLY_OFF else "far " if abs(off) > FAR_OFF else ""
    return Spread(f"predictions are {how}{'too narrow, or off' if off > 0 else 'too wide'}", mean, error)


def share(value: float) -> str:
    """A share in percent; only what is all or nothing is called so."""
    percent = round(100 * value)
    if value < 1 and percent == 100:
        return "over 99%"
    return "under 1%" if value > 0 and percent == 0 else f"{percent}%"


def with_interval(number: str, error: float | None) -> str:
    """A number ± two of its standard errors, if these are known."""
    return number if error is None else f"{number} ± {2 * error:.1g}"


def numbers_to_compare(first: float, *others: float) -> list[str]:
    """Numbers to compare with the first: all with two digits, or with three or four where the first would look the
    same as another one."""
    texts: list[str] = []
    for digits in (2, 3, 4):
        texts = [f"{value:.{digits}g}" for value in (first, *others)]
        if texts[0] not in texts[1:]:
            break
    return texts


_RELATIONS = {
    "clearly better": "clearly better than",
    "tie": "not clearly better or worse than",
    "clearly worse": "clearly worse than",
}
VERDICT_WORDS: dict[Verdict, str] = {
    "clearly better": "clearly better",
    "tie": "not clearly different",
    "clearly worse": "clearly worse",
}
"""What the model is beside a baseline, by the verdict on it."""


def compared_words(systems: dict[str, Any]) -> str:
    """How the model compares with nearest neighbours and an MLP, and with random sets unless these are worse."""
    named = [name for name in ("knn", "mlp", "random") if name in systems]
    named = [name for name in named if name != "random" or systems[name]["verdict"] != "clearly better"]
    scored = [name for name in named if name != "mlp"]  # an MLP has one answer, without a spread
    own, *others = numbers_to_compare(*(systems[name]["energy_score"] for name in ("desp", *scored)))
    numbers: dict[str, str] = dict(zip(scored, others, strict=True))
    if scored:  # the model's own number stands before the first one alone
        numbers[scored[0]] = f"energy score {own} against {others[0]}"
    if "mlp" in named:
        both = numbers_to_compare(*(systems[name]["single_error"] for name in ("desp", "mlp")))
        numbers["mlp"] = f"error of the single answer {' against '.join(both)}"
    groups: dict[str, list[str]] = {}
    for name in named:
        groups.setdefault(systems[name]["verdict"], []).append(f"{_IN_SENTENCES[name]} ({numbers[name]})")
    return ", ".join(f"{_RELATIONS[relation]} {' and '.join(items)}" for relation, items in groups.items())


def sizes_words(systems: dict[str, Any]) -> str:
    """How often the cardinality is right; beside neighbours, where it often is not, as chance may decide it."""
    own, neighbours = (systems[name]["right_size"] for name in ("desp", "knn"))
    words = f"sizes right in {share(own)}"
    return words if own >= OFTEN else f"{words} (nearest neighbours: {share(neighbours)})"


def sentence(parts: Sequence[str]) -> str:
    """Parts as one sentence."""
    text = "; ".join(part for part in parts if part)
    return f"{text[:1].upper()}{text[1:]}." if text else ""
