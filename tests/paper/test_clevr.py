"""The methods of the CLEVR table: published numbers, and that each of them trains on images."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from desp.nn import SetEncoder
from desp.nn.resnet import ResNet34, ResNet34Encoder
from desp.paper.clevr import c_dspn_method, desp_infonce_method, desp_method, dspn_method, tspn_method
from desp.predictor import DataShape, SetPredictor
from desp.randomness import make_generator
from desp.settings import (
    ContrastiveSettings,
    MethodSettings,
    RepresentationSettings,
    SetRiskSettings,
    TrainingSettings,
    TSPNSettings,
    from_json,
    to_json,
)

METHODS: dict[str, MethodSettings] = {
    "desp": desp_method(pairs=False),
    "desp-pairs": desp_method(pairs=True),
    "desp-infonce": desp_infonce_method(),
    "dspn-hungarian": dspn_method("hungarian"),
    "dspn-chamfer": dspn_method("chamfer"),
    "c-dspn": c_dspn_method(),
    "tspn": tspn_method(),
}
every_method = pytest.mark.parametrize("name", METHODS)
SHAPE = DataShape((3, 128, 128), features=4, max_size=10, input_kind="image")


def small(settings: Any) -> Any:
    """The same method with narrow networks and short chains."""
    settings = replace(settings, encoder=replace(settings.encoder, out=6))
    if isinstance(settings, TSPNSettings):
        return replace(settings, hidden=8, layers=1, feedforward=8, latent=6)
    settings = replace(settings, energy=replace(settings.energy, hidden=8, latent=6))
    if isinstance(settings, SetRiskSettings):
        return settings
    short = replace(settings.training_sampler, steps=5, stochastic_steps=5)
    return replace(settings, training_sampler=short, sampler=replace(short, stochastic_steps=4))


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trunk of few channels."""
    monkeypatch.setattr("desp.nn.resnet.CHANNELS", (4, 4, 6, 8))


def predictor(name: str) -> SetPredictor:
    return SetPredictor(small(METHODS[name]), RepresentationSettings(scaling="none"), device="cpu")


def scenes(count: int = 4) -> list[tuple[Tensor, Tensor]]:
    """Random images with 0 to 10 boxes."""
    generator = make_generator(0)
    sizes = torch.randint(11, (count,), generator=generator).tolist()
    sizes[0] = 10
    images = torch.rand(count, *SHAPE.input_shape, generator=generator)
    return [(image, torch.rand(size, 4, generator=generator)) for image, size in zip(images, sizes, strict=True)]


# -- settings --------------------------------------------------------------------------------------------


@every_method
def test_settings_survive_json(name: str) -> None:
    settings = METHODS[name]
    assert from_json(MethodSettings, to_json(settings)) == settings


@pytest.mark.parametrize("pairs", [False, True])
def test_the_papers_settings(pairs: bool) -> None:
    settings = desp_method(pairs)
    chains = [settings.training_sampler, settings.sampler]
    assert [(item.steps, item.stochastic_steps, item.noise_scale) for item in chains] == [
        (200, 200, 0.0025),
        (200, 160, 0.0025),
    ]
    assert settings.data_noise == 0.005
    assert (settings.energy.negative_slope, settings.energy.initialisation) == (0.01, "default")
    assert (settings.energy.pairs, settings.encoder.initialisation) == (pairs, "default")


def test_the_settings_of_dspn() -> None:
    hungarian, chamfer, c_dspn = (METHODS[name] for name in ("dspn-hungarian", "dspn-chamfer", "c-dspn"))
    assert (hungarian.supervise, chamfer.supervise, c_dspn.supervise) == ("last", "all", "all")
    assert (hungarian.cardinality, chamfer.cardinality, c_dspn.cardinality) == ("clamped", "clamped", "predicted")
    for settings in (hungarian, chamfer, c_dspn):
        assert (settings.descent.steps, settings.descent.step_size) == (10, 25.0)
        assert settings.representation_weight == 0.1
        assert (settings.energy.pairs, settings.energy.shared, settings.energy.negative_slope) == (True, False, 0)
        assert settings.energy.initialisation == settings.encoder.initialisation == "xavier"
    assert hungarian.prediction_sampler == hungarian.descent


