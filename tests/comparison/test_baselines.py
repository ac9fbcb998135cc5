"""What a user would try first, on data where the right answer is plain."""

import itertools
from dataclasses import replace

import pytest
import torch

from desp.benchmarks.own_data.problem import Problem
from desp.benchmarks.own_data.problems import PROBLEMS, choose_problems
from desp.comparison.baselines import input_distances, nearest_neighbours, random_training_sets, standardised
from desp.comparison.examples import Examples
from desp.comparison.mlp import TrainingBudget, flat_inputs, matched_loss, plain_mlp
from desp.comparison.scoring import score
from desp.comparison.set_distance import StandardisedDistance
from desp.errors import DataError
from desp.randomness import make_generator
from desp.sets import SetBatch

SAMPLES = 4
# Each kind of input, categories, aligned outputs, large sets.
SEVERAL = choose_problems(("few", "orders", "boxes", "groups", "clusters", "ellipse"))
each = pytest.mark.parametrize("problem", SEVERAL, ids=lambda problem: problem.name)


def distance_of(problem: Problem, reference: Examples) -> StandardisedDistance:
    return StandardisedDistance.of(reference.sets, problem.description, problem.sizes[1])


def parts(problem: Problem, *counts: int) -> list[Examples]:
    return [problem.make(count, make_generator(index)) for index, count in enumerate(counts)]


@each
def test_baselines_give_k_sets_and_one(problem: Problem) -> None:
    reference, tests = parts(problem, 100, 5)
    set_distance, kind = distance_of(problem, reference), problem.input_kind(reference)
    found = [
        nearest_neighbours(set_distance, kind, reference, tests, SAMPLES, 0),
        random_training_sets(set_distance, reference, tests, SAMPLES, 0),
        plain_mlp(set_distance, kind, reference, reference, tests, SAMPLES, 0, TrainingBudget(0.1)),
    ]
    for predicted in found:
        assert (len(predicted.samples), len(predicted.single)) == (5 * SAMPLES, 5)
        numbers = score(set_distance, tests, predicted, 0)
        assert bool(torch.isfinite(numbers.energy_score).all())
        if problem.description.aligned:
            assert numbers.numbers["right_size"] == 1


def test_neighbours_are_the_nearest_in_standardised_inputs() -> None:
    (problem,) = choose_problems(("few",))
    reference, tests = parts(problem, 200, 6)
    reference = replace(reference, inputs=reference.inputs * torch.tensor([1.0, 1e6]))
    tests = replace(tests, inputs=tests.inputs * torch.tensor([1.0, 1e6]))
    predicted = nearest_neighbours(
        distance_of(problem, reference), problem.input_kind(reference), reference, tests, 50, 0
    )
    scaled, own = (item.inputs / reference.inputs.std(dim=0, correction=0) for item in (reference, tests))
    for index in range(6):
        nearest = (scaled - own[index]).norm(dim=1).argsort()[:10]
        allowed = {tuple(reference.sets.elements[place].flatten().tolist()) for place in nearest}
        drawn = {
            tuple(item.flatten().tolist()) for item in predicted.samples.elements[50 * index : 50 * index + 50]
        }
        assert drawn == allowed  # all of them, as fifty are asked for
        assert tuple(predicted.single.elements[index].flatten().tolist()) in allowed


def test_no_neighbour_is_given_twice_before_all_were() -> None:
    (problem,) = choose_problems(("few",))
    reference, tests = parts(problem, 60, 3)
    predicted = nearest_neighbours(
        distance_of(problem, reference), problem.input_kind(reference), reference, tests, 10, 0
    )
    for index in range(3):
        given = predicted.samples.elements[10 * index : 10 * index + 10].flatten(1)
        assert len(given.unique(dim=0)) == 10


def test_a_training_input_itself_is_its_nearest_for_every_kind_of_input() -> None:
    for problem in PROBLEMS:
        if problem.name in ("repeated", "divisors"):
            continue
        (reference,) = parts(problem, 30)
        distances = input_distances(reference.inputs, reference.inputs[:4], problem.input_kind(reference))
        assert distances.argmin(dim=1).tolist() == [0, 1, 2, 3]


