"""What a user would try first, on data where the right answer is plain."""

import itertools
from dataclasses import replace

import pytest
import torch

from desp.benchmarks.own_data.problem import Problem
from desp.benchmarks.own_data.problems import PROBLEMS, choose_problems
from desp.comparison.baselines import input_distances, nearest_neighbours, random_training_sets, standardised
from desp.comparison.examples import Examples
from desp.comparison.mlp import Effort, flat_inputs, matched_loss, plain_mlp
from desp.comparison.ruler import Ruler
from desp.comparison.scoring import score
from desp.errors import DataError
from desp.randomness import make_generator
from desp.sets import SetBatch

SAMPLES = 4
# Each kind of input, categories, aligned outputs, large sets.
SEVERAL = choose_problems(("few", "orders", "boxes", "groups", "clusters", "ellipse"))
each = pytest.mark.parametrize("problem", SEVERAL, ids=lambda problem: problem.name)


def ruler_of(problem: Problem, known: Examples) -> Ruler:
    return Ruler.of(known.sets, problem.description, problem.sizes[1])


def parts(problem: Problem, *counts: int) -> list[Examples]:
    return [problem.make(count, make_generator(index)) for index, count in enumerate(counts)]


@each
def test_baselines_give_k_sets_and_one(problem: Problem) -> None:
    known, tests = parts(problem, 100, 5)
    ruler, kind = ruler_of(problem, known), problem.input_kind(known)
    found = [
        nearest_neighbours(ruler, kind, known, tests, SAMPLES, 0),
        random_training_sets(ruler, known, tests, SAMPLES, 0),
        plain_mlp(ruler, kind, known, known, tests, SAMPLES, 0, Effort(0.1)),
    ]
    for answers in found:
        assert (len(answers.samples), len(answers.best)) == (5 * SAMPLES, 5)
        numbers = score(ruler, tests, answers, 0)
        assert bool(torch.isfinite(numbers.energy).all())
        if problem.description.aligned:
            assert numbers.numbers["right_size"] == 1


def test_neighbours_are_the_nearest_in_standardised_inputs() -> None:
    (problem,) = choose_problems(("few",))
    known, tests = parts(problem, 200, 6)
    known = replace(known, inputs=known.inputs * torch.tensor([1.0, 1e6]))
    tests = replace(tests, inputs=tests.inputs * torch.tensor([1.0, 1e6]))
    answers = nearest_neighbours(ruler_of(problem, known), problem.input_kind(known), known, tests, 50, 0)
    scaled, own = (item.inputs / known.inputs.std(dim=0, correction=0) for item in (known, tests))
    for index in range(6):
        nearest = (scaled - own[index]).norm(dim=1).argsort()[:10]
        allowed = {tuple(known.sets.elements[place].flatten().tolist()) for place in nearest}
        drawn = {tuple(item.flatten().tolist()) for item in answers.samples.elements[50 * index : 50 * index + 50]}
        assert drawn == allowed  # all of them, as fifty are asked for
        assert tuple(answers.best.elements[index].flatten().tolist()) in allowed


def test_no_neighbour_is_given_twice_before_all_were() -> None:
    (problem,) = choose_problems(("few",))
    known, tests = parts(problem, 60, 3)
    answers = nearest_neighbours(ruler_of(problem, known), problem.input_kind(known), known, tests, 10, 0)
    for index in range(3):
        given = answers.samples.elements[10 * index : 10 * index + 10].flatten(1)
        assert len(given.unique(dim=0)) == 10


def test_the_known_itself_is_its_nearest_for_every_kind_of_input() -> None:
    for problem in PROBLEMS:
        if problem.name in ("repeated", "divisors"):
            continue
        (known,) = parts(problem, 30)
        distances = input_distances(known.inputs, known.inputs[:4], problem.input_kind(known))
        assert distances.argmin(dim=1).tolist() == [0, 1, 2, 3]


def test_aligned_labels_are_carried_over_to_the_matching_items() -> None:
    """A test whose input is a known one with its items in another order."""
    (problem,) = choose_problems(("groups",))
    (known,) = parts(problem, 400)
    order = torch.arange(7)
    size = int(known.sets.sizes[0])
    order[:size] = order[:size].flip(0)
    tests = Examples(known.inputs[:1, order], SetBatch(known.sets.elements[:1, order], known.sets.mask[:1, order]))
    answers = nearest_neighbours(ruler_of(problem, known), problem.input_kind(known), known, tests, 40, 0)
    same = (answers.samples.elements == tests.sets.elements).flatten(1).all(dim=1)
    assert bool(same.any())


def test_aligned_items_match_in_standardised_units() -> None:
    """The unit of an input's feature changes nothing."""
    (problem,) = choose_problems(("groups",))
    known, tests = parts(problem, 400, 20)
    units = torch.ones(known.inputs.shape[-1])
    units[0], units[1] = 1e3, 1e-3
    found = []
    for unit in (torch.ones_like(units), units):
        first, second = (replace(item, inputs=item.inputs * unit) for item in (known, tests))
        kind = problem.input_kind(first)
        found.append(nearest_neighbours(ruler_of(problem, first), kind, first, second, SAMPLES, 0))
    assert torch.equal(found[0].samples.elements, found[1].samples.elements)
    assert torch.equal(found[0].samples.mask, found[1].samples.mask)


def test_too_few_sets_of_a_size_are_an_error() -> None:
    (problem,) = choose_problems(("groups",))
    known, tests = parts(problem, 20, 5)
    with pytest.raises(DataError, match="fewer than 10 known sets of its size"):
        nearest_neighbours(ruler_of(problem, known), problem.input_kind(known), known, tests, 4, 0)


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
    ruler = ruler_of(problem, training)
    random = score(ruler, tests, random_training_sets(ruler, training, tests, SAMPLES, 0), 0)
    steps: list[int] = []
    effort = Effort(torch.inf, 600, steps.append)
    answers = plain_mlp(ruler, "vector", training, validation, tests, SAMPLES, 0, effort)
    assert float(score(ruler, tests, answers, 0).energy.mean()) < 0.4 * float(random.energy.mean())
    assert answers.facts == {"steps": 600}
    assert steps == [100, 200, 300, 400, 500, 600]


def test_any_sets_come_again_only_after_all_others() -> None:
    (problem,) = choose_problems(("few",))
    known, tests = parts(problem, 3, 2)
    answers = random_training_sets(ruler_of(problem, known), known, tests, 7, 0)
    for index in range(2):
        given = [tuple(item.flatten().tolist()) for item in answers.samples.elements[7 * index : 7 * index + 7]]
        assert sorted(map(given.count, set(given))) == [2, 2, 3]


def test_rows_of_input_sets_have_an_order_of_their_own_unless_aligned() -> None:
    (problem,) = choose_problems(("clusters",))
    (known,) = parts(problem, 10)
    turned = known.inputs.flip(1)
    first, second = (flat_inputs(known.inputs, item, "set", aligned=False) for item in (known.inputs, turned))
    assert torch.equal(first, second)
    kept = flat_inputs(known.inputs, known.inputs, "set", aligned=True)
    assert torch.equal(kept, standardised(known.inputs, known.inputs, "set").flatten(1))
