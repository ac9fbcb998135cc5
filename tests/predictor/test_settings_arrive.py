"""Every setting of training, of the representation and of the data's description changes what it is for."""

import json
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from small_predictors import ENERGIES, Pairs, ragged_pairs
from torch import Tensor

from desp.errors import DataError, SettingsError
from desp.predictor import SetPredictor, inspect_dataset
from desp.predictor.fitting import dataset_source
from desp.settings import (
    ContrastiveSettings,
    DataDescription,
    LangevinSettings,
    PolygonsSettings,
    RepresentationSettings,
    TrainingSettings,
)
from desp.tasks import make_task
from desp.training import TrainingCallback
from desp.training.device import make_accelerator

CHAIN = LangevinSettings(steps=2, stochastic_steps=2)
METHOD = ContrastiveSettings(energy=ENERGIES["deep-sets"], training_sampler=CHAIN, sampler=CHAIN)
ZERO = RepresentationSettings(padding="zero", threshold=0.1, scaling="none")


class Told(TrainingCallback):
    """Remembers validations."""

    def __init__(self) -> None:
        self.scores: list[tuple[int, float, bool]] = []

    def on_validation_end(self, step: int, score: float, best: bool) -> None:
        self.scores.append((step, score, best))


def differences(first: dict[str, Any], second: dict[str, Any]) -> str:
    def same(a: Any, b: Any) -> bool:
        if isinstance(a, dict):
            return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
        return torch.equal(a, b) if isinstance(a, Tensor) else bool(a == b)

    return " ".join(sorted(name for name in {*first, *second} if not same(first.get(name), second.get(name))))


# -- training --------------------------------------------------------------------------------------------

TRAINING = TrainingSettings(
    steps=6,
    batch_size=4,
    learning_rate=1e-2,
    warmup_steps=0,
    lr_schedule="constant",
    clip_norm=None,
    ema_decay=None,
    validate_every=2,
    checkpoint_every=2,
    log_every=1,
)
SCORES = [1.0, 3.0, 2.0, 4.0]
"""Of one validation after the other: the first is the lowest, the second is worse."""

NUMBERS = "log weights"
"""What changes the weights changes losses, too."""
OF_TRAINING: dict[str, tuple[Any, str]] = {
    "steps": (8, "checkpoints log validations"),  # the best weights are those of step 2 in any case
    "batch_size": (3, NUMBERS),
    "learning_rate": (2e-2, NUMBERS),
    "betas": ((0.5, 0.9), NUMBERS),
    "warmup_steps": (3, NUMBERS),
    "lr_schedule": ("cosine", NUMBERS),
    "clip_norm": (1e-8, NUMBERS),
    "ema_decay": (0.5, "weights"),
    "validate_every": (3, "log validations weights"),
    "patience": (1, "checkpoints log stopped_early validations"),
    "validation_mode": ("max", "validations weights"),
    "checkpoint_every": (5, "checkpoints"),
    "log_every": (2, "log"),
}
SEEN_ELSEWHERE = {
    "elements_per_batch": "predictor/test_settings_arrive.py::test_large_sets_come_in_smaller_batches",
    "minutes": "training/test_convergence.py::test_time_ends_a_run_that_still_improves",
    "keep": "training/test_convergence.py::test_the_last_weights_are_kept_unless_earlier_ones_are_clearly_better",
    "calibrate_cardinality": "predictor/test_calibration.py::test_the_cardinality_is_calibrated_at_the_end",
    "on_divergence": "training/test_nonfinite.py::test_rollback_goes_back_halves_the_rate_and_draws_new_data",
    "tensorboard": "training/test_tensorboard.py::test_event_files_appear",
    "data_workers": "predictor/test_settings_arrive.py::test_items_are_loaded_by_other_processes",
}


def trained(settings: TrainingSettings, folder: Path) -> dict[str, Any]:
    predictor, told, scores = SetPredictor(METHOD, ZERO, device="cpu"), Told(), iter(SCORES)
    outcome = predictor.fit(
        ragged_pairs(), settings, validation=lambda _: next(scores), callback=told, folder=folder
    )
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return {
        "weights": outcome.weights,
        "stopped_early": outcome.stopped_early,
        "validations": told.scores,
        "log": [{name: value for name, value in line.items() if name != "seconds"} for line in lines],
        "checkpoints": sorted(path.name for path in (folder / "checkpoints").iterdir()),
    }


@pytest.mark.parametrize(("elements", "batch"), [(None, 32), (80, 20)])
def test_large_sets_come_in_smaller_batches(elements: int | None, batch: int) -> None:
    settings = TrainingSettings(batch_size=32, elements_per_batch=elements)
    shape, _ = inspect_dataset(ragged_pairs())
    source = dataset_source(ragged_pairs(), shape, settings, 0, make_accelerator("cpu", settings, None))
    assert (shape.max_size, len(next(source.batches(0)).x)) == (4, batch)


@pytest.mark.parametrize(("elements", "batch"), [(None, 32), (160, 20)])
def test_large_sets_of_a_task_do_so_too(elements: int | None, batch: int) -> None:
    settings, task = TrainingSettings(batch_size=32, elements_per_batch=elements), make_task(PolygonsSettings())
    shape, _ = task.shape(None, scaling=True)
    source = task.source(shape, settings, 0, make_accelerator("cpu", settings, None))
    assert (shape.max_size, len(next(source.batches(0)).x)) == (8, batch)


