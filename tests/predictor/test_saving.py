"""Saved predictors: JSON and safetensors, whole or refused."""

import errno
import json
import socket
import time
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest
import torch
from small_predictors import Pairs, Parts
from torch import Tensor, nn

from desp.errors import CheckpointError, SettingsError, StorageError
from desp.predictor import SetPredictor
from desp.scaling import FeatureScaling
from desp.settings import (
    SCHEMA,
    ContrastiveSettings,
    RepresentationSettings,
    SetEncoderEnergySettings,
    TrainingSettings,
    from_json,
    to_json,
)


class OtherPredictor(SetPredictor):
    """A user's own class."""


class Encoder(nn.Module):
    """A user's own input encoder."""

    def __init__(self, out: int = 6) -> None:
        super().__init__()
        self.layer = nn.Linear(3, out)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x).tanh()


def fit(settings: Parts, data: Pairs, training: TrainingSettings, **options: Any) -> SetPredictor:
    predictor = settings.predictor(device="cpu", **options)
    predictor.fit(data, training)
    return predictor


def sets_of(predictor: SetPredictor, x: Any) -> tuple[list[list[list[float]]], list[float]]:
    prediction = predictor.predict_one(x, 3, seed=2)
    # Without an energy they are NaN, which is not equal to itself.
    return [item.tolist() for item in prediction.sets], prediction.energies.nan_to_num().tolist()


@pytest.fixture
def saved(fitted: SetPredictor, tmp_path: Path) -> Path:
    """A folder with a saved predictor."""
    fitted.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_a_loaded_predictor_predicts_the_same(
    variant: Parts, pairs: Pairs, short: TrainingSettings, tmp_path: Path
) -> None:
    data = [(1000 * x, 2000 * y - 500) for x, y in pairs]  # both scalings must be saved too
    predictor = fit(variant.represented(padding="presence", scaling="auto"), data, short)
    predictor.save_pretrained(tmp_path)
    loaded = SetPredictor.from_pretrained(tmp_path, device="cpu")
    assert (loaded.method_settings, loaded.representation) == (predictor.method_settings, predictor.representation)
    assert loaded.shape == predictor.shape
    assert loaded.shape.scaling != FeatureScaling.identity(loaded.shape.features)
    assert sets_of(loaded, data[0][0]) == sets_of(predictor, data[0][0])
    assert SetPredictor.from_pretrained(str(tmp_path)).shape == predictor.shape


def test_images_predict_the_same_after_loading(settings: Parts, short: TrainingSettings, tmp_path: Path) -> None:
    data = [(torch.rand(1, 8, 8), torch.rand(2, 2)) for _ in range(4)]
    predictor = fit(settings, data, short)
    predictor.save_pretrained(tmp_path)
    loaded = SetPredictor.from_pretrained(tmp_path, device="cpu")
    assert sets_of(loaded, data[0][0]) == sets_of(predictor, data[0][0])


def test_files_are_json_and_safetensors(saved: Path, settings: Parts) -> None:
    names = {path.name for path in saved.iterdir()}
    assert names - {"README.md"} == {"config.json", "model.safetensors"}
    config = json.loads((saved / "config.json").read_text())["desp"]
    assert set(config) == {"schema", "method", "representation", "shape", "own_encoder", "facts"}
    assert (config["schema"], config["own_encoder"]) == (SCHEMA, False)
    assert config["method"] == to_json(settings.method)
    assert from_json(RepresentationSettings, config["representation"]) == settings.representation
    assert config["shape"]["input_shape"] == [3]
    # safetensors begin with the length of a JSON header; pickles and zip files do not
    raw = (saved / "model.safetensors").read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    assert "energy.lower" in header


def test_models_with_zero_padding_of_scaled_features_are_loaded(saved: Path) -> None:
    """Before it was refused, models were saved with it; how they scale is a part of their shape."""
    config = json.loads((saved / "config.json").read_text())
    assert config["desp"]["representation"]["padding"] == "zero"
    config["desp"]["representation"]["scaling"] = "auto"
    config["desp"]["shape"]["scaling"] |= {"offset": [1.0, 2.0], "span": [3.0, 4.0]}
    (saved / "config.json").write_text(json.dumps(config))
    loaded = SetPredictor.from_pretrained(saved, device="cpu")
    assert loaded.representation.scaling == "none"
    assert loaded.shape.scaling == FeatureScaling((1.0, 2.0), (3.0, 4.0))


def test_saving_again_replaces(saved: Path, settings: Parts, short: TrainingSettings) -> None:
    other = fit(settings, [(torch.zeros(2), torch.rand(1, 1))] * 4, short)
    other.save_pretrained(saved)
    assert SetPredictor.from_pretrained(saved).shape == other.shape


