"""How many CLEVR-like images a second are drawn and rendered.

python benchmarks/scenes.py --device cuda --record results/bench
"""

from study import main

from desp.benchmarks import BenchOptions, Row
from desp.benchmarks.measure import make_row, measure
from desp.data.clevr_render import generate
from desp.randomness import make_generator

# Images of one batch, by the type of the device.
BATCHES = {"cpu": (32,), "cuda": (32, 256)}


def scene_rows(options: BenchOptions) -> list[Row]:
    """A row for each size of a batch."""
    options.chosen(["clevr"])  # refuses other names
    return [options.tell(_row(count, options)) for count in BATCHES[options.device.type]]


def _row(count: int, options: BenchOptions) -> Row:
    generator = make_generator(options.seed, "bench", device=options.device)
    ours = measure(lambda: generate(count, generator), options.device, options.repeats)
    row = make_row("clevr", "eager", options.device, ours, batch=count)
    return {**row, "images_per_s": 1000 * count / row["ms"]}


if __name__ == "__main__":
    main("scenes", scene_rows, __doc__)
