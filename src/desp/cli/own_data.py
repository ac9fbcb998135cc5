"""``desp bench own-data``"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from desp.cli.common import busy, number, parse, show_table
from desp.cli.run_arguments import with_steps_given
from desp.errors import SettingsError
from desp.recipes import get_recipe
from desp.settings import RunSettings

if TYPE_CHECKING:
    from desp.benchmarks.own_data.run import Record

EXAMPLES = """  desp bench own-data --record results/own-data
  desp bench own-data --problems few roots --minutes 1
  desp bench own-data --problems few --training.steps 500 --variant short --json"""

SYSTEMS = {"desp": "desp", "knn": "10-NN", "random": "random", "mlp": "MLP", "oracle": "oracle"}
COLUMNS = (
    *("problem", *SYSTEMS.values(), "desp - 10-NN", "verdict", "MLP - 10-NN"),
    *("single: desp", "single: 10-NN", "single: MLP", "sizes: desp", "sizes: 10-NN", "calibration", "steps", "s"),
)


@dataclass(frozen=True)
class _OwnDataArguments:
    """Score the defaults on small problems of own data, against what a user would try first.

    Systems are desp with the recipe `custom`, 10 nearest neighbours, random training sets, an MLP trained by the
    best assignment (of large sets by nearest elements), and an oracle that draws from the true distribution.
    Energy scores (lower is better) are of set distances in standardised units; paired differences are shown ± one
    standard error. Columns "single" are errors of the one set that a system gives if only one is asked for,
    "sizes" the share of predictions of the right cardinality, "calibration" the calibration error of desp,
    "steps" and "s" its optimiser steps and seconds of training.
    Held-out problems never help to choose defaults, and are shown apart. Flags --task.* are refused: each problem
    has its own data and description.
    """

    settings: Annotated[RunSettings, tyro.conf.arg(name="")]
    problems: tuple[str, ...] = ()
    """Only these problems."""
    minutes: float = 3.0
    """Minutes of training for desp on each problem, at most; --training.steps that would take longer are cut."""
    samples: int = 10
    """Predictions for each test example."""
    seed: int = 0
    """Seed of data, training and predictions."""
    record: Path | None = None
    """Write one JSON file per problem into this folder; problems that it has already, by the same code and
    settings, are not run again."""
    again: bool = False
    """Also run problems that are recorded already."""
    variant: str | None = None
    """A name for settings that are not the defaults; part of the names of the files."""
    json: bool = False
    """Print JSON."""


def run(arguments: list[str]) -> None:
    """Run the problems, and show how desp compares."""
    default = _OwnDataArguments(with_steps_given(get_recipe("custom").build(), arguments))
    options = parse(_OwnDataArguments, arguments, "bench own-data", EXAMPLES, default=default)
    if options.again and options.record is None:
        raise SettingsError("--again is about what is recorded. Add --record DIR, or leave it out.")
    records = _records(options)
    if options.json:
        print(json.dumps(records, indent=2))
        return
    for title, held_out in (("own data", False), ("own data, held out", True)):
        rows = [_row(record) for record in records if record["held_out"] is held_out]
        if rows:
            show_table(f"{title}: energy scores, ± is one standard error", COLUMNS, rows)


def _records(options: _OwnDataArguments) -> "list[Record]":
    from desp.benchmarks.own_data.problems import choose_problems
    from desp.benchmarks.own_data.run import SuiteOptions, run_problems

    problems = choose_problems(options.problems)
    suite = SuiteOptions(options.settings, options.minutes, options.samples, options.seed, options.variant)
    with busy("own data") as tell:
        return run_problems(problems, suite, options.record, again=options.again, tell=tell)


def _row(record: "Record") -> Sequence[str]:
    systems: dict[str, Any] = record["systems"]
    desp, knn, mlp = systems["desp"], systems["knn"], systems["mlp"]
    return (
        record["problem"],
        *(number(systems[name]["energy_score"]) for name in SYSTEMS),
        _difference(desp),
        record["verdict"],
        _difference(mlp),
        *(number(item["single_error"]) for item in (desp, knn, mlp)),
        *(number(item["right_size"]) for item in (desp, knn)),
        number(desp["calibration_error"]),
        str(desp["steps"]),
        f"{desp['train_seconds']:.0f}",
    )


def _difference(system: dict[str, Any]) -> str:
    """A paired difference with its standard error."""
    paired = system["minus_knn"]
    return f"{paired['energy_score']:+.3f} ± {paired['energy_score_se']:.3f}"
