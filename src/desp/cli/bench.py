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

from desp.cli import own_data
from desp.cli.common import busy, number, parse, show_table
from desp.settings import Device, Engine

if TYPE_CHECKING:
    from desp.benchmarks import Row

EXAMPLES = """  desp bench
  desp bench sampler --tasks polygons digits --engine eager
  desp bench train --device cpu --repeats 3 --json
  desp bench --record results/bench --markdown
  desp bench own-data --help"""

# In the order they are shown. Records of studies in benchmarks/ have fields that `desp bench` does not measure.
FIELDS = (
    *("task", "vary", "value", "predictions", "batch", "size", "steps", "measured_steps", "engine", "precision"),
    *("ms", "spread_ms", "images_per_s", "sets_per_s", "reference_ms", "reference_spread_ms", "speedup"),
    *("captured_ms", "captured_spread_ms", "captured_speedup"),
    *("floor_ms", "roofline_fraction", "peak_mb", "compile_s"),
)
# Two significant digits: runs of the same code differ by more than the third.
RATIOS = ("speedup", "captured_speedup")
# Names of fields in older records.
RENAMED = {"share_of_floor": "roofline_fraction"}


@dataclass(frozen=True)
class _BenchArguments:
    """Measure this machine: ours against a plain reference.

    sampler: the chains of the paper's five tasks, on a GPU also beside the reference captured as one CUDA graph
    with tf32 products (captured_ms). train: whole training steps of Polygons and Digits. Weights and inputs are
    random; no data are needed. Times are medians; spread_ms is from the fastest to the slowest of --repeats.
    compile_s is the whole first call, peak_mb the growth of memory.
    `desp bench own-data` scores the defaults on small problems instead, and has options of its own.
    """

    what: Annotated[Literal["sampler", "train"], tyro.conf.Positional] = "sampler"
    """What to measure."""
    json: bool = False
    """Print JSON."""
    markdown: bool = False
    """Print a markdown table, as the documentation shows it."""
    record: Path | None = None
    """Also write the rows, with their provenance, into this folder. An earlier record of the same benchmark and
    kind of device there is replaced."""
    device: Device = "auto"
    """Where to run."""
    engine: Engine = "auto"
    """How our chains run."""
    tasks: tuple[str, ...] = ()
    """Only these rows, such as polygons, digits, mnist, clevr or celeba."""
    steps: int | None = None
    """Steps of a chain to measure; sampler scales the time to the whole chain (default there: 20 on a CPU)."""
    repeats: int = 5
    """Warm runs whose median is shown."""


def run(arguments: list[str]) -> None:
    """Measure."""
    if arguments[:1] == ["own-data"]:
        own_data.run(arguments[1:])
        return
    options = parse(_BenchArguments, arguments, "bench", EXAMPLES)
    with _empty_compile_cache():
        rows = _measured(options)
    if options.json:
        print(json.dumps(rows, indent=2))
    elif options.markdown:
        print(markdown(rows))
    else:
        columns, *cells = _table(rows)
        show_table(f"{options.what} on {rows[0]['device']}", columns, cells)


def _measured(options: _BenchArguments) -> "list[Row]":
    """The rows, recorded if that was asked for."""
    from desp.benchmarks import BENCHMARKS, BenchOptions, write_record
    from desp.training.device import default_device

    device = default_device(options.device)
    with busy("measuring") as say:
        rows = BENCHMARKS[options.what](
            BenchOptions(
                device,
                options.engine,
                options.tasks,
                options.steps,
                options.repeats,
                on_row=lambda row: say(f"{row['task']}: {number(row['ms'])} ms"),
            )
        )
    if options.record is not None:
        write_record(options.record, options.what, rows, device)
    return rows


@contextmanager
def _empty_compile_cache() -> Iterator[None]:
    """An empty compilation cache: a filled one would make `compile_s` too small."""
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


def markdown(rows: "list[Row]") -> str:
    """The rows of a benchmark as a markdown table."""
    head, *cells = _table(rows)
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ("---",) * len(head), *cells))


def _table(rows: "list[Row]") -> list[tuple[str, ...]]:
    """The names of known fields, then each row's values as text."""
    rows = [{RENAMED.get(name, name): value for name, value in row.items()} for row in rows]
    names = tuple(name for name in FIELDS if any(row.get(name) is not None for row in rows))
    return [names, *(tuple(_cell(row.get(name), name in RATIOS) for name in names) for row in rows)]


def _cell(value: Any, ratio: bool = False) -> str:
    """A number for people, without powers of ten for long times."""
    if ratio and isinstance(value, float):
        return number(float(f"{value:.2g}"))
    return f"{value:.0f}" if isinstance(value, float) and abs(value) >= 100 else number(value)
