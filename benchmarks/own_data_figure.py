"""The own-data benchmark as a picture: energy scores and single answers of each problem, relative to 10-NN.

python benchmarks/own_data_figure.py results/own-data docs/images/own-data.png
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from desp.benchmarks.own_data.problems import PROBLEMS
from desp.benchmarks.own_data.run import read_record
from desp.report.figures.style import EXTRA, FRAME, MUTED, PREDICTION, TRUTH, new_figure, plain_axes, render, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANELS = {"energy_score": "energy score", "single_error": "error of the single answer"}
# The name in records, the name shown, colour and marker.
SYSTEMS = (("desp", "desp", PREDICTION, "o"), ("mlp", "MLP", TRUTH, "s"), ("oracle", "oracle", EXTRA, "|"))
# Ratios above it are drawn at the edge.
MOST = 2.0


def read_records(folder: Path) -> list[dict[str, Any]]:
    """The records of all problems, in the suite's order; problems without one are left out."""
    paths = [folder / f"{problem.name}.json" for problem in PROBLEMS]
    found = [read_record(path) for path in paths if path.is_file()]
    if not found:
        raise SystemExit(f"{folder} has no records. Make them: desp bench own-data --record {folder}")
    return found


def draw(records: list[dict[str, Any]]) -> bytes:
    """A PNG with a row for each problem: left of 1 is better than 10-NN."""
    with style():
        figure = new_figure(9.0, 0.9 + 0.28 * len(records))
        panels = figure.subplots(1, len(PANELS), sharey=True)
        for axes, (key, title) in zip(panels, PANELS.items(), strict=True):
            _draw_panel(axes, records, key)
            axes.set_title(f"{title}, relative to 10-NN", fontsize=9)
        names = [item["problem"] + (" (held out)" if item["held_out"] else "") for item in records]
        panels[0].set_yticks(range(len(records)), names)
        panels[0].invert_yaxis()
        panels[0].legend(loc="lower right", fontsize=8)
        figure.tight_layout()
        return render(figure, "png")


def _draw_panel(axes: "Axes", records: list[dict[str, Any]], key: str) -> None:
    plain_axes(axes)
    axes.axvline(1.0, color=MUTED, linewidth=0.8)
    axes.hlines(range(len(records)), 0, MOST, color=FRAME, linewidth=0.5)
    for name, label, colour, marker in SYSTEMS:
        if name == "oracle" and key != "energy_score":
            continue  # its single answer is of fewer samples, and no bound
        ratios = [item["systems"][name][key] / item["systems"]["knn"][key] for item in records]
        shown = [min(ratio, MOST) for ratio in ratios]
        axes.scatter(shown, range(len(records)), color=colour, marker=marker, s=28, label=label, zorder=3)
    axes.set_xlim(-0.04, MOST + 0.04)
    axes.set_xlabel(f"above {MOST:g} at the edge")


def main() -> None:
    """Read, draw and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=Path, help="folder that desp bench own-data --record wrote")
    parser.add_argument("output", type=Path, help="PNG file to write")
    given = parser.parse_args()
    given.output.write_bytes(draw(read_records(given.records)))


if __name__ == "__main__":
    main()
