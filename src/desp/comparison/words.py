"""Comparisons in words. Nothing here loads torch."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

# A paired difference of more than this many standard errors is clear.
CLEAR_DIFFERENCE_SE = 2.0
# If the distance of the mean rank (0 to 1) from 0.5 is below the first number, the spread is slightly off; above
# the second one, far off.
SLIGHTLY_OFF, FAR_OFF = 0.1, 0.25
# Cardinalities that are right at least this often need no comparison.
OFTEN = 0.9
# Below this p-value, ranks that are not uniform are reported even if their mean is right.
UNEVEN = 0.001
# Digits of a number that has a very small ±.
_MOST_DIGITS = 7

Verdict = Literal["clearly better", "tie", "clearly worse"]
"""A model compared with a baseline. clearly: the paired difference is more than two standard errors. tie: it is
less, and so not significant, which does not mean that there is no difference."""

SYSTEMS = {"desp": "desp", "knn": "nearest neighbours", "random": "random training sets", "mlp": "MLP"}
"""Names of systems by their keys in comparisons."""
_IN_SENTENCES = SYSTEMS | {"mlp": "an MLP"}


def verdict(difference: float, error: float) -> Verdict:
    """The verdict on a paired difference, model minus baseline; lower is better."""
    if abs(difference) <= CLEAR_DIFFERENCE_SE * error:
        return "tie"
    return "clearly better" if difference < 0 else "clearly worse"


@dataclass(frozen=True)
class Spread:
    """Whether predictions are spread as the truth is.

    Attributes:
        words: the verdict, as part of a sentence.
        mean_rank: mean rank of the truth among predictions, by distance to the others, 0 to 1; 0.5 is right.
        standard_error: of the mean rank, if the spread is right.
    """

    words: str
    mean_rank: float
    standard_error: float


def spread_verdict(histogram: Sequence[float], inputs: int, p_value: float | None = None) -> Spread:
    """The verdict on the spread of predictions, from the ranks of true sets among K predictions.

    Args:
        histogram: shares of the ranks 0 to K.
        inputs: number of true sets.
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
    """A share in percent; 100% and 0% stand for all and none alone."""
    percent = round(100 * value)
    if value < 1 and percent == 100:
        return "over 99%"
    return "under 1%" if value > 0 and percent == 0 else f"{percent}%"


def with_interval(value: float, error: float) -> str:
    """A number ± two standard errors."""
    return " ± ".join(plus_minus(value, CLEAR_DIFFERENCE_SE * error))


def plus_minus(value: float, half: float) -> tuple[str, str]:
    """A number and what stands behind its ±, to the same decimal place: the second of two significant digits of ±.

    Only below 1e-4 and from 1e5 on they have an exponent, the same one. Where they would look the same but are
    not, they have more digits, as a clear difference is larger than its ±.
    """
    largest = max(abs(value), half)
    if not (math.isfinite(value) and math.isfinite(half)):
        return f"{value:.3g}", f"{half:.2g}"
    power = 0 if largest == 0 or 1e-4 <= largest < 1e5 else _power(largest)
    value, half, largest = (number / 10.0**power for number in (value, half, largest))
    places = 1 - _power(half) if half else 2 - _power(value)
    places = max(0, min(places, _MOST_DIGITS - 1 - _power(largest)))
    texts = ("", "")
    for more in range(3):
        texts = f"{value:z.{places + more}f}", f"{half:.{places + more}f}"
        if abs(value) == half or texts[0].lstrip("-") != texts[1]:
            break
    mark = f"e{power}" if power else ""
    return texts[0] + mark, texts[1] + mark


def _power(value: float) -> int:
    """The power of ten of a number that is rounded to two digits."""
    return int(f"{value:.1e}".partition("e")[2])


def numbers_to_compare(first: float, *others: float) -> list[str]:
    """Numbers with two digits, or with three or four where the first would look the same as another one."""
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
"""The model compared with a baseline in words, by the verdict."""


def compared_words(systems: dict[str, Any]) -> str:
    """How the model compares with nearest neighbours, an MLP, and random sets unless they are clearly worse."""
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
    """How often the cardinality is right; where it is often wrong, also how often nearest neighbours are right."""
    own, neighbours = (systems[name]["right_size"] for name in ("desp", "knn"))
    words = f"sizes right in {share(own)}"
    return words if own >= OFTEN else f"{words} (nearest neighbours: {share(neighbours)})"


def sentence(parts: Sequence[str]) -> str:
    """Parts as one sentence."""
    text = "; ".join(part for part in parts if part)
    return f"{text[:1].upper()}{text[1:]}." if text else ""
