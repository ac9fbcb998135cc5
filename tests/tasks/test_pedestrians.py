"""Pedestrians: what is trained, validated and scored, and what baselines reach."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from desp.data.pedestrian_elements import HEADING, MOTION, OUTPUTS, PLACE, VERSION, as_batch, futures, pasts
from desp.data.pedestrian_windows import OBSERVED, augmented
from desp.errors import DataError, RunError, SettingsError
from desp.metrics.joint_paths import path_energy_scores, path_scores
from desp.predictor import DataShape, SetPredictor
from desp.predictor.representatives import representatives
from desp.randomness import make_generator
from desp.recipes.pedestrians import method
from desp.sets import SetBatch, presence_mask
from desp.settings import (
    AttentionSettings,
    EngressionSettings,
    PedestriansSettings,
    RepresentationSettings,
    TrainingSettings,
)
from desp.tasks import EvaluationSetup
from desp.tasks.pedestrians import BASELINES, PREDICTIONS, PedestriansTask
from desp.training.device import make_accelerator


@pytest.fixture(scope="module")
def task() -> PedestriansTask:
    return PedestriansTask(PedestriansSettings(source="simulated", scene="zara1", drawn=40))


def predictor_of(task: PedestriansTask, knowing: Any, deviation: float) -> SetPredictor:
    """Knows all windows; predicts the truth with noise, by so many of its units."""
    data, shape = task.data, task.shape(None, True)[0]
    known = torch.cat([part.x for part in (data.validation, data.test)])
    sets = [part.sets for part in (data.validation, data.test)]
    elements = torch.cat([item.elements for item in sets])

    def draw(x: Tensor, generator: torch.Generator) -> Tensor:
        found = (x.unsqueeze(1) == known).flatten(2).all(dim=2).float().argmax(dim=1)
        padded = predictor.sets_to_tensor(SetBatch(elements[found], presence_mask(x)))
        padded[..., :OUTPUTS] += deviation * torch.randn(padded[..., :OUTPUTS].shape, generator=generator)
        return padded

    predictor = knowing(draw, shape, RepresentationSettings())
    return predictor  # type: ignore[no-any-return]


def test_who_knows_the_future_is_perfect_and_noise_costs(task: PedestriansTask, knowing: Any) -> None:
    protocol = task.protocol("quick")
    exact, noisy = (
        task.evaluate(EvaluationSetup(predictor_of(task, knowing, deviation), 0, 3, protocol))
        for deviation in (0.0, 0.1)
    )
    for scores in (exact.raw, exact.returned):
        assert scores["joint_ade"] == pytest.approx(0, abs=1e-4)
        assert scores["score"] == scores["energy_score"] == pytest.approx(0, abs=1e-4)
        assert scores["collisions"] == pytest.approx(exact.real_data["collisions"])
    assert noisy.raw["joint_ade"] > 0.02
    assert noisy.returned["joint_ade"] < noisy.raw["joint_ade"]  # centres lose some of the noise
    assert noisy.details["samples"] == PREDICTIONS
    assert noisy.details["drawn"] == 40


def test_centres_of_clusters_are_not_rewarded_for_keeping_apart(task: PedestriansTask, knowing: Any) -> None:
    protocol = task.protocol("quick")
    found = task.evaluate(EvaluationSetup(predictor_of(task, knowing, 0.3), 0, 3, protocol))
    assert found.returned["score"] == found.returned["energy_score"] == found.raw["energy_score"]
    assert found.returned["joint_ade"] < found.raw["joint_ade"]


def test_the_energy_score_is_not_proper_for_centres_of_clusters() -> None:
    """Centres get less than samples of the true distribution, and no predictions can be better than those."""
    draws = torch.randn(2000, 160, 1, 1, 2, generator=torch.Generator().manual_seed(0))
    truth = torch.randn(2000, 1, 1, 2, generator=torch.Generator().manual_seed(1))
    samples, centres = draws[:, :PREDICTIONS], representatives(draws.flatten(2), PREDICTIONS)
    there = torch.ones(2000, 1, dtype=torch.bool)
    of_centres = path_energy_scores(centres.view_as(samples), truth, there)
    assert of_centres.mean() < path_energy_scores(samples, truth, there).mean() - 0.01


def test_only_samples_are_scored_where_no_more_are_drawn(knowing: Any) -> None:
    task = PedestriansTask(PedestriansSettings(source="simulated", scene="zara1", drawn=20))
    found = task.evaluate(EvaluationSetup(predictor_of(task, knowing, 0.1), 0, 3, task.protocol("quick")))
    assert found.raw == found.returned


def test_validation_prefers_the_better_predictor(task: PedestriansTask, knowing: Any) -> None:
    batch = task.validation_batch(0, 6)
    near, far = (
        task.validation_score(
            EvaluationSetup(predictor_of(task, knowing, noise), 0, 2, task.protocol("full")), batch
        )
        for noise in (0.01, 0.3)
    )
    assert 0 < near < far


def test_no_window_is_in_two_parts(task: PedestriansTask) -> None:
    batches = (as_batch(task.data.training), task.data.validation, task.data.test)
    parts = [{tuple(row.flatten().tolist()) for row in part.x} for part in batches]
    assert all(parts)
    assert not parts[0] & parts[1]
    assert not parts[0] & parts[2]
    assert not parts[1] & parts[2]


def test_a_second_scene_is_left_out_for_validation(task: PedestriansTask) -> None:
    both = PedestriansTask(PedestriansSettings(source="simulated", scene="zara1", validation_scene="eth"))
    other = PedestriansTask(PedestriansSettings(source="simulated", scene="eth"))
    assert torch.equal(both.data.test.x, task.data.test.x)
    assert torch.equal(both.data.validation.x, other.data.test.x)
    assert len(both.data.training) < len(task.data.training)
    seen = {tuple(row.flatten().tolist()) for row in as_batch(both.data.training).x}
    assert not seen & {tuple(row.flatten().tolist()) for row in both.data.validation.x}
    with pytest.raises(SettingsError, match="validation_scene must be another scene than the one tested on"):
        PedestriansSettings(scene="eth", validation_scene="eth")


def test_a_run_on_other_inputs_is_named(task: PedestriansTask, knowing: Any) -> None:
    setup = EvaluationSetup(predictor_of(task, knowing, 0.0), 0, 3, task.protocol("quick"))
    with pytest.raises(RunError, match=r"trained on inputs of shape .* those of its task have .* Train it again"):
        setup.sample([task.data.test.x[:2, :, 1:]], 3, "test")
    shape = task.shape(None, True)[0]
    older = replace(shape, input_shape=(shape.max_size, 59))
    with pytest.raises(RunError, match=r"trained on people with 59 features, now they have 48: .* Train it again"):
        task.read_input([[[0.0, 0.0]] * OBSERVED], "input", Path(), older)


def test_baselines_walk_on(task: PedestriansTask) -> None:
    windows = task.data.test
    plain, spread = (task.baseline_scores(name, task.data.test) for name in BASELINES)
    truth, seen = futures(windows.x, windows.sets.elements), pasts(windows.x)
    step = seen[..., -1, :] - seen[..., -2, :]
    ahead = seen[..., -1:, :] + step.unsqueeze(-2) * torch.arange(1, 13).view(-1, 1)
    expected = path_scores(ahead.unsqueeze(1), truth, windows.sets.mask)
    assert {name: plain[name] for name in expected} == pytest.approx(expected, rel=1e-4)
    assert plain["joint_ade"] == plain["ade"] == plain["score"]
    assert spread["joint_ade"] < spread["ade"]
    assert spread["ade"] > plain["ade"]
    assert spread == task.baseline_scores("constant-velocity-turned", task.data.test)


def test_displacements_are_scaled_by_one_number(task: PedestriansTask) -> None:
    """Their deviation in windows that are augmented as in training: noise spreads displacements."""
    noisy = PedestriansTask(replace(task.settings, largest_noise=0.5))
    shape, statistics = noisy.shape(None, True)
    training = as_batch(augmented(task.data.training, make_generator("test"), task.settings.largest_scale, 0.5))
    scaled = 2 * shape.scaling.scale(training.sets.elements[training.sets.mask]) - 1
    assert float(scaled.square().mean().sqrt()) == pytest.approx(0.5, rel=0.2)
    assert len(set(shape.scaling.span)) == len(set(shape.scaling.offset)) == 1
    assert statistics.shape == (2, shape.input_shape[1])
    assert statistics[:, -1].tolist() == [0, 1]
    assert shape.aligned
    with pytest.raises(DataError, match=r"representation.max_size is 3. Leave it out"):
        task.shape(3, True)


def test_encoders_do_not_see_where_somebody_is(task: PedestriansTask) -> None:
    network = AttentionSettings(hidden=8, layers=1, heads=0)
    predictor = SetPredictor(EngressionSettings(network=network), device="cpu")
    shape, statistics = task.shape(None, True)
    predictor.build(shape, seed=0, input_statistics=statistics)
    x = task.data.test.x[:3]
    moved = x.clone()
    moved[..., PLACE] += 100 * moved[..., -1:]
    moved[..., HEADING] *= -1
    with torch.no_grad():
        torch.testing.assert_close(predictor.method.encode(x), predictor.method.encode(moved), atol=1e-5, rtol=0)
    still = x.new_zeros(*x.shape[:2], OUTPUTS)
    assert not torch.allclose(futures(x, still), futures(moved, still))


def test_a_run_of_another_version_of_elements_cannot_go_on(
    task: PedestriansTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = task.fingerprint()
    monkeypatch.setattr("desp.tasks.pedestrians.VERSION", -1)
    assert task.fingerprint() != before


def test_training_batches_are_changed_windows(task: PedestriansTask) -> None:
    training = TrainingSettings(batch_size=7)
    source = task.source(task.shape(None, True)[0], training, 0, make_accelerator("cpu", training, None))
    batch = next(source.batches(0))
    assert batch.x.shape[0] == 7
    assert torch.equal(batch.x, next(source.batches(0)).x)
    known = {round(float(row), 3) for row in as_batch(task.data.training).x.flatten(1).sum(dim=1)}
    assert any(round(float(row), 3) not in known for row in batch.x.flatten(1).sum(dim=1))
    assert torch.equal(batch.sets.mask, presence_mask(batch.x))


def test_training_batches_have_the_noise_and_the_scale_that_are_asked_for(task: PedestriansTask) -> None:
    """The last column of motion is how rough a path is; those who walk straight on have zeros in their sets."""
    training = TrainingSettings(batch_size=100)
    rough = []
    for settings in (replace(task.settings, largest_scale=1.0), replace(task.settings, largest_noise=0.5)):
        changed = PedestriansTask(settings)
        source = changed.source(changed.shape(None, True)[0], training, 0, make_accelerator("cpu", training, None))
        batch = next(source.batches(0))
        rough.append(batch.x[batch.sets.mask][:, MOTION.stop - 1].mean())
    original = as_batch(task.data.training)
    plain = original.x[original.sets.mask][:, MOTION.stop - 1].mean()
    assert abs(rough[0] - plain) < 0.3
    assert rough[1] - plain > 1


def test_inputs_may_have_fewer_rows_but_not_more(task: PedestriansTask) -> None:
    shape = task.shape(None, True)[0]
    assert shape.input_shape_for((2, shape.input_shape[1])) == (2, shape.input_shape[1])
    assert shape.input_shape_for((2, 7)) == (2, shape.input_shape[1])
    assert shape.input_shape_for((shape.max_size + 1, 7)) == shape.input_shape
    assert DataShape((4, 3), 2, 5, input_kind="set").input_shape_for((2, 3)) == (4, 3)


def test_a_model_is_trained_on_some_people_and_predicts_all(task: PedestriansTask) -> None:
    few = PedestriansTask(replace(task.settings, people_in_training=1))
    shape, statistics = few.shape(None, True)
    training = TrainingSettings(batch_size=3, steps=2)
    batch = next(few.source(shape, training, 0, make_accelerator("cpu", training, None)).batches(0))
    assert batch.x.shape[1] == batch.sets.max_size == 1
    assert bool(batch.sets.mask.all())
    predictor = SetPredictor(method())
    predictor.build(shape, input_statistics=statistics)
    x, y = predictor.prepare(batch, torch.device("cpu"))
    loss, _ = predictor.method(x, y, make_generator("noise"))
    assert bool(loss.isfinite())
    crowd = int(task.data.test.sets.sizes.argmax())
    (found,) = predictor.predict(task.data.test.x[crowd : crowd + 1], samples=1)
    assert len(found.sets[0]) == int(task.data.test.sets.sizes[crowd]) > 1


def test_inputs_and_predictions_are_positions(task: PedestriansTask) -> None:
    shape = task.shape(None, True)[0]
    paths = [
        [[5 + 0.3 * frame, 2.0] for frame in range(OBSERVED)],
        [[1.0, 0.5 * frame] for frame in range(OBSERVED)],
    ]
    x = task.read_input(paths, "line 1", Path(), shape)
    (written,) = task.written_sets(paths, x, [torch.zeros(2, OUTPUTS)])
    expected = torch.tensor([[5 + 0.3 * 8, 2.0], [1.0, 0.5 * 8]])
    torch.testing.assert_close(written[:, :2], expected, rtol=1e-4, atol=1e-4)
    assert written.shape == (2, 24)
    assert math.isclose(float(written[1, -1]), 0.5 * 19, rel_tol=1e-4)
    whole = [[[frame, 1] for frame in range(OBSERVED)]]
    (written,) = task.written_sets(
        whole, task.read_input(whole, "line 1", Path(), shape), [torch.zeros(1, OUTPUTS)]
    )
    torch.testing.assert_close(written[0, :2], torch.tensor([8.0, 1.0]), rtol=1e-4, atol=1e-4)


def test_shown_windows_are_full_ones(task: PedestriansTask) -> None:
    shown = task.shown_examples(0)
    assert len(shown) == 5
    sizes = [int(presence_mask(item.x).sum()) for item in shown]
    assert max(sizes) == int(task.data.test.sets.sizes.max())
    paths = task.paths(shown[0].x[presence_mask(shown[0].x)], shown[0].truth[0])
    assert paths.observed.shape == (sizes[0], 8, 2)
    assert paths.future.shape == (sizes[0], 12, 2)


def test_data_say_what_they_are(task: PedestriansTask) -> None:
    assert task.data_label == "simulated walkers"
    assert task.settings.data_name == "simulated"
    assert task.fingerprint() == f"simulated, elements {VERSION}"
