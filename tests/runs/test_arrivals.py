"""Which seed, which settings and which data arrive where in a run."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from tiny_runs import tiny
from torch import Tensor

import desp.runs.evaluate
import desp.runs.train
from desp.data.base import BatchSource
from desp.errors import DataError, RunError
from desp.paper.ablation import ablate_run
from desp.predictor import SetPredictor
from desp.predictor.fitting import train_predictor
from desp.randomness import make_generator
from desp.runs.evaluate import evaluate_run, sample_run
from desp.runs.folder import RunFolder
from desp.runs.train import train_run
from desp.runs.tune import tune_run
from desp.settings import Columns, DataDescription, FilesSettings, LangevinSettings, RunSettings
from desp.tasks import make_task
from desp.training import TrainingOutcome

SEED = 5


# -- the seed of a run ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seeds:
    """One for everything that is drawn."""

    weights: int = SEED
    data: int = SEED
    noise: int = SEED
    validation: int = SEED


def made_by_hand(settings: RunSettings, seeds: Seeds) -> tuple[dict[str, Tensor], float | None]:
    """Weights and best score of a run that is put together here."""
    task, accelerator = make_task(settings.task), Accelerator(cpu=True)
    predictor = SetPredictor(settings.method, settings.representation, device="cpu")
    shape, _ = task.shape(None, scaling=False)
    predictor.build(shape, seed=seeds.weights)
    outcome = train_predictor(
        predictor,
        task.source(shape, settings.training, seeds.data, accelerator),
        settings.training,
        accelerator,
        validation=task.validation(seeds.validation),
        seed=seeds.noise,
    )
    return predictor.method.state_dict(), outcome.score


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name].cpu(), other[name].cpu()) for name in one)


@pytest.fixture
def validated(folder: RunFolder) -> tuple[dict[str, Tensor], float | None]:
    """Weights and best score of a run."""
    outcome = train_run(tiny(validate_every=2), SEED, folder)
    return folder.load_predictor().method.state_dict(), outcome.score


def test_everything_is_drawn_with_the_seed_of_the_run(validated: tuple[dict[str, Tensor], float | None]) -> None:
    weights, score = made_by_hand(tiny(validate_every=2), Seeds())
    assert same(weights, validated[0])
    assert score == validated[1]
    assert score is not None


@pytest.mark.parametrize("name", ["weights", "data", "noise", "validation"])
def test_each_of_the_seeds_matters_alone(name: str, validated: tuple[dict[str, Tensor], float | None]) -> None:
    """Else the test above would not notice that one of them is fixed."""
    weights, score = made_by_hand(tiny(validate_every=2), replace(Seeds(), **{name: 0}))
    assert score != validated[1]
    assert same(weights, validated[0]) == (name == "validation")


def test_shown_sets_are_drawn_with_the_seed_of_the_run(trained: RunFolder) -> None:
    sample_run(trained, samples=2)
    kept = json.loads(trained.samples_file.read_text())
    task, predictor = make_task(tiny().task), trained.load_predictor()
    assert (kept["task"], kept["axes"]) == (task.name, task.axes)
    for shown, example in zip(kept["examples"], task.shown_examples(SEED), strict=True):
        assert (shown["label"], shown["input"]) == (example.label, example.input)
        for found, expected in zip(shown["truth"], example.truth, strict=True):
            torch.testing.assert_close(torch.tensor(found), expected, rtol=1e-4, atol=0)
        direct = predictor.predict_one(example.x, 2, seed=SEED)
        assert [item["energy"] for item in shown["samples"]] == direct.energies.tolist()
        for found, expected in zip(shown["samples"], direct.sets, strict=True):
            torch.testing.assert_close(
                torch.tensor(found["set"]).reshape(expected.shape), expected, rtol=1e-4, atol=0
            )


def test_a_shown_chain_is_drawn_with_the_seed_of_the_run(
    trained: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Start and end are shown, and no more frames than that many."""
    assert desp.runs.evaluate.FRAMES == 60
    monkeypatch.setattr(desp.runs.evaluate, "FRAMES", 6)
    predictor = trained.load_predictor()
    sampler = LangevinSettings(steps=14, stochastic_steps=14)
    predictor.method_settings = predictor.method_settings.with_part("sampler", sampler)
    predictor.save_pretrained(trained.model)
    sample_run(trained, samples=1)
    chain = json.loads(trained.samples_file.read_text())["examples"][1]["chain"]
    assert chain["steps"] == [0, 3, 6, 8, 11, 14]
    code = predictor.encode(torch.eye(5)[1:2])
    _, info = predictor.sample(code, make_generator(SEED, "shown chain"), record="sets")
    assert info.trajectory is not None
    frames = info.trajectory[chain["steps"], 0]
    torch.testing.assert_close(torch.tensor(chain["frames"]), frames, rtol=1e-4, atol=1e-9)
    assert chain["energies"] == pytest.approx(predictor.raw_energy(code.expand(6, -1), frames).tolist(), rel=1e-5)


# -- a user's data -------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Forty numbers, each with a point and a kind, which is one of two."""
    path = tmp_path / "data.jsonl"
    rows = ({"input": [i], "set": [[10.0 * i, i % 2, 1 - i % 2]] * (i % 3)} for i in range(40))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> list[BatchSource]:
    """What predictors are trained on, from now on."""
    seen: list[BatchSource] = []

    def noting(predictor: SetPredictor, source: BatchSource, *rest: Any, **more: Any) -> TrainingOutcome:
        seen.append(source)
        return train_predictor(predictor, source, *rest, **more)

    monkeypatch.setattr(desp.runs.train, "train_predictor", noting)
    return seen


