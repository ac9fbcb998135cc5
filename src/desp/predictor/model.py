"""A predictor's module, shapes and units: built, saved and loaded, from a folder or the Hugging Face hub."""

import json
from pathlib import Path
from typing import Any, Self

import torch
from huggingface_hub import ModelHubMixin, hf_hub_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError
from torch import Tensor, nn

from desp.categories import decided
from desp.data.base import Batch, as_input, to_float
from desp.data.shape import DataShape
from desp.errors import CheckpointError, DataError, RunError, SettingsError
from desp.methods import Method, build_method
from desp.nn import InputScaling, SetScaling
from desp.randomness import derive_seed
from desp.sets import Padding, SetBatch, present
from desp.settings import (
    SCHEMA,
    DenoisingSettings,
    Device,
    Engine,
    MatmulPrecision,
    MethodSettings,
    RepresentationSettings,
    from_json,
    migrate_predictor,
    migrate_weights,
    require_setting,
    to_json,
)
from desp.storage import write_json
from desp.training.checkpoints import Checkpoint, load_checkpoint, save_checkpoint
from desp.training.device import default_device

NOT_FITTED = "This predictor has not been fitted. Call fit(dataset) first, or from_pretrained."
CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"

MODEL_CARD = """---
{{ card_data }}
---

# A set predictor

Saved by desp, which predicts sets when more than one answer is right. Load it with:

```python
from desp import SetPredictor

predictor = SetPredictor.from_pretrained("PATH OR NAME OF THIS MODEL")
predictions = predictor.predict(inputs, samples=5)
```

`config.json` holds its settings and the shapes of inputs and sets, `model.safetensors` its weights.
"""


