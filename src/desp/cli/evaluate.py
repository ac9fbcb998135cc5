"""``desp evaluate``"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from desp.cli.common import busy, number, parse, run_folder, show_table
from desp.cli.data_folder import MovedData, note_moved_data
from desp.errors import SettingsError
from desp.results import RECORDED, Row, check_recordable, data_slug, recipe_label, write_result
from desp.settings import Distance

EXAMPLES = """  desp evaluate runs/polygons
  desp evaluate runs/mine --samples 20 --json
  desp evaluate runs/polygons --distance hungarian --protocol full
  desp evaluate runs/polygons --record results
  desp evaluate runs/wide --record results --variant wide"""


@dataclass(frozen=True)
class EvaluateArguments:
    """Score a trained run, raw and as returned, beside real data and the paper's number."""

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
    variant: str | None = None
    """With --record: a name for what this run has changed of its recipe."""
    data_dir: MovedData = None


def run(arguments: list[str]) -> None:
    """Score a run."""
    options = parse(EvaluateArguments, arguments, "evaluate", EXAMPLES)
    note_moved_data(options.run, options.data_dir)
    folder = run_folder(options.run)
    protocol = protocol_for(folder, options.record, options.variant, options.protocol)
    show_evaluation(
        options.run, options.samples, options.json, options.record, options.variant, options.distance, protocol
    )


def protocol_for(folder: Any, record: Path | None, variant: str | None, asked: str | None) -> str:
    """How much to score, before the long part begins: all that others have where it is recorded, else less.

    Raises:
        RunError: not a run, or the result could not be recorded.
        SettingsError: a variant is named, and nothing recorded.
    """
    settings, _ = folder.load_settings()
    if record is None:
        if variant is not None:
            raise SettingsError("--variant names a recorded result. Add --record DIR, or leave it out.")
        return asked or "quick"
    from desp.runs.evaluate import changed_settings

    protocol = asked or RECORDED
    check_recordable(settings.recipe, changed_settings(folder), protocol, data_slug(settings), variant)
    return protocol


def show_evaluation(
    path: Path,
    samples: int,
    as_json: bool,
    record: Path | None = None,
    variant: str | None = None,
    distance: Distance = "chamfer",
    protocol: str = "quick",
) -> None:
    """Score a run, print the rows, and record them if asked."""
    from desp.runs import evaluate_run

    with busy("predicting and scoring; on a CPU this may take minutes"):
        result, rows = evaluate_run(run_folder(path), samples, distance=distance, protocol=protocol)
    if record is not None:
        write_result(record, result, variant)
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    show_rows(f"{result['recipe']}, seed {result['seed']}", rows)
    print(shown_protocol(result["protocol"]))
    for name, value in result["details"].items():
        print(f"{name}: {_plain(value)}")


def shown_protocol(protocol: dict[str, Any]) -> str:
    """Name and counts of a protocol in words."""
    counts = ", ".join(f"{name} {_plain(value)}" for name, value in protocol.items() if name != "name" and value)
    return f"protocol {protocol['name']}: {counts}"


def show_rows(title: str, rows: list[Row]) -> None:
    """Print table rows for people."""
    first = ("recipe", "scored", "metric", "better")
    columns = (*first, "ours", "std", "paper", "real data", "seeds", "steps", "data")
    show_table(title, columns, [_cells(row) for row in rows], wrapped=("recipe", "metric", "steps", "data"))


def _cells(row: Row) -> tuple[str, ...]:
    first = (recipe_label(row), number(row["scored"]), row["metric"], number(row["direction"]))
    numbers = (number(row[name]) for name in ("value", "std", "paper", "real_data"))
    return (*first, *numbers, str(len(row["seeds"])), number(row["steps"]), number(row["data"]))


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        return " and ".join("all" if item is None else _plain(item) for item in value)
    return number(value)
