"""ResNet-34 and the image encoder around it."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

from desp.errors import DataError, SettingsError
from desp.nn.resnet import ResNet34, ResNet34Encoder
from desp.settings import ResNet34EncoderSettings

NARROW = (4, 6, 8, 10)
OF_NORMS = ("running_mean", "running_var", "weight", "bias")


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few channels: as deep, and quick."""
    monkeypatch.setattr("desp.nn.resnet.CHANNELS", NARROW)


def build(settings: ResNet34EncoderSettings, shape: tuple[int, int, int] = (3, 128, 128)) -> nn.Module:
    encoder: nn.Module = settings.load()(settings, shape)
    return encoder


def with_statistics(module: nn.Module) -> nn.Module:
    """Batch norms as after some training."""
    for name, value in module.state_dict().items():
        if re.search(r"(bn\d|downsample\.1)\.(weight|bias|running_mean|running_var)$|^end\.1\.(w|b|r)", name):
            value.copy_(0.5 + torch.rand(value.shape))
    return module


def torchvision_shapes() -> dict[str, tuple[int, ...]]:
    """Names and shapes of resnet34().state_dict() without fc, written out."""

    def norm(name: str, channels: int) -> dict[str, tuple[int, ...]]:
        of_channels = {f"{name}.{part}": (channels,) for part in OF_NORMS}
        return {**of_channels, f"{name}.num_batches_tracked": ()}

    found: dict[str, tuple[int, ...]] = {"conv1.weight": (64, 3, 7, 7), **norm("bn1", 64)}
    before = 64
    for layer, (blocks, channels) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)], start=1):
        for block in range(blocks):
            name = f"layer{layer}.{block}"
            found |= {f"{name}.conv1.weight": (channels, before, 3, 3), **norm(f"{name}.bn1", channels)}
            found |= {f"{name}.conv2.weight": (channels, channels, 3, 3), **norm(f"{name}.bn2", channels)}
            if before != channels:
                found |= {f"{name}.downsample.0.weight": (channels, before, 1, 1)}
                found |= norm(f"{name}.downsample.1", channels)
            before = channels
    return found


def functional(weights: dict[str, Tensor], x: Tensor) -> Tensor:
    """ResNet-34 in eval mode from its weights alone."""

    def norm(values: Tensor, name: str) -> Tensor:
        mean, var, scale, shift = (weights[f"{name}.{part}"].view(1, -1, 1, 1) for part in OF_NORMS)
        return (values - mean) / (var + 1e-5).sqrt() * scale + shift

    x = norm(F.conv2d(x, weights["conv1.weight"], stride=2, padding=3), "bn1").clamp(min=0)
    x = F.max_pool2d(x, 3, 2, 1)
    for name in [f"layer{k}.{i}" for k, blocks in enumerate((3, 4, 6, 3), start=1) for i in range(blocks)]:
        stride = 2 if name in ("layer2.0", "layer3.0", "layer4.0") else 1
        way = norm(F.conv2d(x, weights[f"{name}.conv1.weight"], stride=stride, padding=1), f"{name}.bn1")
        way = norm(F.conv2d(way.clamp(min=0), weights[f"{name}.conv2.weight"], padding=1), f"{name}.bn2")
        if stride == 2:
            x = norm(F.conv2d(x, weights[f"{name}.downsample.0.weight"], stride=2), f"{name}.downsample.1")
        x = (way + x).clamp(min=0)
    return x


def test_names_and_shapes_are_those_of_torchvision() -> None:
    trunk = ResNet34()
    assert {name: tuple(value.shape) for name, value in trunk.state_dict().items()} == torchvision_shapes()
    assert sum(item.numel() for item in trunk.parameters()) == 21_284_672


