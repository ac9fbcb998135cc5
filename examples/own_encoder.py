"""Images as inputs, points as sets, and a network of your own as input encoder h(x).

Each image has 8 x 8 pixels, of which one to three are bright. The set holds the places of the bright pixels, in
half of the examples upside down, so there are two right answers.

python examples/own_encoder.py
"""

import torch
from torch import Tensor, nn

from desp import DeepSetsSettings, EnergyDenoisingSettings, Prediction, SetPredictor, TrainingSettings

PIXELS = 8


def draw(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """An image (1, 8, 8), and the places of its one to three bright pixels, perhaps upside down."""
    count = int(torch.randint(1, 4, (), generator=generator))
    places = torch.randperm(PIXELS * PIXELS, generator=generator)[:count]
    image = torch.zeros(1, PIXELS, PIXELS)
    image[0, places // PIXELS, places % PIXELS] = 1.0
    points = torch.stack([places // PIXELS, places % PIXELS], dim=1) / (PIXELS - 1)
    if torch.rand((), generator=generator) < 0.5:
        points[:, 0] = 1 - points[:, 0]
    return image, points


class Encoder(nn.Module):
    """h(x): any module from a batch of inputs to codes (B, H)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(PIXELS * PIXELS, 64), nn.SiLU(), nn.Linear(64, 32))

    def forward(self, x: Tensor) -> Tensor:
        """Encode images (B, 1, 8, 8)."""
        return self.layers(x)


def main(steps: int = 1500) -> Prediction:
    """Train, and show three predictions for one image."""
    generator = torch.Generator().manual_seed(0)
    dataset = [draw(generator) for _ in range(2000)]
    method = EnergyDenoisingSettings(energy=DeepSetsSettings(hidden=64))
    predictor = SetPredictor(method, input_encoder=Encoder())
    predictor.fit(dataset, TrainingSettings(steps=steps))
    image, points = draw(generator)
    prediction = predictor.predict_one(image, samples=3)
    print("true:", points.tolist())
    for points, energy in zip(prediction.sets, prediction.energies, strict=True):
        print(f"energy {energy:.3f}:", [[round(v, 2) for v in point] for point in points.tolist()])
    return prediction


if __name__ == "__main__":
    main()
