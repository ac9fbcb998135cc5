"""Train a recipe in a run folder."""

import logging
from contextlib import nullcontext

from accelerate import PartialState

from desp.data.base import Batch
from desp.errors import CheckpointError
from desp.extras import require
from desp.predictor import SetPredictor
from desp.predictor.fitting import train_predictor
from desp.predictor.saving import predictor_files
from desp.randomness import check_seed
from desp.runs.folder import RunFolder
from desp.runs.provenance import provenance
from desp.samplers import check_engine
from desp.settings import RunSettings
from desp.storage import json_bytes, with_content, write_together
from desp.tasks import Task, make_task
from desp.training import TrainingCallback, TrainingOutcome
from desp.training.checkpoints import CheckpointStore
from desp.training.device import default_device, make_accelerator

logger = logging.getLogger(__name__)


def train_run(
    settings: RunSettings,
    seed: int,
    folder: RunFolder,
    *,
    resume: bool = False,
    callback: TrainingCallback | None = None,
) -> TrainingOutcome:
    """Train from settings to a saved predictor; with `resume`, from the newest checkpoint on.

    Raises:
        RunError: the folder holds another run, or another process uses it.
        DataError: the data cannot be used. Nothing is written then, unless it is the method that refuses them
            (`Method.inspect_sets`): the folder then holds settings alone, and can be used again.
        SettingsError: the seed is below 0, or this machine cannot do what is asked for.
        StorageError: the disk is full, or cannot be written to. What was saved before is still there.
    """
    seed = check_seed(seed)
    if resume:  # before data are looked for, and the folder is made
        folder.check_same(settings, seed)
    first = PartialState(cpu=settings.device == "cpu").is_main_process
    with folder.locked() if first else nullcontext():
        return _train(settings, seed, folder, resume, callback)


def _train(
    settings: RunSettings, seed: int, folder: RunFolder, resume: bool, callback: TrainingCallback | None
) -> TrainingOutcome:
    task = make_task(settings.task, seed)
    predictor, representation = _make_predictor(settings), settings.representation
    shape, statistics = task.shape(representation.max_size, representation.scaled)
    predictor.build(shape, seed=seed, input_statistics=statistics)
    _check_machine(settings)
    state = PartialState(cpu=settings.device == "cpu")
    if state.is_main_process:
        if resume:
            folder.check_data(task)
            _check_only_checkpoint(folder)
            if moved := folder.note_data_folder(settings.task):
                logger.warning("from now on %s finds its data in %s", folder.path, moved)
        else:
            folder.begin(settings, seed, task.fingerprint())
    state.wait_for_everyone()
    # Not earlier: with TensorBoard it writes into the folder, which would no longer be a new one.
    accelerator = make_accelerator(settings.device, settings.training, folder.path)
    if accelerator.is_main_process:
        folder.add_part(provenance(accelerator.device), settings.training.steps)
    outcome = train_predictor(
        predictor,
        task.source(shape, settings.training, seed, accelerator),
        settings.training,
        accelerator,
        validation=(task.validation_by_example if settings.training.needs_score_per_example else task.validation)(
            seed
        ),
        seed=seed,
        folder=folder.path,
        resume=resume,
        callback=callback,
        cardinality_examples=_validation_examples(task, seed) if settings.training.calibrate_cardinality else None,
    )
    if accelerator.is_main_process and not (resume and _was_finished(folder, outcome)):
        if settings.training.steps is not None:
            folder.set_length(max(outcome.steps, settings.training.steps))
        summary = {
            **_summary(predictor, outcome),
            # How many make an epoch; None where every batch has new ones.
            "examples": task.training_examples() or settings.task.training_examples,
            "processes": accelerator.num_processes,
        }
        files = predictor_files(predictor, folder.model)
        # The summary comes last: without it, a run that is resumed writes all of them again.
        write_together({**files, folder.summary_file: with_content(json_bytes(summary))}, folder.measurements)
    accelerator.wait_for_everyone()
    return outcome


def _validation_examples(task: Task, seed: int) -> Batch | None:
    """The examples that weights may be chosen by."""
    return task.validation_batch(seed, task.protocol("full").validation_examples)


def _make_predictor(settings: RunSettings) -> SetPredictor:
    return SetPredictor(
        settings.method,
        settings.representation,
        engine=settings.engine,
        device=settings.device,
        matmul_precision=settings.matmul_precision,
    )


def _was_finished(folder: RunFolder, outcome: TrainingOutcome) -> bool:
    """Whether the run was at its end already: then its model, and all that was measured with it, stays. A damaged
    model is made again from the last checkpoint."""
    summary = folder.read_summary() or {}
    if not folder.model.is_dir() or summary.get("steps") != outcome.steps:
        return False
    try:
        folder.load_predictor()
    except CheckpointError as error:
        logger.warning("%s It is written again.", error.__cause__ or error)
        return False
    return True


def _check_only_checkpoint(folder: RunFolder) -> None:
    """Refuse a finished run whose only checkpoint is damaged, as nothing can begin anew there.

    Raises:
        CheckpointError: it is damaged.
    """
    store = CheckpointStore(folder.path / "checkpoints")
    if len(store.paths()) != 1 or not folder.model.is_dir():
        return
    try:
        store.latest()
    except CheckpointError as error:
        raise CheckpointError(
            f"{error.__cause__ or error} It is the only one, so this run cannot be resumed unless it is restored; "
            "its model can be used as before. To train on, choose another folder."
        ) from error


def _check_machine(settings: RunSettings) -> None:
    """Check what the machine must have, before anything is written.

    Raises:
        SettingsError: no such device, or one that the engine cannot use.
        MissingExtraError: TensorBoard is asked for and not installed.
    """
    check_engine(settings.engine, default_device(settings.device))
    if settings.training.tensorboard:
        require("tensorboard", "log", "log for TensorBoard")


def _summary(predictor: SetPredictor, outcome: TrainingOutcome) -> dict[str, object]:
    return {
        **outcome.summary(),
        "parameters": sum(item.numel() for item in predictor.method.parameters()),
        **provenance(predictor.device),
    }
