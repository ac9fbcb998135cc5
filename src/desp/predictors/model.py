"""A predictor's modules, shapes and units: built, saved and loaded."""

from typing import Any, Self

import torch
from torch import Tensor, nn

from desp.categories import check_groups, decided
from desp.data.base import Batch, as_input
from desp.energies import default_input_encoder
from desp.errors import CheckpointError, DataError, RunError, SettingsError
from desp.nn import InputScaling, SetScaling
from desp.predictors.base import SetPredictor
from desp.predictors.energy_network import make_energy_network
from desp.predictors.network import SetDrawer, SetNetwork
from desp.predictors.shape import DataShape, InputStatistics
from desp.predictors.transformer import make_transformer_network
from desp.randomness import derive_seed
from desp.sets import SetBatch, make_padding
from desp.settings import (
    Device,
    DirectSettings,
    Engine,
    PredictorSettings,
    TransformerSettings,
    from_json,
    to_json,
)
from desp.training.device import default_device


class EnergyModel(SetPredictor):
    """What a predictor is made of, and how data in the user's units become its tensors and back.

    Args:
        settings: energy, estimator, sampler, padding.
        input_encoder: h(x), or None for the one that suits the inputs.
        engine: how chains run.
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
        self._network: SetNetwork | None = None
        self._drawer: SetDrawer | None = None

    # -- parts -----------------------------------------------------------------------------------------

    @property
    def shape(self) -> DataShape:
        """Shapes of inputs and sets, known once the predictor is fitted or loaded."""
        if self._shape is None:
            raise RunError("This predictor has not been fitted. Call fit(dataset) first, or from_pretrained.")
        return self._shape

    @property
    def network(self) -> SetNetwork:
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
        check_groups(self.settings.categories, shape.features)
        if self.settings.code is not None and self._own_encoder is not None:
            raise SettingsError("code is for the default encoder; an input_encoder of your own decides it itself.")
        channels = self.padding.channels(shape.features)
        # Layers draw their first weights from torch's global generator; it is put back afterwards.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(seed, "weights"))
            encoder = self._own_encoder or default_input_encoder(
                shape.input_kind, shape.input_shape, self.settings.energy, self.settings.code
            )
            network = self._make_network(shape, channels, encoder)
        if self._own_encoder is None:
            _set_units(encoder, shape, statistics)
        # Whoever trains it switches to training mode; all else wants predictions.
        self._shape, self._network, self._drawer = shape, network.eval(), None

    def _make_network(self, shape: DataShape, channels: int, encoder: nn.Module) -> SetNetwork:
        settings = self.settings
        if not isinstance(settings.energy, TransformerSettings):
            return make_energy_network(settings, settings.energy, shape, channels, encoder)
        if not isinstance(settings.estimator, DirectSettings):
            raise SettingsError(f"The transformer needs the estimator 'direct', not '{settings.estimator.kind}'.")
        return make_transformer_network(settings.energy, settings.estimator, shape, encoder)

    # -- units -------------------------------------------------------------------------------------------

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
        elements = decided(self.shape.scaling.unscale(sets.elements), self.settings.categories)
        elements = elements * sets.presence.unsqueeze(-1)
        return SetBatch(elements, sets.presence)

    def _as_pairs(self, x: Any, sets: Any) -> tuple[Tensor, SetBatch, bool]:
        """Inputs with one set each, on the right device, and whether only one was given."""
        batch, single = self._as_batch(x)
        # A batch may be padded to another size, which energies would notice.
        ragged = sets.to_ragged() if isinstance(sets, SetBatch) else [sets] if single else list(sets)
        if len(ragged) != len(batch):
            raise DataError(f"Expected one set for each of {len(batch)} inputs, got {len(ragged)} sets.")
        padded = SetBatch.from_ragged(ragged, self.shape.max_size, self.shape.features)
        return batch, padded.to(self.device), single

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
        padded = " Input sets are padded with zeros, their last feature is presence, 1 or 0."
        raise DataError(
            f"Expected one input of shape {wanted} or a batch (B, {', '.join(map(str, wanted))}), "
            f"got shape {tuple(x.shape)}.{padded if self.shape.input_kind == 'set' else ''}"
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
            settings, shape = (
                from_json(PredictorSettings, config["settings"]),
                DataShape.from_json(config["shape"]),
            )
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


def _set_units(encoder: nn.Module, shape: DataShape, statistics: InputStatistics | None) -> None:
    """Tell a default encoder how inputs are scaled: by their statistics, or as the sets they are encoded with."""
    for part in encoder.modules():
        if isinstance(part, SetScaling):
            part.set_from(torch.tensor(shape.scaling.offset), torch.tensor(shape.scaling.span))
        elif isinstance(part, InputScaling) and statistics is not None:
            part.set_from(statistics.mean, statistics.deviation)
