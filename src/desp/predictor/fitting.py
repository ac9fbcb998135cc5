"""Training of a predictor: on a dataset, or on a stream of batches."""

import logging
from collections.abc import Callable, Sequence, Sized
from contextlib import nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, Subset

from desp.data.base import EMPTY, Augmentation, Batch, BatchSource, DatasetSource, as_input, collate, dataset_items
from desp.data.files import DataFile
from desp.data.frames import has_names, is_frame, make_pairs, read_named_inputs
from desp.data.shape import DataShape
from desp.data.splitting import FEW_INPUTS, group_by_input, take_groups
from desp.errors import DataError
from desp.locks import sole_use
from desp.methods import Method
from desp.precision import matmul_precision
from desp.predictor.as_run import begin_run, finish_run
from desp.predictor.checks import batch_of_inputs, check_aligned_sizes
from desp.predictor.energy_score import VALIDATION_EXAMPLES, VALIDATION_SAMPLES, energy_scores
from desp.randomness import make_generator
from desp.settings import DataDescription, MethodSettings, TrainingSettings
from desp.settings.own_data import is_own_data_method, own_data_training
from desp.training import Trainer, TrainingCallback, TrainingOutcome
from desp.training.bar import with_bar
from desp.training.convergence import STEPS_WITHOUT_VALIDATION
from desp.training.device import make_accelerator, suitable_threads
from desp.training.progress import joined

if TYPE_CHECKING:
    from desp.predictor.predictor import SetPredictor

logger = logging.getLogger(__name__)

HELD_OUT_DIVISOR = 10
"""`hold_out` takes one in this many examples, and at most `VALIDATION_EXAMPLES`."""
DEFAULT_VALIDATIONS = 10
"""About this many validations are in a run whose `validate_every` is 0, if there is something to validate by."""


def as_dataset(
    inputs: Any, sets: Any, description: DataDescription | None
) -> "tuple[Dataset[Any] | Sequence[Any], DataDescription | None]":
    """The arguments of `SetPredictor.fit` as a dataset of pairs; `inputs` itself if `sets` is None.

    Raises:
        DataError: they are no inputs and sets; see `make_pairs`.
    """
    if sets is not None:
        return make_pairs(inputs, sets, description)
    if _is_array(inputs):
        raise DataError(
            f"Expected inputs and sets, or a dataset of (input, set) pairs, got {type(inputs).__name__} alone. "
            "Pass the sets as second argument: fit(inputs, sets)."
        )
    return inputs, description


def _is_array(value: Any) -> bool:
    """Whether something is an array, a tensor or a data frame, none of which is a dataset of pairs."""
    return isinstance(value, np.ndarray | Tensor) or is_frame(value)


def validation_batch(data: Any, shape: DataShape) -> Batch | None:
    """The first examples of validation data, as a batch for a predictor of `shape`.

    Args:
        data: a pair (inputs, sets), or a dataset; None: nothing.
        shape: of the training data.

    Raises:
        DataError: they are neither, or do not fit.
    """
    if data is None:
        return None
    if _is_array(data):
        raise DataError(
            f"validation_data: expected (inputs, sets), or a dataset of pairs, got {type(data).__name__} alone. "
            "Pass both: validation_data=(inputs, sets)."
        )
    try:
        return _validation_batch(data, shape)
    except DataError as error:
        raise DataError(f"validation_data: {error}") from error


def _validation_batch(data: Any, shape: DataShape) -> Batch:
    dataset = data
    if isinstance(data, tuple) and len(data) == 2:
        inputs, sets = data
        if has_names(inputs) and not is_frame(sets):
            inputs = read_named_inputs(inputs, shape)
        dataset, _ = make_pairs(inputs, sets, shape.description)
    some = list(islice(dataset_items(dataset), VALIDATION_EXAMPLES))
    if not some:
        raise DataError(EMPTY)
    batch = collate(some, shape.max_size, shape.features)
    batch = Batch(batch_of_inputs(batch.x, shape), batch.sets)
    if shape.aligned:
        check_aligned_sizes(batch.x, batch.sets)
    return batch


