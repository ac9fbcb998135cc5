"""How many sets of five items a second are drawn, with all their valid answers.

python benchmarks/subsets.py --device cuda --record results/bench
"""

import torch
from study import main

from desp.benchmarks import BenchOptions, Row
from desp.benchmarks.measure import make_row, measure
from desp.data.simulated_items import simulated_pool
from desp.data.subsets import ItemPool, draw_sets, valid_subsets
from desp.randomness import make_generator

ITEMS = 7000
# Sets of one batch, by the type of the device: of training, of scoring, and a larger one.
BATCHES = {"cpu": (64, 4096), "cuda": (64, 4096, 65_536)}


def subset_rows(options: BenchOptions) -> list[Row]:
    """A row for each size of a batch."""
    options.chosen(["celeba"])  # refuses other names
    pool = simulated_pool(ITEMS, 0.7, "benchmark").to(options.device)
    return [options.tell(_row(pool, count, options)) for count in BATCHES[options.device.type]]


def _row(pool: ItemPool, count: int, options: BenchOptions) -> Row:
    generator = make_generator(options.seed, "bench", device=options.device)

    def draw() -> torch.Tensor:
        return valid_subsets(pool.bits[draw_sets(pool, count, generator).items], pool.attributes.shape[1])

    ours = measure(draw, options.device, options.repeats)
    row = make_row("celeba", "eager", options.device, ours, batch=count)
    return {**row, "sets_per_s": 1000 * count / row["ms"]}


if __name__ == "__main__":
    main("subsets", subset_rows, __doc__)
