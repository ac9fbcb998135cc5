"""What a user would try first: sets of similar inputs, any sets, and a plain MLP."""

import math
import time
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from desp.benchmarks.own_data.problem import Examples, Problem
from desp.benchmarks.own_data.scoring import MOST_ASSIGNED, Answers, Ruler
from desp.categories import argmax_one_hot
from desp.data.base import to_float
from desp.distances import assign, huber_pairs
from desp.errors import DataError, SettingsError
from desp.metrics.distribution import pairwise_distances
from desp.nn.mlp import MLP
from desp.randomness import derive_seed, make_generator
from desp.sets import SetBatch, presence_mask
from desp.settings import InputKind

NEIGHBOURS = 10
HIDDEN = 256
BATCH = 64
LEARNING_RATE = 1e-3
VALIDATE_EVERY = 100
PATIENCE = 20


def standardised(known: Tensor, inputs: Tensor, kind: InputKind) -> Tensor:
    """Inputs by mean and standard deviation of the known ones, as the library does; images as intensities."""
    if kind == "image":
        return to_float(inputs, torch.float32)
    rows = known[presence_mask(known)][:, :-1] if kind == "set" else known
    mean, deviation = rows.mean(dim=0), rows.std(dim=0, correction=0)
    values = (inputs[..., :-1] if kind == "set" else inputs) - mean
    values = values / torch.where(deviation > 0, deviation, 1.0)
    if kind != "set":
        return values
    presence = presence_mask(inputs).unsqueeze(-1).to(values.dtype)
    return torch.cat([values * presence, presence], dim=-1)


# -- neighbours ----------------------------------------------------------------------------------------------


def input_distances(known: Tensor, inputs: Tensor, kind: InputKind) -> Float[Tensor, "t m"]:
    """From each input to all known ones: Euclidean, of sets Chamfer's."""
    first, second = standardised(known, inputs, kind), standardised(known, known, kind)
    if kind != "set":
        return torch.cdist(first.flatten(1), second.flatten(1))
    return pairwise_distances(_presence_kept(first), _presence_kept(second), "chamfer")


def _presence_kept(values: Tensor) -> SetBatch:
    """Padded sets whose presence is one of their features."""
    return SetBatch(values, torch.ones(values.shape[:2], dtype=torch.bool))


def nearest_neighbours(
    problem: Problem, ruler: Ruler, known: Examples, tests: Examples, samples: int, seed: int
) -> Answers:
    """The sets of the ten nearest inputs, in any order, each once before any comes again; the best is the medoid.

    Drawn with replacement they would come twice, and their spread, and with it the energy score, be worse.
    """
    kind = problem.input_kind(known)
    began = time.perf_counter()
    distances = input_distances(known.inputs, tests.inputs, kind)
    if problem.description.aligned:
        distances = _same_sizes_only(distances, known, tests)
    places = distances.topk(min(NEIGHBOURS, len(known)), dim=1, largest=False).indices
    draws = _any_order(places, samples, make_generator(seed, "neighbours"))
    return _drawn(problem, ruler, known, tests, places, draws, began)


def _any_order(places: Int[Tensor, "t p"], samples: int, generator: torch.Generator) -> Int[Tensor, "t k"]:
    """K columns for each test, all of them in a random order before any comes again."""
    rounds = range(math.ceil(samples / places.shape[1]))
    orders = [torch.rand(places.shape, generator=generator).argsort(dim=1) for _ in rounds]
    return torch.cat(orders, dim=1)[:, :samples]


def any_sets(problem: Problem, ruler: Ruler, known: Examples, tests: Examples, samples: int, seed: int) -> Answers:
    """Any sets that were trained on, whatever the input."""
    began = time.perf_counter()
    chances = torch.rand((len(tests), len(known)), generator=make_generator(seed, "any sets"))
    if problem.description.aligned:
        chances = _same_sizes_only(chances, known, tests)
    fewest = int(chances.isfinite().sum(dim=1).min())
    if samples > fewest:
        raise SettingsError(
            f"--samples must be at most {fewest}, the known sets of '{problem.name}', got {samples}."
        )
    places = chances.topk(samples, dim=1, largest=False).indices
    return _drawn(problem, ruler, known, tests, places, torch.arange(samples).expand(len(tests), -1), began)


def _same_sizes_only(distances: Tensor, known: Examples, tests: Examples) -> Tensor:
    """Where outputs are aligned, only sets of the same size can be an answer."""
    same = known.sets.sizes == tests.sets.sizes.unsqueeze(1)
    if bool((same.sum(dim=1) < NEIGHBOURS).any()):
        raise DataError(f"A test has fewer than {NEIGHBOURS} known sets of its size. Make more examples.")
    return distances.masked_fill(~same, torch.inf)


def _drawn(
    problem: Problem,
    ruler: Ruler,
    known: Examples,
    tests: Examples,
    places: Int[Tensor, "t p"],
    draws: Int[Tensor, "t k"],
    began: float,
) -> Answers:
    """Of the sets at each test's places those that are drawn, and the medoid of all."""
    found = known.part(places.flatten())
    sets = _carried_over(found, tests, places.shape[1]) if problem.description.aligned else found.sets
    padded = ruler.pad(sets)
    medoids = ruler.medoids(padded.view(*places.shape, *padded.shape[1:]))
    firsts = torch.arange(len(tests)) * places.shape[1]
    of = Examples(found.inputs, sets)
    return Answers(
        of.part((draws + firsts.unsqueeze(1)).flatten()).sets,
        of.part(medoids + firsts).sets,
        facts={"predict_seconds": round(time.perf_counter() - began, 2)},
    )


