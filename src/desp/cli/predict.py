"""``desp predict``"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from desp.cli.common import parse
from desp.runs.folder import RunFolder

EXAMPLES = """  echo '{"input": 5}' > five.jsonl
  desp predict runs/polygons --input five.jsonl --samples 4 --output predicted.jsonl"""


@dataclass(frozen=True)
class _PredictArguments:
    """Predict sets for the inputs of a file.

    The input file has one {"input": ...} a line: the number of corners for Polygons, 0 (one) or 1 (seven) for
    Digits, a list of points [[row, column], ...] between 0 and 1 for set-MNIST, and for your own data whatever
    your training file had: a number, a vector, a set as list of lists, or the path of an image. The
    output has one object a line with `input` and `samples`, each a `set` with its `energy`.
    """

    run: Annotated[Path, tyro.conf.Positional]
    """Folder of the run."""
    input: Path
    """JSON lines with inputs."""
    output: Path
    """Where predictions go, as JSON lines."""
    samples: int = 1
    """Predictions for each input."""
    seed: int = 0
    """The same seed gives the same predictions."""


def run(arguments: list[str]) -> None:
    """Predict."""
    options = parse(_PredictArguments, arguments, "predict", EXAMPLES)
    from desp.runs.predict import predict_file

    folder = RunFolder(options.run)
    if options.samples > 1 and folder.load_settings()[0].method.deterministic:
        print("note: this method predicts the same set for an input every time; --samples 1 is enough")
    count = predict_file(folder, options.input, options.output, options.samples, options.seed)
    inputs = "1 input" if count == 1 else f"{count} inputs"
    print(f"{inputs}, {options.samples} sets each: {options.output}")
