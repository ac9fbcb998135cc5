"""The interface of everything that predicts sets."""

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from huggingface_hub import ModelHubMixin, hf_hub_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError
from torch import Tensor

from desp.errors import CheckpointError
from desp.predictors.modes import Mode, group_modes
from desp.settings import Distance
from desp.storage import write_json
from desp.training.checkpoints import Checkpoint, load_checkpoint, save_checkpoint

CONFIG_FILE, WEIGHTS_FILE = "config.json", "model.safetensors"


@dataclass(frozen=True)
class Prediction:
    """K sets for one input.

    Attributes:
        sets: K tensors (n_k, D), present elements only, in the units of the training data.
        energies: (K,), lower is more plausible; NaN where the system has no energy.
        sizes_compare: whether energies of sets of different sizes can be compared. Where sizes are drawn first
            they cannot: each size has an unknown constant of its own.
        scored: whether the system has an energy at all.
    """

    sets: list[Tensor]
    energies: Tensor
    sizes_compare: bool = True
    scored: bool = True

    @property
    def best(self) -> Tensor:
        """The set of lowest energy; among those of the most frequent size where sizes do not compare.

        Without energies it is the first of them, which is as good as any.
        """
        candidates = list(range(len(self.sets)))
        if not self.sizes_compare:
            sizes = [len(item) for item in self.sets]
            usual = max(sizes, key=sizes.count)
            candidates = [index for index in candidates if sizes[index] == usual]
        if not self.scored:
            return self.sets[candidates[0]]
        return self.sets[min(candidates, key=lambda index: float(self.energies[index]))]

    def modes(self, *, distance: Distance = "chamfer", threshold: float | None = None) -> list[Mode]:
        """The different answers among the sets, the most frequent first; see `group_modes`."""
        energies = self.energies if self.scored else None
        return group_modes(self.sets, energies, distance=distance, threshold=threshold)

    def __len__(self) -> int:
        return len(self.sets)


MODEL_CARD = """---
{{ card_data }}
---

# A set predictor

Saved by desp, which predicts sets when more than one answer is right. Load it with:

```python
from desp import EnergyPredictor

predictor = EnergyPredictor.from_pretrained("PATH OR NAME OF THIS MODEL")
prediction = predictor.predict(x, samples=5)
```

`config.json` holds its settings and the shapes of inputs and sets, `model.safetensors` its weights.
"""


class SetPredictor(
    ModelHubMixin, ABC, library_name="desp", tags=["set-prediction"], model_card_template=MODEL_CARD
):
    """Fits itself to (input, set) pairs and predicts sets for new inputs.

    `save_pretrained`, `from_pretrained` and `push_to_hub` are huggingface_hub's: a folder with JSON and
    safetensors, no pickle.
    """

    @abstractmethod
    def predict(self, x: Any, samples: int = 1, *, seed: int = 0) -> Prediction | list[Prediction]:
        """`samples` sets for one input, or for each input of a batch."""

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
        write_json(save_directory / CONFIG_FILE, {"desp": {"class": type(self).__name__, **self.config()}})

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | Path, **options: Any) -> Self:
        """Load a predictor from a folder, or from the hub by its name.

        Args:
            pretrained_model_name_or_path: what `save_pretrained` wrote, or ``owner/name``.
            **options: `input_encoder` where the predictor was made with one; hub options such as `revision`.

        Raises:
            CheckpointError: missing, damaged, or saved by another class.
        """
        folder = Path(pretrained_model_name_or_path)
        if folder.is_dir():
            # Checked before the mixin reads it, which would fail with a bare JSON or type error.
            _read_config(folder / CONFIG_FILE, cls.__name__)
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
        config = _read_config(locate(CONFIG_FILE), cls.__name__)
        return cls.from_config(config, load_checkpoint(locate(WEIGHTS_FILE)).tensors, **model_kwargs)


def _read_config(path: Path, expected_class: str) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))["desp"]
        saved_by = config.get("class")
    except FileNotFoundError as error:
        raise CheckpointError(f"{path.parent} holds no predictor: {path.name} is missing.") from error
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} is damaged or not a predictor's: {error!r}. Save it again.") from error
    if saved_by != expected_class:
        raise CheckpointError(
            f"{path.parent} was saved by {saved_by}, not {expected_class}. Load it with that class."
        )
    return {name: value for name, value in config.items() if name != "class"}
