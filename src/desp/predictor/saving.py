"""Predictors as folders with JSON and safetensors, on this machine or on the Hugging Face hub."""

import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import huggingface_hub.constants as hub
from huggingface_hub import ModelCard, ModelHubMixin, snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError

from desp.data.shape import DataShape
from desp.errors import CheckpointError, SettingsError
from desp.predictor.checks import check_folder
from desp.predictor.model_card import is_edited, model_card
from desp.settings import (
    SCHEMA,
    MethodSettings,
    RepresentationSettings,
    from_json,
    migrate_predictor,
    migrate_weights,
    to_json,
)
from desp.storage import Write, json_bytes, with_content, write_together
from desp.training.checkpoints import Checkpoint, fill_checkpoint, load_checkpoint
from desp.training.device import default_device

if TYPE_CHECKING:
    from desp.predictor.predictor import SetPredictor

CONFIG_FILE, WEIGHTS_FILE, CARD_FILE = "config.json", "model.safetensors", "README.md"
# The longest wait for a first answer of the hub.
HUB_SECONDS = 5.0
_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")
OWN_OPTIONS = ("input_encoder", "engine", "device", "matmul_precision")
HUB_OPTIONS = ("revision", "cache_dir", "force_download", "local_files_only", "token")


OTHER_VERSION = " If another version of desp saved it, install that one."


class HubMixin(ModelHubMixin):
    """Saves a predictor to a folder, and loads it from there or from the hub."""

    def save_pretrained(self, save_directory: str | Path, **options: Any) -> str | None:
        """Write settings, shapes, weights and a model card into a folder.

        A predictor that is there is replaced as a whole, or not at all. Other files stay, and so does a card that
        was edited.

        Args:
            save_directory: the folder.
            **options: those of huggingface_hub, such as `push_to_hub` and `repo_id`.

        Raises:
            RunError: there is nothing to save, as the predictor has not been fitted.
            CheckpointError: it is no path of a folder.
            StorageError: it cannot be written.
        """
        cast("SetPredictor", self).method  # noqa: B018  # raises before a folder is made
        folder = check_folder(save_directory)
        # Before the mixin, which removes what is there first: should the disk be full, that is still there.
        write_together(predictor_files(cast("SetPredictor", self), folder))
        return super().save_pretrained(folder, **options) if options else None

    def generate_model_card(self, *_: Any, **__: Any) -> ModelCard:
        """The card that `save_pretrained` writes, as the hub's own class."""
        return ModelCard(model_card(cast("SetPredictor", self)))

    def _save_pretrained(self, save_directory: Path) -> None:
        write_together(predictor_files(cast("SetPredictor", self), save_directory))

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | Path, **options: Any) -> Self:
        """Load a predictor from a folder, or from the hub by its name.

        Args:
            pretrained_model_name_or_path: what `save_pretrained` wrote, or ``owner/name``.
            **options: `input_encoder` where the predictor was made with one, `engine`, `device`,
                `matmul_precision`; hub options such as `revision`.

        Raises:
            CheckpointError: missing or damaged, or the encoder it was made with is not given.
            SettingsError: there is no such option.
        """
        make = cast("type[SetPredictor]", cls)
        return cast(Self, load_predictor(make, pretrained_model_name_or_path, **options))


def predictor_files(predictor: "SetPredictor", folder: Path) -> dict[Path, Write]:
    """The files of a predictor, for `write_together`: settings and shapes, weights, and a card, unless there is
    one that somebody edited."""
    config = {
        "schema": SCHEMA,
        "method": to_json(predictor.method_settings),
        "representation": to_json(predictor.representation),
        "shape": to_json(predictor.shape),
        "own_encoder": predictor.input_encoder is not None,
        **({"facts": predictor.facts} if predictor.facts else {}),
    }
    weights = Checkpoint(predictor.method.state_dict(), {})
    files: dict[Path, Write] = {
        folder / WEIGHTS_FILE: partial(fill_checkpoint, weights),
        folder / CONFIG_FILE: with_content(json_bytes({"desp": config})),
    }
    if not _is_edited(folder / CARD_FILE):
        files[folder / CARD_FILE] = with_content(model_card(predictor).encode())
    return files


def _is_edited(path: Path) -> bool:
    try:
        return is_edited(path.read_bytes().decode())
    except FileNotFoundError:
        return False
    except (OSError, UnicodeDecodeError):
        return True


