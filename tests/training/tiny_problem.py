"""A training problem of a few milliseconds a step, for the tests here and for processes of their own."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from accelerate import Accelerator
from torch import Tensor

from desp.data import DeviceSource, draw_polygons
from desp.data.base import Batch, BatchSource
from desp.predictor import DataShape, SetPredictor
from desp.sets import SetBatch
from desp.settings import (
    AttentionSettings,
    AutoregressiveTaggerSettings,
    ContrastiveSettings,
    DataDescription,
    DeepSetsSettings,
    DenoiserSettings,
    DescentSettings,
    EDMSettings,
    EnergyDenoisingSettings,
    Engine,
    EngressionSettings,
    LabelLikelihoodSettings,
    LangevinSettings,
    MethodSettings,
    SetEncoderEnergySettings,
    SetRiskSettings,
    TaggerSettings,
    TrainingSettings,
    TSPNSettings,
)
from desp.training import Trainer, TrainingCallback

Kind = Literal[
    "contrastive",
    "set-risk",
    "masked",
    "default",
    "denoising",
    "attention",
    "denoiser",
    "dspn",
    "dspn-hungarian",
    "c-dspn",
    "tspn",
    "tagger",
    "autoregressive-tagger",
    "label-likelihood",
    "engression",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
LABELS: tuple[Kind, ...] = (
    "tagger",
    "autoregressive-tagger",
    "label-likelihood",
    "engression",
)  # of the corners, which are given
DENOISED: tuple[Kind, ...] = ("default", "denoising", "attention", "denoiser")  # with predicted cardinality
MASKING_STEP = 0.003  # short enough that some samples are masked, and at no step more than may be
BATCH = 8
SHORT = TrainingSettings(
    steps=6,
    batch_size=BATCH,
    learning_rate=1e-2,
    warmup_steps=0,
    lr_schedule="constant",
    clip_norm=None,
    ema_decay=None,
    on_divergence="stop",
    checkpoint_every=2,
    log_every=1,
)
# Everything that has a state of its own: EMA, schedule, clipping, validation, seldom log lines.
RICH = replace(
    SHORT,
    steps=12,
    warmup_steps=3,
    lr_schedule="cosine",
    clip_norm=1.0,
    ema_decay=0.9,
    validate_every=2,
    checkpoint_every=4,
    log_every=3,
)


def method_settings(
    kind: Kind, hidden: int = 8, noise: float = 0.02, max_divergent_fraction: float = 0.5
) -> MethodSettings:
    """Chains or descents of three steps; with `noise` 0 those of chains are not random."""
    if kind in DENOISED:
        return denoising_settings(kind, hidden)
    if kind in LABELS:
        return label_settings(kind, hidden)
    if kind == "tspn":
        return TSPNSettings(hidden=hidden, layers=1, heads=2, feedforward=hidden, latent=6, cardinality_hidden=8)
    if kind in ("dspn", "dspn-hungarian", "c-dspn"):
        encoder = SetEncoderEnergySettings(
            hidden=hidden, latent=6, divide_by_size=True, negative_slope=0.0, initialisation="xavier"
        )
        descent = DescentSettings(steps=3, step_size=25.0)
        settings = SetRiskSettings(energy=encoder, descent=descent, supervise="all", cardinality="clamped")
        if kind == "dspn":
            return settings
        if kind == "dspn-hungarian":
            return replace(settings, distance="hungarian", supervise="last")
        return replace(settings, cardinality="predicted", cardinality_hidden=8)
    energy = DeepSetsSettings(hidden=hidden)
    if kind == "set-risk":
        return SetRiskSettings(energy=energy, descent=DescentSettings(steps=3))
    chain = LangevinSettings(steps=3, stochastic_steps=3, noise_scale=noise)
    if kind == "masked":
        return ContrastiveSettings(
            energy=energy,
            training_sampler=replace(chain, max_step_norm=MASKING_STEP),
            data_noise=noise,
            mask_divergent=True,
            max_divergent_fraction=max_divergent_fraction,
        )
    return ContrastiveSettings(energy=energy, training_sampler=chain, data_noise=noise)


def label_settings(kind: Kind, hidden: int) -> MethodSettings:
    """Those whose outputs are aligned with inputs."""
    settings: dict[Kind, MethodSettings] = {
        "tagger": TaggerSettings(hidden=hidden, layers=2),
        "autoregressive-tagger": AutoregressiveTaggerSettings(hidden=hidden, layers=2),
        "label-likelihood": LabelLikelihoodSettings(energy=DeepSetsSettings(hidden=hidden)),
        "engression": EngressionSettings(network=AttentionSettings(hidden=hidden, layers=1, heads=0)),
    }
    return settings[kind]


def denoising_settings(kind: Kind, hidden: int) -> EnergyDenoisingSettings | DenoiserSettings:
    """Those without chains in training."""
    attention = AttentionSettings(hidden=hidden, layers=1, heads=2, fourier_frequencies=2)
    if kind == "denoiser":
        return DenoiserSettings(network=attention, sampler=EDMSettings(steps=2))
    energies = {
        "default": replace(EnergyDenoisingSettings().energy, hidden=hidden),
        "denoising": DeepSetsSettings(hidden=hidden),
        "attention": attention,
    }
    return EnergyDenoisingSettings(energy=energies[kind], sampler=EDMSettings(steps=2))


def make_predictor(
    kind: Kind = "contrastive",
    *,
    hidden: int = 8,
    seed: int = 0,
    noise: float = 0.02,
    engine: Engine = "auto",
    max_divergent_fraction: float = 0.5,
) -> SetPredictor:
    """A built predictor of polygons, or of labels of their corners."""
    settings = method_settings(kind, hidden, noise, max_divergent_fraction)
    if kind in LABELS:
        labels: SetPredictor = LabelPredictor(settings, engine=engine)
        aligned = DataDescription(aligned=True)
        labels.build(DataShape((8, 3), 1, 8, input_kind="set", description=aligned), seed=seed)
        return labels
    predictor = SetPredictor(settings, engine=engine)
    predictor.build(DataShape(input_shape=(5,), features=2, max_size=8), seed=seed)
    return predictor


class LabelPredictor(SetPredictor):
    """Of polygons it gets the corners as input, and learns which of them lie to the right."""

    def prepare(self, batch: Batch, device: torch.device) -> tuple[Tensor, Tensor]:
        corners, mask = batch.sets.elements, batch.sets.mask
        presence = mask.unsqueeze(-1).to(corners.dtype)
        one = batch.x.sum(dim=1).view(-1, 1, 1)  # of one-hot inputs, unless they are NaN
        labels = SetBatch((corners[..., :1] > 0.5).to(corners.dtype) * presence, mask)
        return super().prepare(Batch(torch.cat([corners * one, presence], dim=-1), labels), device)


def polygons(process: int = 0, batch: int = BATCH, device: torch.device | str = "cpu") -> DeviceSource:
    """The stream of batches of one process."""
    return DeviceSource(draw_polygons, batch, seed=0, device=device, process=process)


class Given(BatchSource):
    """Batches that were drawn elsewhere, some of another size."""

    def batches(self, first: int, attempt: int = 0) -> Iterator[Batch]:
        sizes = [8, 8, 8, 5, 5, 8]
        for step, size in enumerate(sizes[first:], first):
            yield next(polygons(batch=size).batches(step, attempt))


class Poisoned(BatchSource):
    """Polygons in which chosen batches hold NaN.

    Args:
        bad: (attempt, step) of every bad batch.
    """

    def __init__(self, *bad: tuple[int, int]) -> None:
        self.bad = set(bad)
        self.asked: list[tuple[int, int]] = []

    def batches(self, first: int, attempt: int = 0) -> Iterator[Batch]:
        for step, batch in enumerate(polygons().batches(first, attempt), first):
            self.asked.append((attempt, step))
            yield replace(batch, x=batch.x * float("nan")) if (attempt, step) in self.bad else batch


class Recorder(TrainingCallback):
    """Remembers all it is told."""

    def __init__(self) -> None:
        self.starts: list[tuple[int, int]] = []
        self.steps: list[int] = []
        self.numbers: dict[int, dict[str, float]] = {}
        self.scores: list[tuple[int, float, bool]] = []
        self.rollbacks: list[tuple[int, int]] = []
        self.ends = 0

    def on_start(self, steps_done: int, steps: int) -> None:
        self.starts.append((steps_done, steps))

    def on_step(self, step: int) -> None:
        self.steps.append(step)

    def on_log(self, step: int, numbers: dict[str, float]) -> None:
        self.numbers[step] = numbers

    def on_validation_end(self, step: int, score: float, best: bool) -> None:
        self.scores.append((step, score, best))

    def on_rollback(self, step: int, to_step: int) -> None:
        self.rollbacks.append((step, to_step))

    def on_end(self) -> None:
        self.ends += 1


class ActingSource(BatchSource):
    """Polygons; `action` happens when batch number `at` is asked for, thus after `at` whole steps."""

    def __init__(
        self, at: int, action: Callable[[], None], process: int = 0, device: torch.device | str = "cpu"
    ) -> None:
        self.at, self.action, self.stream = at, action, polygons(process, device=device)

    def batches(self, first: int, attempt: int = 0) -> Iterator[Batch]:
        for step, batch in enumerate(self.stream.batches(first, attempt), first):
            if step == self.at:
                self.action()
            yield batch


def held_out_loss(predictor: SetPredictor) -> Callable[[], float]:
    """A validation function: the loss on a batch that is always the same."""
    batch = draw_polygons(16, torch.Generator().manual_seed(77))

    def score() -> float:
        x, y = predictor.prepare(batch, predictor.device)
        loss, _ = predictor.method(x, y, torch.Generator(predictor.device).manual_seed(78))
        return float(loss.detach())

    return score


def make_trainer(
    predictor: SetPredictor,
    settings: TrainingSettings = SHORT,
    *,
    accelerator: Accelerator | None = None,
    source: BatchSource | None = None,
    folder: Path | None = None,
    validate: Callable[[], float] | None = None,
    callback: TrainingCallback | None = None,
) -> Trainer:
    """A trainer of this problem."""
    accelerator = accelerator or Accelerator(cpu=True)
    return Trainer(
        predictor.method,
        source or polygons(accelerator.process_index, device=accelerator.device),
        lambda batch: predictor.prepare(batch, accelerator.device),
        settings,
        accelerator,
        folder=folder,
        validate=validate,
        callback=callback,
        engine=predictor.engine,
    )


def rich_trainer(
    kind: Kind,
    folder: Path | None = None,
    *,
    accelerator: Accelerator | None = None,
    source: BatchSource | None = None,
    settings: TrainingSettings = RICH,
    callback: TrainingCallback | None = None,
) -> Trainer:
    """A trainer with everything switched on."""
    predictor = make_predictor(kind)
    return make_trainer(
        predictor,
        settings,
        accelerator=accelerator,
        source=source,
        folder=folder,
        validate=held_out_loss(predictor),
        callback=callback,
    )


def weights_of(trainer: Trainer) -> dict[str, Tensor]:
    """The weights as they are now, whatever the outcome would choose."""
    return {name: value.detach().clone() for name, value in trainer.method.state_dict().items()}


EVERY_STEP = replace(SHORT, validate_every=1)


def assert_same(first: dict[str, Tensor], second: dict[str, Tensor]) -> None:
    assert first.keys() == second.keys()
    assert [name for name in first if not torch.equal(first[name], second[name])] == []


class Scores:
    """A validation function that gives the listed scores and remembers the weights they were given for."""

    def __init__(self, *scores: float) -> None:
        self.scores = iter(scores)
        self.trainer: Trainer | None = None
        self.seen: list[dict[str, Tensor]] = []

    def __call__(self) -> float:
        self.seen.append(weights_of(self.trainer))
        return next(self.scores)


def scored(scores: Scores, settings: object, **options: object) -> Trainer:
    """A trainer that is validated by `scores`."""
    scores.trainer = make_trainer(make_predictor(), settings, validate=scores, **options)
    return scores.trainer


GOING_BACK = replace(SHORT, on_divergence="rollback")


def diverging_trainer(fractions: Callable[[int, int], float], settings: Any = GOING_BACK, **more: Any) -> Trainer:
    """A trainer of which a fraction of samples diverges that depends on the attempt and the step."""
    trainer = make_trainer(make_predictor("masked"), settings, **more)
    add = trainer.monitor.add

    def added(step: int, loss: Any, norm: Any, statistics: dict[str, Any]) -> None:
        fraction = torch.tensor(float(fractions(trainer.state.attempt, step)))
        add(step, loss, norm, {**statistics, "divergent": fraction})

    trainer.monitor.add = added  # type: ignore[method-assign]
    return trainer
