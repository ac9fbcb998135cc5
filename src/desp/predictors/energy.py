"""The predictor made of an energy, an estimator and a sampler: DESP, and direct risk."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.utils.data import Dataset

from desp.data.base import Batch, BatchSource, as_input
from desp.energies import default_input_encoder
from desp.errors import CheckpointError, DataError, RunError, SettingsError
from desp.estimators import ContrastiveEstimator, DenoisingEstimator, Estimator, SetRiskEstimator
from desp.nn import InputScaling
from desp.predictors.base import Prediction, SetPredictor
from desp.predictors.network import EnergyNetwork, SetDrawer, make_network
from desp.predictors.shape import DataShape, InputStatistics, dataset_source, inspect_dataset
from desp.randomness import derive_seed, make_generator
from desp.samplers import ChainInfo, Record
from desp.scaling import FeatureScaling
from desp.sets import SetBatch, make_padding
from desp.settings import (
    ContrastiveSettings,
    DenoisingSettings,
    Device,
    Engine,
    PredictorSettings,
    SamplerSettings,
    TrainingSettings,
    from_json,
    to_json,
)
from desp.training import Trainer, TrainingListener, TrainingOutcome
from desp.training.device import default_device, make_accelerator


class EnergyPredictor(SetPredictor):
    """Set prediction by an energy: the method of the paper, and anything made of the same parts.

    Args:
        settings: energy, estimator, sampler, padding; the defaults suit small sets of a few features.
        input_encoder: h(x), any module from a batch of inputs to codes (B, H). Needed again when loading.
        engine: how chains run; ``auto`` picks what suits the device.
        device: where to run.
    """

    def __init__(
        self,
        settings: PredictorSettings | None = None,
        *,
        input_encoder: nn.Module | None = None,
        engine: Engine = "auto",
        device: Device = "auto",
    ) -> None:
        if settings is not None and not isinstance(settings, PredictorSettings):
            raise SettingsError(f"settings must be PredictorSettings, got {type(settings).__name__}.")
        self.settings = settings or PredictorSettings()
        self.engine, self.device_choice = engine, device
        self.padding = make_padding(self.settings.padding)
        self._own_encoder = input_encoder
        self._shape: DataShape | None = None
        self._network: EnergyNetwork | None = None
        self._drawer: SetDrawer | None = None

    # -- parts -----------------------------------------------------------------------------------------

    @property
    def shape(self) -> DataShape:
        """Shapes of inputs and sets, known once the predictor is fitted or loaded."""
        if self._shape is None:
            raise RunError("This predictor has not been fitted. Call fit(dataset) first, or from_pretrained.")
        return self._shape

    @property
    def network(self) -> EnergyNetwork:
        """The modules that are trained and saved."""
        if self._network is None:
            raise RunError("This predictor has not been fitted. Call fit(dataset) first, or from_pretrained.")
        return self._network

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.network.parameters()).device

    @property
    def _dtype(self) -> torch.dtype:
        return next(self.network.parameters()).dtype

    def build(self, shape: DataShape, *, seed: int = 0, statistics: InputStatistics | None = None) -> None:
        """Make the modules for data of `shape`, with weights drawn from `seed`."""
        channels = self.padding.channels(shape.features)
        # Layers draw their first weights from torch's global generator; it is put back afterwards.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(seed, "weights"))
            encoder = self._own_encoder or default_input_encoder(
                shape.input_kind, shape.input_shape, self.settings.energy
            )
            network = make_network(self.settings, shape, channels, encoder)
        if statistics is not None and self._own_encoder is None:
            for part in encoder.modules():
                if isinstance(part, InputScaling):
                    part.set_from(statistics.mean, statistics.deviation)
        self._shape, self._network, self._drawer = shape, network, None

    # -- training --------------------------------------------------------------------------------------

    def fit(
        self,
        dataset: "Dataset[Any] | Sequence[Any]",
        training: TrainingSettings | None = None,
        *,
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
        shape, statistics = inspect_dataset(dataset, max_size=self.settings.max_size, scaling=scaling)
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
        trainer = Trainer(
            self.make_estimator(training.steps),
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
        outcome = trainer.fit(resume)
        self.network.load_state_dict(outcome.weights)
        self.network.eval()
        return outcome

    def make_estimator(self, steps: int = 0) -> Estimator:
        """The estimator that the settings name, on this predictor's modules, for a training of so many steps."""
        settings = self.settings.estimator
        if isinstance(settings, ContrastiveSettings):
            return ContrastiveEstimator(self.network.energy, settings, self.engine, steps=steps)
        if isinstance(settings, DenoisingSettings):
            return DenoisingEstimator(self.network.energy, self.network.sizes, settings)
        if self.network.descent is None:
            raise SettingsError("Direct risk needs a learned start; build the predictor with its settings.")
        return SetRiskEstimator(self.network.energy, self.network.descent, settings)

    def prepare(self, batch: Batch, device: torch.device) -> tuple[Tensor, Tensor]:
        """From a batch in the user's units to the tensors that estimators take."""
        x = batch.x.reshape(len(batch.x), *self.shape.input_shape)
        return x.to(device, self._dtype), self.encode_sets(batch.sets.to(device))

    def encode_sets(self, sets: SetBatch) -> Tensor:
        """Sets in the user's units as the padded tensor (B, N, C) that energies see, in the weights' precision."""
        scaled = self.shape.scaling.scale(sets.elements).to(self._dtype)  # numpy's numbers come as float64
        return self.padding.encode(SetBatch(scaled, sets.presence))

    def decode_sets(self, values: Tensor) -> SetBatch:
        """A padded tensor (B, N, C) as sets in the user's units; the inverse of `encode_sets`."""
        sets = self.padding.decode(values)
        elements = self.shape.scaling.unscale(sets.elements) * sets.presence.unsqueeze(-1)
        return SetBatch(elements, sets.presence)

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
        energies = self.network.scores(repeated, values).cpu().view(-1, samples)
        ragged = [item.cpu() for item in self.decode_sets(values).to_ragged()]
        predictions = [Prediction(ragged[i * samples : (i + 1) * samples], energies[i]) for i in range(len(batch))]
        return predictions[0] if single else predictions

    @torch.no_grad()
    def energy(self, x: Any, sets: Any) -> Tensor:
        """The energy (B,) of given sets for a batch of inputs, or of one set (a number) for one input.

        Args:
            x: one input, or a batch.
            sets: one set (n, D), or as many sets as inputs.
        """
        batch, single = self._as_batch(x)
        given = sets if isinstance(sets, SetBatch) else self._pad([sets] if single else list(sets))
        if len(given) != len(batch):
            raise DataError(f"Expected one set for each of {len(batch)} inputs, got {len(given)} sets.")
        energies = self.network.scores(batch, self.encode_sets(given.to(self.device))).cpu()
        return energies[0] if single else energies

    @torch.no_grad()
    def sample(
        self,
        x: Tensor,
        generator: torch.Generator,
        *,
        sampler: SamplerSettings | None = None,
        record: Record = "nothing",
    ) -> tuple[Tensor, ChainInfo]:
        """One raw padded set (B, N, C) for each row of `x`, with the chain's record.

        `predict` is the friendly form; scores of protocol ``paper`` need the raw one.
        """
        row_shape = (self.shape.max_size, self.padding.channels(self.shape.features))
        if self._drawer is None:
            self._drawer = SetDrawer(self.network, row_shape, self.engine)
        return self._drawer.draw(x, generator, sampler or self.settings.sampler, record)

    @torch.no_grad()
    def raw_energy(self, x: Tensor, values: Tensor) -> Tensor:
        """The energy (B,) of raw padded sets (B, N, C), as `sample` gives them, for inputs on the same device."""
        return self.network.scores(x.to(self._dtype), values)

    def _pad(self, sets: list[Any]) -> SetBatch:
        return SetBatch.from_ragged(sets, self.shape.max_size, self.shape.features)

    def _as_batch(self, x: Any) -> tuple[Tensor, bool]:
        """Inputs as (B, ...) on the right device, and whether only one was given."""
        x = as_input(x).to(self.device, self._dtype)
        wanted = self.shape.input_shape
        if wanted == (1,) and x.dim() == 0:
            x = x.reshape(1)
        if tuple(x.shape) == wanted:
            return x.unsqueeze(0), True
        if tuple(x.shape[1:]) == wanted:
            return x, False
        raise DataError(
            f"Expected one input of shape {wanted} or a batch (B, {', '.join(map(str, wanted))}), "
            f"got shape {tuple(x.shape)}."
        )

    # -- saving ----------------------------------------------------------------------------------------

    def config(self) -> dict[str, Any]:
        """Settings and shapes as JSON values."""
        shape = to_json(self.shape)
        return {
            "settings": to_json(self.settings),
            "shape": shape,
            "own_encoder": self._own_encoder is not None,
        }

    def weights(self) -> dict[str, Tensor]:
        """All parameters and buffers."""
        return self.network.state_dict()

    @classmethod
    def from_config(cls, config: dict[str, Any], weights: dict[str, Tensor], **options: Any) -> Self:
        """Build a fitted predictor.

        Raises:
            CheckpointError: the encoder it was made with is not given, or weights do not fit.
        """
        if config.get("own_encoder") and options.get("input_encoder") is None:
            raise CheckpointError(
                "This predictor was made with an input encoder of your own. Pass it again: "
                "from_pretrained(folder, input_encoder=MyEncoder())."
            )
        try:
            settings, shape = from_json(PredictorSettings, config["settings"]), _shape_of(config["shape"])
        except (KeyError, TypeError, AttributeError, SettingsError) as error:
            raise CheckpointError(f"The saved configuration is damaged ({error!r}). Save it again.") from error
        predictor = cls(settings, **options)
        predictor.build(shape)
        try:
            predictor.network.load_state_dict(weights)
        except RuntimeError as error:
            raise CheckpointError(f"The saved weights do not fit the saved settings: {error}") from error
        predictor.network.to(default_device(predictor.device_choice))
        return predictor


def _shape_of(values: dict[str, Any]) -> DataShape:
    """The inverse of `to_json` for shapes."""
    scaling = FeatureScaling(tuple(values["scaling"]["offset"]), tuple(values["scaling"]["span"]))
    input_shape = tuple(values["input_shape"])
    return DataShape(input_shape, values["features"], values["max_size"], scaling, values["input_kind"])
