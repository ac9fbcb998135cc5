"""Which items do not belong: what is drawn, scored and validated, with predictors whose answers are known."""

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from torch import Tensor

from desp.data.base import Batch
from desp.data.subsets import candidate_subsets
from desp.errors import DataError
from desp.features.celeba import prepare_celeba
from desp.features.settings import FeatureSettings
from desp.randomness import make_generator
from desp.settings import CelebaSettings, RepresentationSettings, TaggerSettings, TrainingSettings
from desp.tasks import EvaluationSetup, make_task
from desp.tasks.celeba import CelebaTask, FeatureNoise
from tiny_celeba import make_small, write_tiny_celeba

PRESENCE = RepresentationSettings(padding="presence")
SIMULATED = CelebaSettings(source="simulated")


@pytest.fixture(scope="module")
def task() -> CelebaTask:
    made = make_task(SIMULATED)
    assert isinstance(made, CelebaTask)
    return made


def as_sets(inliers: Tensor) -> Tensor:
    """Padded sets, scaled: plus or minus one half, and presence."""
    return torch.stack([torch.where(inliers, 0.5, -0.5), torch.ones(inliers.shape)], dim=-1)


Make = Callable[[Callable[[Tensor, torch.Generator], Tensor]], Any]


@pytest.fixture
def knows(task: CelebaTask, knowing: Any) -> Make:
    """Makes a predictor that gives the inliers that a function says."""

    def make(draw: Callable[[Tensor, torch.Generator], Tensor]) -> Any:
        shape, _ = task.shape(None, True)
        return knowing(lambda x, generator: as_sets(draw(x, generator)), shape, PRESENCE)

    return make


def setup(predictor: Any, task: CelebaTask, count: int = 60, samples: int = 10) -> EvaluationSetup:
    protocol = replace(task.protocol("quick"), test_examples=(count,))
    return EvaluationSetup(predictor, 0, samples, protocol)


def answers_of(task: CelebaTask, x: Tensor, count: int) -> list[Tensor]:
    """All valid answers (answers, 5) of test sets, looked up by their inputs."""
    scored = task.scored_sets("test", count)
    places = (x.unsqueeze(1) == scored.batch.x).flatten(2).all(dim=2).float().argmax(dim=1)
    return [candidate_subsets(5)[scored.valid[place]] for place in places]


# -- data ----------------------------------------------------------------------------------------------------


def test_shapes_and_statistics(task: CelebaTask) -> None:
    shape, statistics = task.shape(None, True)
    features = task.pools["training"].features
    assert (shape.input_shape, shape.features, shape.max_size) == ((5, features.shape[1] + 1), 1, 5)
    assert shape.aligned
    torch.testing.assert_close(shape.scaling.scale(torch.tensor([[1.0], [-1.0]])), torch.tensor([[0.5], [-0.5]]))
    torch.testing.assert_close(statistics[0, :-1], features.mean(dim=0))
    torch.testing.assert_close(statistics[1, :-1], features.std(dim=0, correction=0))
    assert statistics[:, -1].tolist() == [0, 1]
    assert task.shape(5, False)[0].scaling.span == (1.0,)
    with pytest.raises(DataError, match=r"Sets have 5 items, but representation\.max_size is 6"):
        task.shape(6, True)


def test_training_batches_are_of_training_items(task: CelebaTask) -> None:
    shape, _ = task.shape(None, True)
    source = task.source(shape, TrainingSettings(batch_size=20), 3, Accelerator(cpu=True))
    batch = next(source.batches(0))
    assert batch.x.shape == (20, *shape.input_shape)
    assert (batch.x[..., -1] == 1).all()
    assert set(batch.sets.elements.flatten().tolist()) == {-1.0, 1.0}
    assert (batch.sets.elements.squeeze(-1).gt(0).sum(dim=1) >= 3).all()
    known = task.pools["training"].features
    assert (batch.x[:, :, None, :-1] == known).all(dim=3).any(dim=2).all()
    again = next(task.source(shape, TrainingSettings(batch_size=20), 3, Accelerator(cpu=True)).batches(0))
    assert torch.equal(again.x, batch.x)


def test_noise_on_training_features_leaves_presence_alone() -> None:
    noisy = make_task(replace(SIMULATED, feature_noise=0.5))
    plain = make_task(SIMULATED)
    assert isinstance(noisy, CelebaTask)
    assert isinstance(plain, CelebaTask)
    shape, statistics = noisy.shape(None, True)
    first, second = (
        next(item.source(shape, TrainingSettings(batch_size=400), 1, Accelerator(cpu=True)).batches(0))
        for item in (noisy, plain)
    )
    difference = first.x - second.x
    torch.testing.assert_close(
        difference[..., :-1].flatten(0, 1).std(dim=0), 0.5 * statistics[1, :-1], rtol=0.1, atol=0
    )
    assert not difference[..., -1].any()
    assert torch.equal(first.sets.elements, second.sets.elements)
    # Nothing is added to what is scored.
    assert torch.equal(noisy.scored_sets("test", 9).batch.x, plain.scored_sets("test", 9).batch.x)


