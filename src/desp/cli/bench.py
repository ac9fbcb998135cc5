"""``desp bench``"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from desp.cli.common import number, parse, show_table
from desp.errors import RunError
from desp.settings import Device, Engine

if TYPE_CHECKING:
    from desp.benchmarks import BenchOptions, Row

EXAMPLES = """  desp bench
  desp bench sampler --tasks polygons digits --engine eager
  desp bench train --device cpu --repeats 3 --json
  desp bench distances --tasks hungarian
  desp bench scaling --picture scaling.png --record results/bench
  desp bench --recorded results/bench/sampler-cpu.json --markdown"""

_COMPARED = ("task", "batch", "size", "steps", "engine", "precision", "ms", "reference_ms", "speedup", "floor_ms")
COLUMNS = {
    "sampler": (*_COMPARED, "share_of_floor", "peak_mb", "compile_s", "measured_steps"),
    "train": (*_COMPARED, "share_of_floor", "peak_mb", "compile_s"),
    "predict": ("task", "predictions", "size", "steps", "engine", "precision", "ms", "peak_mb", "compile_s"),
    "distances": ("task", "batch", "size", "engine", "ms", "reference_ms", "speedup", "peak_mb"),
    "scaling": ("task", "vary", "value", "ms", "batch", "size", "steps", "engine", "peak_mb", "compile_s"),
}


Benchmark = Literal["sampler", "train", "predict", "distances", "scaling"]


@dataclass(frozen=True)
class BenchArguments:
    """Measure this machine: ours against a plain reference, and against what the hardware allows.

    sampler: the chains of the paper's five tasks. train: whole training steps of Polygons and Digits. predict: a
    thousand predictions by several recipes. distances: Chamfer and Hungarian. scaling: times against batch, set
    size and steps, with a picture (extra `viz`).
    Weights and inputs are random; no data are needed.
    """

    what: Annotated[Literal["sampler", "train", "predict", "distances", "scaling"], tyro.conf.Positional] = (
        "sampler"
    )
    """What to measure."""
    json: bool = False
    """Print JSON."""
    markdown: bool = False
    """Print a markdown table, as the documentation shows it."""
    record: Path | None = None
    """Also write the rows, with their provenance, into this folder."""
    recorded: Path | None = None
    """Show the rows of this recorded file, and measure nothing."""
    device: Device = "auto"
    """Where to run."""
    engine: Engine = "auto"
    """How our chains run."""
    tasks: tuple[str, ...] = ()
    """Only these rows, such as polygons, digits, mnist, clevr, celeba, chamfer or hungarian."""
    steps: int | None = None
    """Steps of a chain to measure; sampler scales the time to the whole chain (default there: 20 on a CPU)."""
    repeats: int = 5
    """Warm runs whose median is shown."""
    picture: Path = Path("bench-scaling.png")
    """Where scaling draws its picture."""


def run(arguments: list[str]) -> None:
    """Measure."""
    options = parse(BenchArguments, arguments, "bench", EXAMPLES)
    if options.recorded is not None:
        _show_recorded(options, options.recorded)
        return
    if options.what == "scaling":
        from desp.extras import require

        require("matplotlib", "viz", "draw pictures")
    with _nothing_compiled_before():
        rows, device = _measured(options)
    if options.record is not None:
        from desp.benchmarks import write_record

        write_record(options.record, options.what, rows, device)
    if options.what == "scaling":
        from desp.report.figures.scaling import draw_scaling

        draw_scaling(rows, options.picture)
    _show(options, options.what, rows)
    if options.what == "scaling" and not options.json:
        print(f"picture: {options.picture}")


@contextmanager
def _nothing_compiled_before() -> Iterator[None]:
    """An empty folder for what is compiled: what lies on this machine's disk already would flatter `compile_s`."""
    names = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
    before = {name: os.environ[name] for name in names if name in os.environ}
    with TemporaryDirectory() as folder:
        os.environ.update({name: str(Path(folder) / name) for name in names})
        try:
            yield
        finally:
            for name in names:
                os.environ.pop(name, None)
            os.environ.update(before)


def _show_recorded(options: BenchArguments, path: Path) -> None:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        what, rows = record["benchmark"], list(record["rows"])
        known = COLUMNS[what]
        complete = all(row.keys() >= set(known) for row in rows)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunError(
            f"{path} cannot be read as a recorded benchmark ({error}). Make one with `desp bench --record FOLDER`."
        ) from error
    if not complete:
        raise RunError(f"{path} lacks some of the fields {', '.join(known)}. Record it again.")
    _show(options, what, rows)


def markdown(what: str, rows: "list[Row]") -> str:
    """The rows of a benchmark as a markdown table."""
    columns = COLUMNS[what]
    lines = [columns, ("---",) * len(columns), *(tuple(_cell(row[name]) for name in columns) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _measured(options: BenchArguments) -> "tuple[list[Row], Any]":
    """The rows and the device, measured behind a line that says how far it is."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from desp.benchmarks import BENCHMARKS

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, transient=True, disable=options.json) as progress:
        line = progress.add_task("measuring", total=None)
        bench = _bench_options(
            options, lambda row: progress.update(line, description=f"{row['task']}: {number(row['ms'])} ms")
        )
        return BENCHMARKS[options.what](bench), bench.device


def _bench_options(options: BenchArguments, on_row: Any) -> "BenchOptions":
    from desp.benchmarks import BenchOptions
    from desp.training.device import default_device

    return BenchOptions(
        default_device(options.device),
        options.engine,
        options.tasks,
        options.steps,
        options.repeats,
        on_row=on_row,
    )


def _show(options: BenchArguments, what: str, rows: "list[Row]") -> None:
    if options.json:
        print(json.dumps(rows, indent=2))
    elif options.markdown:
        print(markdown(what, rows))
    else:
        columns = COLUMNS[what]
        table = [tuple(_cell(row[name]) for name in columns) for row in rows]
        show_table(f"{what} on {rows[0]['device']}", columns, table)


def _cell(value: Any) -> str:
    """A number for people, without powers of ten for long times."""
    return f"{value:.0f}" if isinstance(value, float) and abs(value) >= 100 else number(value)
