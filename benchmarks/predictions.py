"""A thousand predictions by several recipes.

python benchmarks/predictions.py --device cuda --record results/bench
"""

import torch
from study import main

from desp.benchmarks import BenchOptions, Row
from desp.benchmarks.measure import OUR_PRECISION, make_row, measure
from desp.benchmarks.recipes import make_problem
from desp.precision import matmul_precision
from desp.randomness import make_generator
from desp.recipes import get_recipe
from desp.tasks import make_task

PREDICTING = ("polygons-desp", "polygons-denoising", "digits-desp", "digits-denoising")
PREDICTIONS = 1000


def prediction_rows(options: BenchOptions) -> list[Row]:
    """One row a recipe: sets are sampled, unpadded and left on the device. Random weights take as long."""
    return [options.tell(_row(name, options)) for name in options.chosen(PREDICTING)]


def _row(recipe: str, options: BenchOptions) -> Row:
    settings = get_recipe(recipe).build()
    predictor, _ = make_problem(settings, options)
    x = torch.stack([example.x for example in make_task(settings.task, options.seed).shown_examples(options.seed)])
    inputs = x.repeat(-(-PREDICTIONS // len(x)), 1)[:PREDICTIONS].to(options.device)
    generator = make_generator(options.seed, "bench", recipe, device=options.device)
    with matmul_precision(OUR_PRECISION):
        ours = measure(
            lambda: predictor.unpad_sets(predictor.sample(predictor.encode(inputs), generator)[0]),
            options.device,
            options.repeats,
        )
    return make_row(
        recipe,
        predictor.method.engine_used,
        options.device,
        ours,
        predictions=PREDICTIONS,
        size=predictor.shape.max_size,
        steps=getattr(settings.method.prediction_sampler, "steps", None),
    )


if __name__ == "__main__":
    main("predict", prediction_rows, __doc__)
