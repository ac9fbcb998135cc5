"""How long a thousand predictions take."""

import torch

from desp.benchmarks.measure import OUR_PRECISION, BenchOptions, Row, make_row, measure
from desp.precision import matmul_precision
from desp.predictor import SetPredictor
from desp.randomness import make_generator
from desp.recipes import get_recipe
from desp.tasks import make_task

RECIPES = ("polygons-desp", "polygons-denoising", "digits-desp", "digits-denoising")
PREDICTIONS = 1000


def predict_rows(options: BenchOptions) -> list[Row]:
    """One row a recipe: sets are drawn, decoded and left on the device. Weights are random, it takes as long."""
    return [options.tell(_row(name, options)) for name in options.chosen(RECIPES)]


def _row(recipe: str, options: BenchOptions) -> Row:
    settings = get_recipe(recipe).build()
    task = make_task(settings.task, options.seed)
    predictor = SetPredictor(settings.method, settings.representation, engine=options.engine)
    predictor.build(task.shape(None, scaling=False)[0], seed=options.seed)
    predictor.method.to(options.device)
    x = torch.stack([example.x for example in task.examples(options.seed)]).to(options.device)
    inputs = x.repeat(-(-PREDICTIONS // len(x)), 1)[:PREDICTIONS]
    generator = make_generator(options.seed, "bench", recipe, device=options.device)
    with matmul_precision(OUR_PRECISION):
        timing = measure(
            lambda: predictor.decode_sets(predictor.sample(predictor.encode(inputs), generator)[0]),
            options.device,
            options.repeats,
        )
    return make_row(
        recipe,
        predictor.method.engine_used,
        options.device,
        timing,
        predictions=PREDICTIONS,
        size=predictor.shape.max_size,
        steps=getattr(settings.method.prediction_sampler, "steps", None),
    )
