"""How fast the library is here, against a plain reference; and in `own_data`, how good its defaults are."""

from collections.abc import Callable

from desp.benchmarks.chains import sampler_rows
from desp.benchmarks.measure import BenchOptions, Row, write_record
from desp.benchmarks.training import train_rows

BENCHMARKS: dict[str, Callable[[BenchOptions], list[Row]]] = {"sampler": sampler_rows, "train": train_rows}

__all__ = ["BENCHMARKS", "BenchOptions", "Row", "sampler_rows", "train_rows", "write_record"]