@pytest.mark.parametrize("name", OF_TRAINING)
def test_a_setting_of_training_changes_what_it_is_for(name: str, tmp_path: Path) -> None:
    value, expected = OF_TRAINING[name]
    usual = trained(TRAINING, tmp_path / "usual")
    other = trained(replace(TRAINING, **{name: value}), tmp_path / "other")
    assert differences(usual, other) == expected


def test_no_setting_of_training_is_left_out() -> None:
    assert {item.name for item in fields(TrainingSettings)} == {*OF_TRAINING, *SEEN_ELSEWHERE}
    for test in SEEN_ELSEWHERE.values():
        path, _, name = test.partition("::")
        assert f"def {name}(" in (Path(__file__).parents[1] / path).read_text()


class Where(torch.utils.data.Dataset[Any]):
    """Inputs that tell how many processes load them."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        worker = torch.utils.data.get_worker_info()
        return torch.tensor([float(worker.num_workers if worker else 0)]), torch.rand(2, 2)


@pytest.mark.parametrize("workers", [0, 2])
def test_items_are_loaded_by_other_processes(workers: int) -> None:
    seen: set[float] = set()

    def noted(batch: Any, generator: torch.Generator) -> Any:
        seen.update(batch.x.flatten().tolist())
        return batch

    predictor = SetPredictor(METHOD, ZERO, device="cpu")
    settings = replace(TRAINING, steps=1, validate_every=0, data_workers=workers)
    predictor.fit(Where(), settings, augment=noted)
    assert seen == {float(workers)}


# -- the representation and the data's description ---------------------------------------------------------

OF_REPRESENTATION: dict[str, tuple[Any, str]] = {
    "padding": ("presence", "sets weights"),
    "threshold": (0.4, "sets"),
    "presence_rule": ("any_beyond", "sets"),
    "max_size": (6, "max_size"),
    "scaling": ("none", "scaling sets"),
}
OF_DESCRIPTION: dict[str, tuple[Any, str]] = {
    "input_kind": ("vector", "refused"),
    "aligned": (True, "presence weights"),
    "categories": (((2, 4),), "sets"),
    "boxes": (((0, 4),), "refused"),
}
# What pictures draw, and words in them: tests/runs/test_arrivals.py, tests/runs/test_shown.py.
WITHOUT_EFFECT = {"position", "class_names", "input_columns", "feature_columns", "feature_units"}


def wide_pairs() -> Pairs:
    """Sets far from [0, 1], for inputs that are sets of as many elements; the last two features are a kind."""
    generator = torch.Generator().manual_seed(5)
    pairs = []
    for index in range(8):
        size = index % 4 + 1
        x = torch.zeros(4, 3)
        x[:size] = torch.cat([torch.rand(size, 2, generator=generator), torch.ones(size, 1)], dim=1)
        places = 3 + 5 * torch.rand(size, 2, generator=generator)
        pairs.append((x, torch.cat([places, torch.eye(2)[torch.arange(size) % 2]], dim=1)))
    return pairs


def built(representation: RepresentationSettings, description: DataDescription) -> dict[str, Any]:
    predictor = SetPredictor(METHOD, representation, device="cpu")
    pairs = wide_pairs()
    try:
        predictor.fit(pairs, replace(TRAINING, steps=1, validate_every=0), description=description)
    except (DataError, SettingsError) as error:
        return {"refused": str(error)}
    generator = torch.Generator().manual_seed(6)
    raw = torch.rand(20, 4, predictor.method.set_shape[1], generator=generator) - 0.2
    presence = predictor.given_presence(torch.stack([x for x, _ in pairs]))
    return {
        "weights": {name: value.shape for name, value in predictor.method.state_dict().items()},
        "max_size": predictor.shape.max_size,
        "scaling": asdict(predictor.shape.scaling),
        "sets": dict(enumerate(predictor.sets_from_tensor(raw).to_ragged())),
        "presence": presence if presence is None else presence.tolist(),
        "refused": "",
    }


SETS = DataDescription(input_kind="set")


@pytest.mark.parametrize("name", OF_REPRESENTATION)
def test_a_setting_of_the_representation_changes_what_it_is_for(name: str) -> None:
    value, expected = OF_REPRESENTATION[name]
    usual = RepresentationSettings(threshold=0.1) if name == "scaling" else ZERO  # which is never scaled
    assert differences(built(usual, SETS), built(replace(usual, **{name: value}), SETS)) == expected


@pytest.mark.parametrize("name", OF_DESCRIPTION)
def test_the_description_of_data_changes_what_it_is_for(name: str) -> None:
    value, expected = OF_DESCRIPTION[name]
    written = RepresentationSettings()
    usual, other = built(written, SETS), built(written, replace(SETS, **{name: value}))
    if expected == "refused":
        assert not usual["refused"]
        assert other["refused"]
    else:
        assert differences(usual, other) == expected


def test_nothing_else_is_left_out() -> None:
    assert {item.name for item in fields(RepresentationSettings)} == set(OF_REPRESENTATION)
    assert {item.name for item in fields(DataDescription)} == {*OF_DESCRIPTION, *WITHOUT_EFFECT}
