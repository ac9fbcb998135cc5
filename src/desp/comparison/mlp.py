"""The baseline where one answer is right: a plain MLP that gives one answer."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from desp.categories import argmax_one_hot
from desp.comparison.baselines import standardised
from desp.comparison.examples import Examples
from desp.comparison.scoring import SystemPredictions
from desp.comparison.set_distance import MOST_ASSIGNED, StandardisedDistance
from desp.distances import assign, huber_pairs
from desp.nn.mlp import MLP
from desp.randomness import make_generator, seeded_weights
from desp.sets import SetBatch, presence_mask
from desp.settings import InputKind

HIDDEN = 256
BATCH = 64
LEARNING_RATE = 1e-3
VALIDATE_EVERY = 100
PATIENCE = 20


def flat_inputs(reference: Tensor, inputs: Tensor, kind: InputKind, aligned: bool) -> Float[Tensor, "b h"]:
    """Standardised inputs as vectors. Elements of sets are sorted by their first feature, unless outputs are
    aligned with them."""
    values = standardised(reference, inputs, kind)
    if kind == "set" and not aligned:
        keys = values[..., 0].masked_fill(values[..., -1] < 0.5, torch.inf)
        values = values.gather(1, keys.argsort(dim=1).unsqueeze(-1).expand_as(values))
    return values.flatten(1)


def matched_loss(rows: Float[Tensor, "b n c"], truth: Float[Tensor, "b n c"], aligned: bool) -> Tensor:
    """How far predicted rows, the logit of presence last, are from padded sets under the best assignment.

    A pair costs the Huber distance of its features, where there is an element, and the cross-entropy of presence.
    In sets too large to assign, each row and each element matches the nearest one.
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


@dataclass(frozen=True)
class TrainingBudget:
    """The most that the MLP is trained.

    Attributes:
        seconds: of wall time.
        steps: of the optimiser; None: as many as the time allows.
        progress: told how many steps are done.
    """

    seconds: float
    steps: int | None = None
    progress: Callable[[int], None] | None = None


def plain_mlp(
    set_distance: StandardisedDistance,
    kind: InputKind,
    training: Examples,
    validation: Examples,
    tests: Examples,
    samples: int,
    seed: int,
    budget: TrainingBudget,
) -> SystemPredictions:
    """An MLP that gives as many rows as the largest set has, trained within the budget.

    The weights of the lowest validation loss are kept; training ends after `PATIENCE` validations without a lower
    one.
    """
    parts = (training, validation, tests)
    x, x_valid, x_test = (flat_inputs(training.inputs, item.inputs, kind, set_distance.aligned) for item in parts)
    y, y_valid = set_distance.pad(training.sets), set_distance.pad(validation.sets)
    network = _network(x.shape[1], y.shape[1:], seed)
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
    began, lowest, best, waited, step = time.perf_counter(), torch.inf, network.state_dict(), 0, 0
    for step, places in enumerate(_batches(len(x), make_generator(seed, "mlp")), start=1):
        optimizer.zero_grad()
        matched_loss(network(x[places]).view(-1, *y.shape[1:]), y[places], set_distance.aligned).backward()
        optimizer.step()
        late = time.perf_counter() - began >= budget.seconds or step == budget.steps
        if step % VALIDATE_EVERY and not late:
            continue
        if budget.progress:
            budget.progress(step)
        with torch.no_grad():
            loss = float(matched_loss(network(x_valid).view(-1, *y.shape[1:]), y_valid, set_distance.aligned))
        waited += 1
        if loss < lowest:
            lowest, waited = loss, 0
            best = {name: value.clone() for name, value in network.state_dict().items()}
        if late or waited >= PATIENCE:
            break
    taken = time.perf_counter() - began
    network.load_state_dict(best)
    with torch.no_grad():
        sets = _read(network(x_test).view(-1, *y.shape[1:]), tests, set_distance)
    repeats = torch.arange(len(tests)).repeat_interleave(samples)
    each = Examples(tests.inputs, sets).part(repeats).sets
    return SystemPredictions(each, sets, taken, {"steps": step})


def _network(inputs: int, rows: torch.Size, seed: int) -> MLP:
    # Layers draw their initial weights from torch's global generator; it is put back afterwards.
    with seeded_weights(seed, "mlp", "weights"):
        return MLP([inputs, HIDDEN, HIDDEN, rows.numel()])


def _batches(count: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Endless batches of places; each example once before any is repeated."""
    while True:
        yield from torch.randperm(count, generator=generator).split(BATCH)


def _read(rows: Tensor, tests: Examples, set_distance: StandardisedDistance) -> SetBatch:
    """Predicted rows as sets in the user's units."""
    mask = presence_mask(tests.inputs) if set_distance.aligned else rows[..., -1] > 0
    elements = rows[..., :-1] * set_distance.scale + set_distance.offset
    elements = argmax_one_hot(elements, set_distance.categories)
    return SetBatch(elements.masked_fill(~mask.unsqueeze(-1), 0.0), mask)