def test_first_weights_are_those_of_torchvision() -> None:
    for name, value in ResNet34().state_dict().items():
        if value.dim() == 4:
            expected = (2 / (value.shape[0] * value.shape[2] * value.shape[3])) ** 0.5
            assert float(value.std()) == pytest.approx(expected, rel=0.05), name
        elif not name.endswith("num_batches_tracked"):
            assert (value == (1 if name.endswith(("weight", "running_var")) else 0)).all(), name


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize(("size", "out"), [((128, 128), (4, 4)), ((65, 96), (3, 3)), ((33, 1), (2, 1))])
def test_forward_from_weights_alone(size: tuple[int, int], out: tuple[int, int]) -> None:
    trunk, x = with_statistics(ResNet34()).double().eval(), torch.rand(2, 3, *size, dtype=torch.float64)
    found = trunk(x)
    assert found.shape == (2, NARROW[-1], *out)
    torch.testing.assert_close(found, functional(trunk.state_dict(), x), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("training", [False, True])
def test_outputs_are_those_of_torchvision(training: bool) -> None:
    models = pytest.importorskip("torchvision.models")
    theirs = with_statistics(models.resnet34()).train(training)
    trunk = ResNet34().train(training)
    trunk.load_state_dict({name: value for name, value in theirs.state_dict().items() if name[:3] != "fc."})
    x = torch.rand(2, 3, 128, 128)
    torch.testing.assert_close(trunk(x), nn.Sequential(*list(theirs.children())[:-2])(x))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.usefixtures("narrow")
def test_values_and_gradients_are_the_same_on_a_gpu() -> None:
    """There the images' layout is another one."""
    trunk, x = ResNet34().double(), torch.rand(4, 3, 128, 128, dtype=torch.float64)
    outcomes = []
    for device in ("cpu", "cuda"):
        trunk.to(device).zero_grad()
        found = trunk(x.to(device))
        found.square().mean().backward()
        gradients = [weight.grad.cpu().clone() for weight in trunk.parameters()]  # a move takes them along
        outcomes.append([found.detach().cpu(), *gradients])
    torch.testing.assert_close(*outcomes, rtol=1e-6, atol=1e-9)


# -- the encoder -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("narrow")
def test_what_follows_the_trunk() -> None:
    encoder = with_statistics(ResNet34Encoder(5)).eval()
    x = torch.rand(2, 3, 128, 128)
    weights = encoder.state_dict()
    values = F.conv2d(encoder.trunk(x), weights["end.0.weight"], weights["end.0.bias"], stride=2, padding=1)
    values = F.batch_norm(values, *(weights[f"end.1.{part}"] for part in OF_NORMS))
    assert values.shape == (2, NARROW[-1], 2, 2)
    expected = torch.einsum("bchw,ochw->bo", values, weights["end.2.weight"]) + weights["end.2.bias"]
    torch.testing.assert_close(encoder(x), expected)


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize(
    ("size", "positions"), [((65, 65), 1), ((96, 128), 1), ((128, 65), 1), ((129, 128), 2), ((200, 260), 12)]
)
def test_images_of_other_sizes_give_one_vector(size: tuple[int, int], positions: int) -> None:
    encoder, x = build(ResNet34EncoderSettings(5), (3, *size)).eval(), torch.rand(2, 3, *size)
    assert isinstance(encoder, ResNet34Encoder)
    places = encoder.end(encoder.trunk(x)).flatten(start_dim=2)
    assert places.shape == (2, 5, positions)
    torch.testing.assert_close(encoder(x), places.mean(dim=2))


@pytest.mark.parametrize("size", [(64, 128), (128, 64), (1, 1)])
def test_small_images_are_refused(size: tuple[int, int]) -> None:
    with pytest.raises(SettingsError, match=rf"at least 65 x 65 pixels, got {size[0]} x {size[1]}.*'conv'"):
        build(ResNet34EncoderSettings(), (3, *size))


@pytest.mark.usefixtures("narrow")
def test_codes_of_one_image_are_those_of_it_in_a_batch_except_in_training() -> None:
    encoder, x = with_statistics(ResNet34Encoder(5)), torch.rand(3, 3, 65, 65)
    encoder.train()
    assert not torch.isclose(encoder(x)[:1], encoder(x[:1])).any()
    encoder.eval()
    torch.testing.assert_close(encoder(x)[:1], encoder(x[:1]))


@pytest.mark.usefixtures("narrow")
def test_xavier_reaches_every_convolution() -> None:
    encoder = build(ResNet34EncoderSettings(5, initialisation="xavier"))
    convolutions = [item for item in encoder.modules() if isinstance(item, nn.Conv2d)]
    assert len(convolutions) == 38  # 1 + 2 (3 + 4 + 6 + 3) + 3 shortcuts, and 2 behind them
    for layer in convolutions:
        inside, outside = layer.weight[0].numel(), layer.weight[:, 0].numel()
        bound = (6 / (inside + outside)) ** 0.5
        assert 0.8 * bound < float(layer.weight.detach().abs().max()) <= bound
        assert layer.bias is None or not layer.bias.any()


@pytest.mark.usefixtures("narrow")
def test_codes_may_be_standardised() -> None:
    encoder = build(ResNet34EncoderSettings(5, standardise_codes=True), (3, 65, 65)).train()
    codes = encoder(torch.rand(8, 3, 65, 65)).detach()
    torch.testing.assert_close(codes.mean(dim=0), torch.zeros(5), atol=1e-4, rtol=0)
    torch.testing.assert_close(codes.std(dim=0, correction=0), torch.ones(5), atol=1e-3, rtol=0)


# -- weights from a file ---------------------------------------------------------------------------------

Change = Callable[[dict[str, Tensor]], dict[str, Tensor]]


def written(folder: Path, change: Change = dict, channels: int = 3) -> tuple[str, dict[str, Tensor]]:
    """A file with random weights, and what it holds."""
    weights = change(with_statistics(ResNet34(channels)).state_dict())
    save_file(weights, folder / "weights.safetensors")
    return str(folder / "weights.safetensors"), weights


def without_counts(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value for name, value in weights.items() if not name.endswith("num_batches_tracked")}


def with_classifier(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {**weights, "fc.weight": torch.rand(1000, 10), "fc.bias": torch.rand(1000)}


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("change", [dict, without_counts, with_classifier])
@pytest.mark.parametrize("standardise", [False, True])
def test_the_trunk_begins_with_weights_of_a_file(change: Change, standardise: bool, tmp_path: Path) -> None:
    path, expected = written(tmp_path, change)
    settings = ResNet34EncoderSettings(5, standardise_codes=standardise, initialisation="xavier", weights=path)
    built = build(settings)
    (encoder,) = (item for item in built.modules() if isinstance(item, ResNet34Encoder))
    found = encoder.trunk.state_dict()
    for name, value in found.items():
        assert torch.equal(value, expected.get(name, torch.tensor(0))), name
    assert not encoder.end[0].bias.any()  # Xavier's, and not what torch draws
    assert all(item.requires_grad for item in built.parameters())


@pytest.mark.usefixtures("narrow")
def test_weights_of_lower_precision_are_widened(tmp_path: Path) -> None:
    path, expected = written(tmp_path, lambda found: {name: value.half() for name, value in found.items()})
    encoder = build(ResNet34EncoderSettings(5, weights=path))
    weight = encoder.trunk.conv1.weight
    assert weight.dtype == torch.float32
    assert torch.equal(weight, expected["conv1.weight"].float())


def refusal(change: Change, folder: Path, channels: int = 3) -> str:
    path, _ = written(folder, change, channels)
    with pytest.raises(DataError) as caught:
        build(ResNet34EncoderSettings(5, weights=path))
    return str(caught.value)


@pytest.mark.usefixtures("narrow")
def test_weights_of_other_names_or_shapes_are_refused(tmp_path: Path) -> None:
    prefixed = refusal(lambda found: {f"module.{name}": value for name, value in found.items()}, tmp_path)
    assert re.search(r"resnet34: \d+ \(conv1.weight, bn1.weight, bn1.bias, ...\) missing", prefixed)
    assert re.search(r"\d+ \(module\.\S+, module\.\S+, module\.\S+, ...\) unknown", prefixed)

    lacking = refusal(lambda found: {k: v for k, v in found.items() if k != "layer2.0.conv1.weight"}, tmp_path)
    assert "1 (layer2.0.conv1.weight) missing, none unknown" in lacking
    more = refusal(lambda found: {**found, "layer1.0.conv3.weight": torch.zeros(1)}, tmp_path)
    assert "none missing, 1 (layer1.0.conv3.weight) unknown" in more

    grey = refusal(dict, tmp_path, channels=1)
    assert "conv1.weight must have shape (4, 3, 7, 7), got (4, 1, 7, 7)" in grey


@pytest.mark.usefixtures("narrow")
def test_files_that_are_missing_or_damaged_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "none.safetensors"
    with pytest.raises(SettingsError, match=r"encoder\.weights: there is no file .*none\.safetensors"):
        build(ResNet34EncoderSettings(5, weights=str(path)))
    path.write_bytes(b"rubbish")
    with pytest.raises(DataError, match=r"none\.safetensors cannot be read as a safetensors file"):
        build(ResNet34EncoderSettings(5, weights=str(path)))
