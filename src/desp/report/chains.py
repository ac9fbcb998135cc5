"""Sampling chains as small JSON, for the animation of the page."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from desp.report.figures.boxes import box_window
from desp.report.figures.points import Axes2D, Points, as_points, window
from desp.report.numbers import is_number

# Coordinates become whole numbers from 0 to this across the window: finer than a screen shows.
GRID = 1000
# Numbers of all examples together; at four characters each this is at most about half a megabyte.
_MOST_NUMBERS = 120_000


def chain_payload(samples: dict[str, Any], stochastic_steps: int | None) -> dict[str, Any] | None:
    """Everything the animation needs, or None when no example has a chain.

    Args:
        samples: contents of samples.json.
        stochastic_steps: after which step the chain adds no more noise; None if that is not known.

    Raises:
        RunError: a set or a frame cannot be read.
    """
    examples = [item for item in samples.get("examples") or [] if (item.get("chain") or {}).get("frames")]
    if not examples:
        return None
    axes = Axes2D.from_samples(samples)
    chains = [[as_points(frame) for frame in item["chain"]["frames"]] for item in examples]
    features = _features(examples, chains)
    if features == 0:
        return None
    shown = min(features, 2 if axes.numbers is None else max(1, min(2, axes.numbers)))
    places = _Places.of(axes, features, shown, _view(examples, chains, features, axes))
    keep = _stride(chains, len(places.columns))
    return {
        "grid": GRID,
        "features": shown,
        "boxes": axes.boxes is not None,
        "fades": any(frame.shape[1] == features + 1 for frame in _flat(chains)),
        "rowFirst": axes.row_first,
        "stochasticSteps": stochastic_steps,
        "examples": [_example(item, frames, places, keep) for item, frames in zip(examples, chains, strict=True)],
    }


@dataclass(frozen=True)
class _Places:
    """Which columns of a row are drawn, and where.

    Attributes:
        columns: one or two for a point, four for a box.
        low, high: values of each column at both ends of the window.
        features: D; what comes behind is presence.
    """

    columns: list[int]
    low: Points
    high: Points
    features: int

    @classmethod
    def of(cls, axes: Axes2D, features: int, shown: int, view: Points) -> "_Places":
        """Points are drawn by their first features, boxes by their corners, which share the window."""
        if axes.boxes is None:
            return cls(list(range(shown)), view[0, :shown], view[1, :shown], features)
        return cls(list(range(*axes.boxes)), np.tile(view[0], 2), np.tile(view[1], 2), features)


def _features(examples: list[dict[str, Any]], chains: list[list[Points]]) -> int:
    """D. Frames may have one column more: the presence of each row."""
    sets = [as_points(points) for item in examples for points in item.get("truth") or []]
    sets += [as_points(sample.get("set") or []) for item in examples for sample in item.get("samples") or []]
    widths = [points.shape[1] for points in sets if len(points)]
    return min(widths or [frame.shape[1] for frames in chains for frame in frames if len(frame)], default=0)


def _view(examples: list[dict[str, Any]], chains: list[list[Points]], features: int, axes: Axes2D) -> Points:
    """What the animation shows: the truth, and wherever the chains go that is not far from it."""
    truth = [as_points(points) for item in examples for points in item.get("truth") or []]
    frames = [frame[:, :features] for frame in _flat(chains)]
    return window(truth, frames) if axes.boxes is None else box_window(truth, frames, axes)


def _flat(chains: list[list[Points]]) -> Iterable[Points]:
    return (frame for frames in chains for frame in frames)


def _stride(chains: list[list[Points]], shown: int) -> int:
    """Every how many frames one is shown, so that the page does not become too large."""
    numbers = sum(len(frame) * (shown + 1) for frame in _flat(chains))
    return max(1, -(-numbers // _MOST_NUMBERS))


def _example(example: dict[str, Any], frames: list[Points], places: _Places, stride: int) -> dict[str, Any]:
    chain = example["chain"]
    kept = list(range(0, len(frames), stride))
    if kept[-1] != len(frames) - 1:
        kept.append(len(frames) - 1)  # where the chain ends is what matters most
    steps, energies = chain.get("steps") or [], chain.get("energies") or []
    return {
        "label": str(example.get("label", "")),
        "steps": [steps[index] if index < len(steps) else index for index in kept],
        "energies": [_energy(energies[index]) if index < len(energies) else None for index in kept],
        "frames": [_rows(frames[index], places) for index in kept],
        **({"image": example["image"]} if "image" in example else {}),
    }


def _energy(value: Any) -> float | None:
    return float(f"{value:.5g}") if is_number(value) else None


def _rows(frame: Points, places: _Places) -> list[list[int]]:
    """Each row as [places..., opacity in percent]; rows that are not finite are left out."""
    if len(frame) == 0:
        return []
    features = places.features
    place = (frame[:, places.columns] - places.low) / (places.high - places.low) * GRID
    present = np.clip(frame[:, features], 0, 1) if frame.shape[1] == features + 1 else np.ones(len(frame))
    table = np.column_stack([place, present * 100])
    table = table[np.isfinite(table).all(axis=1)]
    return np.rint(np.clip(table, -GRID, 2 * GRID)).astype(int).tolist()
