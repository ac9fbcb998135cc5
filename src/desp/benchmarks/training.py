"""What a training step of a recipe takes, as a whole: data noise, chain, loss, backward pass, optimiser."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count, pairwise
from typing import cast

import torch
from torch import Tensor

from desp.benchmarks.measure import (
    OUR_PRECISION,
    REFERENCE_PRECISION,
    BenchOptions,
    Row,
    make_row,
    measure,
    timing,
    watch_memory,
)
from desp.benchmarks.reference import reference_training_step
from desp.data.base import Batch, BatchSource
from desp.methods import Contrastive
from desp.precision import matmul_precision
from desp.predictor import SetPredictor
from desp.randomness import make_generator
from desp.recipes import get_recipe
from desp.runs.provenance import synchronized_clock
from desp.settings import ContrastiveSettings, Device, RunSettings, TrainingSettings
from desp.tasks import make_task
from desp.tasks.base import GeneratedTask
from desp.training import Trainer
from desp.training.convergence import STEPS_WITHOUT_VALIDATION
from desp.training.device import make_accelerator

TRAINED = {"polygons": "polygons-desp-paper", "digits": "digits-desp-paper"}

# Training waits for a GPU only where it logs, so steps are timed in blocks with one line of the log each.
WARM_UP = {"cuda": 5, "cpu": 1}
BLOCK = {"cuda": 20, "cpu": 1}


def train_rows(options: BenchOptions) -> list[Row]:
    """One row a task, with the paper's settings.

    A training step is more than its chain, so nothing is scaled: `options.steps` shortens the chains of both
    sides, and `steps` says how long they were.
    """
    return [options.tell(_training_row(task, options)) for task in options.chosen(list(TRAINED))]


def _training_row(task: str, options: BenchOptions) -> Row:
    settings = _settings(task, options)
    predictor, batch = make_predictor_and_batch(settings, options)
    x, y = predictor.prepare(batch, options.device)
    with matmul_precision(OUR_PRECISION):
        ours, engine = _ours(predictor, batch, settings.training, options)
    with matmul_precision(REFERENCE_PRECISION):
        reference = _reference(settings, x, y, options)
    steps = cast(ContrastiveSettings, settings.method).training_sampler.steps
    return make_row(
        task,
        engine,
        options.device,
        ours,
        reference,
        steps=steps,
        measured_steps=steps,
        batch=y.shape[0],
        size=y.shape[1],
    )


def _settings(task: str, options: BenchOptions) -> RunSettings:
    """The recipe's settings, with a chain of `options.steps` steps if they are given."""
    settings = get_recipe(TRAINED[task]).build()
    method = cast(ContrastiveSettings, settings.method)
    steps = options.steps or method.training_sampler.steps
    chain = replace(method.training_sampler, steps=steps, stochastic_steps=steps)
    return replace(settings, method=replace(method, training_sampler=chain))


def make_predictor_and_batch(settings: RunSettings, options: BenchOptions) -> tuple[SetPredictor, Batch]:
    """A predictor with fresh weights on the device, and one batch of its task."""
    task = cast(GeneratedTask, make_task(settings.task, options.seed))
    predictor = make_predictor(settings, options)
    generator = make_generator(options.seed, "bench", "data", device=options.device)
    return predictor, task.draw(settings.training.batch_size, generator)


def make_predictor(settings: RunSettings, options: BenchOptions) -> SetPredictor:
    """With fresh weights on the device, ready to predict."""
    parts, device = settings.representation, cast(Device, options.device.type)
    predictor = SetPredictor(settings.method, parts, engine=options.engine, device=device)
    shape, statistics = make_task(settings.task, options.seed).shape(parts.max_size, parts.scaled)
    predictor.build(shape, seed=options.seed, input_statistics=statistics)
    predictor.method.to(options.device).eval()
    return predictor


def _ours(
    predictor: SetPredictor, batch: Batch, training: TrainingSettings, options: BenchOptions
) -> tuple[Row, str]:
    """The library's own loop, on a batch in memory; the time is read where it asks for the next batch.

    The method chooses how its chains run by the length of training, so it is told the recipe's whole length.
    """
    kind = options.device.type
    warm_up, block = WARM_UP[kind], BLOCK[kind]
    steps = warm_up + options.repeats * block + 1  # the loop asks no more after its last step
    short = replace(training, steps=steps, checkpoint_every=2 * steps, log_every=block)
    grown_mb = watch_memory(options.device)
    source = _TimedSource(batch, options.device)
    accelerator = make_accelerator(cast(Device, kind), short, None)
    predictor.method.set_training_steps(training.steps or STEPS_WITHOUT_VALIDATION)
    trainer = Trainer(
        predictor.method,
        source,
        lambda item: predictor.prepare(item, options.device),
        short,
        accelerator,
        seed=options.seed,
        engine=options.engine,
    )
    outcome = trainer.fit()
    return timing(source.samples(), source.first_s, grown_mb()), outcome.engine


class _TimedSource(BatchSource):
    """One batch again and again, with the moments at which it was asked for."""

    def __init__(self, batch: Batch, device: torch.device) -> None:
        self.batch, self.device = batch, device
        self.block = BLOCK[device.type]
        self.first_s = 0.0
        """Seconds of the first step."""
        self._marks: list[float] = []

    def batches(self, first: int, attempt: int = 0) -> Iterator[Batch]:
        """The batch; between blocks of steps, and around the first one, the clock is read."""
        del first, attempt
        began = synchronized_clock(self.device)
        for step in count():
            if step == 1:
                self.first_s = synchronized_clock(self.device) - began
            since = step - WARM_UP[self.device.type]
            if since >= 0 and since % self.block == 0:
                self._marks.append(synchronized_clock(self.device))
            yield self.batch

    def samples(self) -> list[float]:
        """Seconds of a step, one number from each block after the warm-up."""
        return [(after - before) / self.block for before, after in pairwise(self._marks)]


def _reference(settings: RunSettings, x: Tensor, y: Tensor, options: BenchOptions) -> Row:
    """The plain step, on an energy of its own with the same initial weights."""
    energy = cast(Contrastive, make_predictor_and_batch(settings, options)[0].method).energy
    method = cast(ContrastiveSettings, settings.method)
    optimizer = torch.optim.Adam(energy.parameters(), lr=settings.training.learning_rate)
    generator = make_generator(options.seed, "bench", "reference", device=options.device)
    return measure(
        lambda: reference_training_step(energy, optimizer, x, y, method, generator),
        options.device,
        options.repeats,
    )
