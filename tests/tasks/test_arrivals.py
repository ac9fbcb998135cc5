"""Which data, which seed and which sampler arrive where, for every task."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from torch import Tensor

from desp.data.mnist_files import TEST_IMAGES, TRAIN_IMAGES, read_idx
from desp.randomness import make_generator
from desp.scaling import FeatureScaling
from desp.settings import LangevinSettings, MnistSettings, RepresentationSettings, TrainingSettings
from desp.tasks import Evaluation, EvaluationSetup, Task, digits, polygons
from desp.tasks.mnist import SetMnistTask, with_presence

OTHER = LangevinSettings(noise_scale=0.003)
TASKS = ("polygons", "digits", "files", "mnist", "clevr")
Pixels = list[list[int]]

every_task = pytest.mark.parametrize("problem", TASKS, indirect=True)
every_generated_task = pytest.mark.parametrize("problem", ["polygons", "digits"], indirect=True)
on_files = pytest.mark.parametrize("problem", ["files"], indirect=True)
on_mnist = pytest.mark.parametrize("problem", ["mnist"], indirect=True)


def train(task: Task, seed: int = 3, batches: int = 3, attempt: int = 0, **training: Any) -> list[Any]:
    """The first batches of training."""
    shape, _ = task.shape(None, True)
    source = task.source(shape, TrainingSettings(**{"batch_size": 30, **training}), seed, Accelerator(cpu=True))
    return list(islice(source.batches(0, attempt), batches))


def evaluate(task: Task, predictor: Any, seed: int, samples: int, **more: Any) -> Evaluation:
    return task.evaluate(
        EvaluationSetup(predictor, seed=seed, samples=samples, protocol=task.protocol("quick"), **more)
    )


def score_of(task: Task, predictor: Any, seed: int, sampler: LangevinSettings = OTHER) -> float:
    """By which samplers are chosen."""
    protocol = task.protocol("quick")
    batch = task.validation_batch(seed, protocol.calibration_examples)
    assert batch is not None
    return task.validation_score(EvaluationSetup(predictor, seed, 9, protocol, sampler), batch)


# -- samplers ------------------------------------------------------------------------------------------


@every_task
@pytest.mark.parametrize("sampler", [OTHER, None])
def test_a_sampler_that_is_tried_makes_all_predictions(problem: Any, sampler: LangevinSettings | None) -> None:
    """Those of calibration and of the distribution too: a row would else mix two samplers."""
    evaluate(problem.task, problem.predictor, 3, 2, sampler=sampler)
    assert problem.predictor.asked
    assert {call.sampler for call in problem.predictor.asked} == {sampler}


@every_task
def test_samplers_are_compared_by_their_own_predictions(problem: Any) -> None:
    noisier = LangevinSettings(noise_scale=0.3)
    assert score_of(*problem, 3, OTHER) < score_of(*problem, 3, noisier)
    assert [call.sampler for call in problem.predictor.asked] == [OTHER, noisier]
    first, second = problem.predictor.asked
    assert first.seed == second.seed
    assert torch.equal(first.x, second.x)


@every_task
def test_weights_are_chosen_with_the_predictors_own_sampler(problem: Any) -> None:
    problem.task.validation(3)(problem.predictor)
    assert [call.sampler for call in problem.predictor.asked] == [None]


# -- seeds ---------------------------------------------------------------------------------------------


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], list[int]]:
    """Tells the seeds of the generators that data are drawn with while something is done."""
    seeds: list[int] = []

    def noted(draw: Callable[..., Any]) -> Callable[..., Any]:
        def drawing(count: int, generator: torch.Generator, *more: Any) -> Any:
            seeds.append(generator.initial_seed())
            return draw(count, generator, *more)

        return drawing

    monkeypatch.setattr(polygons, "draw_polygons", noted(polygons.draw_polygons))
    monkeypatch.setattr(digits, "draw_digits", noted(digits.draw_digits))

    def during(action: Callable[[], Any]) -> list[int]:
        seeds.clear()
        action()
        return list(seeds)

    return during


@every_generated_task
def test_data_of_every_use_are_drawn_apart(problem: Any, drawn: Callable[[Callable[[], Any]], list[int]]) -> None:
    """What is validated, scored or shown must never have been trained on, nor chosen by."""
    task, predictor = problem
    uses = {
        "training": drawn(lambda: train(task)),
        "second attempt": drawn(lambda: train(task, attempt=1)),
        "validation": drawn(lambda: task.validation(3)),
        "examples": drawn(lambda: task.shown_examples(3)),
        "scoring": drawn(lambda: evaluate(task, predictor, 3, 1)),
    }
    assert len(uses["training"]) == len(uses["second attempt"]) == 3
    assert all(uses.values())
    # Samplers are tuned on what weights are chosen by.
    assert drawn(lambda: score_of(task, predictor, 3)) == uses["validation"]
    chains = {call.seed for call in predictor.asked}
    every = [*chains, *(seed for seeds in uses.values() for seed in seeds)]
    assert len(set(every)) == len(every)


@every_generated_task
def test_data_follow_the_seed(problem: Any, drawn: Callable[[Callable[[], Any]], list[int]]) -> None:
    task, predictor = problem
    uses: list[Callable[[int], Any]] = [
        lambda seed: train(task, seed),
        task.validation,
        lambda seed: score_of(task, predictor, seed),
        task.shown_examples,
    ]
    for use in uses:
        three, again, four = (drawn(lambda use=use, seed=seed: use(seed)) for seed in (3, 3, 4))  # type: ignore[misc]
        assert three == again
        assert not set(three) & set(four)
    # Truths that are ranked follow it; the real data that are compared with are always the same.
    three, four = (
        drawn(lambda seed=seed: evaluate(task, predictor, seed, 1))  # type: ignore[misc]
        for seed in (3, 4)
    )
    assert len(set(three) - set(four)) == 1


@every_task
def test_chains_follow_the_seed(problem: Any) -> None:
    task, predictor = problem
    uses: list[Callable[[int], Any]] = [
        lambda seed: evaluate(task, predictor, seed, 2),
        lambda seed: task.validation(seed)(predictor),
        lambda seed: score_of(task, predictor, seed),
    ]
    for use in uses:
        seeds: list[set[int]] = []
        for seed in (3, 4):
            predictor.asked.clear()
            use(seed)
            seeds.append({call.seed for call in predictor.asked})
        assert not seeds[0] & seeds[1]


@every_generated_task
def test_chains_of_an_evaluation_have_noise_of_their_own(problem: Any) -> None:
    """Were it the same for all numbers of corners, so would be what their rotations are judged by."""
    evaluate(problem.task, problem.predictor, 3, 1)
    seeds = [call.seed for call in problem.predictor.asked]
    assert len(seeds) == len(set(seeds)) >= 2


@on_mnist
def test_weights_are_not_chosen_by_the_noise_of_the_test(problem: Any) -> None:
    """Rounded codes have the noise of whole ones, to be compared with them; validation has another."""
    task, predictor = problem
    evaluate(task, predictor, 3, 1)
    tested = {call.seed for call in predictor.asked}
    assert len(predictor.asked) == 2
    assert len(tested) == 1
    predictor.asked.clear()
    task.validation(3)(predictor)
    assert {call.seed for call in predictor.asked}.isdisjoint(tested)


class Process(Accelerator):
    """One of several, without the others."""

    process_index, num_processes, device = 0, 1, torch.device("cpu")

    def __init__(self, index: int, count: int) -> None:
        self.process_index, self.num_processes = index, count


@every_task
def test_every_process_trains_on_data_of_its_own(problem: Any) -> None:
    shape, _ = problem.task.shape(None, True)
    first, second, alone = (
        next(problem.task.source(shape, TrainingSettings(batch_size=30), 3, place).batches(0)).sets.elements
        for place in (Process(0, 2), Process(1, 2), Process(0, 1))
    )
    assert torch.equal(first, alone)
    assert not torch.equal(first, second)


@on_files
def test_processes_share_a_file(problem: Any) -> None:
    shape, _ = problem.task.shape(None, True)
    seen: list[float] = []
    for index in range(3):
        source = problem.task.source(shape, TrainingSettings(batch_size=24), 3, Process(index, 3))
        seen += [number for batch in islice(source.batches(0), 2) for number in batch.x[:, 0].tolist()]
    assert len(set(seen)) == len(seen) == 144  # one pass together


# -- data of files -------------------------------------------------------------------------------------


@on_files
def test_examples_of_a_file_keep_to_their_part(problem: Any) -> None:
    task, predictor = problem

    def asked(use: Callable[[], Any]) -> set[float]:
        predictor.asked.clear()
        use()
        return {number for call in predictor.asked for number in call.x[:, 0].tolist()}

    trained = {number for batch in train(task, batches=9) for number in batch.x[:, 0].tolist()}
    scored = asked(lambda: evaluate(task, predictor, 3, 2))
    chosen_by = asked(lambda: task.validation(3)(predictor))
    assert (len(scored), len(chosen_by), len(trained)) == (60, 36, 144)
    assert len(scored | chosen_by | trained) == 240
    assert asked(lambda: score_of(task, predictor, 3)) == chosen_by
    assert {item.input[0] for item in task.shown_examples(3)} < scored


@on_files
def test_ranks_need_five_truths_each(problem: Any) -> None:
    for count, told in ((50, True), (49, False)):
        protocol = replace(problem.task.protocol("quick"), calibration_examples=count)
        evaluation = problem.task.evaluate(
            EvaluationSetup(problem.predictor, seed=3, samples=1, protocol=protocol)
        )
        assert ("calibration_error" in evaluation.returned) == ("calibration" in evaluation.details) == told


def pixels(images: np.ndarray) -> list[Pixels]:
    """Rows and columns of the bright pixels of each image."""
    return [np.argwhere(image >= 34).tolist() for image in images]


def as_pixels(sets: Iterable[Tensor]) -> list[Pixels]:
    """The same of sets, with or without presence, in the order of an image."""
    return [sorted((item[:, :2] * 27).round().int().tolist()) for item in sets]


def inputs(x: Tensor) -> list[Tensor]:
    """Padded inputs as sets."""
    return [row[row[:, 2] == 1] for row in x]


@on_mnist
def test_digits_come_from_the_file_of_their_part(problem: Any, tiny_mnist: Path) -> None:
    task, predictor = problem
    folder = tiny_mnist / "mnist"
    training, test = (pixels(read_idx(folder / name, (None, 28, 28))) for name in (TRAIN_IMAGES, TEST_IMAGES))
    order = torch.randperm(len(training), generator=make_generator("mnist split")).tolist()
    to_choose, to_train = ([training[index] for index in part] for part in (order[:10], order[10:]))
    evaluate(task, predictor, 3, 1)
    whole, *_ = predictor.asked  # what comes after it is a part of it, from rounded codes
    assert as_pixels(inputs(whole.x)) == test[:20]
    shown = task.shown_examples(3)
    assert as_pixels(item.truth[0] for item in shown) == as_pixels(inputs(torch.stack([e.x for e in shown])))
    assert as_pixels(item.truth[0] for item in shown) == test[:4]
    predictor.asked.clear()
    task.validation(3)(predictor)
    score_of(task, predictor, 3)
    assert [as_pixels(inputs(call.x)) for call in predictor.asked] == [to_choose[:6]] * 2
    assert as_pixels(inputs(task.validation_batch(3, 4).x)) == to_choose[:4]
    batches = train(task, batches=60, batch_size=64)
    assert {str(item) for batch in batches for item in as_pixels(inputs(batch.x))} == {str(x) for x in to_train}


@on_mnist
def test_raw_sets_are_scored_in_the_units_of_the_data(problem: Any, knowing: Any) -> None:
    shape = replace(problem.task.shape(None, True)[0], scaling=FeatureScaling((1.0, 2.0), (2.0, 4.0)))
    for kind, presence in (("presence", [0.7]), ("zero", [])):
        predictor = knowing(lambda x, _: x, shape, RepresentationSettings(padding=kind, scaling="none"))
        raw = torch.tensor([0.5, 0.25, *presence]).expand(1, 16, -1)
        expected = torch.tensor([2.0, 3.0, *(presence or [1.0])]).expand(1, 16, 3)
        torch.testing.assert_close(with_presence(predictor, raw), expected)


@on_mnist
def test_digits_are_padded_to_the_largest(problem: Any) -> None:
    assert problem.task.data.test.at(slice(2)).batch().x.shape == (2, 16, 3)
    assert problem.task.data.test.batch().x.shape == (30, 16, 3)


def test_a_folder_that_is_there_comes_before_the_variable(
    tiny_mnist: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESP_DATA", str(tmp_path / "empty"))
    assert len(SetMnistTask(MnistSettings(data_dir=str(tiny_mnist))).data.test) == 30


def test_each_variant_has_its_own_images(tiny_fashion: Path) -> None:
    """In one folder."""
    numbers, clothes = (
        SetMnistTask(MnistSettings(data_dir=str(tiny_fashion), dataset=variant))
        for variant in ("mnist", "fashion")
    )
    assert [(len(task.data.training), len(task.data.test)) for task in (numbers, clothes)] == [
        (190, 30),
        (114, 20),
    ]
    assert numbers.fingerprint() != clothes.fingerprint()
    assert clothes.shown_examples(0)[3].label == "test image 3: 3"
