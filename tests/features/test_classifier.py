"""The classifier of attributes: it learns, and an interruption changes nothing."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from desp.errors import CheckpointError, TrainingError
from desp.features import classifier
from desp.features.classifier import AttributeClassifier, compute_features, one_cycle, train_classifier
from desp.features.settings import FeatureSettings
from tiny_celeba import make_small

SETTINGS = FeatureSettings(epochs=4, batch_size=8)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    make_small(monkeypatch)
    monkeypatch.setattr(classifier, "CHECKPOINT_SECONDS", 0.0)


@pytest.fixture
def data(generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Images that are brighter with the first attribute, all but the last four for training."""
    attributes = torch.rand(40, 3, generator=generator) < 0.5
    noise = torch.randint(100, (40, 3, 32, 32), generator=generator)
    images = (noise + 150 * attributes[:, :1, None, None]).to(torch.uint8)
    return images, attributes, torch.arange(36)


class Stop(BaseException):
    """Ends training, as a kill does."""


def weights(model: AttributeClassifier) -> Tensor:
    return torch.cat([value.double().flatten() for value in model.state_dict().values()])


def test_shapes() -> None:
    pooled, logits = AttributeClassifier(5)(torch.rand(2, 3, 32, 32))
    assert (pooled.shape, logits.shape) == ((2, 8), (2, 5))


def test_one_cycle() -> None:
    rates = [one_cycle(step, 100, 2.0) for step in range(100)]
    assert rates[0] == pytest.approx(0.08)
    assert max(rates) == pytest.approx(2.0) == rates[30]
    assert rates[:31] == sorted(rates[:31])
    assert rates[30:] == sorted(rates[30:], reverse=True)
    assert 0 < rates[-1] < 0.002


def test_it_learns(data: tuple[Tensor, Tensor, Tensor], tmp_path: Path) -> None:
    images, attributes, rows = data
    model = train_classifier(images, attributes, rows, FeatureSettings(epochs=12, batch_size=12), 0, tmp_path)
    assert not model.training
    _, logits = compute_features(model, images, torch.arange(40))
    assert ((logits[:, 0] > 0) == attributes[:, 0]).double().mean() > 0.9


@pytest.mark.parametrize("epochs", [1, 3])
def test_resumed_training_equals_uninterrupted(
    data: tuple[Tensor, Tensor, Tensor], tmp_path: Path, epochs: int
) -> None:
    told: list[tuple[int, int]] = []
    whole = train_classifier(*data, SETTINGS, 1, tmp_path / "whole", lambda *news: told.append(news))
    assert told == [(step, 16) for step in range(1, 17)]

    def stop(done: int, _: int) -> None:
        if done == 4 * epochs + 2:
            raise Stop

    with pytest.raises(Stop):
        train_classifier(*data, SETTINGS, 1, tmp_path / "parts", stop)
    torch.manual_seed(7)
    told.clear()
    resumed = train_classifier(*data, SETTINGS, 1, tmp_path / "parts", lambda *news: told.append(news))
    assert told[0] == (4 * epochs + 1, 16)
    assert torch.equal(weights(whole), weights(resumed))


def test_what_is_trained_is_only_loaded(data: tuple[Tensor, Tensor, Tensor], tmp_path: Path) -> None:
    first = train_classifier(*data, SETTINGS, 0, tmp_path)
    told: list[tuple[int, int]] = []
    again = train_classifier(*data, SETTINGS, 0, tmp_path, lambda *news: told.append(news))
    assert not told
    assert torch.equal(weights(first), weights(again))


def test_the_global_generator_is_left_alone(data: tuple[Tensor, Tensor, Tensor], tmp_path: Path) -> None:
    before = torch.get_rng_state()
    train_classifier(*data, FeatureSettings(epochs=1, batch_size=8), 0, tmp_path)
    assert torch.equal(before, torch.get_rng_state())


def test_seeds_and_folds_differ(data: tuple[Tensor, Tensor, Tensor], tmp_path: Path) -> None:
    runs = [(0, 0), (0, 1), (1, 0)]
    found = [
        weights(
            train_classifier(
                *data, FeatureSettings(epochs=1, batch_size=8, seed=seed), fold, tmp_path / f"{seed}{fold}"
            )
        )
        for seed, fold in runs
    ]
    assert not torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_checkpoints_are_written_now_and_then(
    data: tuple[Tensor, Tensor, Tensor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(classifier, "CHECKPOINT_SECONDS", 1e9)
    train_classifier(*data, SETTINGS, 0, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000004.safetensors"]


def test_a_damaged_checkpoint(data: tuple[Tensor, Tensor, Tensor], tmp_path: Path) -> None:
    train_classifier(*data, SETTINGS, 0, tmp_path)
    (tmp_path / "step-00000004.safetensors").write_bytes(b"damaged")
    with pytest.raises(CheckpointError, match=r"step-00000004\.safetensors is damaged"):
        train_classifier(*data, SETTINGS, 0, tmp_path)


def test_weights_that_are_not_finite(data: tuple[Tensor, Tensor, Tensor], tmp_path: Path) -> None:
    settings = FeatureSettings(epochs=2, batch_size=8, learning_rate=1e30)
    with pytest.raises(TrainingError, match=r"became NaN or infinite in epoch 1\. Lower the learning rate"):
        train_classifier(*data, settings, 0, tmp_path)
    assert not list(tmp_path.glob("step-*"))


def test_features_in_batches_are_those_of_single_images(
    data: tuple[Tensor, Tensor, Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    images = data[0]
    model = AttributeClassifier(3).eval()
    whole = compute_features(model, images, torch.arange(7))
    monkeypatch.setattr(classifier, "AT_ONCE", 2)
    for one, other in zip(whole, compute_features(model, images, torch.arange(7)), strict=True):
        torch.testing.assert_close(one, other)
    changed, _ = compute_features(model, images, torch.arange(7), torch.Generator().manual_seed(0))
    assert not torch.allclose(changed, whole[0])


def test_features_of_an_image_and_its_mirror_image_are_the_same(data: tuple[Tensor, Tensor, Tensor]) -> None:
    images, model = data[0], AttributeClassifier(3).eval()
    rows = torch.arange(7)
    found = compute_features(model, images, rows)
    with torch.no_grad():
        single = model(images[:7] / 255)
    for one, other, plain in zip(
        found, compute_features(model, images.flip(dims=(3,)), rows), single, strict=True
    ):
        torch.testing.assert_close(one, other)
        assert not torch.allclose(one, plain)
