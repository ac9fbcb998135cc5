"""Predict for the inputs of a file, or for an image."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from desp.data.arrays import inputs_of, load_arrays, map_arrays, written_inputs
from desp.data.files import open_table
from desp.data.images import SUFFIXES
from desp.data.row_inputs import ANSWERS, INPUT, RowInputs
from desp.errors import DataError
from desp.paths import check_output, folder_of
from desp.predictor import Prediction
from desp.runs.folder import LoadedRun, RunFolder
from desp.runs.shown import PlottedInput, drawing_axes, drawn_image
from desp.settings import default_samples
from desp.storage import without_nonfinite, write_text
from desp.tasks import Task


@dataclass(frozen=True)
class _Input:
    """An input of a file.

    Attributes:
        written: what the file of predictions has: `value`, or the number of the row if it is from arrays.
        value: as it was written.
        x: as a model sees it.
        where: its name in messages.
        id: its id in the file, if there is a column of ids.
    """

    written: Any
    value: Any
    x: Tensor
    where: str
    id: Any = None


@dataclass(frozen=True)
class PredictedInput:
    """An input and what was predicted for it.

    Attributes:
        given: the input.
        image: its file, where inputs are images.
        sets: K samples, or the best one.
        energies: of the samples; None where there are none.
        confidence: of each element of the best set of boxes.
    """

    given: _Input
    image: Path | None
    sets: list[Tensor]
    energies: list[float | None]
    confidence: list[float] | None = None


PlotPrediction = Callable[[PlottedInput, dict[str, Any]], object]
"""Plots what was predicted for an input, by the axes of the sets (`drawing_axes`)."""


@dataclass(frozen=True)
class WrittenPredictions:
    """What was predicted for a file.

    Attributes:
        inputs: how many.
        samples: predictions for each.
        deterministic: whether all of them are the same.
    """

    inputs: int
    samples: int
    deterministic: bool


def is_image(path: Path) -> bool:
    """Whether a file is an image, by its name."""
    return path.suffix.lower() in SUFFIXES


def predict_file(
    folder: RunFolder,
    inputs: Path,
    output: Path,
    samples: int | None,
    seed: int = 0,
    *,
    best: bool = False,
    draw: PlotPrediction | None = None,
) -> WrittenPredictions:
    """Predict for an image, or for the inputs of a file, and write one object a line with sets and energies.

    All inputs are read and checked before anything is predicted, and an output that is a file appears whole or
    not at all. Both may be pipes or devices, such as /dev/stdin and /dev/stdout.

    Args:
        folder: a finished run.
        inputs: rows with inputs, as in a file to train on but without sets; or an image file.
        output: JSON lines to write.
        samples: predictions for each input; None: as many as the predictor makes by default.
        seed: of the predictions.
        best: one set for each input in place of all samples: the medoid, of boxes the most confident ones.
        draw: called for each input after the output is written: a picture that fails loses no predictions.

    Raises:
        DataError: the output is a folder, or a line cannot be read as an input of the run's task.
        StorageError: the output cannot be written.
    """
    _check_files(inputs, output)
    run = folder.open(data=False)
    given = _read_all(run, inputs)
    x = torch.stack([item.x for item in given])
    # The saved model's settings, not the run's: tuning may have changed its sampler since.
    same = run.predictor.method_settings.deterministic
    samples = default_samples(best=best, deterministic=same) if samples is None else samples
    predictions = run.predictor.predict(
        x, samples, seed=seed, best=best, name_of=lambda number: given[number].where
    )
    base = Path() if is_image(inputs) else folder_of(inputs)
    predicted = [
        _written(run, _predicted(run, item, base, prediction, best=best))
        for item, prediction in zip(given, predictions, strict=True)
    ]
    lines = [json.dumps(_line(item, best=best), default=str) for item in predicted]  # ids may be dates
    write_text(output, "\n".join(lines) + "\n")
    if draw is not None:
        _draw_all(run, predicted, draw)
    return WrittenPredictions(len(lines), samples, same)


def _check_files(inputs: Path, output: Path) -> None:
    if output.is_dir():
        raise DataError(f"{output} is a folder. Pass the name of a file with --output.")
    check_output(output)
    if inputs.exists() and output.is_file() and inputs.samefile(output):
        raise DataError(f"{output} is the input file. Choose another one for the predictions.")


def _read_image(run: LoadedRun, path: Path) -> list[_Input]:
    shape = run.predictor.shape
    if shape.input_kind != "image":
        raise DataError(
            f"{path} is an image, but an input of this run is a {shape.input_kind}. Write inputs as JSON lines, "
            'one {"input": ...} a line.'
        )
    return [_Input(str(path), str(path), run.task.read_input(str(path), "--input", Path(), shape), str(path))]


def _read_rows(run: LoadedRun, path: Path) -> list[_Input]:
    """The inputs of a file of rows, in the words and columns of the data that the run was trained on."""
    shape, id_column = run.predictor.shape, run.task.id_column
    columns = shape.description.input_columns
    table = open_table(path, None if id_column in columns else id_column)
    inputs, found = RowInputs(columns, frozenset({run.task.set_column, ANSWERS, id_column})), []
    for number, record in table.rows():
        where, written = table.where(number), inputs.written(record, table, number)
        value = inputs.value(written, where)
        if isinstance(value, dict):
            raise DataError(
                f"{where}: inputs of this run have no names of columns, so they cannot be found in these: "
                f"{', '.join(value) or 'none'}. {_how_to_write_inputs(run)}"
            )
        x = run.task.read_input(value, where, folder_of(path), shape)
        found.append(_Input(written, written, x, where, without_nonfinite(record.get(id_column))))
    return found


def _how_to_write_inputs(run: LoadedRun) -> str:
    """How to write inputs that have no names; a cell of a CSV file holds a number or text, but no list."""
    shape = run.predictor.shape
    if shape.input_kind == "set":
        return f'Write JSON lines, one {{"{INPUT}": [[...], ...]}} a line.'
    numbers = math.prod(shape.input_shape)
    if shape.input_kind == "vector" and numbers > 1 and type(run.task).read_input is Task.read_input:
        return f'Write JSON lines, one {{"{INPUT}": [...]}} a line, with a list of {numbers} numbers.'
    return f"Write a column '{INPUT}', or JSON lines."


def _read_arrays(run: LoadedRun, path: Path) -> list[_Input]:
    """The rows of an array `inputs`; predictions name them by their number. A task with a `read_input` of its own
    gets them as JSON lines would have them."""
    arrays, shape, task = load_arrays(path) if path.is_file() else map_arrays(path), run.predictor.shape, run.task
    if type(task).read_input is Task.read_input:
        rows = enumerate(inputs_of(arrays, path, shape.input_kind))
        return [_Input({"row": number}, {"row": number}, x, f"{path}, row {number}") for number, x in rows]
    found = []
    for number, value in enumerate(written_inputs(arrays, path)):
        where = f"{path}, row {number}"
        found.append(_Input({"row": number}, value, task.read_input(value, where, folder_of(path), shape), where))
    return found


def _read_all(run: LoadedRun, path: Path) -> list[_Input]:
    if is_image(path):
        return _read_image(run, path)
    arrays = path.suffix.lower() == ".npz" or (path.is_dir() and any(path.glob("*.npy")))
    found = _read_arrays(run, path) if arrays else _read_rows(run, path)
    if not found:
        raise DataError(f'{path} holds no inputs. Write one row per input, as JSON {{"{INPUT}": ...}}')
    return found


def _predicted(run: LoadedRun, given: _Input, base: Path, prediction: Prediction, *, best: bool) -> PredictedInput:
    named = run.predictor.shape.input_kind == "image" and isinstance(given.written, str)
    image = base / given.written if named else None
    if not best:
        return PredictedInput(given, image, prediction.sets, without_nonfinite(prediction.energies.tolist()))
    boxes = bool(run.predictor.shape.description.boxes)
    confidence = [round(share, 4) for share in prediction.presence[0].tolist()] if boxes else None
    return PredictedInput(given, image, prediction.sets, [None], confidence)


def _written(run: LoadedRun, item: PredictedInput) -> PredictedInput:
    """With sets as the task writes them."""
    return replace(item, sets=run.task.written_sets(item.given.value, item.given.x, item.sets))


def _draw_all(run: LoadedRun, predicted: list[PredictedInput], draw: PlotPrediction) -> None:
    axes, shape = drawing_axes(run), run.predictor.shape
    columns = shape.description.columns_to_draw(shape.features)
    for number, item in enumerate(predicted, start=1):
        # Never the name of an input, which may be in the same folder.
        stem = "predicted" if item.image is None else f"{item.image.stem}-predicted"
        name = stem if item.image is not None and len(predicted) == 1 else f"{number:04d}-{stem}"
        # Boxes whose unit is not known have no place in the image.
        image = None if item.image is None or "extent" not in axes else drawn_image(item.image)
        sets = [elements[:, columns].tolist() for elements in item.sets]
        draw(PlottedInput(name, item.given.written, image, sets, item.energies, item.confidence), axes)


def _line(item: PredictedInput, *, best: bool) -> dict[str, Any]:
    line = {} if item.given.id is None else {"id": item.given.id}
    line[INPUT] = item.given.written
    if not best:
        pairs = zip(item.sets, item.energies, strict=True)
        return line | {"samples": [{"set": elements.tolist(), "energy": energy} for elements, energy in pairs]}
    confidence = {} if item.confidence is None else {"confidence": item.confidence}
    return line | {"best": {"set": item.sets[0].tolist(), **confidence}}
