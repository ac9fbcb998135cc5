"""Pictures of what `desp predict` predicted: one PNG for each input."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from desp.comparison.features import Feature
from desp.report.figures.boxes import BoxPanel, box_picture
from desp.report.figures.grid import prediction_grid
from desp.report.figures.own_sets import input_texts, layout_of, own_sets_picture
from desp.report.figures.points import Axes2D, as_points
from desp.report.numbers import is_number, short_number
from desp.storage import write_bytes

if TYPE_CHECKING:
    from desp.runs.shown import PlottedInput

# Characters of a line beside a picture, and sets in one.
_LONGEST, _MOST_SETS = 32, 6


def draw_prediction(folder: Path, drawn: "PlottedInput", axes: dict[str, Any]) -> Path:
    """Write a picture of what was predicted for an input, and say where it is.

    Boxes over the image of the input, a panel for each set; of other sets the first six: those of two or three
    numbers as points with their energies, others with a row for each category or a panel for each pair of numbers.

    Args:
        folder: where it goes.
        drawn: the sets.
        axes: what their columns are, as samples.json has it.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    path = folder / f"{drawn.name}.png"
    write_bytes(path, _boxes(drawn, axes) if "boxes" in axes else _points(drawn, axes))
    return path


def _boxes(drawn: "PlottedInput", axes: dict[str, Any]) -> bytes:
    confidence = tuple(drawn.confidence or ())
    pairs = zip(drawn.sets, drawn.energies, strict=True)
    panels = [
        BoxPanel(as_points(elements), _title(number, len(drawn.sets), energy), confidence)
        for number, (elements, energy) in enumerate(pairs, start=1)
    ]
    return box_picture(drawn.image, panels, Axes2D.from_samples({"axes": axes}))


def _title(number: int, of: int, energy: float | None) -> str:
    parts = [f"sample {number}"] if of > 1 else []
    return ": ".join(parts + ([f"E = {short_number(energy)}"] if is_number(energy) else []))


def input_label(written: Any, names: Sequence[str]) -> str:
    """An input in few words: its numbers with their names, or how many there are.

    Args:
        written: the input as it was written.
        names: of its numbers, where they have any.
    """
    if lines := input_texts(written, names):
        return "\n".join(map(_shortened, lines))
    if isinstance(written, list):
        return " by ".join(map(str, _lengths(written))) + " numbers"
    return _shortened(short_number(written) if isinstance(written, float) else str(written))


def _lengths(values: Any) -> list[int]:
    if not isinstance(values, list):
        return []
    return [len(values), *(_lengths(values[0]) if values else [])]


def _shortened(line: str) -> str:
    """A line that is too long loses the end of its name; without one, as of a path, its own beginning."""
    name, equals, value = line.rpartition(" = ")
    room = _LONGEST - len(equals + value)
    if len(line) <= _LONGEST:
        return line
    return f"{name[: room - 1]}…{equals}{value}" if room > 1 else f"…{line[1 - _LONGEST :]}"


def _points(drawn: "PlottedInput", axes: dict[str, Any]) -> bytes:
    pairs = zip(drawn.sets, drawn.energies, strict=True)
    samples = [{"set": elements, "energy": energy} for elements, energy in pairs]
    label = input_label(drawn.written, axes.get("input_names") or ())
    features = [Feature.from_json(item) for item in axes.get("features") or ()]
    if features and (layout_of(features) != "plane" or any(feature.classes for feature in features)):
        named = {"input": drawn.written} if "\n" in label else {"label": label}
        return own_sets_picture({"axes": axes, "examples": [{**named, "samples": samples[:_MOST_SETS]}]}, "png")
    example = {"label": label, "truth": [], "samples": samples}
    return prediction_grid({"axes": axes, "examples": [example]}, "png")
