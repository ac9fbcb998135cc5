"""``desp report``"""

from dataclasses import dataclass
from pathlib import Path

from desp.cli.common import parse
from desp.cli.run_arguments import RunArguments
from desp.runs.folder import RunFolder

EXAMPLES = "  desp report runs/polygons"


@dataclass(frozen=True)
class _ReportArguments(RunArguments):
    """Write one self-contained HTML page about a run.

    Learning curves, predictions beside truth, several for each input, and the sampling trajectory as an
    animation. Needs the extra `viz`.
    """


def run(arguments: list[str]) -> None:
    """Write the page."""
    options = parse(_ReportArguments, arguments, "report", EXAMPLES)
    options.folder()
    report(options.run)


def report(path: Path) -> None:
    """Write the page, with predictions made first if there are none yet."""
    from desp.extras import require
    from desp.report.page import write_report

    require("matplotlib", "viz", "draw pictures")  # said before any work is done
    folder = RunFolder(path)
    if folder.model.is_dir() and not folder.samples_file.exists():
        from desp.runs.evaluate import sample_run

        sample_run(folder)
    print(f"report: {write_report(path)}")