def test_loading_goes_to_the_device_that_is_asked_for(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert SetPredictor.from_pretrained(saved, device="cpu").device == torch.device("cpu")
    asked: list[str] = []  # where there is no other device, nothing else shows it
    monkeypatch.setattr(
        "desp.predictor.saving.default_device", lambda choice: asked.append(choice) or torch.device("cpu")
    )
    for choice in ("cpu", "auto"):
        SetPredictor.from_pretrained(saved, device=choice)
    assert asked == ["cpu", "auto"]


def test_weights_of_today_are_not_taken_for_older_ones(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, str]] = []

    def migrate(weights: dict[str, Tensor], schema: int, kind: str) -> dict[str, Tensor]:
        told.append((schema, kind))
        return weights

    monkeypatch.setattr("desp.predictor.saving.migrate_weights", migrate)
    SetPredictor.from_pretrained(saved, device="cpu")
    assert told == [(SCHEMA, "contrastive")]


def test_a_loaded_predictor_can_be_fitted_again(
    saved: Path, contrastive: SetPredictor, pairs: Pairs, short: TrainingSettings
) -> None:
    """From the beginning, like any other."""
    loaded = SetPredictor.from_pretrained(saved, device="cpu")
    before = sets_of(loaded, pairs[0][0])
    loaded.fit(pairs, short, seed=1)
    contrastive.fit(pairs, short, seed=1)
    assert sets_of(loaded, pairs[0][0]) == sets_of(contrastive, pairs[0][0]) != before


# -- an encoder of one's own ---------------------------------------------------------------------------


def test_own_encoder_is_trained_saved_and_asked_for(
    settings: Parts, pairs: Pairs, short: TrainingSettings, tmp_path: Path
) -> None:
    encoder = Encoder()
    before = encoder.layer.weight.detach().clone()
    predictor = fit(settings, pairs, short, input_encoder=encoder)
    assert not torch.equal(encoder.layer.weight, before)
    predictor.save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match=r"from_pretrained\(folder, input_encoder=MyEncoder\(\)\)"):
        SetPredictor.from_pretrained(tmp_path)
    loaded = SetPredictor.from_pretrained(tmp_path, input_encoder=Encoder(), device="cpu")
    assert sets_of(loaded, pairs[0][0]) == sets_of(predictor, pairs[0][0])
    with pytest.raises(CheckpointError, match="do not fit"):
        SetPredictor.from_pretrained(tmp_path, input_encoder=Encoder(out=9))


def test_own_encoder_serves_inputs_of_any_shape(short: TrainingSettings, settings: Parts) -> None:
    words = [(torch.rand(4, 3), torch.rand(2, 2)) for _ in range(4)]
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(12, 5))
    predictor = fit(settings, words, short, input_encoder=encoder)
    first, second = (sets_of(predictor, x) for x, _ in words[:2])
    assert first != second  # with the same noise: they hear of their inputs
    assert torch.tensor(first[0]).shape == (3, 2, 2)


def test_own_encoder_of_the_wrong_length_is_refused(pairs: Pairs, short: TrainingSettings) -> None:
    settings = Parts(ContrastiveSettings(energy=SetEncoderEnergySettings(hidden=8, latent=4)))
    with pytest.raises(SettingsError, match="codes of 4 numbers"):
        fit(settings, pairs, short, input_encoder=Encoder(out=6))


# -- damage --------------------------------------------------------------------------------------------


def test_cut_weights_are_refused(saved: Path) -> None:
    weights = saved / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match="damaged"):
        SetPredictor.from_pretrained(saved)


def test_a_changed_byte_is_noticed(saved: Path) -> None:
    weights = saved / "model.safetensors"
    raw = bytearray(weights.read_bytes())
    raw[-3] ^= 255
    weights.write_bytes(bytes(raw))
    with pytest.raises(CheckpointError, match="checksum"):
        SetPredictor.from_pretrained(saved)


def test_missing_weights_are_named(saved: Path) -> None:
    (saved / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        SetPredictor.from_pretrained(saved)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "",
        "[]",
        "3",
        '{"other": 1}',
        '{"desp": 3}',
        '{"desp": {"schema": 4}}',
        '{"desp": {"schema": 4, "method": {}, "representation": {}, "shape": {}}}',
        '{"desp": {"schema": 4, "method": {"kind": "denoising"}, "representation": {}, "shape": {}}}',
        '{"desp": {"schema": 4, "method": {"kind": "denoising", "enrgy": 1}, "representation": {}, "shape": {}}}',
        '{"desp": {"schema": 4, "method": 4, "representation": {}, "shape": 5}}',
        '{"desp": {"class": "EnergyPredictor"}}',  # as they were before schemas had numbers
        '{"desp": {"class": "EnergyPredictor", "settings": {}, "shape": {}}}',
        '{"desp": {"class": "EnergyPredictor", "settings": {"enrgy": 1}, "shape": {}}}',
        '{"desp": {"class": "EnergyPredictor", "settings": 4, "shape": 5}}',
    ],
)
def test_a_damaged_config_is_refused(saved: Path, text: str) -> None:
    (saved / "config.json").write_text(text)
    with pytest.raises(CheckpointError, match=r"damaged|cannot be used"):
        SetPredictor.from_pretrained(saved)


