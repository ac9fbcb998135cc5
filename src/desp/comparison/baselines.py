"""Baselines: the sets of the nearest inputs, and random sets.

Both take sets from `reference`: the examples for training and validation.
"""

import math
import time

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from desp.comparison.examples import Examples
from desp.comparison.scoring import SystemPredictions
from desp.comparison.set_distance import StandardisedDistance
from desp.data.base import to_float
from desp.distances import assign, huber_pairs
from desp.errors import DataError
from desp.metrics.distribution import pairwise_distances
from desp.randomness import make_generator
from desp.sets import SetBatch, presence_mask
from desp.settings import InputKind

NEIGHBOURS = 10
# A cost above all costs of allowed pairs.
FORBIDDEN = 1e6


def standardised(reference: Tensor, inputs: Tensor, kind: InputKind) -> Tensor:
    """Inputs standardised by the reference inputs, as encoders do; images as intensities."""
    if kind == "image":
        return to_float(inputs, torch.float32)
    rows = reference[presence_mask(reference)][:, :-1] if kind == "set" else reference
    mean, deviation = rows.mean(dim=0), rows.std(dim=0, correction=0)
    values = (inputs[..., :-1] if kind == "set" else inputs) - mean
    values = values / torch.where(deviation > 0, deviation, 1.0)
    if kind != "set":
        return values
    presence = presence_mask(inputs).unsqueeze(-1).to(values.dtype)
    return torch.cat([values * presence, presence], dim=-1)


# -- neighbours ----------------------------------------------------------------------------------------------


def input_distances(reference: Tensor, inputs: Tensor, kind: InputKind) -> Float[Tensor, "t m"]:
    """Distances from each input to all reference inputs: Chamfer for sets, else Euclidean."""
    first, second = standardised(reference, inputs, kind), standardised(reference, reference, kind)
    if kind != "set":
        return torch.cdist(first.flatten(1), second.flatten(1))
    return pairwise_distances(_presence_kept(first), _presence_kept(second), "chamfer")


def _presence_kept(values: Tensor) -> SetBatch:
    """Padded sets whose presence is one of their features."""
    return SetBatch(values, torch.ones(values.shape[:2], dtype=torch.bool))


def nearest_neighbours(
    set_distance: StandardisedDistance,
    kind: InputKind,
    reference: Examples,
    tests: Examples,
    samples: int,
    seed: int,
) -> SystemPredictions:
    """The sets of the ten nearest inputs in random order, each once before any is repeated; the single set is
    their medoid.

    With replacement, sets would be drawn twice; the spread, and so the energy score, would be worse.
    """
    began = time.perf_counter()
    distances = input_distances(reference.inputs, tests.inputs, kind)
    if set_distance.aligned:
        distances = _same_sizes_only(distances, reference, tests)
    places = distances.topk(min(NEIGHBOURS, len(reference)), dim=1, largest=False).indices
    draws = _random_order(places, samples, make_generator(seed, "neighbours"))
    return _drawn(set_distance, reference, tests, places, draws, began)


def _random_order(places: Int[Tensor, "t p"], samples: int, generator: torch.Generator) -> Int[Tensor, "t k"]:
    """K columns for each test: all of them in random order before any is repeated."""
    rounds = range(math.ceil(samples / places.shape[1]))
    orders = [torch.rand(places.shape, generator=generator).argsort(dim=1) for _ in rounds]
    return torch.cat(orders, dim=1)[:, :samples]


def random_training_sets(
    set_distance: StandardisedDistance, reference: Examples, tests: Examples, samples: int, seed: int
) -> SystemPredictions:
    """Random reference sets, whatever the input; each once before any is repeated."""
    began = time.perf_counter()
    chances = torch.rand((len(tests), len(reference)), generator=make_generator(seed, "any sets"))
    if set_distance.aligned:
        chances = _same_sizes_only(chances, reference, tests)
    fewest = int(chances.isfinite().sum(dim=1).min())
    places = chances.topk(min(samples, fewest), dim=1, largest=False).indices
    draws = torch.arange(samples) % places.shape[1]
    return _drawn(set_distance, reference, tests, places, draws.expand(len(tests), -1), began)


def same_sizes(reference: Examples, tests: Examples) -> Bool[Tensor, "t m"]:
    """Which reference sets have the size of each test's set."""
    return reference.sets.sizes == tests.sets.sizes.unsqueeze(1)


def _same_sizes_only(distances: Tensor, reference: Examples, tests: Examples) -> Tensor:
    """Where outputs are aligned, only sets of the same size can be an answer."""
    same = same_sizes(reference, tests)
    if bool((same.sum(dim=1) < NEIGHBOURS).any()):
        raise DataError(f"A test has fewer than {NEIGHBOURS} training sets of its size. Make more examples.")
    return distances.masked_fill(~same, torch.inf)


def _drawn(
    set_distance: StandardisedDistance,
    reference: Examples,
    tests: Examples,
    places: Int[Tensor, "t p"],
    draws: Int[Tensor, "t k"],
    began: float,
) -> SystemPredictions:
    """For each test the drawn sets among those at its places, and the medoid of all sets there."""
    found = reference.part(places.flatten())
    sets = _carried_over(reference, found, tests, places.shape[1]) if set_distance.aligned else found.sets
    padded = set_distance.pad(sets)
    medoids = set_distance.medoids(padded.view(*places.shape, *padded.shape[1:]))
    firsts = torch.arange(len(tests)) * places.shape[1]
    of = Examples(found.inputs, sets)
    return SystemPredictions(
        of.part((draws + firsts.unsqueeze(1)).flatten()).sets,
        of.part(medoids + firsts).sets,
        facts={"predict_seconds": round(time.perf_counter() - began, 2)},
    )


def _carried_over(reference: Examples, found: Examples, tests: Examples, each: int) -> SetBatch:
    """The found sets with their elements in the order of the test's own input: each input element gets the output
    of the element that it is assigned to, by standardised features. Padding is never matched."""
    own = tests.inputs.repeat_interleave(each, dim=0)
    first, second = (standardised(reference.inputs, inputs, "set") for inputs in (own, found.inputs))
    apart = presence_mask(own).unsqueeze(2) != presence_mask(found.inputs).unsqueeze(1)
    order = assign(huber_pairs(first, second) + FORBIDDEN * apart)
    elements = found.sets.elements.gather(1, order.unsqueeze(-1).expand_as(found.sets.elements))
    return SetBatch(elements, found.sets.mask)
