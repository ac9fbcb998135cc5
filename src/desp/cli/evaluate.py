"""``desp evaluate``"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from desp.cli.common import busy, number, parse, run_folder, show_table
from desp.cli.data_folder import MovedData, note_moved_data
from desp.results import Row, check_recordable, write_result
from desp.settings import Distance

EXAMPLES = """  desp evaluate runs/polygons
  desp evaluate runs/mine --samples 20 --json
  desp evaluate runs/polygons --distance hungarian
  desp evaluate runs/polygons --protocol full
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
    protocol: str | None = None
    """How much is scored: quick or full; full where --record is given, else quick."""
    json: bool = False
    """Print JSON."""
    record: Path | None = None
    """Also write the result, with its provenance, into this folder."""
    data_dir: MovedData = None


def run(arguments: list[str]) -> None:
    """Score a run."""
    options = parse(EvaluateArguments, arguments, "evaluate", EXAMPLES)
    note_moved_data(options.run, options.data_dir)
    show_evaluation(options.run, options.samples, options.json, options.record, options.distance, options.protocol)


def chosen_protocol(asked: str | None, record: Path | None) -> str:
    """Results to be recorded are scored by the protocol `full`, others quickly unless told otherwise."""
    return asked or ("quick" if record is None else "full")


def shown_protocol(protocol: dict[str, Any]) -> str:
    """Name and counts of a protocol in words."""
    counts = ", ".join(f"{name} {_plain(value)}" for name, value in protocol.items() if name != "name" and value)
    return f"protocol {protocol['name']} ({counts})"


def show_evaluation(
    path: Path,
    samples: int,
    as_json: bool,
    record: Path | None = None,
    distance: Distance = "chamfer",
    asked: str | None = None,
) -> None:
    """Score a run, print the rows, and record them if asked."""
    from desp.runs import evaluate_run
    from desp.runs.evaluate import changed_settings

    folder, protocol = run_folder(path), chosen_protocol(asked, record)
    settings, _ = folder.load_settings()  # what is no run is refused before the long part
    if record is not None:
        check_recordable(settings.recipe, changed_settings(folder), protocol)
    with busy("predicting and scoring; on a CPU this may take minutes"):
        result, rows = evaluate_run(folder, samples, distance=distance, protocol=protocol)
    if record is not None:
        write_result(record, result)
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    show_rows(f"{result['recipe']}, seed {result['seed']}", rows)
    print(shown_protocol(result["protocol"]))
    for name, value in result["details"].items():
        print(f"{name}: {_plain(value)}")


def show_rows(title: str, rows: list[Row]) -> None:
    """Print table rows for people."""
    columns = ("recipe", "scored", "metric", "ours", "std", "paper", "real data", "seeds", "steps", "data")
    show_table(title, columns, [_cells(row) for row in rows], wrapped=("recipe", "metric", "steps", "data"))


def _cells(row: Row) -> tuple[str, ...]:
    recipe = row["recipe"] or f"{row['task']}, {row['system']}"
    numbers = (number(row[name]) for name in ("value", "std", "paper", "real_data"))
    last = (str(len(row["seeds"])), number(row["steps"]), number(row["data"]))
    return (recipe, number(row["scored"]), row["metric"], *numbers, *last)


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        return " and ".join("all" if item is None else _plain(item) for item in value)
    return number(value)
