"""Predictions by several recipes: a thousand at once, or for one image and for a hundred images.

python benchmarks/predictions.py --device cuda --record results/bench
"""

import torch
from study import main

from desp.benchmarks import BenchOptions, Row
from desp.benchmarks.measure import OUR_PRECISION, make_row, measure
from desp.benchmarks.training import make_predictor
from desp.precision import matmul_precision
from desp.randomness import make_generator
from desp.recipes import get_recipe

# How many predictions each recipe makes at once.
PREDICTING = {
    "polygons-desp": (1000,),
    "polygons-denoising": (1000,),
    "digits-desp": (1000,),
    "digits-denoising": (1000,),
    "clevr-detector": (1, 100),
    "clevr-box-denoiser": (1, 100),
}


def prediction_rows(options: BenchOptions) -> list[Row]:
    """Rows of each recipe: inputs are encoded, sets are sampled, unpadded and left on the device.

    Weights and inputs are random; it takes as long.
    """
    names = options.chosen(list(PREDICTING))
    return [options.tell(_row(name, count, options)) for name in names for count in PREDICTING[name]]


def _row(recipe: str, count: int, options: BenchOptions) -> Row:
    settings = get_recipe(recipe).build()
    predictor = make_predictor(settings, options)
    generator = make_generator(options.seed, "bench", recipe, device=options.device)
    inputs = torch.rand(count, *predictor.shape.input_shape, generator=generator, device=options.device)
    with matmul_precision(OUR_PRECISION):
        ours = measure(
            lambda: predictor.sets_from_tensor(predictor.sample(predictor.encode(inputs), generator)[0]),
            options.device,
            options.repeats,
        )
    return make_row(
        recipe,
        predictor.method.engine_used,
        options.device,
        ours,
        predictions=count,
        size=predictor.shape.max_size,
        steps=getattr(settings.method.prediction_sampler, "steps", None),
    )


if __name__ == "__main__":
    main("predict", prediction_rows, __doc__)
