"""``desp evaluate``"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from desp.cli.common import busy, number, parse, run_folder, show_table
from desp.cli.data_folder import MovedData, note_moved_data
from desp.results import Row, check_recordable, write_result
from desp.settings import Distance

EXAMPLES = """  desp evaluate runs/polygons
  desp evaluate runs/mine --samples 20 --json
  desp evaluate runs/polygons --distance hungarian
  desp evaluate runs/polygons --record results"""


@dataclass(frozen=True)
class EvaluateArguments:
    """Score a trained run, under both scorings, beside real data and the paper's number."""

    run: Annotated[Path, tyro.conf.Positional]
    """Folder of the run."""
    samples: int = 10
    """Predictions an input, where the task's metrics use several."""
    distance: Distance = "chamfer"
    """Distance by which coverage, matching distance and nearest neighbours compare collections of sets."""
    json: bool = False
    """Print JSON."""
    record: Path | None = None
    """Also write the result, with its provenance, into this folder."""
    data_dir: MovedData = None


def run(arguments: list[str]) -> None:
    """Score a run."""
    options = parse(EvaluateArguments, arguments, "evaluate", EXAMPLES)
    note_moved_data(options.run, options.data_dir)
    show_evaluation(options.run, options.samples, options.json, options.record, options.distance)


def show_evaluation(
    path: Path, samples: int, as_json: bool, record: Path | None = None, distance: Distance = "chamfer"
) -> None:
    """Score a run, print the rows, and record them if asked."""
    from desp.runs import evaluate_run
    from desp.runs.evaluate import changed_settings

    folder = run_folder(path)
    settings, _ = folder.load_settings()  # what is no run is refused before the long part
    if record is not None:
        check_recordable(settings.recipe, changed_settings(folder))
    with busy("predicting and scoring; on a CPU this may take minutes"):
        result, rows = evaluate_run(folder, samples, distance=distance)
    if record is not None:
        write_result(record, result)
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    show_rows(f"{result['recipe']}, seed {result['seed']}", rows)
    for name, value in result["details"].items():
        print(f"{name}: {_plain(value)}")


def show_rows(title: str, rows: list[Row]) -> None:
    """Print table rows for people."""
    columns = ("recipe", "protocol", "metric", "ours", "std", "paper", "real data", "seeds", "steps", "data")
    show_table(title, columns, [_cells(row) for row in rows], wrapped=("recipe", "metric", "steps", "data"))


def _cells(row: Row) -> tuple[str, ...]:
    recipe = row["recipe"] or f"{row['task']}, {row['system']}"
    numbers = (number(row[name]) for name in ("value", "std", "paper", "real_data"))
    last = (str(len(row["seeds"])), number(row["steps"]), number(row["data"]))
    return (recipe, number(row["protocol"]), row["metric"], *numbers, *last)


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(item)}" for name, item in value.items())
    return number(value)
