"""What the studies of this folder share: their arguments, and how rows are shown and recorded."""

import argparse
from collections.abc import Callable
from pathlib import Path

from desp.benchmarks import BenchOptions, Row, write_record
from desp.cli.bench import markdown
from desp.training.device import default_device


def main(what: str, rows_of: Callable[[BenchOptions], list[Row]], about: str | None) -> list[Row]:
    """Measure the study `what` as the command line asks, print its rows as markdown, and return them."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where to run")
    parser.add_argument("--tasks", nargs="*", default=(), help="only rows with these names in the column task")
    parser.add_argument(
        "--repeats", type=int, default=5, help="warm runs whose median is shown (floors: the fastest)"
    )
    parser.add_argument(
        "--record",
        type=Path,
        help="also write the rows, with their provenance, into this folder; an earlier record there is replaced",
    )
    given = parser.parse_args()
    options = BenchOptions(default_device(given.device), tasks=tuple(given.tasks), repeats=given.repeats)
    rows = rows_of(options)
    if given.record:
        write_record(given.record, what, rows, options.device)
    print(markdown(rows))
    return rows
