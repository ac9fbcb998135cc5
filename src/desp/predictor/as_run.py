"""The run folder that `SetPredictor.fit` writes for `desp` commands."""

import io
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Dataset

from desp.data.base import Batch, collate, dataset_items
from desp.data.shape import DataShape
from desp.errors import CheckpointError, RunError
from desp.locks import LOCK
from desp.predictor.compared_examples import ComparedExamples, difference
from desp.predictor.saving import predictor_files
from desp.settings import (
    InMemorySettings,
    MethodSettings,
    RepresentationSettings,
    RunSettings,
    TrainingSettings,
    differences,
    from_json,
    migrate_run,
    saved_run,
    to_json,
)
from desp.storage import Write, json_bytes, read_object, with_content, write_together
from desp.training import TrainingCallback, TrainingOutcome

if TYPE_CHECKING:
    from desp.predictor.predictor import SetPredictor

logger = logging.getLogger(__name__)

SETTINGS = "settings.json"
COMPARED_EXAMPLES = "compared_examples"
"""The entry of ``settings.json`` with hashes of a few training examples, which older folders do not have."""
CHECKPOINTS = "checkpoints/step-*.safetensors"
ANOTHER_FOLDER = "Choose another folder."
SHOWN = 5
"""Number of training examples that are saved to be shown, where there are no held-out ones."""


def begin_run(
    predictor: "SetPredictor",
    folder: Path,
    training: TrainingSettings,
    seed: int,
    dataset: "Dataset[Any] | Sequence[Any]",
    held_out: Batch | None,
    *,
    resume: bool,
) -> TrainingCallback | None:
    """Write the settings, and examples to show or to score on, unless the folder holds another run.

    For a resumed run the returned callback writes them when training starts: by then the run's checkpoint has been
    found to fit.

    Args:
        predictor: built for the data.
        folder: of the run.
        training: how it is trained.
        seed: of the run.
        dataset: the training data; a few of its examples are saved where `held_out` is None.
        held_out: examples that are not trained on; all of them are saved.
        resume: continue the run, maybe with another length; begin one if the folder is missing or empty.

    Raises:
        RunError: the folder holds something other than a run of `fit`; or the run to be resumed has lost
            its checkpoints, or was begun with other data.
        CheckpointError: the run to be resumed was begun with another method, representation or seed.
    """
    _check_own(folder)
    write = partial(_write_settings, predictor, folder, training, seed, dataset, held_out)
    begun = (folder / SETTINGS).exists()
    if resume and begun:
        _check_checkpoints(folder)
        _check_same(predictor, folder, seed, dataset)
    if any(folder.glob(CHECKPOINTS)):
        return _Resumed(write) if resume else None  # else training refuses it
    if resume and begun:
        logger.warning("%s was stopped before its first checkpoint: training begins anew", folder)
    elif resume:
        logger.warning("%s holds no run to resume: a new one begins", folder)
    write(0)
    return None


class _Resumed(TrainingCallback):
    def __init__(self, write: Callable[[int], None]) -> None:
        self._write = write

    def on_start(self, steps_done: int, steps: int | None) -> None:
        """Write settings and examples."""
        del steps
        self._write(steps_done)


def _write_settings(
    predictor: "SetPredictor",
    folder: Path,
    training: TrainingSettings,
    seed: int,
    dataset: "Dataset[Any] | Sequence[Any]",
    held_out: Batch | None,
    steps_done: int,
) -> None:
    if training.steps is not None:  # none are undone where fewer are asked for
        training = replace(training, steps=max(training.steps, steps_done))
    shape = predictor.shape
    shown = held_out or collate(list(islice(dataset_items(dataset), SHOWN)), shape.max_size, shape.features)
    task = InMemorySettings(held_out=held_out is not None)
    settings = RunSettings(
        "custom",
        task,
        predictor.method_settings,
        predictor.representation,
        training,
        predictor.engine,
        predictor.device_choice,
        predictor.matmul_precision or "highest",
    )
    arrays = _arrays(shown, shape)
    kept = task.in_run_folder(folder).path
    files: dict[Path, Write] = {Path(kept) / f"{name}.npy": _as_file(array) for name, array in arrays.items()}
    saved = saved_run(settings, seed, None)
    if (compared := ComparedExamples.of(dataset, shape.features)) is not None:
        saved[COMPARED_EXAMPLES] = asdict(compared)
    files[folder / SETTINGS] = with_content(json_bytes(saved))
    write_together(files)


