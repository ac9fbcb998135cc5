"""``desp evaluate``"""

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from desp.cli.common import bar, number, parse, show_table
from desp.cli.compared import show_verdict
from desp.cli.run_arguments import ScoreArguments, check_seeds
from desp.comparison.rows import is_compared
from desp.comparison.words import plus_minus
from desp.errors import SettingsError
from desp.raw_and_returned import is_shown_twice
from desp.report.tables import known_columns
from desp.results import Row, metric_label, recipe_label
from desp.run_lengths import UNKNOWN, trained_words
from desp.settings import Distance

EXAMPLES = """  desp evaluate runs/polygons
  desp evaluate runs/mine --samples 20 --json
  desp evaluate runs/polygons --distance hungarian --protocol full
  desp evaluate runs/polygons --record results
  desp evaluate runs/polygons --seed 0 1 2
  desp evaluate runs/wide --record my-results --variant wide"""


@dataclass(frozen=True)
class _EvaluateArguments(ScoreArguments):
    """Score a trained run: the sampler's padded output (raw) and the sets a user gets (returned), beside real data
    and the paper's number; own data beside nearest neighbours and random training sets, and an MLP where one
    answer is right, with a verdict."""

    samples: int = 10
    """K, predictions for each input. On own data, and tasks of plugins with the default scores, all metrics but
    calibration_error use them. On CLEVR they are pooled into the returned set. The other tasks do not use this
    flag. Polygons and Digits: the protocol fixes how many predictions are compared. set-MNIST: one is scored.
    CelebA: ten, or the one answer of a deterministic method. Pedestrians: twenty samples (raw), and the centres of
    twenty clusters of `task.drawn` samples (returned)."""
    distance: Distance = "chamfer"
    """Set distance of coverage, minimum_matching_distance and nearest_neighbour_accuracy."""
    seed: tuple[int, ...] = ()
    """Seeds of chains, and of test data where they are drawn; the run's own if not given. The first seed gives the
    scores; with several, the scores of each seed and their spread are kept as well. With --record the first must
    be the run's own."""


def run(arguments: list[str]) -> None:
    """Score a run, print the rows, and record them if asked."""
    options = parse(_EvaluateArguments, arguments, "evaluate", EXAMPLES)
    folder = options.folder()
    protocol = options.protocol_for(folder)
    own = folder.load_settings()[1]
    check_seeds("--seed", options.seed)
    if options.record is not None and options.seed and options.seed[0] != own:
        raise SettingsError(f"--seed: results are recorded with the run's own seed first: --seed {own} ...")
    folder.check_trained()  # said before anything takes long
    from desp.runs.evaluate import evaluate_run

    with bar("predicting and scoring; on a CPU this may take minutes") as tell:
        result, rows = evaluate_run(folder, options.samples, options.distance, protocol, tell, options.seed)
    options.keep(result)
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    used = (*options.seed, own)[0]
    title = f"{result['recipe']}, seed {result['seed']}" + (f", evaluated with seed {used}" if used != own else "")
    _show_scores(title, [row for row in rows if not is_compared(row)])
    scores = {name for numbers in result["scores"].values() for name in numbers}
    print(shown_protocol(result["protocol"], scores, folder.load_task().compares_collections))
    if "reseeded" in result:
        print(_spread_words(result["reseeded"]))
    for name, value in result["details"].items():
        print(f"{name}: {_plain(value)}")
    show_verdict(result)


def _spread_words(reseeded: dict[str, Any]) -> str:
    """How much the score of one model differs between seeds of prediction."""
    seeds = ", ".join(map(str, reseeded["seeds"]))
    texts = []
    for scoring, spread in reseeded["std"].items():
        scores = [scores[scoring].get("score") for scores in reseeded["scores"]]
        if spread.get("score") is not None:
            texts.append(f"{scoring} {', '.join(map(number, scores))}, standard deviation {spread['score']:.2g}")
    return f"score with the seeds {seeds}: {'; '.join(texts)}"


def shown_protocol(protocol: dict[str, Any], scores: Collection[str], compares_collections: bool) -> str:
    """Name and counts of a protocol in words, without counts that nothing depends on.

    Args:
        protocol: as results have it.
        scores: the metrics that were scored.
        compares_collections: whether the task does that.
    """
    unused = ["name", "validation_examples"]
    unused += [] if "calibration_error" in scores else ["calibration_examples"]
    unused += [] if compares_collections else ["sets_per_collection", "sets_per_collection_hungarian"]
    counts = ", ".join(
        f"{name} {_plain(value)}" for name, value in protocol.items() if name not in unused and value
    )
    return f"protocol {protocol['name']}: {counts}"


# Keys of rows by the headings of their columns.
_NUMBERS = {"paper": "paper", "raw": "raw", "returned": "returned", "real data": "real_data"}


def show_rows(title: str, rows: list[Row]) -> None:
    """Print table rows: raw output beside the paper's number, returned sets in a column of their own. Columns of
    numbers that no row has are left out."""
    rows = [row for row in rows if not is_shown_twice(row)]
    numbers = _known_numbers(rows)
    shown = [
        (recipe_label(row), *_scores(row, numbers), str(row["n"]), trained_words(row) or "-", number(row["data"]))
        for row in rows
    ]
    columns = ("recipe", "metric", "better", *numbers, "n", "training", "data")
    show_table(title, columns, shown, wrapped=("recipe", "metric", "training", "data"))


def _show_scores(title: str, rows: list[Row]) -> None:
    """Print the rows of one run; training and data, which all have in common, below the table."""
    rows = [row for row in rows if not is_shown_twice(row)]
    numbers = _known_numbers(rows)
    columns = ("metric", "better", *numbers)
    show_table(title, columns, [_scores(row, numbers) for row in rows], wrapped=("metric",))
    known = [{**row, "epochs": [epochs for epochs in row["epochs"] if epochs != UNKNOWN]} for row in rows[:1]]
    for row in known:
        if words := trained_words(row):
            print(f"steps of training: {words}")
        if row["data"] is not None:
            print(f"data: {row['data']}")


def _known_numbers(rows: list[Row]) -> list[str]:
    """The headings of the columns of numbers that some row has; returned sets always have one."""
    known = known_columns(_NUMBERS.values(), rows)
    return [heading for heading, key in _NUMBERS.items() if key in known or key == "returned"]


def _scores(row: Row, numbers: list[str]) -> tuple[str, ...]:
    """The metric, which direction is better, and the numbers of these columns."""
    texts = [_with_interval(row, _NUMBERS[heading]) for heading in numbers]
    return metric_label(row), number(row["direction"]), *texts


def _with_interval(row: Row, key: str) -> str:
    half = row.get(f"{key}_ci95")
    return number(row[key]) if half is None else " ± ".join(plus_minus(row[key], half))


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_plain(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        texts = ["all" if item is None else _plain(item) for item in value]
        return (" and " if len(texts) == 2 else ", ").join(texts)
    return number(value)
