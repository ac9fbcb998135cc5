"""How fast the library is: against a plain reference, against the hardware's limits, and as sizes grow."""

from collections.abc import Callable

from desp.benchmarks.base import BenchOptions, OnRow, Row, write_record
from desp.benchmarks.distances import distance_rows
from desp.benchmarks.predict import predict_rows
from desp.benchmarks.sampler import sampler_rows
from desp.benchmarks.scaling import scaling_rows
from desp.benchmarks.train import train_rows

BENCHMARKS: dict[str, Callable[[BenchOptions], list[Row]]] = {
    "sampler": sampler_rows,
    "train": train_rows,
    "predict": predict_rows,
    "distances": distance_rows,
    "scaling": scaling_rows,
}

__all__ = [
    "BENCHMARKS",
    "BenchOptions",
    "OnRow",
    "Row",
    "distance_rows",
    "predict_rows",
    "sampler_rows",
    "scaling_rows",
    "train_rows",
    "write_record",
]
