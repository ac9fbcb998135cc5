"""set-MNIST as a task, on a tiny one made here."""

import gzip
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from torch import Tensor

import desp.methods.base
import desp.tasks.mnist
from desp.data import DeviceSource
from desp.distances import chamfer, hungarian
from desp.errors import DataError
from desp.predictor import DataShape, SetPredictor
from desp.settings import (
    ContrastiveSettings,
    LangevinSettings,
    MnistSettings,
    RepresentationSettings,
    SetEncoderEnergySettings,
    TrainingSettings,
)
from desp.tasks import Evaluation, EvaluationSetup, Protocol, make_task
from desp.tasks.mnist import SetMnistTask, ordered_cases, with_presence

HERE = Path(".")
METRICS = {"chamfer", "hungarian", "size_rmse_released", "size_rmse", "right_size"}
Knowing = Callable[..., SetPredictor]


@pytest.fixture
def task(tiny_mnist: Path) -> SetMnistTask:
    return SetMnistTask(MnistSettings(data_dir=str(tiny_mnist)))


@pytest.fixture
def predictor(task: SetMnistTask, knowing: Knowing) -> Callable[..., SetPredictor]:
    """Makes predictors that give back their input, or what else they are told to."""
    shape, _ = task.shape(None, True)

    def make(draw: Callable[[Tensor], Tensor] = lambda x: x, padding: str = "presence") -> SetPredictor:
        settings = RepresentationSettings(padding=padding, scaling="none")  # type: ignore[arg-type]
        return knowing(lambda x, _: draw(x), shape, settings)

    return make


def evaluated(task: SetMnistTask, predictor: SetPredictor, **more: Any) -> Evaluation:
    return task.evaluate(
        EvaluationSetup(predictor, **{"seed": 0, "samples": 1, "protocol": task.protocol("quick"), **more})
    )


# -- data ------------------------------------------------------------------------------------------------


def test_from_settings(tiny_mnist: Path) -> None:
    task = make_task(MnistSettings(data_dir=str(tiny_mnist)))
    assert isinstance(task, SetMnistTask)
    assert (task.name, task.data_label) == ("set-mnist", "MNIST")
    assert make_task(MnistSettings(dataset="fashion")).data_label == "Fashion-MNIST"


def test_inputs_are_padded_sets(task: SetMnistTask) -> None:
    shape, statistics = task.shape(None, True)
    assert shape == DataShape((16, 3), features=2, max_size=16, input_kind="set")
    assert statistics is None
    assert task.shape(16, True)[0] == shape
    with pytest.raises(DataError, match=r"largest set has 16 points, but representation\.max_size is 12"):
        task.shape(12, True)


def test_training_draws_from_the_training_part(task: SetMnistTask) -> None:
    shape, _ = task.shape(None, True)
    source = task.source(shape, TrainingSettings(batch_size=32), 0, Accelerator(cpu=True))
    assert isinstance(source, DeviceSource)
    batch = next(source.batches(0))
    assert batch.x.shape == (32, 16, 3)
    held_out = task.data.validation.batch().sets.to_ragged()

    def key(points: Tensor) -> tuple[tuple[float, ...], ...]:
        return tuple(sorted(map(tuple, points.tolist())))

    known = {key(item) for item in task.data.training.batch().sets.to_ragged()}
    assert {key(item) for item in batch.sets.to_ragged()} <= known
    assert len(held_out) == 10


def test_digits_are_translated_in_training_alone(task: SetMnistTask) -> None:
    shape, _ = task.shape(None, scaling=False)
    training = TrainingSettings(batch_size=64)
    moving = SetMnistTask(replace(task.settings, translate_fraction=1.0))
    moved, plain = (
        next(item.source(shape, training, 0, Accelerator(cpu=True)).batches(0)).sets for item in (moving, task)
    )
    assert moved.sizes.tolist() == plain.sizes.tolist()
    offsets = moved.elements - plain.elements
    for offset, presence in zip(offsets, plain.mask, strict=True):
        torch.testing.assert_close(offset[presence], offset[:1].expand(int(presence.sum()), 2))
    assert len(offsets[:, 0].round(decimals=3).unique(dim=0)) > 20
    torch.testing.assert_close(moving.validation_batch(0, 5).x, task.validation_batch(0, 5).x)
    torch.testing.assert_close(moving.data.test.at(slice(5)).batch().x, task.data.test.at(slice(5)).batch().x)


def test_validation_is_of_its_own_part(task: SetMnistTask) -> None:
    batch = task.validation_batch(0, 500)
    assert len(batch.x) == 10
    assert len(task.validation_batch(0, 3).x) == 3