class PredictorModel(ModelHubMixin, library_name="desp", tags=["set-prediction"], model_card_template=MODEL_CARD):
    """What a predictor is made of, and how data in the user's units become its tensors and back.

    `SetPredictor`, which adds training and prediction, says what the arguments are.
    """

    def __init__(
        self,
        method: MethodSettings | None = None,
        representation: RepresentationSettings | None = None,
        *,
        input_encoder: nn.Module | None = None,
        engine: Engine = "auto",
        device: Device = "auto",
        matmul_precision: MatmulPrecision | None = None,
    ) -> None:
        self.settings = method or DenoisingSettings()
        self.representation = representation or RepresentationSettings()
        for given, expected in ((self.settings, MethodSettings), (self.representation, RepresentationSettings)):
            if not isinstance(given, expected):
                raise SettingsError(f"Expected {expected.__name__}, got {type(given).__name__}.")
        padded = not self.settings.needs_presence or self.representation.padding == "presence"
        wanted = f"presence for the method {self.settings.kind} with these settings"
        require_setting(padded, "representation.padding", wanted, self.representation.padding)
        self.engine, self.device_choice = engine, device
        self.matmul_precision: MatmulPrecision | None = matmul_precision
        self.padding = Padding(self.representation)
        self._own_encoder = input_encoder
        self._shape: DataShape | None = None
        self._method: Method | None = None

    # -- parts -----------------------------------------------------------------------------------------

    @property
    def shape(self) -> DataShape:
        """Shapes of inputs and sets, known once the predictor is fitted or loaded."""
        if self._shape is None:
            raise RunError(NOT_FITTED)
        return self._shape

    @property
    def method(self) -> Method:
        """The module that is trained and saved."""
        if self._method is None:
            raise RunError(NOT_FITTED)
        return self._method

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.method.parameters()).device

    @property
    def _dtype(self) -> torch.dtype:
        return next(self.method.parameters()).dtype

    def build(self, shape: DataShape, *, seed: int = 0, statistics: Tensor | None = None) -> None:
        """Make the module for data of `shape`, with weights drawn from `seed`.

        Args:
            shape: of inputs and sets.
            seed: of the weights.
            statistics: (2, ...), mean and standard deviation of the inputs, by which encoders standardise them.
        """
        # Layers draw their first weights from torch's global generator; it is put back afterwards.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(seed, "weights"))
            method = build_method(self.settings, shape, self.padding, self._own_encoder, self.engine)
        if self._own_encoder is None:
            _set_units(method.encoder, shape, statistics)
        method.eval()
        self._shape, self._method = shape, method

    # -- units -------------------------------------------------------------------------------------------

    def prepare(self, batch: Batch, device: torch.device) -> tuple[Tensor, Tensor]:
        """From a batch in the user's units to the tensors (x, y) that methods take."""
        x = batch.x.reshape(len(batch.x), *self.shape.input_shape).to(device)
        return to_float(x, self._dtype), self.encode_sets(batch.sets.to(device))

    def given_presence(self, x: Tensor) -> Tensor | None:
        """Which elements (B, N) sets have, where inputs say it: outputs are aligned with them. Else None."""
        return present(x) if self.shape.aligned else None

    def encode_sets(self, sets: SetBatch) -> Tensor:
        """Sets in the user's units as the padded tensor (B, N, C) that methods see, in the weights' precision."""
        scaled = self.shape.scaling.scale(sets.elements).to(self._dtype)  # numpy's numbers come as float64
        return self.padding.encode(SetBatch(scaled, sets.presence))

    def decode_sets(self, values: Tensor) -> SetBatch:
        """A padded tensor (B, N, C) as sets in the user's units; the inverse of `encode_sets`."""
        sets = self.padding.decode(values)
        elements = decided(self.shape.scaling.unscale(sets.elements), self.shape.description.categories)
        elements = elements * sets.presence.unsqueeze(-1)
        return SetBatch(elements, sets.presence)

    def _as_pairs(self, x: Any, sets: Any) -> tuple[Tensor, SetBatch]:
        """Inputs with one set each, on the right device."""
        batch = self._as_batch(x)
        # A batch may be padded to another size, which energies would notice.
        ragged = sets.to_ragged() if isinstance(sets, SetBatch) else list(sets)
        if len(ragged) != len(batch):
            raise DataError(f"Expected one set for each of {len(batch)} inputs, got {len(ragged)} sets.")
        padded = SetBatch.from_ragged(ragged, self.shape.max_size, self.shape.features)
        return batch, padded.to(self.device)

    def _as_batch(self, x: Any) -> Tensor:
        """Inputs as (B, ...) on the right device."""
        x = as_input(x).to(self.device)
        wanted = self.shape.input_shape
        if wanted == (1,) and x.dim() == 1:  # numbers
            x = x.unsqueeze(1)
        if x.dim() and tuple(x.shape[1:]) == wanted:
            return to_float(x, self._dtype)
        one = " For one input, use predict_one." if tuple(x.shape) in (wanted, ()) else ""
        padded = " Input sets are padded with zeros, their last feature is presence, 1 or 0."
        raise DataError(
            f"Expected a batch of inputs of shape (B, {', '.join(map(str, wanted))}), got shape {tuple(x.shape)}."
            f"{one}{padded if self.shape.input_kind == 'set' else ''}"
        )

    # -- saving ----------------------------------------------------------------------------------------

    def config(self) -> dict[str, Any]:
        """Settings and shapes as JSON values."""
        return {
            "schema": SCHEMA,
            "method": to_json(self.settings),
            "representation": to_json(self.representation),
            "shape": to_json(self.shape),
            "own_encoder": self._own_encoder is not None,
        }

    def weights(self) -> dict[str, Tensor]:
        """All parameters and buffers."""
        return self.method.state_dict()

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
            try:
                values = migrate_predictor(config)
            except SettingsError as error:  # of another version, and not damaged
                raise CheckpointError(f"The saved configuration cannot be used: {error}") from error
            method = from_json(MethodSettings, values["method"])
            representation = from_json(RepresentationSettings, values["representation"])
            shape = from_json(DataShape, values["shape"])
        except (KeyError, TypeError, AttributeError, SettingsError) as error:
            raise CheckpointError(f"The saved configuration is damaged ({error!r}). Save it again.") from error
        predictor = cls(method, representation, **options)
        predictor.build(shape)
        try:
            named = migrate_weights(weights, config.get("schema", 1), values["method"])
            predictor.method.load_state_dict(named)
        except RuntimeError as error:
            raise CheckpointError(f"The saved weights do not fit the saved settings: {error}") from error
        predictor.method.to(default_device(predictor.device_choice))
        return predictor

    def _save_pretrained(self, save_directory: Path) -> None:
        save_checkpoint(save_directory / WEIGHTS_FILE, Checkpoint(self.weights(), {}))
        # One key that is no argument of __init__, so that the mixin does not try to pass it there.
        write_json(save_directory / CONFIG_FILE, {"desp": self.config()})

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | Path, **options: Any) -> Self:
        """Load a predictor from a folder, or from the hub by its name.

        Args:
            pretrained_model_name_or_path: what `save_pretrained` wrote, or ``owner/name``.
            **options: `input_encoder` where the predictor was made with one; hub options such as `revision`.

        Raises:
            CheckpointError: missing or damaged.
        """
        folder = Path(pretrained_model_name_or_path)
        if folder.is_dir():
            # Checked before the mixin reads it, which would fail with a bare JSON or type error.
            _read_config(folder / CONFIG_FILE)
        elif folder.is_absolute() or len(folder.parts) > 2 or str(folder).startswith("."):
            raise CheckpointError(f"There is no folder {folder}. Pass what save_pretrained wrote.")
        try:
            return super().from_pretrained(pretrained_model_name_or_path, **options)
        except (OSError, HfHubHTTPError, HFValidationError) as error:
            raise CheckpointError(
                f"There is no folder {folder}, and the hub gave no predictor of that name either ({error})."
            ) from error

    @classmethod
    def _from_pretrained(
        cls,
        *,
        model_id: str,
        revision: str | None,
        cache_dir: str | Path | None,
        force_download: bool,
        local_files_only: bool,
        token: str | bool | None,
        **model_kwargs: Any,
    ) -> Self:
        def locate(name: str) -> Path:
            if Path(model_id).is_dir():
                return Path(model_id) / name
            return Path(
                hf_hub_download(
                    repo_id=model_id,
                    filename=name,
                    revision=revision,
                    cache_dir=cache_dir,
                    force_download=force_download,
                    token=token,
                    local_files_only=local_files_only,
                )
            )

        model_kwargs.pop("config", None)
        config = _read_config(locate(CONFIG_FILE))
        return cls.from_config(config, load_checkpoint(locate(WEIGHTS_FILE)).tensors, **model_kwargs)


def _read_config(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8"))["desp"])
    except FileNotFoundError as error:
        raise CheckpointError(f"{path.parent} holds no predictor: {path.name} is missing.") from error
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged or not a predictor's: {error!r}. Save it again.") from error


def _set_units(encoder: nn.Module, shape: DataShape, statistics: Tensor | None) -> None:
    """Tell an encoder how inputs are scaled: by their statistics, or as the sets they are encoded with."""
    for part in encoder.modules():
        if isinstance(part, SetScaling):
            part.set_from(torch.tensor(shape.scaling.offset), torch.tensor(shape.scaling.span))
        elif isinstance(part, InputScaling) and statistics is not None:
            part.set_from(*statistics)