def load_predictor(make: "Callable[..., Any]", name: str | Path, **options: Any) -> "SetPredictor":
    """A fitted predictor from a folder, or from the hub; options are those of the hub and of `make`, its class.

    Raises:
        CheckpointError: missing or damaged, or the encoder it was made with is not given.
    """
    hub_options = {key: options.pop(key) for key in HUB_OPTIONS if key in options}
    for key in options:
        if key not in OWN_OPTIONS:
            known = ", ".join((*OWN_OPTIONS, *HUB_OPTIONS))
            raise SettingsError(f"from_pretrained has no option '{key}'. Known are: {known}.")
    folder = _find_folder(name, hub_options)
    config = _read_config(folder / CONFIG_FILE)
    if config.get("own_encoder") and options.get("input_encoder") is None:
        raise CheckpointError(
            "This predictor was made with an input encoder of your own. Pass it again: "
            "from_pretrained(folder, input_encoder=MyEncoder())."
        )
    try:
        values = _migrated(config)
        method = from_json(MethodSettings, values["method"]).without_files()
        representation = from_json(RepresentationSettings, values["representation"])
        shape = from_json(DataShape, values["shape"])
        facts = _facts_of(config)
    except SettingsError as error:
        raise CheckpointError(f"The saved configuration cannot be used: {error}{OTHER_VERSION}") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"The saved configuration is damaged ({error!r}). Save it again.") from error
    predictor = make(method, representation, **options)
    predictor.facts = facts
    predictor.build(shape)
    weights = load_checkpoint(folder / WEIGHTS_FILE).tensors
    try:
        predictor.method.load_state_dict(migrate_weights(weights, config.get("schema", 1), method.kind))
    except RuntimeError as error:
        own = config.get("own_encoder")
        fit = "the input encoder that was passed, or the saved settings" if own else "the saved settings"
        again = ". Pass a module like the one that the predictor was made with" if own else ""
        raise CheckpointError(f"The saved weights do not fit {fit}: {error}{again}") from error
    predictor.method.to(default_device(predictor.device_choice))
    return predictor


def read_shape(folder: Path) -> DataShape:
    """The shapes of inputs and sets of a saved predictor, without its weights.

    Raises:
        CheckpointError: there is none, or it is damaged.
    """
    try:
        return from_json(DataShape, _migrated(_read_config(folder / CONFIG_FILE))["shape"])
    except SettingsError as error:
        raise CheckpointError(f"The configuration in {folder} cannot be used: {error}{OTHER_VERSION}") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"The configuration in {folder} is damaged ({error!r}). Save it again.") from error


def _find_folder(name: str | Path, hub_options: dict[str, Any]) -> Path:
    """`name` itself, or where the hub's files of that name are on this machine."""
    if not isinstance(name, str | Path) or not str(name):
        raise CheckpointError(f"Expected the path of a folder that save_pretrained wrote, got {name!r}.")
    folder = Path(name)
    try:
        if folder.is_dir():
            return folder
        is_file = folder.exists()
    except OSError as error:  # too long a name
        raise CheckpointError(f"{str(name)[:60]} is no name of a folder ({error.strerror}).") from error
    if is_file:
        raise CheckpointError(f"{folder} is a file. Pass the folder that save_pretrained wrote.")
    if not _HUB_NAME.fullmatch(str(name)):
        raise CheckpointError(
            f"There is no folder {folder}. Pass what save_pretrained wrote, or the name of a predictor on the "
            "hub, owner/name."
        )
    hub_state = ", which was not asked (local_files_only)," if hub_options.get("local_files_only") else ""
    if not hub_state and not _hub_answers():
        hub_state = ", which does not answer,"
        hub_options = {**hub_options, "local_files_only": True}  # else it would try again and again
    try:
        return Path(snapshot_download(str(name), allow_patterns=[CONFIG_FILE, WEIGHTS_FILE], **hub_options))
    except (OSError, HfHubHTTPError, HFValidationError) as error:
        raise CheckpointError(
            f"There is no folder {folder}, and the hub{hub_state} gave no predictor of that name either ({error})."
        ) from error


def _hub_answers() -> bool:
    """Whether the hub answers within `HUB_SECONDS`."""
    if hub.HF_HUB_OFFLINE:
        return False
    try:
        with urllib.request.urlopen(urllib.request.Request(hub.ENDPOINT, method="HEAD"), timeout=HUB_SECONDS):  # noqa: S310
            return True
    except urllib.error.HTTPError as error:  # an answer as well
        error.close()
        return True
    except (OSError, ValueError, HTTPException):
        return False


def _migrated(config: dict[str, Any]) -> dict[str, Any]:
    try:
        return migrate_predictor(config)
    except SettingsError as error:  # of another version, and not damaged
        raise CheckpointError(f"The saved configuration cannot be used: {error}") from error


def _facts_of(config: dict[str, Any]) -> dict[str, Any]:
    """Facts about training for the model card; older versions called `kept_step` `best_step`."""
    return {"kept_step" if name == "best_step" else name: value for name, value in config.get("facts", {}).items()}


def _read_config(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8"))["desp"])
    except FileNotFoundError as error:
        model = path.parent / "model"  # a run folder's
        hint = f" Did you mean {model}?" if (model / path.name).is_file() else ""
        raise CheckpointError(f"{path.parent} holds no predictor: {path.name} is missing.{hint}") from error
    except (KeyError, TypeError, ValueError) as error:  # ValueError: neither text nor JSON
        raise CheckpointError(f"{path} is damaged or not a predictor's: {error!r}. Save it again.") from error
