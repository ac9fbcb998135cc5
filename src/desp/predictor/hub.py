"""Saved predictors: a folder, or a model on the Hugging Face hub, with JSON and safetensors."""

import json
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, Self

from huggingface_hub import ModelHubMixin, hf_hub_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError
from torch import Tensor

from desp.errors import CheckpointError
from desp.storage import write_json
from desp.training.checkpoints import Checkpoint, load_checkpoint, save_checkpoint

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


class SavedModel(ModelHubMixin, ABC, library_name="desp", tags=["set-prediction"], model_card_template=MODEL_CARD):
    """`save_pretrained`, `from_pretrained` and `push_to_hub` as users know them, without pickle."""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """JSON values from which `from_config` builds this predictor, but for its weights."""

    @abstractmethod
    def weights(self) -> dict[str, Tensor]:
        """All tensors to save."""

    @classmethod
    @abstractmethod
    def from_config(cls, config: dict[str, Any], weights: dict[str, Tensor], **options: Any) -> Self:
        """Build a predictor from what `config` and `weights` gave."""

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
