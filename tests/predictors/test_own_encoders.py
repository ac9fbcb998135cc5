"""Any module as h(x): with dropout, with running statistics, with shapes that do not fit."""

import pytest
import torch
from torch import Tensor, nn

from desp.errors import SettingsError
from desp.predictors import EnergyPredictor, Prediction
from desp.sets import SetBatch
from desp.settings import (
    ContrastiveSettings,
    DeepSetsSettings,
    LangevinSettings,
    PaddingSettings,
    PredictorSettings,
    TrainingSettings,
)

CHAIN = LangevinSettings(steps=3, stochastic_steps=3)
SETTINGS = PredictorSettings.contrastive(
    energy=DeepSetsSettings(hidden=8),
    estimator=ContrastiveSettings(chain=CHAIN),
    sampler=LangevinSettings(steps=3, stochastic_steps=2),
)
SHORT = TrainingSettings(steps=3, batch_size=4)


def pairs() -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    return [
        (torch.randn(3, generator=generator), torch.rand(size, 2, generator=generator))
        for size in (1, 2, 3, 2, 1, 3)
    ]


@pytest.mark.parametrize("special", [nn.Dropout(0.5), nn.BatchNorm1d(6)], ids=["dropout", "batch norm"])
def test_predictions_are_made_in_evaluation_mode(special: nn.Module) -> None:
    predictor = EnergyPredictor(SETTINGS, input_encoder=nn.Sequential(nn.Linear(3, 6), special))
    predictor.fit(pairs(), SHORT)
    x = torch.ones(3)
    before = torch.random.get_rng_state()
    first, second = predictor.predict(x, samples=2), predictor.predict(x, samples=2)
    assert isinstance(first, Prediction)
    assert isinstance(second, Prediction)
    assert torch.equal(first.energies, second.energies)
    assert torch.equal(torch.random.get_rng_state(), before)
    points = torch.rand(2, 2, generator=torch.Generator().manual_seed(1))
    together = predictor.energy(torch.stack([x, -x]), [points, points])
    assert torch.allclose(together[0], predictor.energy(x, points))  # the batch around it does not matter


def test_training_is_done_in_training_mode() -> None:
    modes = []

    class Noting(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            modes.append(self.training)
            return super().forward(input)

    EnergyPredictor(SETTINGS, input_encoder=Noting(3, 6)).fit(pairs(), SHORT)
    assert modes == [False, True, True, True]  # the first only asks for the shape of a code


def test_asking_for_the_shape_leaves_running_statistics_alone() -> None:
    norm = nn.BatchNorm1d(3)
    predictor = EnergyPredictor(SETTINGS, input_encoder=norm)
    predictor.fit(pairs(), SHORT)
    assert int(norm.num_batches_tracked) == 3
    assert predictor.network.energy.input_encoder is norm


def test_an_encoder_can_be_used_again() -> None:
    """What a fit leaves behind in it is its weights: another fit goes on from there as it would from a copy."""
    encoder = nn.Linear(3, 6)
    EnergyPredictor(SETTINGS, input_encoder=encoder).fit(pairs(), SHORT)
    copied = nn.Linear(3, 6)
    copied.load_state_dict(encoder.state_dict())
    before = encoder.weight.detach().clone()
    for one in (encoder, copied):
        EnergyPredictor(SETTINGS, input_encoder=one).fit(pairs(), SHORT)
    assert not torch.equal(encoder.weight, before)
    assert torch.equal(encoder.weight, copied.weight)
    assert torch.equal(encoder.bias, copied.bias)


def test_an_encoder_that_does_not_fit() -> None:
    with pytest.raises(SettingsError, match=r"cannot take a batch of inputs of shape \(1, 3\)"):
        EnergyPredictor(SETTINGS, input_encoder=nn.Linear(4, 6)).fit(pairs(), SHORT)


@pytest.mark.parametrize("kind", ["zero", "presence"])
def test_either_padding_gives_true_sets_back_by_default(kind: str) -> None:
    settings = PredictorSettings.contrastive(energy=DeepSetsSettings(hidden=8), padding=PaddingSettings(kind=kind))
    predictor = EnergyPredictor(settings)
    data = [(x, 0.1 + 0.8 * y) for x, y in pairs()]
    predictor.fit(data, SHORT)
    sets = SetBatch.from_ragged([y for _, y in data], predictor.shape.max_size, predictor.shape.features)
    again = predictor.decode_sets(predictor.encode_sets(sets))
    assert torch.equal(again.presence, sets.presence)
    assert torch.allclose(again.elements, sets.elements, atol=1e-6)
