"""Metrics: name, unit and direction; and how the keys of scores name them."""

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

Direction = Literal["lower", "higher", "near 0.5"]

# What may follow a metric's name in the key of a score: that codes were rounded to bfloat16, or that a set is the
# end of a single chain, where the predictor's own sets are made of several; how many tests were scored, where it
# is not the usual number; the distance between sets of collections, where it is not Chamfer's; that CLEVR's boxes
# were scored against those of the rendered objects, not of the published formula (`_exact`); how many steps a
# descent took, where they are more than the predictor's own; that labels were sampled, where the predictor's own
# are the most probable ones.
SUFFIXES = r"(_bfloat16_code|_single_chain)?(_all|_first\d+)?|_hungarian|_exact|_\d+_steps|_sampled"


@dataclass(frozen=True)
class Metric:
    """A number that a task reports.

    Attributes:
        name: its key among a task's scores.
        unit: the markdown table writes values as multiples of it.
        direction: which values are better.
        text: what it is, in words.
    """

    name: str
    unit: float
    direction: Direction
    text: str


def split_key(key: str) -> tuple[str | None, str]:
    """A score's key, such as ``ambiguous/f1``, as the part of the examples, None for all of them, and the name of
    the metric, with its suffix. Tables show a part as a task of its own."""
    part, _, name = key.rpartition("/")
    return part or None, name


def find_metric(metrics: Iterable[Metric], key: str) -> Metric | None:
    """The metric that a score's key names, with or without suffix and part; None if there is none."""
    _, name = split_key(key)
    return next(
        (metric for metric in metrics if re.fullmatch(f"{re.escape(metric.name)}({SUFFIXES})", name)), None
    )


def describe(metrics: Iterable[Metric], keys: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Unit, direction and text of each key that has a metric, as JSON."""
    metrics = tuple(metrics)
    found = {key: find_metric(metrics, key) for key in keys}
    return {key: asdict(metric) for key, metric in found.items() if metric is not None}
