"""A predictor that was built, trained on a stream of batches."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelerate import Accelerator
from torch import Tensor
from torch.utils.data import Dataset

from desp.data.base import Augmentation, BatchSource, DatasetSource
from desp.data.shape import DataShape
from desp.methods import Method
from desp.precision import matmul_precision
from desp.settings import TrainingSettings
from desp.training import Trainer, TrainingCallback, TrainingOutcome
from desp.training.convergence import STEPS_WITHOUT_VALIDATION
from desp.training.device import suitable_threads

if TYPE_CHECKING:
    from desp.predictor.predictor import SetPredictor


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
) -> TrainingOutcome:
    """Fit a built predictor to batches; the arguments are those of `SetPredictor.fit`, which takes a dataset."""
    method = predictor.method
    if type(method).check_sets is not Method.check_sets:  # else no batch is drawn for it
        method.check_sets(predictor.prepare(next(source.batches(0)), accelerator.device)[1])
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
    return outcome
