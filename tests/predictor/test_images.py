"""Images as inputs: bytes until they are on the device."""

import torch

from desp import SetPredictor
from desp.data.base import as_input, to_float
from desp.settings import (
    ConvEncoderSettings,
    EDMSettings,
    EnergyDenoisingSettings,
    PooledLayersSettings,
    TrainingSettings,
)

METHOD = EnergyDenoisingSettings(
    encoder=ConvEncoderSettings(hidden=8, out=4),
    energy=PooledLayersSettings(hidden=8),
    sampler=EDMSettings(steps=2),
)
IMAGES = torch.randint(256, (6, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def fitted(images: torch.Tensor) -> SetPredictor:
    predictor = SetPredictor(METHOD, device="cpu")
    pairs = [(image, [[index / 6]]) for index, image in enumerate(images)]
    predictor.fit(pairs, TrainingSettings(steps=3, batch_size=4))
    return predictor


def test_bytes_are_intensities() -> None:
    """Training and predicting with bytes is the same, bit for bit, as with intensities in [0, 1]."""
    of_bytes, of_floats = fitted(IMAGES), fitted(IMAGES.float() / 255)
    for (name, value), other in zip(
        of_bytes.method.state_dict().items(), of_floats.method.state_dict().values(), strict=True
    ):
        assert torch.equal(value, other), name
    predicted, expected = of_bytes.predict(IMAGES[:2]), of_floats.predict(IMAGES[:2].float() / 255)
    for one, two in zip(predicted, expected, strict=True):
        assert torch.equal(one.sets[0], two.sets[0])
    assert torch.equal(
        of_bytes.predict_one(IMAGES[0]).sets[0], of_bytes.predict_one(IMAGES[0].float() / 255).sets[0]
    )


def test_only_images_stay_bytes() -> None:
    assert as_input(IMAGES[0]).dtype == torch.uint8
    vector = torch.tensor([3, 200], dtype=torch.uint8)
    assert as_input(vector).tolist() == [3.0, 200.0]
    assert to_float(vector.unsqueeze(0), torch.float32).tolist() == [[3.0, 200.0]]
