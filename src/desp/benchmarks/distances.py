"""Chamfer and Hungarian distance at the sizes of three tasks, against plain versions."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from desp.benchmarks.base import BenchOptions, Row, comparison_fields
from desp.benchmarks.reference import reference_chamfer, reference_hungarian
from desp.benchmarks.timing import Timing, measure
from desp.distances import SET_DISTANCES
from desp.randomness import make_generator
from desp.settings import Distance

DistanceFunction = Callable[[Tensor, Tensor], Tensor]

# Polygons, Digits, set-MNIST: B, N, D.
SHAPES = ((100, 8, 2), (100, 64, 2), (100, 342, 3))
REFERENCES: dict[Distance, DistanceFunction] = {"chamfer": reference_chamfer, "hungarian": reference_hungarian}
ENGINES: dict[Distance, str] = {"chamfer": "torch", "hungarian": "scipy"}
"""What does the main part of the work."""


def distance_rows(options: BenchOptions) -> list[Row]:
    """One row a distance and shape, between random sets; distances have no steps and no known floor."""
    names = options.chosen(list(REFERENCES))
    return [options.tell(_row(name, shape, options)) for name in REFERENCES if name in names for shape in SHAPES]


def _row(name: Distance, shape: tuple[int, int, int], options: BenchOptions) -> Row:
    ours = time_distance(SET_DISTANCES[name], shape, options)
    reference = time_distance(REFERENCES[name], shape, options)
    return {
        "task": name,
        "engine": ENGINES[name],
        "device": options.device.type,
        "precision": "float32",
        **comparison_fields(ours, reference, floor_ms=None),
        "steps": None,
        "measured_steps": None,
        "batch": shape[0],
        "size": shape[1],
    }


def time_distance(function: DistanceFunction, shape: tuple[int, int, int], options: BenchOptions) -> Timing:
    """The time of a distance between two batches (B, N, D) of random sets, without gradients."""
    a, b = random_sets(shape, options), random_sets(shape, options, "others")
    with torch.no_grad():
        return measure(lambda: function(a, b), options.device, options.repeats)


def random_sets(
    shape: tuple[int, int, int], options: BenchOptions, purpose: str = "sets"
) -> Float[Tensor, "b n d"]:
    """Elements uniform in the unit cube."""
    generator = make_generator(options.seed, "bench", purpose, device=options.device)
    return torch.rand(shape, generator=generator, device=options.device)
