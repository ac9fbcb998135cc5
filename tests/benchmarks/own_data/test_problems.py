"""Every problem is what it says it is."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from desp.benchmarks.own_data.defaults import UserRun
from desp.benchmarks.own_data.problem import Problem, write_file
from desp.benchmarks.own_data.problems import PROBLEMS, choose_problems
from desp.categories import are_one_hot
from desp.comparison.examples import Examples
from desp.comparison.scoring import score
from desp.comparison.set_distance import StandardisedDistance
from desp.data.files import read_data_file
from desp.errors import SettingsError
from desp.randomness import make_generator
from desp.recipes import get_recipe
from desp.sets import SetBatch

COUNT = 80
each = pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)


def some(problem: Problem, *name: str, count: int = COUNT) -> Examples:
    return problem.make(count, make_generator(0, problem.name, *name))


@each
def test_a_seed_decides_the_examples(problem: Problem) -> None:
    first, again, other = some(problem), some(problem), some(problem, "other")
    assert torch.equal(first.inputs, again.inputs)
    assert torch.equal(first.sets.elements, again.sets.elements)
    assert not torch.equal(first.sets.elements, other.sets.elements)


@each
def test_examples_are_as_described(problem: Problem) -> None:
    examples = some(problem)
    assert len(examples) == len(examples.inputs) == COUNT
    sets, (smallest, largest) = examples.sets, problem.sizes
    assert (sets.features, sets.max_size) == (problem.features, largest)
    assert smallest <= int(sets.sizes.min()) <= int(sets.sizes.max()) <= largest
    for values in (examples.inputs.float(), sets.elements):
        assert bool(torch.isfinite(values).all())
    assert bool((sets.elements[~sets.mask] == 0).all())
    assert are_one_hot(sets.elements[sets.mask], problem.description.categories)


@each
def test_both_ends_of_the_sizes_occur(problem: Problem) -> None:
    sizes = some(problem, count=2000 if problem.sizes[1] < 100 else COUNT).sets.sizes
    assert (int(sizes.min()), int(sizes.max())) == problem.sizes


@each
def test_valid_sets_are_known_where_there_are_few(problem: Problem) -> None:
    examples = some(problem)
    assert len(examples.valid_sets) == {"one": 1, "few": 2, "continuum": 0}[problem.valid]
    if examples.valid_sets:
        same = [(examples.sets.elements == item.elements).all(dim=(1, 2)) for item in examples.valid_sets]
        assert bool(torch.stack(same).any(dim=0).all())
    for answer in examples.valid_sets[1:]:  # each of them is drawn
        assert not torch.equal(examples.sets.elements, answer.elements)


@each
def test_valid_sets_obey_the_rule_and_those_of_other_inputs_do_not(problem: Problem) -> None:
    if problem.rule is None:
        return
    examples = some(problem)
    other = examples.part(torch.arange(COUNT).roll(1)).sets
    assert float(problem.rule(examples.inputs, examples.sets).max()) <= problem.rule_limit
    assert float(problem.rule(examples.inputs, other).mean()) > max(10 * problem.rule_limit, 0.05)


@each
def test_an_oracle_draws_other_sets_of_the_same_distribution(problem: Problem) -> None:
    examples = some(problem)
    set_distance = StandardisedDistance.of(examples.sets, problem.description, problem.sizes[1])
    if problem.sizes[1] > 100:  # large sets take long
        examples = examples.part(torch.arange(5))
    predicted = problem.oracle(set_distance, examples, 4, seed=0)
    assert len(predicted.samples) == 4 * len(examples)
    assert len(predicted.single) == len(examples)
    drawn = score(set_distance, examples, predicted, 0, problem.rule)
    turned = SetBatch(predicted.samples.elements.roll(4, dims=0), predicted.samples.mask.roll(4, dims=0))
    others = score(set_distance, examples, replace(predicted, samples=turned), 0)
    same = torch.equal(predicted.samples.elements[::4], examples.sets.elements)
    assert same == (problem.valid == "one")
    assert float(drawn.energy_score.mean()) < float(others.energy_score.mean())
    if problem.rule is not None:
        assert drawn.numbers["rule_error"] <= problem.rule_limit


@each
def test_a_file_gives_the_examples_back(problem: Problem, tmp_path: Path) -> None:
    examples = some(problem, count=5)
    kind = problem.input_kind(examples)
    path = tmp_path / "data.npz"
    write_file(examples, kind, path)
    read = read_data_file(path, problem.description)
    assert read.input_kind == kind
    for index in range(5):
        x, y = read[index]
        assert torch.equal(x, examples.inputs[index])
        assert torch.equal(y, examples.sets.to_ragged()[index])


@each
def test_file_and_tests_differ(problem: Problem) -> None:
    file, tests = problem.file_examples(3), problem.test_examples(3)
    assert (len(file), len(tests)) == (problem.count, problem.tests)
    few = min(len(file), len(tests))
    assert not torch.equal(file.sets.elements[:few], tests.sets.elements[:few])


def test_together_they_cover_what_users_have() -> None:
    drawn = {problem.name: some(problem) for problem in PROBLEMS}
    assert {problem.input_kind(drawn[problem.name]) for problem in PROBLEMS} == {"vector", "image", "set"}
    assert any(problem.description.aligned for problem in PROBLEMS)
    assert any(problem.description.categories for problem in PROBLEMS)
    assert {problem.valid for problem in PROBLEMS} == {"one", "few", "continuum"}
    counts, features = [problem.count for problem in PROBLEMS], [problem.features for problem in PROBLEMS]
    assert (min(counts), max(counts)) == (100, 50_000)
    assert (min(features), max(features)) == (1, 30)
    assert (0, 3) in [problem.sizes for problem in PROBLEMS]
    assert max(problem.sizes[1] for problem in PROBLEMS) == 500
    assert sum(problem.held_out for problem in PROBLEMS) == 3
    assert sum(not problem.held_out for problem in PROBLEMS) >= 10
    assert len({problem.name for problem in PROBLEMS}) == len(PROBLEMS)


def test_inputs_are_repeated() -> None:
    (problem,) = choose_problems(("repeated",))
    assert len(some(problem, count=2000).inputs.unique(dim=0)) == 20


def test_units_differ_and_there_are_outliers() -> None:
    (problem,) = choose_problems(("sensors",))
    sets = some(problem, count=2000).sets
    middle = sets.elements[sets.mask].median(dim=0).values
    assert float(middle.max() / middle.min()) > 3e5
    assert float((sets.elements[sets.mask] / middle).amax()) > 10


def test_incomes_have_heavy_tails() -> None:
    (problem,) = choose_problems(("incomes",))
    sets = some(problem, count=5000).sets
    income = sets.elements[sets.mask][:, 0]
    assert float(income.max() / income.median()) > 50


def test_labels_of_groups_follow_their_items() -> None:
    """Items of one label are nearer to each other than to those of the other, mostly."""
    (problem,) = choose_problems(("groups",))
    examples = some(problem, count=500)
    items, labels, mask = examples.inputs[..., :2], examples.sets.elements[..., 0], examples.sets.mask
    side = torch.where(labels > 0.5, 1.0, -1.0) * mask
    aligned = (side * items.sum(dim=-1)).sum(dim=1).abs() / (items.sum(dim=-1).abs() * mask).sum(dim=1)
    assert float((aligned > 0.99).float().mean()) > 0.9


def test_an_unknown_problem_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"no problem 'polygon'\. There are: events, roots"):
        choose_problems(("polygon",))


def test_all_inputs_of_repeated_are_trained_on(tmp_path: Path) -> None:
    (problem,) = choose_problems(("repeated",))
    run = UserRun(problem, get_recipe("custom").build(), 0, tmp_path)
    inputs = run.examples.inputs
    assert len(inputs[run.split.training].unique(dim=0)) == len(inputs.unique(dim=0)) == 20
