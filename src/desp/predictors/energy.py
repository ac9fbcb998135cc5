"""The predictor of every system: DESP and all else made of energies, and networks that make sets themselves."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor
from torch.utils.data import Dataset

from desp.data.base import BatchSource
from desp.errors import SettingsError
from desp.estimators import Estimator
from desp.predictors.base import Prediction
from desp.predictors.energy_network import EnergyNetwork
from desp.predictors.model import EnergyModel
from desp.predictors.shape import dataset_source, inspect_dataset
from desp.randomness import make_generator
from desp.samplers import ChainInfo, LogDensity, Record
from desp.settings import (
    AttentionSettings,
    InputKind,
    PooledLayersSettings,
    SamplerSettings,
    SolverSettings,
    TrainingSettings,
)
from desp.training import Trainer, TrainingListener, TrainingOutcome
from desp.training.device import make_accelerator
from desp.training.threads import suitable_threads

NO_ENERGY = (
    "This system makes sets without an energy, so it cannot say how plausible a set is. Train one that has an "
    "energy, such as PredictorSettings(energy=PooledLayersSettings())."
)
NO_DENSITY = (
    "A density over sets needs the estimator 'denoising' with sizes 'first', and the energy 'attention', or "
    "'pooled-layers' with pooling 'mean' or 'sum'. The gradients of others jump where elements change their "
    "order, which the divergence does not see; energies of other estimators are known only up to a constant for "
    "each input. Train with PredictorSettings(energy=PooledLayersSettings(pooling='mean')), on the command line "
    "--predictor.energy.pooling mean."
)


class EnergyPredictor(EnergyModel):
    """Set prediction by an energy: the method of the paper, and anything made of the same parts.

    A system that is no energy (`TransformerSettings`) shares everything but scores: its energies are NaN.

    Args:
        settings: energy, estimator, sampler, padding; the defaults suit small sets of a few features.
        input_encoder: h(x), any module from a batch of inputs to codes (B, H). Needed again when loading.
        engine: how chains run; ``auto`` picks what suits the device.
        device: where to run.
    """

    # -- training --------------------------------------------------------------------------------------

    def fit(
        self,
        dataset: "Dataset[Any] | Sequence[Any]",
        training: TrainingSettings | None = None,
        *,
        input_kind: InputKind | None = None,
        validation: Callable[["EnergyPredictor"], float] | None = None,
        seed: int = 0,
        folder: str | Path | None = None,
        resume: bool = False,
        listener: TrainingListener | None = None,
    ) -> TrainingOutcome:
        """Fit to a torch dataset, or a list, of (input, set) pairs; sets may differ in size.

        Args:
            dataset: map-style or iterable; inputs are numbers, vectors, or what `input_encoder` takes.
            training: length, batch size, learning rate and so on.
            input_kind: what inputs are; by their shape if not given, vectors or images (C, H, W). Inputs that are
                sets, ``"set"``, are padded tensors (N, D + 1) with presence, 1 or 0, as last feature.
            validation: scores this predictor; used every `training.validate_every` steps.
            seed: of weights, noise and the order of data.
            folder: keeps checkpoints and a log, so that training can be resumed.
            resume: go on from the newest checkpoint in `folder`.
            listener: told of progress.

        Raises:
            DataError: the dataset cannot be used; the message says which item and why.
        """
        if training is not None and not isinstance(training, TrainingSettings):
            raise SettingsError(f"training must be TrainingSettings, got {type(training).__name__}.")
        training = training or TrainingSettings()
        scaling = self.settings.scaling == "auto"
        shape, statistics = inspect_dataset(
            dataset,
            max_size=self.settings.max_size,
            scaling=scaling,
            input_kind=input_kind,
            categories=self.settings.categories,
        )
        self.build(shape, seed=seed, statistics=statistics)
        folder = Path(folder) if folder is not None else None
        accelerator = make_accelerator(self.device_choice, training, folder)
        return self.train(
            dataset_source(dataset, shape, training, seed, accelerator),
            training,
            accelerator,
            validation=validation,
            seed=seed,
            folder=folder,
            resume=resume,
            listener=listener,
        )

    def train(
        self,
        source: BatchSource,
        training: TrainingSettings,
        accelerator: Accelerator,
        *,
        validation: Callable[["EnergyPredictor"], float] | None = None,
        seed: int = 0,
        folder: Path | None = None,
        resume: bool = False,
        listener: TrainingListener | None = None,
    ) -> TrainingOutcome:
        """Fit a predictor that was built to a stream of batches; `fit` does this for a dataset."""
        if training.size_groups > 1 and not source.groups:
            raise SettingsError(
                "training.size_groups needs batches that are drawn by size, which only set-MNIST has. Set it to 1."
            )
        estimator = self.make_estimator(training.steps)
        estimator.groups = source.groups
        trainer = Trainer(
            estimator,
            source,
            lambda batch: self.prepare(batch, accelerator.device),
            training,
            accelerator,
            seed=seed,
            folder=folder,
            validate=None if validation is None else lambda: validation(self),
            listener=listener,
            engine=self.engine,
        )
        size, hidden = self.shape.max_size, self.settings.energy.hidden
        with suitable_threads(accelerator.device, training.batch_size, size, hidden):
            outcome = trainer.fit(resume)
        self.network.load_state_dict(outcome.weights)
        self.network.eval()
        return outcome

    def make_estimator(self, steps: int = 0) -> Estimator:
        """The estimator that the settings name, on this predictor's modules, for a training of so many steps."""
        return self.network.make_estimator(self.settings.estimator, self.engine, steps)

    # -- prediction ------------------------------------------------------------------------------------

    @torch.no_grad()
    def predict(
        self, x: Any, samples: int = 1, *, seed: int = 0, sampler: SamplerSettings | None = None
    ) -> Prediction | list[Prediction]:
        """`samples` sets for one input, or for each input of a batch.

        Args:
            x: one input, or a batch of them.
            samples: K.
            seed: the same seed gives the same sets.
            sampler: another chain than the predictor's own.

        Raises:
            DataError: `x` does not look like the inputs the predictor was fitted to.
        """
        if samples < 1:
            raise SettingsError(f"samples must be at least 1, got {samples}.")
        batch, single = self._as_batch(x)
        repeated = batch.repeat_interleave(samples, dim=0)
        values, _ = self.sample(repeated, make_generator(seed, "predict", device=self.device), sampler=sampler)
        returned = self.decode_sets(values)
        # Decided kinds are other numbers than those that were sampled.
        scored = self.encode_sets(returned) if self.settings.categories else values
        energies = self.network.scores(repeated, scored).cpu().view(-1, samples)
        ragged, compare = [item.cpu() for item in returned.to_ragged()], self.network.sizes is None
        known = self.network.scores_sets
        predictions = [
            Prediction(ragged[i * samples : (i + 1) * samples], energies[i], compare, known)
            for i in range(len(batch))
        ]
        return predictions[0] if single else predictions

    @torch.no_grad()
    def energy(self, x: Any, sets: Any) -> Tensor:
        """The energy (B,) of given sets for a batch of inputs, or of one set (a number) for one input.

        Args:
            x: one input, or a batch.
            sets: one set (n, D), or as many sets as inputs.

        Raises:
            SettingsError: this system has no energy.
        """
        if not self.network.scores_sets:
            raise SettingsError(NO_ENERGY)
        batch, given, single = self._as_pairs(x, sets)
        energies = self.network.scores(batch, self.encode_sets(given)).cpu()
        return energies[0] if single else energies

    def log_prob(self, x: Any, sets: Any, *, steps: int = 100, probes: int = 16, seed: int = 0) -> LogDensity:
        """The logarithm of p(set | x), the size's probability included, of one set or of one for each input.

        It is the density of sets that carry noise of the sampler's lowest level, in the units of the data. Where
        padded sets have more than 64 numbers, presence included, it is probed in random directions. Categories
        count as the numbers 0 and 1.

        Args:
            x: one input, or a batch.
            sets: one set (n, D), or as many sets as inputs.
            steps: of the flow from the data to noise; the error tells whether they are enough.
            probes: random directions for large sets.
            seed: of these.

        Raises:
            SettingsError: this predictor was not trained by denoising with sizes first and a smooth energy.
        """
        if not self.network.scores_sets:
            raise SettingsError(NO_ENERGY)
        if steps < 2 or probes < 2:
            raise SettingsError(f"steps and probes must be at least 2, got {steps} and {probes}.")
        batch, given, single = self._as_pairs(x, sets)
        settings, network = self.settings.sampler, self.network
        if not isinstance(network, EnergyNetwork) or not isinstance(settings, SolverSettings):
            raise SettingsError(NO_DENSITY)
        if not self._is_smooth():
            raise SettingsError(NO_DENSITY)
        solver = replace(settings, steps=steps)
        generator = make_generator(seed, "probes", device=self.device)
        density = network.log_prob(batch, self.encode_sets(given), generator, solver, probes)
        scale = given.sizes * sum(math.log(span) for span in self.shape.scaling.span)
        value, error = (density.value - scale).cpu(), density.error.cpu()
        return LogDensity(value[0], error[0]) if single else LogDensity(value, error)

    def _is_smooth(self) -> bool:
        energy = self.settings.energy
        if isinstance(energy, PooledLayersSettings):
            return energy.pooling in ("mean", "sum")
        return isinstance(energy, AttentionSettings)

    @torch.no_grad()
    def sample(
        self,
        x: Tensor,
        generator: torch.Generator,
        *,
        sampler: SamplerSettings | None = None,
        record: Record = "nothing",
        code_type: torch.dtype | None = None,
    ) -> tuple[Tensor, ChainInfo]:
        """One raw padded set (B, N, C) for each row of `x`, with the chain's record.

        `predict` is the friendly form; scores of protocol ``paper`` need the raw one.

        Args:
            x: inputs, on this predictor's device.
            generator: of all noise.
            sampler: another one than the predictor's own.
            record: what to keep of the chain; steps of `sampler.matching` come after that.
            code_type: round the inputs' codes to this type, to see how much of a set lies in their last digits.
        """
        row_shape = (self.shape.max_size, self.padding.channels(self.shape.features))
        if self._drawer is None:
            self._drawer = self.network.make_drawer(row_shape, self.padding, self.engine)
        return self._drawer.draw(x, generator, sampler or self.settings.sampler, record, code_type)

    @property
    def engine_used(self) -> str | None:
        """How the last sets were drawn: ``eager``, ``compiled`` or ``graph``; None if none were."""
        return None if self._drawer is None else self._drawer.engine_used

    @torch.no_grad()
    def raw_energy(self, x: Tensor, values: Tensor) -> Tensor:
        """The energy (B,) of raw padded sets (B, N, C), as `sample` gives them, for inputs on the same device.

        NaN for a system that has no energy.
        """
        return self.network.scores(x.to(self._dtype), values)
