"""Predict for the inputs of a file, or for an image."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from desp.data.files import field_of, read_lines
from desp.data.images import SUFFIXES
from desp.errors import DataError
from desp.places import check_output, folder_of
from desp.predictor import Prediction
from desp.predictor.pooling import best_boxes
from desp.runs.folder import LoadedRun, RunFolder
from desp.runs.shown import DrawnInput, drawing_axes, drawn_image
from desp.storage import without_nonfinite, write_text

# Letters of an input that stand beside its picture.
LABEL = 24


@dataclass(frozen=True)
class PredictedInput:
    """An input and what was predicted for it.

    Attributes:
        value: the input, as it is written.
        image: its file, where inputs are images.
        sets: to be shown: K samples, or the best one.
        energies: of the samples; None where there are none.
        confidence: of each element of the best set of boxes.
    """

    value: Any
    image: Path | None
    sets: list[Tensor]
    energies: list[float | None]
    confidence: list[float] | None = None


Draw = Callable[[DrawnInput, dict[str, Any]], object]
"""Draws what was predicted for an input, by the axes of the sets (`drawing_axes`)."""


def is_image(path: Path) -> bool:
    """Whether a file is an image, by its name."""
    return path.suffix.lower() in SUFFIXES


def predict_file(
    folder: RunFolder,
    inputs: Path,
    output: Path,
    samples: int,
    seed: int = 0,
    *,
    best: bool = False,
    draw: Draw | None = None,
) -> int:
    """Predict for an image, or for the inputs of a file, and write one object a line with sets and energies.

    All inputs are read and checked before anything is predicted, and an output that is a file appears whole or
    not at all. Both may be pipes or devices, such as /dev/stdin and /dev/stdout.

    Args:
        folder: a finished run.
        inputs: one ``{"input": ...}`` a line, or an image file.
        output: JSON lines to write.
        samples: predictions for each input.
        seed: of the predictions.
        best: one set for each input in place of all samples: of boxes, what most samples agree on.
        draw: called for each input before the output is written.

    Returns:
        The number of inputs.

    Raises:
        DataError: the output is a folder, or a line cannot be read as an input of the run's task.
        StorageError: the output cannot be written.
    """
    _check_files(inputs, output)
    run = folder.open(data=False)
    values, rows = _read_image(run, inputs) if is_image(inputs) else _read_lines(run, inputs)
    predictions = run.predictor.predict(torch.stack(rows), samples, seed=seed)
    images = run.predictor.shape.input_kind == "image"
    base = Path() if is_image(inputs) else folder_of(inputs)
    predicted = [
        _written(run, x, _predicted(run, value, base / value if images else None, item, best=best))
        for value, x, item in zip(values, rows, predictions, strict=True)
    ]
    if draw is not None:
        _draw_all(run, predicted, draw)
    lines = [json.dumps(_line(item, best=best)) for item in predicted]
    write_text(output, "\n".join(lines) + "\n")
    return len(lines)


def _check_files(inputs: Path, output: Path) -> None:
    if output.is_dir():
        raise DataError(f"{output} is a folder. Pass the name of a file with --output.")
    check_output(output)
    if inputs.exists() and output.is_file() and inputs.samefile(output):
        raise DataError(f"{output} is the input file. Choose another one for the predictions.")
    if inputs.suffix == ".npz":
        raise DataError(f'{inputs}: inputs to predict for are read from JSON lines, one {{"input": ...}} a line.')


def _read_image(run: LoadedRun, path: Path) -> tuple[list[Any], list[Tensor]]:
    shape = run.predictor.shape
    if shape.input_kind != "image":
        raise DataError(
            f"{path} is an image, but an input of this run is a {shape.input_kind}. Write inputs as JSON lines, "
            'one {"input": ...} a line.'
        )
    return [str(path)], [run.task.read_input(str(path), "--input", Path(), shape)]


def _read_lines(run: LoadedRun, inputs: Path) -> tuple[list[Any], list[Tensor]]:
    values, rows = [], []
    for where, record in read_lines(inputs):
        value = field_of(record, "input", where)
        rows.append(run.task.read_input(value, where, folder_of(inputs), run.predictor.shape))
        values.append(value)
    if not rows:
        raise DataError(f'{inputs} holds no inputs. Write one JSON object a line: {{"input": ...}}')
    return values, rows


def _predicted(
    run: LoadedRun, value: Any, image: Path | None, prediction: Prediction, *, best: bool
) -> PredictedInput:
    if not best:
        energies = without_nonfinite(prediction.energies.tolist())
        return PredictedInput(value, image, prediction.sets, energies)
    shape = run.predictor.shape
    if not shape.description.boxes:
        return PredictedInput(value, image, [prediction.best], [None])
    boxes, confidence = best_boxes(prediction, shape.description, shape.max_size)
    return PredictedInput(value, image, [boxes], [None], [round(share, 4) for share in confidence.tolist()])


def _written(run: LoadedRun, x: Tensor, item: PredictedInput) -> PredictedInput:
    """With sets as the task writes them."""
    return replace(item, sets=run.task.written_sets(item.value, x, item.sets))


def _draw_all(run: LoadedRun, predicted: list[PredictedInput], draw: Draw) -> None:
    axes, shape = drawing_axes(run), run.predictor.shape
    columns = shape.description.columns_to_draw(shape.features)
    for number, item in enumerate(predicted, start=1):
        # Never the name of an input, which may be in the same folder.
        stem = "predicted" if item.image is None else f"{item.image.stem}-predicted"
        name = stem if item.image is not None and len(predicted) == 1 else f"{number:04d}-{stem}"
        image = None if item.image is None else drawn_image(item.image)
        sets = [elements[:, columns].tolist() for elements in item.sets]
        draw(DrawnInput(name, str(item.value)[:LABEL], image, sets, item.energies, item.confidence), axes)


def _line(item: PredictedInput, *, best: bool) -> dict[str, Any]:
    if not best:
        pairs = zip(item.sets, item.energies, strict=True)
        samples = [{"set": elements.tolist(), "energy": energy} for elements, energy in pairs]
        return {"input": item.value, "samples": samples}
    confidence = {} if item.confidence is None else {"confidence": item.confidence}
    return {"input": item.value, "best": {"set": item.sets[0].tolist(), **confidence}}