def test_a_config_that_is_no_text_is_refused(saved: Path) -> None:
    (saved / "config.json").write_bytes(b"\x80\xff\x00")
    with pytest.raises(CheckpointError, match="damaged"):
        SetPredictor.from_pretrained(saved)


def test_weights_of_other_settings_are_refused(saved: Path) -> None:
    config = json.loads((saved / "config.json").read_text())
    config["desp"]["method"]["energy"]["hidden"] = 9
    (saved / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match="do not fit"):
        SetPredictor.from_pretrained(saved)


def test_a_folder_of_a_newer_version_is_refused(saved: Path) -> None:
    config = json.loads((saved / "config.json").read_text())
    config["desp"]["schema"] = SCHEMA + 1
    (saved / "config.json").write_text(json.dumps(config))
    with pytest.raises(
        CheckpointError, match=rf"schema {SCHEMA + 1}; this version of desp reads \[1, 3, 4, 5, 6, {SCHEMA}\]"
    ):
        SetPredictor.from_pretrained(saved)


def test_a_class_of_ones_own_loads_what_it_saved(saved: Path, fitted: SetPredictor, pairs: Pairs) -> None:
    loaded = OtherPredictor.from_pretrained(saved, device="cpu")
    assert type(loaded) is OtherPredictor
    assert sets_of(loaded, pairs[0][0]) == sets_of(fitted, pairs[0][0])


def test_a_folder_without_a_predictor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"holds no predictor: config\.json is missing"):
        SetPredictor.from_pretrained(tmp_path)


def test_a_run_folder_is_not_its_predictor(fitted: SetPredictor, tmp_path: Path) -> None:
    fitted.save_pretrained(tmp_path / "model")
    with pytest.raises(CheckpointError, match=rf"is missing\. Did you mean {tmp_path / 'model'}\?"):
        SetPredictor.from_pretrained(tmp_path)


def test_a_missing_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CheckpointError, match="There is no folder"):
        SetPredictor.from_pretrained(tmp_path / "nothing")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(CheckpointError, match=r"no folder nothing/here.*hub"):  # could be a name on the hub
        SetPredictor.from_pretrained("nothing/here")


@pytest.mark.parametrize("name", ["typo", "my model!", "runs/mine/model", "./not-there", "../x"])
def test_what_is_no_name_on_the_hub_is_refused_at_once(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nobody is asked."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for asked in ("snapshot_download", "_hub_answers"):
        monkeypatch.setattr(f"desp.predictor.saving.{asked}", lambda *_, **__: pytest.fail("the network was used"))
    with pytest.raises(CheckpointError, match=r"There is no folder .*Pass what save_pretrained wrote.*owner/name"):
        SetPredictor.from_pretrained(name)


def test_without_a_connection_the_hub_is_given_up_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It would be tried again for 23 seconds. What was downloaded before is still found."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", nobody)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    began = time.monotonic()
    with pytest.raises(CheckpointError, match="the hub, which does not answer, gave no predictor of that name"):
        SetPredictor.from_pretrained("owner/name", cache_dir=tmp_path)
    assert time.monotonic() - began < 10
    with pytest.raises(
        CheckpointError, match=r"the hub, which was not asked \(local_files_only\), gave no predictor"
    ):
        SetPredictor.from_pretrained("owner/name", cache_dir=tmp_path, local_files_only=True)


def test_a_full_disk_leaves_the_predictor_that_was_there(
    saved: Path, fitted: SetPredictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub's own way of saving removes its configuration first."""
    before = {path.name: path.read_bytes() for path in saved.iterdir()}

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(StorageError, match=r"model\.safetensors could not be written: No space left"):
        fitted.save_pretrained(saved)
    assert {path.name: path.read_bytes() for path in saved.iterdir()} == before


def test_options_of_the_hub_go_to_the_hub(
    fitted: SetPredictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushed: dict[str, Any] = {}
    monkeypatch.setattr(SetPredictor, "push_to_hub", lambda _, **options: pushed.update(options) or "address")
    assert fitted.save_pretrained(tmp_path / "model", push_to_hub=True, repo_id="owner/name") == "address"
    assert pushed["repo_id"] == "owner/name"
    assert SetPredictor.from_pretrained(tmp_path / "model", device="cpu").shape == fitted.shape


def test_a_predictor_on_the_hub_is_asked_for_with_the_hubs_options(
    saved: Path, fitted: SetPredictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def download(name: str, **options: Any) -> str:
        asked.update(options, name=name)
        return str(saved)

    monkeypatch.setattr("desp.predictor.saving.snapshot_download", download)
    options = {
        "revision": "v1",
        "cache_dir": "here",
        "force_download": True,
        "local_files_only": True,
        "token": "t",
    }
    loaded = SetPredictor.from_pretrained("owner/name", device="cpu", **options)
    assert loaded.shape == fitted.shape
    assert asked == {"name": "owner/name", "allow_patterns": ["config.json", "model.safetensors"], **options}
