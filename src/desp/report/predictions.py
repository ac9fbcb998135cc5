"""Pictures of what `desp predict` predicted: one PNG for each input."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from desp.report.figures.boxes import BoxPanel, box_picture
from desp.report.figures.grid import prediction_grid
from desp.report.figures.points import Axes2D, as_points
from desp.report.numbers import is_number, short_number
from desp.storage import write_bytes

if TYPE_CHECKING:
    from desp.runs.shown import PlottedInput


def draw_prediction(folder: Path, drawn: "PlottedInput", axes: dict[str, Any]) -> Path:
    """Write a picture of what was predicted for an input, and say where it is.

    Boxes over the image of the input, a panel for each set; of other sets the first six, as points by the first
    two columns in the order of pictures (`DataDescription.columns_to_draw`), the third as colour.

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


def _points(drawn: "PlottedInput", axes: dict[str, Any]) -> bytes:
    pairs = zip(drawn.sets, drawn.energies, strict=True)
    samples = [{"set": elements, "energy": energy} for elements, energy in pairs]
    example = {"label": str(drawn.label), "truth": [], "samples": samples}
    return prediction_grid({"axes": axes, "examples": [example]}, "png")
