"""Whether predictions are spread as the truth is: what tasks measure beside their own scores."""

import statistics
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from desp.data.base import Batch
from desp.distances import aligned_distance, chamfer
from desp.errors import SettingsError
from desp.metrics.calibration import calibration, truth_ranks
from desp.metrics.distribution import DISTRIBUTION_METRICS, compare_distributions
from desp.predictor import SetPredictor
from desp.randomness import make_generator
from desp.sets import SetBatch, present
from desp.settings import Distance, SamplerSettings

# Predictions for each input with a true set.
CALIBRATION_SAMPLES = 9
# Five to each rank, as the test of uniformity asks.
FEWEST_CALIBRATED = 5 * (CALIBRATION_SAMPLES + 1)


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
    """Whether the truth could be one of the predictions: the rank of how far it is from them, over many inputs.

    Args:
        distances: from `truth_and_predictions`.
        seed: of ranks where distances are equal.

    Returns:
        The largest difference between the ranks' cumulative histogram and a uniform one, and the histogram.
    """
    samples = distances.shape[1] - 1
    result = calibration(truth_ranks(distances, make_generator(seed, "ranks")), samples)
    return {"calibration": result["deviation"]}, {"inputs": len(distances), "samples": samples, **result}


def energy_score(distances: Tensor) -> float:
    """How far predictions are from the truth, less half of how far they are from each other.

    Predicting always the same set, be it the best one, costs what it lacks in spread. With a distance of negative
    type the true distribution has the lowest expectation (Gneiting & Raftery 2007); the root of Chamfer's
    distance, which is used here, comes near to that without being one.

    Args:
        distances: from `truth_and_predictions`.

    Raises:
        SettingsError: less than two predictions an input.
    """
    samples = distances.shape[1] - 1
    if samples < 2:
        raise SettingsError(f"An energy score needs at least 2 predictions an input, got {samples}.")
    roots = distances.clamp(min=0).sqrt()
    to_truth = roots[:, 0, 1:].mean()
    among = roots[:, 1:, 1:].sum() / (len(roots) * samples * (samples - 1))
    return float(to_truth - among / 2)


def distance_between(predictor: SetPredictor) -> Callable[[Tensor, Tensor], Tensor]:
    """The distance (B,) of encoded sets (B, N, C): Chamfer's, or of each element to its own where outputs are
    aligned with inputs."""
    if predictor.shape.description.aligned:
        return lambda a, b: aligned_distance(a[..., :-1], b[..., :-1], present(b))
    return chamfer


def sample_each(
    predictor: SetPredictor,
    inputs: Iterable[Tensor],
    samples: int,
    generator: torch.Generator,
    sampler: SamplerSettings | None = None,
) -> tuple[Tensor, Tensor]:
    """K predictions for each of B inputs, which are encoded some (b, ...) at a time.

    Returns:
        Their codes (B K, ...), and the sampler's raw output (B K, N, C).
    """
    codes, given = [], []
    for some in inputs:
        x = some.reshape(len(some), *predictor.shape.input_shape).to(predictor.device)
        codes.append(predictor.encode(x))
        given.append(predictor.given_presence(x))
    code, known = torch.cat(codes).repeat_interleave(samples, dim=0), [item for item in given if item is not None]
    presence = torch.cat(known).repeat_interleave(samples, dim=0) if known else None
    raw, _ = predictor.sample(code, generator, sampler=sampler, presence=presence)
    return code, raw


def truth_and_predictions(
    predictor: SetPredictor,
    examples: Batch,
    seed: int,
    samples: int = CALIBRATION_SAMPLES,
    sampler: SamplerSettings | None = None,
) -> Tensor:
    """Distances (T, K + 1, K + 1) among the true set of each input, the first, and K predictions.

    Args:
        predictor: whose predictions.
        examples: T inputs and true sets, in the user's units.
        seed: of predictions.
        samples: K predictions an input.
        sampler: another one than the predictor's own.
    """
    generator = make_generator(seed, "calibration", device=predictor.device)
    _, raw = sample_each(predictor, [examples.x], samples, generator, sampler)
    returned = predictor.encode_sets(predictor.decode_sets(raw).packed())
    shape = predictor.shape
    padded = SetBatch.from_ragged(examples.sets.to_ragged(), shape.max_size, shape.features)
    own = predictor.encode_sets(padded.to(predictor.device))
    together = torch.cat([own.unsqueeze(1), returned.view(len(own), samples, *own.shape[1:])], dim=1)
    return _among_themselves(together, distance_between(predictor))


def _among_themselves(sets: Tensor, distance: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Distances (T, M, M) among the M sets of each of T groups (T, M, N, C), on the CPU."""
    groups, members = sets.shape[:2]
    distances = torch.zeros(groups, members, members)
    for first in range(members):
        for second in range(first):
            found = distance(sets[:, first], sets[:, second]).cpu()
            distances[:, first, second] = distances[:, second, first] = found
    return distances
