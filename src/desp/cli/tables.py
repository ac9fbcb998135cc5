"""``desp tables``"""

import json
from dataclasses import dataclass
from pathlib import Path

from desp.cli.common import parse
from desp.cli.compared import show_comparisons
from desp.cli.evaluate import show_rows
from desp.errors import RunError
from desp.paper.tables import markdown_table, table_rows
from desp.recipes import all_tables, get_table
from desp.results import read_baselines, read_results

EXAMPLES = """  desp tables
  desp tables --all
  desp tables --only toy mnist --markdown
  desp tables --json --results results
  desp tables --results results/robust"""


@dataclass(frozen=True)
class _TablesArguments:
    """The tables of results: the paper's number if there is one, ours, the score of true sets, length of training.

    The column raw scores the sampler's padded output, as the paper does; the column returned scores the sets that
    a user gets (on CLEVR ten samples pooled, or the one answer of a deterministic method; on pedestrians the
    centres of clusters of samples). Numbers are means over n seeds, ± the half-width of the 95 % confidence
    interval (Student's t), from two seeds on. All our numbers come from the files in the results folder. A dash:
    not measured, not published, or one of the seeds failed. Unknown: files of earlier development snapshots do not
    say it; epochs are also unknown where `training.elements_per_batch` is set. Recipes that belong to no table
    come last, if they have results (not with --markdown).
    """

    all: bool = False
    """Every metric that was measured, not only those of the tables."""
    json: bool = False
    """Print JSON, with every metric."""
    markdown: bool = False
    """Print the measured part as markdown: the main metrics, as the README shows them; with --all, every metric
    and how long each recipe was trained, as docs/results.md does. The paper's numbers have the ± that it
    prints."""
    only: tuple[str, ...] = ()
    """These tables alone: toy, mnist, clevr, celeba, pedestrians, or those of plugins; all if not given."""
    results: Path = Path("results")
    """Folder with recorded results."""


def run(arguments: list[str]) -> None:
    """Print the tables."""
    options = parse(_TablesArguments, arguments, "tables", EXAMPLES)
    if not options.results.is_dir():
        raise RunError(
            f"There is no folder {options.results}. Run in the project's folder, or pass --results DIR; "
            "`desp evaluate RUN --record DIR` fills one."
        )
    tables = [get_table(name) for name in dict.fromkeys(options.only)] or all_tables()
    results = read_results(options.results)
    rows = table_rows(results, read_baselines(options.results))
    if options.only:
        rows = [row for row in rows if row["table"] in options.only]
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    if options.markdown:
        print(markdown_table(rows, short=not options.all))
        return
    for table in tables:
        of_table = [row for row in rows if row["table"] == table.name]
        show_rows(table.title, [row for row in of_table if options.all or row["metric"] in table.metrics])
    beside = [row for row in rows if row["table"] is None]
    if beside:
        shown = [row for row in beside if options.all or row["metric"] == "score"]
        show_rows("Recipes outside the paper's tables", shown)
    if not options.only:
        show_comparisons(results)