def on_file(file: Path, categories: Columns = (), **representation: Any) -> RunSettings:
    settings = tiny()
    return replace(
        settings,
        recipe="custom",
        task=FilesSettings(path=str(file), description=DataDescription(categories=categories)),
        representation=replace(settings.representation, padding="presence", scaling="auto", **representation),
    )


def test_what_is_held_out_follows_the_seed_of_the_run(
    file: Path, folder: RunFolder, sources: list[BatchSource]
) -> None:
    """In training and afterwards alike: else a run would be scored on what it was trained on."""
    train_run(on_file(file), SEED, folder)
    task: Any = folder.load_task()
    batches = sources[0].batches(0)
    trained_on = {number for _ in range(40) for number in next(batches).x[:, 0].tolist()}
    held_out, chosen_by, rest = ({float(x) for x, _ in part.examples} for part in task.parts)
    assert trained_on == rest
    other: Any = make_task(on_file(file).task, 0)
    assert held_out != {float(x) for x, _ in other.parts[0].examples}
    assert not trained_on & (held_out | chosen_by)
    # Inputs are standardised by what is trained on.
    mean = next(
        value for name, value in folder.load_predictor().method.state_dict().items() if name.endswith("mean")
    )
    assert float(mean) == pytest.approx(sum(rest) / len(rest))


def test_sizes_scaling_and_categories_are_those_of_the_settings(file: Path, folder: RunFolder) -> None:
    settings = on_file(file, max_size=6, categories=((1, 3),))
    train_run(settings, SEED, folder)
    predictor = folder.load_predictor()
    assert predictor.shape.max_size == 6
    assert predictor.shape.description.categories == ((1, 3),)
    assert predictor.shape.scaling.span[0] == pytest.approx(380.0 - 10.0)
    unscaled = RunFolder(folder.path.with_name("unscaled"))
    train_run(replace(settings, representation=replace(settings.representation, scaling="none")), SEED, unscaled)
    assert unscaled.load_predictor().shape.scaling.span == (1.0, 1.0, 1.0)
    with pytest.raises(DataError, match=r"columns \(\(0, 2\),\) \(categories\) must be one-hot"):
        train_run(on_file(file, categories=((0, 2),)), SEED, RunFolder(folder.path.with_name("wrong")))


def test_pictures_draw_the_position(file: Path, folder: RunFolder) -> None:
    """Its columns come first in what is written for pictures; presence stays the last one."""
    settings = on_file(file)
    described = replace(settings.task, description=DataDescription(position=((1, 3),)))
    train_run(replace(settings, task=described), SEED, folder)
    sample_run(folder, samples=2)
    kept = json.loads(folder.samples_file.read_text())
    assert kept["axes"]["names"] == ["column 1", "column 2", "column 0"]
    task, predictor = folder.load_task(), folder.load_predictor()
    for shown, example in zip(kept["examples"], task.shown_examples(SEED), strict=True):
        assert [item[:, [1, 2, 0]].tolist() for item in example.truth] == shown["truth"]
        direct = predictor.predict_one(example.x, 2, seed=SEED)
        for found, expected in zip(shown["samples"], direct.sets, strict=True):
            torch.testing.assert_close(
                torch.tensor(found["set"]).reshape(expected.shape), expected[:, [1, 2, 0]], rtol=1e-4, atol=0
            )


def test_a_shown_chain_has_the_units_of_the_data(file: Path, folder: RunFolder) -> None:
    """Presence, which is no feature, stays as it is."""
    train_run(on_file(file), SEED, folder)
    sample_run(folder, samples=1)
    chain = json.loads(folder.samples_file.read_text())["examples"][0]["chain"]
    predictor, example = folder.load_predictor(), folder.load_task().shown_examples(SEED)[0]
    generator = make_generator(SEED, "shown chain")
    _, info = predictor.sample(predictor.encode(example.x.unsqueeze(0)), generator, record="sets")
    assert info.trajectory is not None
    raw, scaling = info.trajectory[:, 0], predictor.shape.scaling
    assert (chain["steps"], raw.shape[-1]) == ([0, 1, 2, 3], 4)
    assert scaling.offset[0] >= 10
    assert scaling.span[0] > 100
    expected = raw * torch.tensor([*scaling.span, 1.0]) + torch.tensor([*scaling.offset, 0.0])
    torch.testing.assert_close(torch.tensor(chain["frames"]), expected, rtol=1e-4, atol=1e-6)


def test_a_run_is_opened_with_the_data_it_was_trained_on(file: Path, folder: RunFolder) -> None:
    settings = on_file(file)
    train_run(settings, SEED, folder)
    run = folder.open()
    assert (run.settings, run.seed, run.task.name) == (settings, SEED, "files")
    assert same(run.predictor.method.state_dict(), folder.load_predictor().method.state_dict())
    file.write_text(file.read_text() + file.read_text())
    with pytest.raises(RunError, match="has changed since"):
        folder.open()
    assert folder.open(data=False).seed == SEED  # to predict, no data are needed


@pytest.mark.parametrize("use", ["evaluate", "sample", "ablate", "tune", "resume"])
def test_nothing_is_measured_on_a_file_that_has_changed(use: str, file: Path, folder: RunFolder) -> None:
    """Examples that were trained on could be among the held-out ones."""
    settings = on_file(file)
    train_run(settings, SEED, folder)
    folder.check_data(folder.load_task())
    file.write_text(file.read_text().replace("10.0", "11.0"))
    uses: dict[str, Callable[[], Any]] = {
        "evaluate": lambda: evaluate_run(folder),
        "sample": lambda: sample_run(folder),
        "ablate": lambda: ablate_run(folder, [0.5]),
        "tune": lambda: tune_run(folder),
        "resume": lambda: train_run(settings, SEED, folder, resume=True),
    }
    with pytest.raises(RunError, match=r"data\.jsonl has changed"):
        uses[use]()
