"""How times grow with the batch, the set size and the length of a chain; drawn as ./bench-scaling.png.

python benchmarks/scaling.py --device cuda --record results/bench
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from study import main

from desp.benchmarks import BenchOptions, Row
from desp.benchmarks.chains import CHAINS, ChainCase, time_our_chain
from desp.benchmarks.measure import OUR_PRECISION, make_row
from desp.distances import SET_DISTANCES
from desp.errors import RunError
from desp.precision import matmul_precision
from desp.report.figures.style import EXTRA, PREDICTION, TRUTH, ImageFormat, new_figure, plain_axes, render, style
from desp.settings import Distance
from distances import ENGINES, time_distance

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PICTURE = Path("bench-scaling.png")
POLYGONS = CHAINS[0]

# Everything that is not varied is as in the Polygons task, but for shorter chains on the CPU.
BATCHES = (10, 100, 1000)
SIZES = (8, 64, 512)
SIZES_ON_CUDA = (*SIZES, 4096)
STEPS = (10, 100)
STEPS_ON_CUDA = (*STEPS, 1000)
# Batch and size of one chain over large sets.
LARGE_SETS = {"cuda": (16, 10_000), "cpu": (2, 10_000)}
DISTANCE_SIZES = (8, 32, 128, 512)
USUAL_STEPS = {"cuda": 100, "cpu": 10}
PARTS = ("chain", "chamfer", "hungarian")


def scaling_rows(options: BenchOptions) -> list[Row]:
    """Our chain against B, N and T, and both distances against N; `options.steps` is T where it is not varied."""
    parts = options.chosen(PARTS)
    rows = _chain_rows(options) if "chain" in parts else iter(())
    told = [options.tell(row) for row in rows]
    for name in SET_DISTANCES:
        if name in parts:
            told += [options.tell(_distance_row(name, size, options)) for size in DISTANCE_SIZES]
    return told


def _chain_rows(options: BenchOptions) -> Iterator[Row]:
    case, on_cuda = POLYGONS, options.device.type == "cuda"
    usual = options.steps or USUAL_STEPS[options.device.type]
    for batch in BATCHES:
        yield _chain_row("batch", batch, replace(case, batch=batch), usual, options)
    for size in SIZES_ON_CUDA if on_cuda else SIZES:
        yield _chain_row("size", size, replace(case, size=size), usual, options)
    for steps in STEPS_ON_CUDA if on_cuda else STEPS:
        yield _chain_row("steps", steps, case, steps, options)
    batch, size = LARGE_SETS[options.device.type]
    yield _chain_row("large sets", size, replace(case, batch=batch, size=size), usual, options)


def _chain_row(vary: str, value: int, case: ChainCase, steps: int, options: BenchOptions) -> Row:
    with matmul_precision(OUR_PRECISION):
        timing, engine = time_our_chain(case, case.build(options.device, options.seed), options, steps)
    row = make_row("chain", engine, options.device, timing, steps=steps, batch=case.batch, size=case.size)
    return {**row, "vary": vary, "value": value}


def _distance_row(name: Distance, size: int, options: BenchOptions) -> Row:
    shape = (POLYGONS.batch, size, POLYGONS.channels)
    timing = time_distance(SET_DISTANCES[name], shape, options)
    row = make_row(name, ENGINES[name], options.device, timing, steps=None, batch=shape[0], size=size)
    return {**row, "precision": "float32", "vary": "size", "value": size}


# One panel each: tasks, what is varied, and its label.
PANELS = (
    (("chain",), "batch", "B, chains at once"),
    (("chain",), "size", "N, elements of a set"),
    (("chain",), "steps", "T, steps of a chain"),
    (("chamfer", "hungarian"), "size", "N, elements of a set"),
)
# Markers and dashes differ beside the colour, so that lines survive a black-and-white print.
_LOOKS = {"chain": (TRUTH, "o", "-"), "chamfer": (EXTRA, "s", "--"), "hungarian": (PREDICTION, "^", ":")}


def scaling_picture(rows: Sequence[Row], image_format: ImageFormat = "svg") -> bytes:
    """Milliseconds of the chain against B, N and T, and of the distances against N; a panel for what there is.

    Raises:
        RunError: there are no rows.
        MissingExtraError: matplotlib is not installed.
    """
    panels = [(panel, _lines(rows, panel[0], panel[1])) for panel in PANELS]
    panels = [(panel, lines) for panel, lines in panels if lines]
    if not panels:
        raise RunError(
            "There is nothing to draw: no row says what was varied. Measure with `python benchmarks/scaling.py`."
        )
    with style():
        figure = new_figure(2.4 * len(panels) + 0.4, 2.8)
        first = None
        for place, ((_, _, label), lines) in enumerate(panels, start=1):
            axes = figure.add_subplot(1, len(panels), place, sharey=first)
            _draw(axes, lines, label)
            if first is None:
                first = axes
                axes.set_ylabel("milliseconds")
            else:
                axes.tick_params(axis="y", labelleft=False)
        return render(figure, image_format)


def _lines(rows: Sequence[Row], tasks: Sequence[str], vary: str) -> dict[str, list[tuple[float, float]]]:
    """The points (value, ms) of each task, in the order of the values."""
    lines = {}
    for task in tasks:
        chosen = [row for row in rows if row.get("task") == task and row.get("vary") == vary]
        if chosen:
            lines[task] = sorted((row["value"], row["ms"]) for row in chosen)
    return lines


def _draw(axes: "Axes", lines: dict[str, list[tuple[float, float]]], label: str) -> None:
    plain_axes(axes)
    for task, points in lines.items():
        colour, marker, line = _LOOKS[task]
        x, y = zip(*points, strict=True)
        axes.plot(x, y, color=colour, marker=marker, linestyle=line, markersize=4, linewidth=1.6, label=task)
    axes.set_xscale("log")
    axes.set_yscale("log")
    values = sorted({value for points in lines.values() for value, _ in points})
    axes.set_xticks(values, labels=[str(value) for value in values])
    axes.minorticks_off()
    axes.set_xlabel(label)
    axes.set_title(", ".join(lines), loc="left", fontsize=10, fontweight="bold")
    if len(lines) > 1:
        axes.legend(loc="upper left", fontsize=8)


if __name__ == "__main__":
    PICTURE.write_bytes(scaling_picture(main("scaling", scaling_rows, __doc__), "png"))