def energy_score_validation(
    examples: Batch | None, seed: int, training: TrainingSettings
) -> "Callable[[SetPredictor], float | Tensor] | None":
    """The validation by energy scores: one for each example where training needs them, else their mean; None
    without examples."""
    if examples is None:
        return None

    def validate(predictor: "SetPredictor") -> float | Tensor:
        scores = energy_scores(predictor, examples, VALIDATION_SAMPLES, seed)
        return scores if training.needs_score_per_example else float(scores.mean())

    return validate


def default_training(method: MethodSettings) -> TrainingSettings:
    """The training settings if none are given: those of the recipe `custom` if the method is
    `own_data_method` with any sampler, else the defaults."""
    return own_data_training() if is_own_data_method(method) else TrainingSettings()


def hold_out(
    predictor: "SetPredictor", dataset: "Dataset[Any] | Sequence[Any]", seed: int
) -> "tuple[Dataset[Any] | Sequence[Any], Dataset[Any] | None]":
    """The training data, and, if the default training needs it, a tenth of the data, at most 200, for validation.

    Equal inputs are on one side, unless the number of different inputs is below ten, or below a tenth of the
    number of examples. Nothing is held out of an iterable dataset, or of very few examples.
    """
    if default_training(predictor.method_settings).steps is not None or isinstance(dataset, IterableDataset):
        return dataset, None
    total, shape = len(cast(Sized, dataset)), predictor.shape
    order = torch.randperm(total, generator=make_generator(seed, "held out")).tolist()
    inputs = (as_input(dataset[index][0]) for index in range(total))
    groups = group_by_input(inputs, shape.input_kind, ordered=shape.aligned)
    if len(set(groups)) < max(FEW_INPUTS, total // HELD_OUT_DIVISOR):  # labels, each of which must be trained on
        groups = list(range(total))
    count = min(total // HELD_OUT_DIVISOR, VALIDATION_EXAMPLES)
    held_out, rest = take_groups(order, groups, count, at_least_one=False)
    logger.info("holding out %d of %d examples for validation", len(held_out), total)
    indexed = cast("Dataset[Any]", dataset)
    return (Subset(indexed, rest), Subset(indexed, held_out)) if held_out else (dataset, None)


def training_for(
    training: TrainingSettings | None, method: MethodSettings, validation: object, validation_data: object
) -> TrainingSettings:
    """The settings, or the default ones; if `validate_every` is 0, with about ten validations (every steps // 10
    steps, and at the end) where `fit` was given `validation` or `validation_data`. On data the energy score is
    used, of which lower is better, so `validation_mode` is min there."""
    training = training or default_training(method)
    if validation is None and validation_data is None:
        return training
    steps = training.steps or STEPS_WITHOUT_VALIDATION
    mode = "min" if validation is None else training.validation_mode
    every = training.validate_every or max(1, steps // DEFAULT_VALIDATIONS)
    return replace(training, validate_every=every, validation_mode=mode)


def _calibrated(predictor: "SetPredictor", outcome: TrainingOutcome, examples: Batch) -> TrainingOutcome:
    """Calibrate p(n | x) on examples. Checkpoints are not calibrated, so this happens once in resumed runs too."""
    method = predictor.method
    x = examples.x.reshape(len(examples.x), *predictor.shape.input_shape).to(predictor.device)
    temperature = method.calibrate_cardinality(predictor.encode(x), examples.sets.sizes.to(predictor.device))
    if temperature is None:
        return outcome
    logger.info("calibrated p(n | x) on %d examples: its logits are divided by %.3g", len(x), temperature)
    weights = {name: value.detach().cpu().clone() for name, value in method.state_dict().items()}
    return replace(outcome, weights=weights, cardinality_temperature=temperature)


def _facts(outcome: TrainingOutcome, source: BatchSource, seed: int) -> dict[str, Any]:
    """Facts about training for the model card, as JSON values."""
    dataset: Any = getattr(source, "dataset", None)
    if isinstance(dataset, DataFile):
        dataset = dataset.examples  # each once, however many sets are valid for it
    return {
        "examples": len(dataset) if hasattr(dataset, "__len__") else None,
        "steps": outcome.steps,
        "validation_score": outcome.score,
        "kept_step": outcome.score_step,
        "seed": seed,
    }


def dataset_source(
    dataset: "Dataset[Any] | Sequence[Any]",
    shape: DataShape,
    training: TrainingSettings,
    seed: int,
    accelerator: Accelerator,
    augment: Augmentation | None = None,
) -> DatasetSource:
    """The batches of a dataset for one of the accelerator's processes."""
    return DatasetSource(
        dataset,
        training.batch_size_for(shape.max_size),
        max_size=shape.max_size,
        features=shape.features,
        seed=seed,
        process=accelerator.process_index,
        processes=accelerator.num_processes,
        workers=training.data_workers,
        augment=augment,
    )


def fit_to_dataset(
    predictor: "SetPredictor",
    dataset: "Dataset[Any] | Sequence[Any]",
    training: TrainingSettings,
    *,
    augment: Augmentation | None,
    held_out: Batch | None,
    folder: Path | None,
    resume: bool,
    seed: int,
    callback: TrainingCallback | None,
    progress: bool,
    validation: "Callable[[SetPredictor], float | Tensor] | None",
) -> TrainingOutcome:
    """Fit a built predictor to a dataset, in a run folder if one is given; the arguments are those of
    `SetPredictor.fit`, but for `held_out`: validation examples, which the run folder keeps to score on."""
    accelerator = make_accelerator(predictor.device_choice, training, folder)
    first = accelerator.is_main_process
    own = folder if first else None  # the folder that this process writes to
    begun: TrainingCallback | None = None
    with sole_use(own) if own else nullcontext():
        if own:
            begun = begin_run(predictor, own, training, seed, dataset, held_out, resume=resume)
        outcome = train_predictor(
            predictor,
            dataset_source(dataset, predictor.shape, training, seed, accelerator, augment),
            training,
            accelerator,
            validation=validation or energy_score_validation(held_out, seed, training),
            seed=seed,
            folder=folder,
            resume=resume,
            callback=joined(begun, with_bar(callback, progress and first)),
            cardinality_examples=held_out,
        )
        if own:
            finish_run(predictor, own, outcome)
    return outcome


def train_predictor(
    predictor: "SetPredictor",
    source: BatchSource,
    training: TrainingSettings,
    accelerator: Accelerator,
    *,
    validation: "Callable[[SetPredictor], float | Tensor] | None" = None,
    seed: int = 0,
    folder: Path | None = None,
    resume: bool = False,
    callback: TrainingCallback | None = None,
    cardinality_examples: Batch | None = None,
) -> TrainingOutcome:
    """Fit a built predictor to batches; the arguments are those of `SetPredictor.fit`, which takes a dataset, but
    for `cardinality_examples`: validation examples to calibrate p(n | x) on, if training asks for it."""
    method = predictor.method
    if type(method).inspect_sets is not Method.inspect_sets:  # else no batch is drawn for it
        method.inspect_sets(predictor.prepare(next(source.batches(0)), accelerator.device)[1])
    method.set_training_steps(training.steps or STEPS_WITHOUT_VALIDATION)
    trainer = Trainer(
        method,
        source,
        lambda batch: predictor.prepare(batch, accelerator.device),
        training,
        accelerator,
        seed=seed,
        folder=folder,
        validate=None if validation is None else lambda: validation(predictor),
        callback=callback,
        engine=predictor.engine,
    )
    size, hidden = predictor.shape.max_size, predictor.method_settings.width
    threads = suitable_threads(accelerator.device, training.batch_size_for(size), size, hidden)
    with threads, matmul_precision(predictor.matmul_precision):
        outcome = trainer.fit(resume)
    method.load_state_dict(outcome.weights)
    method.eval()
    if training.calibrate_cardinality and cardinality_examples is not None:
        outcome = _calibrated(predictor, outcome, cardinality_examples)
    predictor.facts = _facts(outcome, source, seed)
    return outcome