def _carried_over(found: Examples, tests: Examples, each: int) -> SetBatch:
    """Elements of found sets in the order of the test's own input: each input element takes that of its match."""
    own = tests.inputs.repeat_interleave(each, dim=0)
    order = assign(huber_pairs(own, found.inputs))
    elements = found.sets.elements.gather(1, order.unsqueeze(-1).expand_as(found.sets.elements))
    return SetBatch(elements, found.sets.mask)


# -- an MLP --------------------------------------------------------------------------------------------------


def flat_inputs(known: Tensor, inputs: Tensor, kind: InputKind, aligned: bool) -> Float[Tensor, "b h"]:
    """Standardised inputs as vectors: pixels of images, and rows of sets, ordered by their first feature where
    the order means nothing."""
    values = standardised(known, inputs, kind)
    if kind == "set" and not aligned:
        keys = values[..., 0].masked_fill(values[..., -1] < 0.5, torch.inf)
        values = values.gather(1, keys.argsort(dim=1).unsqueeze(-1).expand_as(values))
    return values.flatten(1)


def matched_loss(rows: Float[Tensor, "b n c"], truth: Float[Tensor, "b n c"], aligned: bool) -> Tensor:
    """How far predicted rows, the logit of presence last, are from padded sets under the best assignment.

    A pair costs the Huber distance of its features, if there is an element, and the cross-entropy of its presence.
    Of sets too large to assign, each row and each element takes the nearest one.
    """
    present = truth[..., -1]
    logits = rows[..., -1].unsqueeze(2).expand(-1, -1, truth.shape[1])
    presence = F.binary_cross_entropy_with_logits(logits, present.unsqueeze(1).expand_as(logits), reduction="none")
    costs = huber_pairs(rows[..., :-1], truth[..., :-1]) * present.unsqueeze(1) + presence
    if aligned:
        return costs.diagonal(dim1=1, dim2=2).mean()
    if truth.shape[1] > MOST_ASSIGNED:
        return costs.amin(dim=1).mean() + costs.amin(dim=2).mean()
    return costs.gather(2, assign(costs).unsqueeze(-1)).mean()


def plain_mlp(
    problem: Problem,
    ruler: Ruler,
    training: Examples,
    validation: Examples,
    tests: Examples,
    samples: int,
    seed: int,
    seconds: float,
) -> Answers:
    """An MLP that gives as many rows as the largest set has, trained for at most so many seconds.

    The weights of the lowest validation loss are kept, and training ends when they are not beaten for a while.
    """
    aligned, kind = problem.description.aligned, problem.input_kind(training)
    parts = (training, validation, tests)
    x, x_valid, x_test = (flat_inputs(training.inputs, item.inputs, kind, aligned) for item in parts)
    y, y_valid = ruler.pad(training.sets), ruler.pad(validation.sets)
    network = _network(x.shape[1], y.shape[1:], seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
    began, lowest, best, waited, step = time.perf_counter(), torch.inf, network.state_dict(), 0, 0
    for step, places in enumerate(_batches(len(x), make_generator(seed, "mlp")), start=1):
        optimizer.zero_grad()
        matched_loss(network(x[places]).view(-1, *y.shape[1:]), y[places], aligned).backward()
        optimizer.step()
        late = time.perf_counter() - began >= seconds
        if step % VALIDATE_EVERY and not late:
            continue
        with torch.no_grad():
            loss = float(matched_loss(network(x_valid).view(-1, *y.shape[1:]), y_valid, aligned))
        waited += 1
        if loss < lowest:
            lowest, waited = loss, 0
            best = {name: value.clone() for name, value in network.state_dict().items()}
        if late or waited >= PATIENCE:
            break
    taken = time.perf_counter() - began
    network.load_state_dict(best)
    with torch.no_grad():
        sets = _read(network(x_test).view(-1, *y.shape[1:]), tests, ruler, problem)
    repeats = torch.arange(len(tests)).repeat_interleave(samples)
    each = Examples(tests.inputs, sets).part(repeats).sets
    return Answers(each, sets, taken, {"steps": step})


def _network(inputs: int, rows: torch.Size, seed: int) -> MLP:
    # Layers draw their initial weights from torch's global generator; it is put back afterwards.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(seed, "mlp", "weights"))
        return MLP([inputs, HIDDEN, HIDDEN, rows.numel()])


def _batches(count: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Places of batches, for ever; each example once before any comes again."""
    while True:
        yield from torch.randperm(count, generator=generator).split(BATCH)


def _read(rows: Tensor, tests: Examples, ruler: Ruler, problem: Problem) -> SetBatch:
    """Predicted rows as sets in the user's units."""
    mask = presence_mask(tests.inputs) if ruler.aligned else rows[..., -1] > 0
    elements = rows[..., :-1] * ruler.scale + ruler.offset
    elements = argmax_one_hot(elements, problem.description.categories)
    return SetBatch(elements.masked_fill(~mask.unsqueeze(-1), 0.0), mask)
