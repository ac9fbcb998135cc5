"""Engression: the energy score of samples as the loss, and samples that follow the data."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from desp import SetPredictor
from desp.data.shape import DataShape
from desp.errors import SettingsError
from desp.methods import Method, build_method
from desp.randomness import make_generator
from desp.sets import SetBatch, SetRepresentation, presence_mask
from desp.settings import (
    AttentionSettings,
    DataDescription,
    EngressionSettings,
    MLPEncoderSettings,
    RepresentationSettings,
    TrainingSettings,
)

ALIGNED = DataDescription(aligned=True)
SIZE, FEATURES = 4, 2
SHAPE = DataShape((SIZE, 3), features=FEATURES, max_size=SIZE, input_kind="set", description=ALIGNED)
SETTINGS = EngressionSettings(
    encoder=MLPEncoderSettings(hidden=8, out=8),
    network=AttentionSettings(hidden=8, layers=1, heads=0),
    noise_features=3,
    training_samples=3,
)


def built(settings: EngressionSettings = SETTINGS) -> Method:
    torch.manual_seed(0)
    return build_method(settings, SHAPE, SetRepresentation(RepresentationSettings()))


def padded(sizes: list[int], features: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    sets = [torch.randn(size, features, generator=generator) for size in sizes]
    return SetRepresentation(RepresentationSettings()).to_tensor(SetBatch.from_ragged(sets, SIZE, features))


def test_the_loss_is_the_energy_score_of_its_samples() -> None:
    method, sizes = built(), [1, 4, 2]
    x, y = padded(sizes, 2, seed=1), padded(sizes, FEATURES, seed=2)
    with torch.no_grad():
        loss, numbers = method(x, y, make_generator("loss"))
    code, mask = method.encode(x).repeat_interleave(3, dim=0), presence_mask(y).repeat_interleave(3, dim=0)
    drawn = method._draw(code, mask, make_generator("loss")).detach()
    scores, distances, spreads = [], [], []
    for number, size in enumerate(sizes):
        for element in range(size):
            samples = [drawn[3 * number + sample, element] for sample in range(3)]
            to_truth = sum(float((item - y[number, element, :-1]).norm()) for item in samples) / 3
            pairs = [(0, 1), (0, 2), (1, 2)]
            between = sum(float((samples[i] - samples[j]).norm()) for i, j in pairs) / 3
            scores.append(to_truth - between / 2)
            distances.append(to_truth)
            spreads.append(between)
    assert float(loss) == pytest.approx(sum(scores) / len(scores), rel=1e-5)
    assert float(numbers["distance_to_truth"]) == pytest.approx(sum(distances) / len(scores), rel=1e-5)
    assert float(numbers["distance_between"]) == pytest.approx(sum(spreads) / len(scores), rel=1e-5)


def test_samples_that_coincide_have_finite_gradients() -> None:
    """The distance of equal points has no gradient: in padding, and where a network ignores its noise."""
    method = built()
    for parameter in method.network.parameters():
        torch.nn.init.zeros_(parameter)
    y = padded([2, 4], FEATURES, seed=2)
    y[..., :-1] = 0.5 * y[..., -1:]  # what a network of zeros gives
    loss, _ = method(padded([2, 4], 2, seed=1), y, make_generator("loss"))
    loss.backward()
    assert float(loss.detach()) == 0
    assert all(item.grad is None or item.grad.isfinite().all() for item in method.parameters())


def test_padding_and_other_elements_change_nothing() -> None:
    """With the same noise for a row, whoever else is there; without attention heads."""
    method = built()
    x = padded([4], 2, seed=1)
    alone = x.clone()
    alone[:, 1:] = 0
    full, _ = method.sample(method.encode(x), make_generator("s"), presence=presence_mask(x))
    single, _ = method.sample(method.encode(alone), make_generator("s"), presence=presence_mask(alone))
    torch.testing.assert_close(full[:, 0], single[:, 0])
    assert not single[:, 1:].any()


def test_samples_follow_the_data() -> None:
    """Of each element: its mean and its spread, which the input tells."""
    generator = torch.Generator().manual_seed(0)

    def example() -> tuple[Tensor, Tensor]:
        spread = torch.rand(3, 1, generator=generator)
        y = 3 * spread + spread * torch.randn(3, 1, generator=generator)
        return torch.cat([spread, torch.ones(3, 1)], dim=1), y

    predictor = SetPredictor(EngressionSettings(network=AttentionSettings(hidden=32, heads=0)), device="cpu")
    training = TrainingSettings(steps=400, batch_size=64, learning_rate=3e-3, warmup_steps=10)
    predictor.fit([example() for _ in range(400)], training, description=ALIGNED)
    spreads = [0.1, 0.9, 0.5]
    x = torch.tensor([[spread, 1.0] for spread in spreads])
    found = torch.stack(predictor.predict_one(x, samples=400).sets).squeeze(-1)
    assert found.mean(dim=0).tolist() == pytest.approx([3 * spread for spread in spreads], abs=0.2)
    assert found.std(dim=0).tolist() == pytest.approx(spreads, abs=0.15)


def test_outputs_must_be_aligned() -> None:
    with pytest.raises(SettingsError, match=r"outputs must be aligned with inputs for the method engression"):
        build_method(
            SETTINGS, DataShape((3,), features=2, max_size=4), SetRepresentation(RepresentationSettings())
        )


def test_one_sample_has_no_distance_between_samples() -> None:
    with pytest.raises(SettingsError, match=r"training_samples must be at least 2, got 1"):
        EngressionSettings(training_samples=1)


def test_noise_has_no_neighbourhood_for_local_heads() -> None:
    with pytest.raises(SettingsError, match=r"network.local_heads must be False for the method engression"):
        EngressionSettings(network=AttentionSettings(hidden=8, heads=2))


def test_attention_uses_no_distances_of_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an element gets from another one depends on its features alone, so that noise is exchangeable."""
    method = built(replace(SETTINGS, network=AttentionSettings(hidden=8, layers=1, heads=2, local_heads=False)))
    x = padded([4, 2], 2, seed=1)
    with_distances, _ = method.sample(method.encode(x), make_generator("s"), presence=presence_mask(x))
    monkeypatch.setattr("desp.nn.set_network.squared_distances", lambda y: torch.zeros(len(y), SIZE, SIZE))
    without, _ = method.sample(method.encode(x), make_generator("s"), presence=presence_mask(x))
    torch.testing.assert_close(with_distances, without)
