"""Whether predictions are spread as the truth is: what tasks measure beside their own scores."""

import statistics
from typing import Any

from torch import Tensor

from desp.metrics.calibration import calibration, truth_ranks
from desp.metrics.distribution import DISTRIBUTION_METRICS, compare_distributions
from desp.randomness import make_generator
from desp.sets import SetBatch
from desp.settings import Distance

# Predictions for each input, among which the true set is ranked.
CALIBRATION_SAMPLES = 9
# Five for each rank, as the test for uniform ranks needs.
MIN_CALIBRATION_EXAMPLES = 5 * (CALIBRATION_SAMPLES + 1)


def distribution_scores(
    real: dict[str, SetBatch], predicted: dict[str, SetBatch], distance: Distance = "chamfer"
) -> tuple[dict[str, float], dict[str, Any]]:
    """Coverage, minimum matching distance and 1-nearest-neighbour accuracy, averaged over inputs.

    Args:
        real: fresh true sets for each input, by its name.
        predicted: as many predicted sets for each input.
        distance: between sets.

    Returns:
        The averages, and the scores of each input.
    """
    each = {name: compare_distributions(sets, predicted[name], distance) for name, sets in real.items()}
    names = [metric.name for metric in DISTRIBUTION_METRICS]
    # Numbers by different distances do not compare, so they do not share a name either.
    suffix = "" if distance == "chamfer" else f"_{distance}"
    means = {f"{name}{suffix}": statistics.fmean(scores[name] for scores in each.values()) for name in names}
    return means, {"sets": min(len(sets) for sets in predicted.values()), "distance": distance, **each}


def calibration_scores(distances: Tensor, seed: int) -> tuple[dict[str, float], dict[str, Any]]:
    """Whether the truth could be one of the predictions, by its rank among them, over many inputs.

    Args:
        distances: from `EvaluationSetup.distances`.
        seed: of the random ranks where distances are equal.

    Returns:
        The largest difference between the ranks' cumulative histogram and a uniform one, and the histogram.
    """
    samples = distances.shape[1] - 1
    result = calibration(truth_ranks(distances, make_generator(seed, "ranks")), samples)
    return {"calibration_error": result["deviation"]}, {"inputs": len(distances), "samples": samples, **result}
