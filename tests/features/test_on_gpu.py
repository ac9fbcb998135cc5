"""The classifier on a GPU: in bfloat16, and an interruption changes nothing there, either."""

from pathlib import Path

import pytest
import torch

from desp.features import classifier
from desp.features.classifier import compute_features, train_classifier
from desp.features.settings import FeatureSettings

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


class Stop(BaseException):
    """Ends training, as a kill does."""


def test_resumed_training_equals_uninterrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classifier, "CHECKPOINT_SECONDS", 0.0)
    generator = torch.Generator().manual_seed(0)
    attributes = (torch.rand(300, 6, generator=generator) < 0.5).cuda()
    noise = torch.randint(100, (300, 3, 96, 96), generator=generator).cuda()
    images = (noise + 150 * attributes[:, :1, None, None]).to(torch.uint8)
    rows, settings = torch.arange(256), FeatureSettings(epochs=4, batch_size=64, learning_rate=0.05)
    whole = train_classifier(images, attributes, rows, settings, 0, tmp_path / "whole")

    def stop(done: int, _: int) -> None:
        if done == 10:
            raise Stop

    with pytest.raises(Stop):
        train_classifier(images, attributes, rows, settings, 0, tmp_path / "parts", stop)
    resumed = train_classifier(images, attributes, rows, settings, 0, tmp_path / "parts")
    for one, other in zip(whole.state_dict().values(), resumed.state_dict().values(), strict=True):
        assert torch.equal(one, other)
    pooled, logits = compute_features(whole, images, torch.arange(300))
    assert (pooled.shape, logits.shape) == ((300, 512), (300, 6))
    assert logits.isfinite().all()