@pytest.mark.parametrize(("name", "first"), [("desp", 5), ("desp-pairs", 10), ("c-dspn", 10), ("tspn", None)])
def test_the_published_networks(name: str, first: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("desp.nn.resnet.BLOCKS", (1, 1, 1, 1))  # the trunk has tests of its own
    built = SetPredictor(METHODS[name], device="cpu")
    built.build(SHAPE)
    modules = list(built.method.modules())
    (images,) = (item for item in modules if isinstance(item, ResNet34Encoder))
    assert (images.end[0].out_channels, images.end[2].out_channels) == (512, 512)
    sets = [item for item in modules if isinstance(item, SetEncoder)]
    widths = [[(layer.in_features, layer.out_features) for layer in item.mlp.linears] for item in sets]
    assert widths == ([] if first is None else [[(first, 512), (512, 512)]])
    assert [item.divisor(10) for item in sets] == [] if first is None else [{5: 10, 10: 100}[first]]
    if name in ("c-dspn", "tspn"):
        layers = built.method.cardinality.logits.linears
        assert [(item.in_features, item.out_features) for item in layers] == [(512, 128), (128, 11)]


# -- training --------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("narrow")
@every_method
def test_it_trains_on_images_and_predicts_in_eval_mode(name: str) -> None:
    fitted, data = predictor(name), scenes()
    fitted.fit(data, TrainingSettings(steps=2, batch_size=4))
    trunk = fitted.method.get_submodule("encoder.0.trunk" if name == "tspn" else "encoder.trunk")
    norms = [item for item in trunk.modules() if isinstance(item, torch.nn.BatchNorm2d)]
    assert len(norms) == 36
    assert all(int(item.num_batches_tracked) == 2 and item.running_mean.any() for item in norms)
    assert all(item.isfinite().all() for item in fitted.method.state_dict().values())

    images = torch.stack([image for image, _ in data])
    fitted.method.train()  # as a user may leave it
    before = {key: value.clone() for key, value in fitted.method.state_dict().items()}
    together = fitted.encode(images)
    torch.testing.assert_close(torch.cat([fitted.encode(image.unsqueeze(0)) for image in images]), together)
    prediction = fitted.predict(images, samples=2)
    assert [len(item.sets) for item in prediction] == [2] * 4
    assert all(item.shape[1] == 4 and len(item) <= 10 for one in prediction for item in one.sets)
    assert all(torch.equal(value, before[key]) for key, value in fitted.method.state_dict().items())


@pytest.mark.usefixtures("narrow")
@every_method
def test_every_weight_gets_a_gradient(name: str) -> None:
    built, data = predictor(name), scenes()
    built.build(SHAPE)
    method = built.method.train()
    y = torch.zeros(4, 10, 5)
    for row, (_, boxes) in zip(y, data, strict=True):
        row[: len(boxes), :4], row[: len(boxes), 4] = boxes, 1.0
    loss, _ = method(torch.stack([image for image, _ in data]), y, make_generator(1))
    loss.backward()
    without = [key for key, item in method.named_parameters() if item.grad is None or not item.grad.any()]
    # A constant before a batch norm makes no difference.
    rounding = {"encoder.end.0.bias", "encoder.0.end.0.bias", "encoder.0.end.2.bias"}
    assert set(without) <= rounding, without


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("name", ["desp", "desp-pairs"])
def test_gradients_reach_the_image_encoder_through_both_energies(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    built, data = predictor(name), scenes()
    built.build(SHAPE)
    method = built.method.train()
    assert isinstance(method.settings, ContrastiveSettings)
    codes: list[Tensor] = []
    energy, encode = method.energy.energy, method.encode

    def kept(code: Tensor) -> Tensor:
        code.retain_grad()
        codes.append(code)
        return code

    monkeypatch.setattr(method, "encode", lambda x: kept(encode(x)))
    monkeypatch.setattr(method.energy, "energy", lambda code, y: energy(kept(code), y))
    loss, _ = method(torch.stack([image for image, _ in data]), torch.rand(4, 10, 5), make_generator(1))
    loss.backward()
    once, twice = (code.grad for code in codes)
    of_real, of_sampled = twice.view(2, 4, -1)
    assert of_real.any(dim=1).all()
    assert of_sampled.any(dim=1).all()
    torch.testing.assert_close(once, of_real + of_sampled)


@pytest.mark.usefixtures("narrow")
def test_a_saved_predictor_needs_no_file_of_first_weights(tmp_path: Path) -> None:
    path = tmp_path / "resnet34.safetensors"
    save_file(ResNet34().state_dict(), path)
    settings = small(METHODS["dspn-chamfer"])
    settings = replace(settings, encoder=replace(settings.encoder, weights=str(path)))
    fitted = SetPredictor(settings, RepresentationSettings(scaling="none"), device="cpu")
    fitted.fit(scenes(), TrainingSettings(steps=1, batch_size=4))
    fitted.save_pretrained(tmp_path / "model")
    path.unlink()
    loaded = SetPredictor.from_pretrained(tmp_path / "model", device="cpu")
    for (key, value), other in zip(
        fitted.method.state_dict().items(), loaded.method.state_dict().values(), strict=True
    ):
        assert torch.equal(value, other), key
