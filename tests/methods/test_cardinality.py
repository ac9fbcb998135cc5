"""p(n | x) beside other losses: the encoder learns from both."""

from dataclasses import replace

import pytest
import torch

from desp.data.polygons import draw_polygons
from desp.data.shape import DataShape
from desp.methods import Method, build_method
from desp.sets import SetRepresentation, presence_mask
from desp.settings import (
    AttentionSettings,
    DenoiserSettings,
    DescentSettings,
    EnergyDenoisingSettings,
    MethodSettings,
    MLPEncoderSettings,
    PooledLayersSettings,
    RepresentationSettings,
    SetEncoderEnergySettings,
    SetRiskSettings,
    TSPNSettings,
)

ENCODER = MLPEncoderSettings(hidden=4, out=3)
METHODS: dict[str, MethodSettings] = {
    "denoising": EnergyDenoisingSettings(encoder=ENCODER, energy=PooledLayersSettings(hidden=8)),
    "denoiser": DenoiserSettings(encoder=ENCODER, network=AttentionSettings(hidden=8, layers=1, heads=2)),
    "c-dspn": SetRiskSettings(
        encoder=ENCODER,
        energy=SetEncoderEnergySettings(hidden=8, latent=3),
        descent=DescentSettings(steps=2),
        cardinality="predicted",
    ),
    "tspn": TSPNSettings(encoder=ENCODER, hidden=8, layers=1, heads=2, feedforward=8),
}


def made(settings: MethodSettings) -> Method:
    torch.manual_seed(0)
    return build_method(
        settings, DataShape((5,), 2, 8), SetRepresentation(RepresentationSettings()), engine="eager"
    )


@pytest.mark.parametrize("settings", METHODS.values(), ids=METHODS)
def test_the_encoder_learns_from_the_cardinality(settings: MethodSettings) -> None:
    """With its weight 1 in place of 0, its gradients are larger by those of -log p(n | x)."""
    drawn = draw_polygons(16, torch.Generator().manual_seed(1))
    x, y = drawn.x, SetRepresentation(RepresentationSettings()).to_tensor(drawn.sets)
    gradients = []
    for weight in (0.0, 1.0):
        method = made(replace(settings, cardinality_weight=weight))  # type: ignore[call-arg]
        method(x, y, torch.Generator().manual_seed(2))[0].backward()
        gradients.append([weight.grad for weight in method.encoder.parameters()])
    method = made(settings)
    method.cardinality.loss(method.encode(x), presence_mask(y).sum(dim=1)).backward()
    assert gradients[0]
    for without, with_it, weight in zip(*gradients, method.encoder.parameters(), strict=True):
        torch.testing.assert_close(with_it - without, weight.grad, rtol=1e-3, atol=1e-6)
    assert any(bool(weight.grad.abs().max() > 1e-4) for weight in method.encoder.parameters())


@pytest.mark.parametrize("settings", METHODS.values(), ids=METHODS)
def test_all_that_predict_the_cardinality_tell_its_mode(settings: MethodSettings) -> None:
    assert settings.predicts_cardinality
    method = made(settings)
    code = method.encode(torch.eye(5))
    assert torch.equal(method.modal_cardinality(code), method.cardinality(code).argmax(dim=-1))
    method = made(replace(settings, cardinality="denoised")) if hasattr(settings, "noise_draws") else None
    assert method is None or method.modal_cardinality(code) is None