def test_aligned_labels_are_carried_over_to_the_matching_items() -> None:
    """A test whose input is a training input with its items in another order."""
    (problem,) = choose_problems(("groups",))
    (reference,) = parts(problem, 400)
    order = torch.arange(7)
    size = int(reference.sets.sizes[0])
    order[:size] = order[:size].flip(0)
    tests = Examples(
        reference.inputs[:1, order], SetBatch(reference.sets.elements[:1, order], reference.sets.mask[:1, order])
    )
    predicted = nearest_neighbours(
        distance_of(problem, reference), problem.input_kind(reference), reference, tests, 40, 0
    )
    same = (predicted.samples.elements == tests.sets.elements).flatten(1).all(dim=1)
    assert bool(same.any())


def test_aligned_items_match_in_standardised_units() -> None:
    """The unit of an input's feature changes nothing."""
    (problem,) = choose_problems(("groups",))
    reference, tests = parts(problem, 400, 20)
    units = torch.ones(reference.inputs.shape[-1])
    units[0], units[1] = 1e3, 1e-3
    found = []
    for unit in (torch.ones_like(units), units):
        first, second = (replace(item, inputs=item.inputs * unit) for item in (reference, tests))
        kind = problem.input_kind(first)
        found.append(nearest_neighbours(distance_of(problem, first), kind, first, second, SAMPLES, 0))
    assert torch.equal(found[0].samples.elements, found[1].samples.elements)
    assert torch.equal(found[0].samples.mask, found[1].samples.mask)


def test_too_few_sets_of_a_size_are_an_error() -> None:
    (problem,) = choose_problems(("groups",))
    reference, tests = parts(problem, 20, 5)
    with pytest.raises(DataError, match="fewer than 10 training sets of its size"):
        nearest_neighbours(distance_of(problem, reference), problem.input_kind(reference), reference, tests, 4, 0)


def test_the_loss_is_that_of_the_best_assignment() -> None:
    generator = make_generator(1)
    rows, sets = (torch.randn((2, 3, 3), generator=generator) for _ in range(2))
    truth = SetBatch(sets[..., :2], torch.tensor([[True, True, False], [True, False, False]])).with_presence()

    def cost(row: torch.Tensor, element: torch.Tensor) -> torch.Tensor:
        near = torch.nn.functional.smooth_l1_loss(row[:2], element[:2]) * element[2]
        return near + torch.nn.functional.binary_cross_entropy_with_logits(row[2], element[2])

    expected = [
        min(
            sum(cost(rows[index, i], truth[index, j]) for i, j in enumerate(order))
            for order in itertools.permutations(range(3))
        )
        for index in range(2)
    ]
    assert float(matched_loss(rows, truth, aligned=False)) == pytest.approx(float(sum(expected)) / 6)
    in_order = sum(cost(rows[index, i], truth[index, i]) for index in range(2) for i in range(3))
    assert float(matched_loss(rows, truth, aligned=True)) == pytest.approx(float(in_order) / 6)


def test_an_mlp_learns_what_has_one_answer() -> None:
    (problem,) = choose_problems(("few",))
    training, validation, tests = parts(problem, 300, 50, 50)
    set_distance = distance_of(problem, training)
    random = score(set_distance, tests, random_training_sets(set_distance, training, tests, SAMPLES, 0), 0)
    steps: list[int] = []
    budget = TrainingBudget(torch.inf, 600, steps.append)
    predicted = plain_mlp(set_distance, "vector", training, validation, tests, SAMPLES, 0, budget)
    assert float(score(set_distance, tests, predicted, 0).energy_score.mean()) < 0.4 * float(
        random.energy_score.mean()
    )
    assert predicted.facts == {"steps": 600}
    assert steps == [100, 200, 300, 400, 500, 600]


def test_any_sets_come_again_only_after_all_others() -> None:
    (problem,) = choose_problems(("few",))
    reference, tests = parts(problem, 3, 2)
    predicted = random_training_sets(distance_of(problem, reference), reference, tests, 7, 0)
    for index in range(2):
        given = [tuple(item.flatten().tolist()) for item in predicted.samples.elements[7 * index : 7 * index + 7]]
        assert sorted(map(given.count, set(given))) == [2, 2, 3]


def test_rows_of_input_sets_have_an_order_of_their_own_unless_aligned() -> None:
    (problem,) = choose_problems(("clusters",))
    (reference,) = parts(problem, 10)
    turned = reference.inputs.flip(1)
    first, second = (
        flat_inputs(reference.inputs, item, "set", aligned=False) for item in (reference.inputs, turned)
    )
    assert torch.equal(first, second)
    kept = flat_inputs(reference.inputs, reference.inputs, "set", aligned=True)
    assert torch.equal(kept, standardised(reference.inputs, reference.inputs, "set").flatten(1))
