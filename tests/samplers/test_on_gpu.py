"""Chains on a GPU: with the kernels inside, and where recording fails."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from desp.data.shape import DataShape
from desp.energies import SetEnergy
from desp.methods import build_method
from desp.nn import element_layers
from desp.precision import matmul_precision
from desp.samplers import ChainEngine, LangevinSampler, Sampler
from desp.samplers.base import Chain, ValueAndGradFor, value_and_grad_of
from desp.sets import SetRepresentation
from desp.settings import ContrastiveSettings, LangevinSettings, RepresentationSettings, SetEncoderEnergySettings

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
DEVICE = "cuda"
CHAIN = LangevinSettings(steps=3, stochastic_steps=3, noise_scale=0.05)


def build(batch: int, size: int) -> tuple[SetEnergy, Tensor, Tensor]:
    settings = ContrastiveSettings(energy=SetEncoderEnergySettings(hidden=64, latent=32))
    padding = SetRepresentation(RepresentationSettings(padding="zero", scaling="none"))
    method = build_method(settings, DataShape((3,), 2, size), padding).to(DEVICE)
    method.requires_grad_(False)
    code = method.encode(torch.randn(batch, 3, generator=torch.Generator().manual_seed(0)).to(DEVICE))
    return method.energy, code, torch.rand(batch, size, 2, generator=torch.Generator().manual_seed(1)).to(DEVICE)


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The networks that went through the kernels."""
    made, plain = [], element_layers._by_kernels

    def noted(mlp: object, *rest: object) -> object:
        made.append(mlp)
        return plain(mlp, *rest)

    monkeypatch.setattr(element_layers, "_by_kernels", noted)
    return made


@torch.no_grad()
def test_gradients_of_many_elements_go_through_the_kernels(launched: list[object]) -> None:
    energy, code, y = build(64, 300)
    with matmul_precision("highest"):
        exact, slope = value_and_grad_of(energy, code, 300)(y)
    assert launched == []
    with matmul_precision("high"):
        values, rounded = value_and_grad_of(energy, code, 300)(y)
    assert launched
    assert (values - exact).norm() < 2e-2 * exact.norm()
    assert (rounded - slope).norm() < 0.1 * slope.norm()


def test_a_chain_with_the_kernels_inside_can_be_captured() -> None:
    energy, code, start = build(64, 300)
    noise = torch.Generator(device=DEVICE)
    with matmul_precision("high"):
        graph, eager = ChainEngine(energy, "graph"), ChainEngine(energy, "eager")
        for seed in (0, 1):
            fast, _ = graph.run(LangevinSampler(CHAIN), code, start, noise.manual_seed(seed))
            slow, _ = eager.run(LangevinSampler(CHAIN), code, start, noise.manual_seed(seed))
            assert (fast - slow).norm() < 0.05 * slow.norm()
    assert graph.used == "graph"


@dataclass(frozen=True)
class Reading(Sampler):
    """Looks at a value on the host, which nothing that is recorded may do."""

    def chain(
        self, value_and_grad_for: ValueAndGradFor, code: Tensor, start: Tensor, generator: torch.Generator
    ) -> Chain:
        del value_and_grad_for, code
        noise = torch.randn(start.shape, generator=generator, device=start.device)
        return start + noise * float(start.sum() > 0), iter(())


def test_chains_that_cannot_be_recorded_run_step_by_step(caplog: pytest.LogCaptureFixture) -> None:
    energy, code, start = build(4, 6)
    engine, noise = ChainEngine(energy), torch.Generator(device=DEVICE).manual_seed(0)
    found, _ = engine.run(Reading(), code, start, noise)
    expected = start + torch.randn(start.shape, generator=noise.manual_seed(0), device=DEVICE)
    torch.testing.assert_close(found, expected)
    assert engine.used == "eager"
    assert sum("chains run step by step, as engine graph failed" in line for line in caplog.messages) == 1
    fresh = ChainEngine(energy)  # the failure leaves nothing behind
    fresh.run(LangevinSampler(CHAIN), code, start, noise)
    assert fresh.used == "graph"
