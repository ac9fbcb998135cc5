"""Predict for the inputs of a file."""

import json
from pathlib import Path
from typing import Any

import torch

from desp.data.files import field_of, read_lines
from desp.errors import DataError
from desp.predictor import Prediction
from desp.runs.folder import RunFolder
from desp.storage import without_nonfinite, write_text


def predict_file(folder: RunFolder, inputs: Path, output: Path, samples: int, seed: int = 0) -> int:
    """Read one ``{"input": ...}`` a line and write one object a line with K predicted sets and energies.

    All lines are read and checked before anything is predicted, and the output appears whole or not at all.

    Returns:
        The number of inputs.

    Raises:
        DataError: the output is a folder, or a line cannot be read as an input of the run's task.
    """
    if output.is_dir():
        raise DataError(f"{output} is a folder. Pass the name of a file with --output.")
    if inputs.exists() and output.exists() and inputs.samefile(output):
        raise DataError(f"{output} is the input file. Choose another one for the predictions.")
    if inputs.suffix == ".npz":
        raise DataError(f'{inputs}: inputs to predict for are read from JSON lines, one {{"input": ...}} a line.')
    run = folder.open(data=False)
    values, rows = [], []
    for where, record in read_lines(inputs):
        value = field_of(record, "input", where)
        rows.append(run.task.read_input(value, where, inputs.parent, run.predictor.shape))
        values.append(value)
    if not rows:
        raise DataError(f'{inputs} holds no inputs. Write one JSON object a line: {{"input": ...}}')
    predictions = run.predictor.predict(torch.stack(rows), samples, seed=seed)
    lines = [json.dumps(_line(value, item)) for value, item in zip(values, predictions, strict=True)]
    write_text(output, "\n".join(lines) + "\n")
    return len(lines)


def _line(value: Any, prediction: Prediction) -> dict[str, Any]:
    pairs = zip(prediction.sets, without_nonfinite(prediction.energies.tolist()), strict=True)
    return {"input": value, "samples": [{"set": item.tolist(), "energy": energy} for item, energy in pairs]}
