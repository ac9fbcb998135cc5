"""``desp predict``"""

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import tyro

from desp.cli.common import parse
from desp.errors import SettingsError
from desp.paths import STDIN, STDOUT, descriptor_of
from desp.runs.folder import RunFolder

EXAMPLES = """  echo '{"input": 5}' > five.jsonl
  desp predict runs/polygons --input five.jsonl --samples 4 --output predicted.jsonl
  echo '{"input": 5}' | desp predict runs/polygons --input - --output - > predicted.jsonl
  desp predict runs/boxes --input photo.jpg --best --draw pictures"""


@dataclass(frozen=True)
class _PredictArguments:
    """Predict sets for the inputs of a file, or for an image.

    The input file has one {"input": ...} per line; or, as CSV, Parquet or Arrow, a column `input` or the
    columns of the training file; or it is an npz file with an array `inputs`, one input in each row. An input
    is the number of corners for Polygons, 0 (one) or 1 (seven) for Digits, a list of points [[row, column],
    ...] between 0 and 1 for set-MNIST, the path of an image for CLEVR, the features of five faces as five lists
    of numbers (512 by default) for CelebA, everybody's last eight positions [[[x, y], ...], ...] in metres for
    pedestrians, and for your own data whatever your training file had. Images may have any size; in an npz file
    they are pixels (channels, height, width) in the size of training. Sets of fewer elements are padded there,
    and an array `input_sizes` says how many count. The output has one object per line with `input` (of npz
    files {"row": NUMBER}) and `samples`, each a `set` with its `energy`; with --best, `input` and `best`;
    and `id`, where the input has one.
    """

    run: Annotated[Path, tyro.conf.Positional]
    """Folder of the run."""
    input: Path
    """JSON lines with inputs, - for standard input; CSV, Parquet, Arrow or npz; or an image (png, jpg, jpeg, webp,
    bmp), where the run's inputs are images."""
    output: Path | None = None
    """JSON lines file for the predictions, - for standard output; needed unless the input is an image, for which
    it is IMAGE-predicted.jsonl in the current folder by default."""
    samples: int | None = None
    """Predictions for each input. If not given 1; with --best 40, but 1 for methods that give one answer."""
    best: bool = False
    """One set for each input. Boxes, most confident first: as many as are most probable where the method predicts
    p(n | x), otherwise the boxes that more than half of the samples agree on. Each has a `confidence`, the share
    of samples that have the box (with a single sample: its presence). Other sets: the medoid, which is the sample
    nearest to all others, among samples of the most probable cardinality (of the most frequent one where the
    method does not predict p(n | x))."""
    draw: Path | None = None
    """Folder for pictures, one PNG for each input: boxes over the image, a panel for each sample; of other
    sets the first six samples. Elements of two or three numbers are points, by their position
    (`task.description.position`) first; others have a row for each category, or a panel for
    each pair of numbers. Needs the extra `viz`."""
    seed: int = 0
    """The same seed gives the same predictions."""


def run(arguments: list[str]) -> None:
    """Predict."""
    options = parse(_PredictArguments, arguments, "predict", EXAMPLES)
    from desp.runs.predict import predict_file

    output = options.output or _default_output(options.input)
    output = STDOUT if str(output) == "-" else output
    inputs = STDIN if str(options.input) == "-" else options.input
    # Where predictions go to standard output, nothing else does.
    told = sys.stderr if descriptor_of(output) == 1 else sys.stdout
    folder = RunFolder(options.run)
    done = predict_file(folder, inputs, output, options.samples, options.seed, **_output_options(options))
    if done.samples > 1 and done.deterministic:
        print("note: this method predicts the same set for an input every time; --samples 1 is enough", file=told)
    best = options.best and done.samples > 1
    sets = f"the best set of {done.samples} samples" if best else f"{_counted(done.samples, 'set')} each"
    print(f"{_counted(done.inputs, 'input')}, {sets}: {output}", file=told)
    if options.draw is not None:
        print(f"{_counted(done.inputs, 'picture')}: {options.draw}", file=told)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _default_output(inputs: Path) -> Path:
    from desp.runs.predict import is_image

    if not is_image(inputs):
        raise SettingsError("Pass --output FILE: where predictions go, as JSON lines.")
    return Path(f"{inputs.stem}-predicted.jsonl")


def _output_options(options: _PredictArguments) -> dict[str, Any]:
    """Arguments of `predict_file`: whether one set is written for each input, and the function that draws."""
    if options.draw is None:
        return {"best": options.best}
    from desp.extras import require
    from desp.report.predictions import draw_prediction

    require("matplotlib", "viz", "draw pictures")  # said before any work is done
    if options.draw.exists() and not options.draw.is_dir():
        raise SettingsError(f"{options.draw} is a file. Choose a folder with --draw.")
    return {"best": options.best, "draw": partial(draw_prediction, options.draw)}
