"""TSPN: masked Chamfer and the likelihood of cardinalities."""

from dataclasses import replace

import torch
from torch import Tensor

from desp.data.shape import DataShape
from desp.distances import chamfer
from desp.methods import TSPN, build_method
from desp.sets import SetRepresentation, prefix_mask
from desp.settings import RepresentationSettings, TSPNSettings

SETTINGS = TSPNSettings(hidden=8, layers=1, heads=2, feedforward=16, latent=6, cardinality_hidden=16)


def build(cardinality_weight: float = 1.0) -> TSPN:
    settings = replace(SETTINGS, cardinality_weight=cardinality_weight)
    method = build_method(settings, DataShape((5,), 2, 4), SetRepresentation(RepresentationSettings()))
    assert isinstance(method, TSPN)
    return method.double()


def batch() -> tuple[Tensor, Tensor]:
    """Sets of 0 to 4 elements at their last rows."""
    there = torch.arange(4).flip(0) < torch.arange(5).unsqueeze(1)
    y = torch.cat([torch.rand(5, 4, 2), torch.ones(5, 4, 1)], dim=-1) * there.unsqueeze(-1)
    return torch.eye(5).double(), y.double()


def test_loss_is_that_of_ragged_sets() -> None:
    method, (x, y) = build(cardinality_weight=0.5), batch()
    loss, statistics = method(x, y, torch.Generator().manual_seed(3))
    noise = torch.randn(5, 4, 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    code = method.encode(x)
    elements = method.decoder(code, noise, prefix_mask(torch.arange(5), 4))
    distances = [chamfer(elements[n : n + 1, :n], y[n : n + 1, 4 - n :, :-1])[0] for n in range(5)]
    log_p = method.cardinality(code)[torch.arange(5), torch.arange(5)]
    torch.testing.assert_close(statistics["risk"], torch.stack(distances).mean().detach())
    torch.testing.assert_close(statistics["cardinality_loss"], -log_p.mean().detach())
    expected = torch.stack(distances).mean() - 0.5 * log_p.mean()
    torch.testing.assert_close(loss, expected)
    weights = [*method.parameters()]  # all are trained, the encoder also by p(n | x)
    torch.testing.assert_close(torch.autograd.grad(loss, weights), torch.autograd.grad(expected, weights))
    assert method.capturable


def test_all_randomness_comes_from_the_generator() -> None:
    method, (x, y) = build(), batch()
    first, again, other = (method(x, y, torch.Generator().manual_seed(seed))[0] for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_training_learns_elements_and_cardinalities() -> None:
    method, (x, y) = build(), batch()
    optimiser = torch.optim.Adam(method.parameters(), lr=1e-2)
    generator, risks = torch.Generator().manual_seed(0), []
    for _ in range(150):
        loss, statistics = method(x, y, generator)
        risks.append(statistics["risk"].item())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert sum(risks[-10:]) / 10 < 0.1 * risks[0]
    assert method.cardinality.mode(method.encode(x)).tolist() == [0, 1, 2, 3, 4]


def test_sets_are_sampled_in_one_pass_with_the_most_probable_cardinality() -> None:
    method, (x, _) = build().eval(), batch()
    code = method.encode(x)
    sets, info = method.sample(code, torch.Generator().manual_seed(3), record="sets")
    noise = torch.randn(5, 4, 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    mask = prefix_mask(method.cardinality.mode(code), 4)
    torch.testing.assert_close(sets[..., :2], method.decoder(code, noise, mask).detach())
    assert torch.equal(sets[..., 2], mask.double())
    assert (info.energies, info.gradient_norms, info.trajectory) == (None, None, None)
    assert method.energies(code, sets).isnan().all()