def test_the_fingerprint_is_that_of_the_files(task: SetMnistTask) -> None:
    assert task.fingerprint() == task.data.checksum


def test_examples_are_the_first_test_digits(task: SetMnistTask) -> None:
    shown = task.shown_examples(0)
    assert [item.label for item in shown][:2] == ["test digit 0: 0", "test digit 1: 1"]
    for item in shown:
        assert item.x.shape == (16, 3)
        assert len(item.truth[0]) == int(item.x[:, 2].sum())


def test_inputs_are_written_as_points(task: SetMnistTask) -> None:
    shape, _ = task.shape(None, True)
    x = task.read_input([[0.5, 0.25], [1.0, 0.0]], "here", HERE, shape)
    assert x.shape == (16, 3)
    assert x[:2].tolist() == [[0.5, 0.25, 1.0], [1.0, 0.0, 1.0]]
    assert not x[2:].any()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([[12.0, 3.0]], "line 3: expected rows and columns between 0 and 1, as pixel numbers divided by 27"),
        ([[0.1, 0.2, 0.3]], "line 3: elements have 3 features, expected 2"),
        ([[0.1, 0.2]] * 17, "line 3: the input set has 17 elements, at most 16"),
        (7, "line 3: expected an input of kind 'set'"),
    ],
)
def test_other_inputs_are_refused(task: SetMnistTask, value: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        task.read_input(value, "line 3", HERE, task.shape(None, True)[0])


def test_missing_data_tell_the_command(tmp_path: Path) -> None:
    task = SetMnistTask(MnistSettings(data_dir=str(tmp_path)))
    with pytest.raises(DataError, match=f"desp data mnist --data-dir {tmp_path}"):
        task.shape(None, True)


def test_a_run_from_elsewhere_finds_its_data(
    tiny_mnist: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = MnistSettings(data_dir=str(tmp_path / "other machine"))
    with pytest.raises(DataError, match="other machine"):
        SetMnistTask(moved).fingerprint()
    monkeypatch.setenv("DESP_DATA", str(tiny_mnist))
    assert len(SetMnistTask(moved).data.test) == 30


# -- scores ----------------------------------------------------------------------------------------------


def test_details_are_of_the_sets_that_users_get(
    task: SetMnistTask, predictor: Callable[..., SetPredictor]
) -> None:
    """Presence that is not quite 0 or 1 costs something raw, and nothing once it is decided."""
    evaluation = evaluated(task, predictor(lambda x: torch.cat([x[..., :2], 0.1 + 0.8 * x[..., 2:]], dim=-1)))
    assert evaluation.raw["score"] > 1e-3
    assert evaluation.returned["score"] == 0
    details = evaluation.details
    assert set(details["returned_chamfer_quantiles"].values()) == {0.0}
    assert set(details["returned_chamfer_by_label"].values()) == {0.0}
    assert {case["score"] for case in evaluation.cases or []} == {0.0}


def test_the_input_itself_is_perfect(task: SetMnistTask, predictor: Callable[..., SetPredictor]) -> None:
    evaluation = evaluated(task, predictor())
    rounded = {f"{name}_bfloat16_code_all" for name in METRICS}
    assert evaluation.raw.keys() == {"score", *(f"{name}_all" for name in METRICS)} | rounded
    assert evaluation.returned.keys() == evaluation.raw.keys()
    assert evaluation.returned["right_size_bfloat16_code_all"] == 1
    for scores in (evaluation.raw, evaluation.returned):
        assert scores["score"] == pytest.approx(0, abs=1e-9)
        assert scores["right_size_all"] == 1
        assert scores["size_rmse_released_all"] == scores["size_rmse_all"] == 0
    assert (
        evaluation.real_data.items() <= {name: round(value) for name, value in evaluation.returned.items()}.items()
    )
    assert evaluation.real_data.keys() == evaluation.returned.keys() - rounded
    assert evaluation.energy == 1


def test_samplers_are_chosen_by_what_weights_are_kept_by(
    task: SetMnistTask, predictor: Callable[..., SetPredictor], monkeypatch: pytest.MonkeyPatch
) -> None:
    four = replace(task.protocol("full"), calibration_examples=4, validation_examples=4)
    once_protocols = SetMnistTask.protocols
    monkeypatch.setattr(SetMnistTask, "protocols", {"full": four})
    model = predictor(lambda x: x * torch.tensor([1.0, 0.9, 1.0]))
    once, asked = model.sample, []

    def listening(x: Tensor, *args: Any, sampler: Any = None, **kwargs: Any) -> Any:
        asked.append((len(x), sampler))
        return once(x, *args, **kwargs)

    monkeypatch.setattr(model, "sample", listening)
    batch, other = (
        task.validation_batch(0, four.calibration_examples),
        LangevinSettings(steps=3, stochastic_steps=2),
    )
    validate = task.validation(0)
    assert validate is not None
    setup = EvaluationSetup(model, 0, 9, task.protocol("full"), other)
    kept: list[Tensor] = []
    assert task.validation_score(replace(setup, keep_each=kept.append), batch) == validate(model) > 0
    assert kept[0].shape == (4,)
    assert float(kept[0].mean()) == task.validation_score(setup, batch)
    assert asked.pop() == (4, other)
    assert asked == [(4, other), (4, None)]
    assert all(
        protocol.calibration_examples == protocol.validation_examples for protocol in once_protocols.values()
    )


def test_sets_from_rounded_codes_have_the_noise_of_the_others(
    task: SetMnistTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (desp.tasks.mnist, desp.methods.base):
        monkeypatch.setattr(module, "CHAINS_AT_ONCE", 5)
    model = SetPredictor(
        ContrastiveSettings(energy=SetEncoderEnergySettings(hidden=8, latent=6, shared=True)),
        RepresentationSettings(scaling="none"),
        device="cpu",
    )
    model.build(task.shape(None, False)[0], seed=0)
    once, codes, drawn = model.sample, [], []

    def listening(code: Tensor, *args: Any, **kwargs: Any) -> Any:
        codes.append(code)
        drawn.append(once(codes[0][: len(code)], *args, **kwargs))  # as if no code was rounded
        return drawn[-1]

    monkeypatch.setattr(model, "sample", listening)
    evaluated(task, model, protocol=Protocol(test_examples=(7, None)))
    exact, rounded = codes
    assert torch.equal(rounded, exact[:10].to(torch.bfloat16).float())
    assert not torch.equal(rounded, exact[:10])
    (all_sets, _), (again, _) = drawn
    assert (len(all_sets), len(again)) == (30, 10)  # two whole parts for the first seven
    torch.testing.assert_close(again, all_sets[:10])


def test_single_chains_are_scored_where_sets_are_made_of_several(
    task: SetMnistTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desp.tasks.mnist, "PUBLISHED_TESTS", 3)
    single = LangevinSettings(steps=2, stochastic_steps=1)
    energy = SetEncoderEnergySettings(hidden=8, latent=6, shared=True)
    method = ContrastiveSettings(energy=energy, sampler=replace(single, restarts=4, aggregate="mean"))
    model = SetPredictor(method, RepresentationSettings(scaling="none"), device="cpu")
    model.build(task.shape(None, False)[0], seed=0)
    protocol = Protocol(test_examples=(3, None))
    evaluation = evaluated(task, model, protocol=protocol)
    alone = evaluated(task, model, protocol=protocol, sampler=single)
    for scores, expected in ((evaluation.raw, alone.raw), (evaluation.returned, alone.returned)):
        assert {name: scores[f"{name}_single_chain"] for name in METRICS} == {
            name: pytest.approx(expected[name]) for name in METRICS
        }
    assert evaluation.raw["chamfer_single_chain"] != pytest.approx(evaluation.raw["chamfer"])


def test_names_tell_how_many_were_scored(
    task: SetMnistTask, predictor: Callable[..., SetPredictor], monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluation = evaluated(task, predictor(), protocol=Protocol(test_examples=(10, 20)))
    expected = {f"{name}{suffix}" for name in METRICS for suffix in ("_first10", "_first20")}
    assert evaluation.returned.keys() == {
        "score",
        *expected,
        *(f"{name}_bfloat16_code_first10" for name in METRICS),
    }
    assert evaluation.data == "MNIST, first 10 and 20 test images"
    monkeypatch.setattr(desp.tasks.mnist, "PUBLISHED_TESTS", 10)
    all_too = Protocol(test_examples=(10, None))
    evaluation = evaluated(task, predictor(), protocol=all_too)
    expected = {f"{name}{suffix}" for name in METRICS for suffix in ("", "_all", "_bfloat16_code")}
    assert evaluation.raw.keys() == {"score", *expected}
    assert evaluation.data is None
    assert evaluation.details["test_sets"] == [10, 30]
    # Another sampler is tried on the fewer sets.
    tried = evaluated(task, predictor(), protocol=all_too, sampler=LangevinSettings())
    assert tried.raw.keys() == {"score", *METRICS}


def test_raw_and_returned_differ_where_presence_is_unsure(
    task: SetMnistTask, predictor: Callable[..., SetPredictor]
) -> None:
    def unsure(x: Tensor) -> Tensor:
        return torch.cat([x[..., :2], 0.2 + 0.6 * x[..., 2:]], dim=-1)

    evaluation = evaluated(task, predictor(unsure))
    assert evaluation.returned["score"] == pytest.approx(0, abs=1e-9)
    assert evaluation.raw["score"] > 0.004  # .2 squared / 2 / 3, in both directions
    assert evaluation.raw["right_size_all"] == evaluation.returned["right_size_all"] == 1


def test_lost_points_are_counted(task: SetMnistTask, predictor: Callable[..., SetPredictor]) -> None:
    def lose_the_first(x: Tensor) -> Tensor:
        return torch.cat([torch.zeros_like(x[:, :1]), x[:, 1:]], dim=1)

    scores = evaluated(task, predictor(lose_the_first)).returned
    blank = 1 / 30  # nothing to lose
    assert scores["right_size_all"] == pytest.approx(blank)
    assert scores["size_rmse_all"] == pytest.approx((1 - blank) ** 0.5)
    assert scores["hungarian_all"] > 0


def test_without_a_presence_column(task: SetMnistTask, predictor: Callable[..., SetPredictor]) -> None:
    plain = predictor(lambda x: x[..., :2], padding="zero")
    x = task.data.test.at(slice(3)).batch().x
    assert with_presence(plain, x[..., :2]).shape == x.shape
    scores = evaluated(task, plain).returned
    assert scores["size_rmse_released_all"] == 0  # by the same rule, which never sees the edge


def test_validation_scores_the_raw_output(task: SetMnistTask, predictor: Callable[..., SetPredictor]) -> None:
    score = task.validation(0)
    assert score(predictor()) == pytest.approx(0, abs=1e-9)
    moved = score(predictor(lambda x: x + 0.1))
    assert 0 < moved <= 2 * 0.01 / 2 + 1e-6


def test_validation_by_assignments(task: SetMnistTask, predictor: Callable[..., SetPredictor]) -> None:
    """All points at one place are near by Chamfer's distance where most elements are equal, not by assignments."""

    def first_row_everywhere(x: Tensor) -> Tensor:
        return x[:, :1].expand_as(x)

    by_assignments = SetMnistTask(replace(task.settings, validation_distance="hungarian"))
    batch = task.validation_batch(0, 500)
    raw = first_row_everywhere(batch.x)
    for some, distance in ((task, chamfer), (by_assignments, hungarian)):
        score = some.validation(0)
        assert score(predictor(first_row_everywhere)) == pytest.approx(
            float(distance(raw, batch.x).mean()), rel=1e-5
        )
        assert score(predictor()) == pytest.approx(0, abs=1e-9)
        assert math.isnan(score(predictor(lambda x: x * torch.nan)))


def test_cases_are_kept_for_pictures(task: SetMnistTask, predictor: Callable[..., SetPredictor]) -> None:
    def shrink_some(x: Tensor) -> Tensor:
        return x * torch.linspace(1, 0.5, len(x)).view(-1, 1, 1).clamp(min=0.6)

    evaluation = evaluated(task, predictor(shrink_some))
    cases = evaluation.cases
    assert [case["group"] for case in cases] == ["best"] * 5 + ["median"] * 5 + ["worst"] * 5
    scores = [case["score"] for case in cases]
    assert scores == sorted(scores)
    truth = task.data.test.batch().sets.to_ragged()
    for case in cases:
        assert len(case["truth"]) == len(truth[case["index"]])
        assert case["label"] == str(case["index"] % 10)
    assert set(evaluation.details["returned_chamfer_by_label"]) == {str(label) for label in range(10)}
    assert evaluation.details["cases"]["worst"] == [case["index"] for case in cases[-5:]]


def test_cases_of_few_sets() -> None:
    assert ordered_cases(torch.tensor([3.0, 1.0, 2.0]), 1) == {"best": [1], "median": [2], "worst": [0]}
    assert ordered_cases(torch.tensor([3.0, 1.0]), 5) == {"best": [1, 0], "median": [1, 0], "worst": [1, 0]}


def test_damaged_files_are_named(task: SetMnistTask, tiny_mnist: Path) -> None:
    path = tiny_mnist / "mnist" / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(b"nothing"))
    with pytest.raises(DataError, match=f"{path}: expected the MD5 sum"):
        task.fingerprint()