def _check_own(folder: Path) -> None:
    """Check that a folder is empty, or that `fit` began the run in it."""
    path = folder / SETTINGS
    if not path.exists():
        if folder.is_dir() and any(item.name != LOCK for item in folder.iterdir()):
            raise RunError(f"{folder} is not empty and not a run folder. {ANOTHER_FOLDER}")
        return
    settings = read_object(path, ANOTHER_FOLDER).get("settings")
    task = settings.get("task") if isinstance(settings, dict) else None
    kind = task.get("kind") if isinstance(task, dict) else None
    if kind is None:
        raise RunError(f"{path} is not the settings file of a run. {ANOTHER_FOLDER}")
    if kind != InMemorySettings.kind:
        raise RunError(
            f"{folder} holds a run of `desp train` (its task is '{kind}'). {ANOTHER_FOLDER} Continue that run "
            "with `desp train --resume`."
        )


def _check_checkpoints(folder: Path) -> None:
    """Check that a run that has a model has checkpoints. One killed before the first of these has neither."""
    if (folder / "model").is_dir() and not any(folder.glob(CHECKPOINTS)):
        raise RunError(f"{folder} has lost its checkpoints, so it cannot be resumed. {ANOTHER_FOLDER}")


def _check_same(
    predictor: "SetPredictor", folder: Path, seed: int, dataset: "Dataset[Any] | Sequence[Any]"
) -> None:
    """Check that a run was begun with this predictor's settings, this seed and these data."""
    path = folder / SETTINGS
    try:
        values = read_object(path, ANOTHER_FOLDER)
        saved = from_json(RunSettings, migrate_run(values["settings"]))
        then = _what_stays(saved.method, saved.representation, int(values["seed"]))
        known = values.get(COMPARED_EXAMPLES)
        compared = None if known is None else ComparedExamples.from_json(known)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{path} cannot be used ({error}). {ANOTHER_FOLDER}") from error
    different = differences(then, _what_stays(predictor.method_settings, predictor.representation, seed))
    if different:
        raise CheckpointError(
            f"{folder} was begun with other settings ({'; '.join(different)}). Resume with the same method, "
            "representation and seed, or choose another folder."
        )
    if others := difference(compared, dataset, predictor.shape.features):
        raise RunError(
            f"{folder} was begun with other data ({others}). Resume with the same data and the same arguments "
            "(they decide what is held out), or choose another folder."
        )


def _what_stays(method: MethodSettings, representation: RepresentationSettings, seed: int) -> dict[str, Any]:
    return {"method": to_json(method), "representation": to_json(representation), "seed": seed}


def finish_run(predictor: "SetPredictor", folder: Path, outcome: TrainingOutcome) -> None:
    """Write the predictor, and how its training went."""
    facts = {**outcome.summary(), "parameters": sum(item.numel() for item in predictor.method.parameters())}
    files = predictor_files(predictor, folder / "model")
    write_together({**files, folder / "summary.json": with_content(json_bytes(facts))})


def _arrays(examples: Batch, shape: DataShape) -> dict[str, npt.NDArray[Any]]:
    """Examples as arrays that `read_data_file` reads."""
    sets = {"sets": _as_array(examples.sets.elements), "presence": _as_array(examples.sets.mask)}
    x = _as_array(examples.x.reshape(len(examples.x), *shape.input_shape))
    if shape.input_kind != "set":
        return {"inputs": x, **sets}
    return {"inputs": x[..., :-1], "input_presence": x[..., -1], **sets}


def _as_array(values: Tensor) -> npt.NDArray[Any]:
    known = values.detach().cpu()
    return (known.float() if known.dtype == torch.bfloat16 else known).numpy()  # numpy has no bfloat16


def _as_file(array: npt.NDArray[Any]) -> Write:
    content = io.BytesIO()
    np.lib.format.write_array(content, np.ascontiguousarray(array), allow_pickle=False)
    return with_content(content.getvalue())
