"""Chamfer and Hungarian distance at the sizes of three tasks, against plain versions.

python benchmarks/distances.py --device cuda --record results/bench
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment
from study import main
from torch import Tensor

from desp.benchmarks import BenchOptions, Row
from desp.benchmarks.measure import make_row, measure
from desp.distances import SET_DISTANCES
from desp.randomness import make_generator
from desp.settings import Distance

DistanceFunction = Callable[[Tensor, Tensor], Tensor]

# Polygons, Digits, set-MNIST: B, N, D.
SHAPES = ((100, 8, 2), (100, 64, 2), (100, 342, 3))
ENGINES: dict[Distance, str] = {"chamfer": "torch", "hungarian": "scipy"}
"""What does the main part of the work."""


def reference_chamfer(a: Float[Tensor, "b n d"], b: Float[Tensor, "b m d"]) -> Float[Tensor, " b"]:
    """Nearest elements in both directions, as means."""
    pairs = _pairs(a, b)
    return pairs.min(dim=2).values.mean(dim=1) + pairs.min(dim=1).values.mean(dim=1)


def reference_hungarian(a: Float[Tensor, "b n d"], b: Float[Tensor, "b n d"]) -> Float[Tensor, " b"]:
    """The cheapest assignment, one matrix after the other."""
    pairs = _pairs(a, b)
    solutions = [linear_sum_assignment(costs) for costs in pairs.detach().cpu().numpy()]
    return torch.stack(
        [costs[rows, columns].mean() for costs, (rows, columns) in zip(pairs, solutions, strict=True)]
    )


def _pairs(a: Float[Tensor, "b n d"], b: Float[Tensor, "b m d"]) -> Float[Tensor, "b n m"]:
    left = a.unsqueeze(2).expand(-1, -1, b.shape[1], -1)
    right = b.unsqueeze(1).expand(-1, a.shape[1], -1, -1)
    return F.smooth_l1_loss(left, right, reduction="none").mean(dim=3)


REFERENCES: dict[Distance, DistanceFunction] = {"chamfer": reference_chamfer, "hungarian": reference_hungarian}


def distance_rows(options: BenchOptions) -> list[Row]:
    """One row a distance and shape, between random sets."""
    names = options.chosen(list(REFERENCES))
    return [options.tell(_row(name, shape, options)) for name in REFERENCES if name in names for shape in SHAPES]


def _row(name: Distance, shape: tuple[int, int, int], options: BenchOptions) -> Row:
    ours = time_distance(SET_DISTANCES[name], shape, options)
    reference = time_distance(REFERENCES[name], shape, options)
    row = make_row(name, ENGINES[name], options.device, ours, reference, batch=shape[0], size=shape[1])
    return {**row, "precision": "float32"}


def time_distance(function: DistanceFunction, shape: tuple[int, int, int], options: BenchOptions) -> Row:
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


if __name__ == "__main__":
    main("distances", distance_rows, __doc__)
