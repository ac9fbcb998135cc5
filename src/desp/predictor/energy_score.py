"""The energy score of predictions: how far they are from the truth, and from each other."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from desp.data.base import Batch
from desp.distances import aligned_distance, chamfer
from desp.errors import SettingsError
from desp.randomness import make_generator
from desp.sets import SetBatch, presence_mask

if TYPE_CHECKING:
    from desp.predictor.predictor import SetPredictor

VALIDATION_EXAMPLES = 200
"""At most so many examples are validated on."""
VALIDATION_SAMPLES = 2
"""Predictions for each input of a validation; the expected energy score does not depend on it."""


def distance_function(predictor: "SetPredictor") -> Callable[[Tensor, Tensor], Tensor]:
    """The distance (B,) of padded sets (B, N, C): Chamfer's, or, where outputs are aligned with inputs, between
    elements i of both sets."""
    if predictor.shape.description.aligned:
        return aligned_padded_distance
    return chamfer


def aligned_padded_distance(a: Tensor, b: Tensor) -> Tensor:
    """The distance (B,) between elements i of sets (B, N, C) whose last feature is presence; the presence of `b`
    decides which elements count."""
    return aligned_distance(a[..., :-1], b[..., :-1], presence_mask(b))


def distances_among(sets: Tensor, distance: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Distances (T, M, M) among the M sets of each of T groups (T, M, N, C), on the CPU."""
    groups, members = sets.shape[:2]
    distances = torch.zeros(groups, members, members)
    for first in range(members):
        for second in range(first):
            found = distance(sets[:, first], sets[:, second]).cpu()
            distances[:, first, second] = distances[:, second, first] = found
    return distances


def pairwise_distances_with_truth(predictor: "SetPredictor", raw: Tensor, truth: SetBatch, samples: int) -> Tensor:
    """Distances (T, K + 1, K + 1) among the true set, first, and K predictions of each of T inputs.

    Args:
        predictor: whose predictions.
        raw: (T K, N, C), from `SetPredictor.sample`.
        truth: T sets.
        samples: K.
    """
    shape = predictor.shape
    returned = predictor.sets_to_tensor(predictor.sets_from_tensor(raw).packed())
    padded = SetBatch.from_ragged(truth.to_ragged(), shape.max_size, shape.features)
    own = predictor.sets_to_tensor(padded.to(predictor.device))
    together = torch.cat([own.unsqueeze(1), returned.view(len(own), samples, *own.shape[1:])], dim=1)
    return distances_among(together, distance_function(predictor))


def energy_scores_from_distances(distances: Tensor) -> Tensor:
    """Energy scores (T,): the mean distance of predictions to the truth, less half of their mean distance to each
    other, by the root of the set distance.

    It is nearly a proper scoring rule (Gneiting & Raftery 2007), and not the model's energy. A model that always
    predicts one set, even the best one, is penalised for its lack of spread. With a distance of negative type no
    distribution has a lower expected score than the true one; the roots of the Chamfer and Hungarian distances
    are nearly of that type.

    Args:
        distances: (T, K + 1, K + 1), from `pairwise_distances_with_truth`.

    Raises:
        SettingsError: fewer than two predictions for each input.
    """
    samples = distances.shape[1] - 1
    if samples < 2:
        raise SettingsError(f"An energy score needs at least 2 predictions an input, got {samples}.")
    roots = distances.clamp(min=0).sqrt()
    among = roots[:, 1:, 1:].sum(dim=(1, 2)) / (samples * (samples - 1))
    return roots[:, 0, 1:].mean(dim=1) - among / 2


def energy_scores(predictor: "SetPredictor", examples: Batch, samples: int, seed: int) -> Tensor:
    """The energy score of K predictions for each input of a batch (B,); lower is better."""
    x = examples.x.reshape(len(examples.x), *predictor.shape.input_shape).to(predictor.device)
    generator = make_generator(seed, "score", device=predictor.device)
    given = predictor.given_presence(x)
    raw, _ = predictor.sample(predictor.encode(x), generator, presence=given, samples=samples)
    return energy_scores_from_distances(pairwise_distances_with_truth(predictor, raw, examples.sets, samples))