def test_noise_is_drawn_by_the_generator() -> None:
    batch = Batch(torch.zeros(2, 5, 4), make_task(SIMULATED).scored_sets("test", 2).batch.sets)
    noise = FeatureNoise(torch.tensor([1.0, 2.0, 0.0]))
    first, again, other = (noise(batch, make_generator(seed)).x for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert not first[..., 2].any()


def test_scored_sets_are_always_the_same_and_of_their_own_items(task: CelebaTask) -> None:
    other = make_task(SIMULATED, seed=5)
    assert isinstance(other, CelebaTask)
    assert torch.equal(task.scored_sets("test", 30).batch.x, other.scored_sets("test", 30).batch.x)
    assert torch.equal(task.validation_batch(1, 30).x, other.validation_batch(2, 30).x)
    assert not torch.equal(task.scored_sets("test", 30).batch.x, task.scored_sets("validation", 30).batch.x)
    for part in ("test", "validation"):
        known = task.pools[part].features
        assert (task.scored_sets(part, 8).batch.x[:, :, None, :-1] == known).all(dim=3).any(dim=2).all()


def test_fewer_sets_are_the_first_of_many(task: CelebaTask) -> None:
    few, many = task.scored_sets("test", 20), task.scored_sets("test", 200)
    assert torch.equal(few.batch.x, many.batch.x[:20])
    assert torch.equal(few.valid, many.valid[:20])
    assert torch.equal(few.batch.sets.elements, many.batch.sets.elements[:20])


def test_examples_have_all_valid_answers(task: CelebaTask) -> None:
    protocol = replace(task.protocol("quick"), test_examples=(40,))
    examples = task.scored_examples(0, protocol)
    assert len(examples) == 40
    assert {len(answers) for _, answers in examples} > {1, 2}
    scored = task.scored_sets("test", 40)
    for (x, answers), row, drawn in zip(examples, scored.valid, scored.batch.sets.elements, strict=True):
        assert len(answers) == int(row.sum())
        assert any(torch.equal(answer, drawn) for answer in answers)
        assert all(answer.shape == (5, 1) for answer in answers)
        assert x.shape == (5, 49)


# -- scores --------------------------------------------------------------------------------------------------


def test_valid_answers_drawn_at_random_score_as_they_should(task: CelebaTask, knows: Make) -> None:
    """Precision 1; recall what ten draws of equally probable answers find."""

    def draw(x: Tensor, generator: torch.Generator) -> Tensor:
        chosen = [
            answers[int(torch.randint(len(answers), (1,), generator=generator))]
            for answers in answers_of(task, x, 60)
        ]
        return torch.stack(chosen)

    evaluation = task.evaluate(setup(knows(draw), task))
    counts = task.scored_sets("test", 60).valid.sum(dim=1).double()
    expected = float((1 - (1 - 1 / counts) ** 10).mean())
    assert evaluation.raw["precision"] == evaluation.raw["ambiguous/precision"] == 1
    assert evaluation.raw["recall"] == pytest.approx(expected, abs=0.03)
    assert evaluation.raw["score"] == evaluation.raw["f1"]
    assert evaluation.returned == evaluation.raw
    assert evaluation.real_data == dict.fromkeys(evaluation.raw, 1.0)
    ambiguous = counts > 1
    assert evaluation.details["ambiguous_sets"] == int(ambiguous.sum())
    assert evaluation.details["valid_answers"] == pytest.approx(float(counts.mean()))
    assert evaluation.details["valid_answers_of_ambiguous"] == pytest.approx(float(counts[ambiguous].mean()))
    assert evaluation.details["samples"] == 10


def test_one_answer_has_little_recall_where_several_are_valid(task: CelebaTask, knows: Make) -> None:
    first = knows(lambda x, _: torch.stack([answers[0] for answers in answers_of(task, x, 60)]))
    scores = task.evaluate(setup(first, task)).raw
    counts = task.scored_sets("test", 60).valid.sum(dim=1).double()
    assert scores["precision"] == 1
    assert scores["recall"] == pytest.approx(float((1 / counts).mean()))
    assert scores["ambiguous/recall"] == pytest.approx(float((1 / counts[counts > 1]).mean()))
    assert scores["ambiguous/recall"] <= 0.5


def test_labels_are_decided_by_their_sign(task: CelebaTask, knowing: Any) -> None:
    shape, _ = task.shape(None, True)

    def draw(x: Tensor, _: torch.Generator) -> Tensor:
        inside = torch.stack([answers[0] for answers in answers_of(task, x, 20)])
        return torch.stack([torch.where(inside, 1e-4, -3.0), torch.ones(inside.shape)], dim=-1)

    assert task.evaluate(setup(knowing(draw, shape, PRESENCE), task, 20)).raw["precision"] == 1


@pytest.mark.parametrize("samples", [1, 50])
def test_ten_predictions_are_scored_and_of_a_deterministic_method_one(
    task: CelebaTask, knows: Make, samples: int
) -> None:
    predictor = knows(lambda x, _: torch.ones(len(x), 5, dtype=torch.bool))
    several = task.evaluate(setup(predictor, task, 12, samples))
    assert len(predictor.asked[-1].x) == 120
    predictor.method_settings = TaggerSettings()
    once = task.evaluate(setup(predictor, task, 12, samples))
    usual = {name: value for name, value in once.raw.items() if not name.endswith("_sampled")}
    assert usual == pytest.approx(several.raw)
    assert [len(asked.x) for asked in predictor.asked[-2:]] == [12, 120]
    assert {f"{name}_sampled" for name in usual if name != "score"} == set(once.raw) - set(usual)
    assert (several.details["samples"], once.details["samples"]) == (10, 1)


def test_many_sets_are_predicted_in_parts(task: CelebaTask, knows: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = knows(lambda x, _: x[..., 0] > 0)
    whole = task.evaluate(setup(predictor, task, 30)).raw
    monkeypatch.setattr("desp.tasks.celeba.SETS_AT_ONCE", 7)
    assert task.evaluate(setup(predictor, task, 30)).raw == whole
    assert len({asked.seed for asked in predictor.asked[-5:]}) == 5  # each part has its own noise


def test_validation_is_one_minus_f1_of_ten_predictions(task: CelebaTask, knows: Make) -> None:
    everything = knows(lambda x, _: torch.ones(len(x), 5, dtype=torch.bool))
    examples = task.validation_batch(0, 50)
    score = task.validation_score(setup(everything, task, samples=2), examples)
    with pytest.raises(DataError, match="must come from validation_batch"):
        task.validation_score(setup(everything, task), task.scored_sets("test", 50).batch)
    assert len(everything.asked[-1].x) == 500
    valid = task.scored_sets("validation", 50).valid
    precision = float(valid[:, 0].double().mean())
    recall = float((valid[:, 0].double() / valid.sum(dim=1)).mean())
    assert score == pytest.approx(1 - 2 * precision * recall / (precision + recall))


# -- faces -----------------------------------------------------------------------------------------------------


def test_faces_are_read_by_their_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_small(monkeypatch)
    folder = write_tiny_celeba(tmp_path / "celeba", 60)
    settings = CelebaSettings(data_dir=str(tmp_path))
    with pytest.raises(DataError, match=r"are not there yet.*desp data celeba --data-dir"):
        _ = make_task(settings).fingerprint()
    facts = prepare_celeba(tmp_path, FeatureSettings(epochs=1, views=2), "cpu")
    faces = make_task(settings)
    assert isinstance(faces, CelebaTask)
    assert (faces.data_label, faces.data_name) == ("CelebA, 60 faces", "60 faces epochs 1 views 2")
    assert faces.fingerprint() == faces.data.checksum
    assert sum(len(pool) for pool in faces.pools.values()) == facts.found == 60
    shape, statistics = faces.shape(None, True)
    views = faces.pools["training"].features
    assert views.dim() == 3
    torch.testing.assert_close(statistics[0, :-1], views.flatten(0, 1).mean(dim=0))
    source = faces.source(shape, TrainingSettings(batch_size=30), 0, Accelerator(cpu=True))
    seen = next(source.batches(0)).x[..., :-1]
    for view in views:  # both are drawn
        assert (seen.unsqueeze(2) == view).all(dim=3).any()
    assert faces.scored_sets("test", 4).batch.x.shape == (4, *shape.input_shape)
    facts_of_result = faces._facts()
    assert facts_of_result["features"]["views"] == 2
    assert facts_of_result["checksum"] == faces.fingerprint()
    folder.joinpath("img_align_celeba", "000060.jpg").unlink()
    with pytest.raises(DataError, match="the files have changed since"):
        _ = make_task(settings).fingerprint()


def test_all_faces_have_the_plain_name(task: CelebaTask) -> None:
    whole = CelebaTask(CelebaSettings())
    vars(whole)["data"] = SimpleNamespace(data_label="CelebA", feature_settings=asdict(FeatureSettings()))
    assert (whole.data_label, whole.data_name) == ("CelebA", None)
    assert (task.data_label, task.data_name, task.fingerprint()) == ("simulated items", None, None)
