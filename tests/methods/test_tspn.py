"""Direct risk of the transformer: masked Chamfer and the likelihood of sizes."""

import torch
from desp.estimators import DirectEstimator
from torch import Tensor

from desp.distances import chamfer
from desp.energies import default_input_encoder
from desp.nn import SizeHead, TransformerDecoder, first_rows
from desp.settings import DirectSettings, TransformerSettings

SETTINGS = TransformerSettings(hidden=8, layers=1, heads=2, feedforward=16, latent=6)


def build(size_weight: float = 1.0) -> DirectEstimator:
    encoder = default_input_encoder("vector", (5,), SETTINGS)
    sizes = SizeHead(6, 4, 16, layers=2)
    return DirectEstimator(
        encoder, TransformerDecoder(6, 2, SETTINGS), sizes, DirectSettings(size_weight=size_weight)
    ).double()


def batch() -> tuple[Tensor, Tensor]:
    """Sets of 0 to 4 elements at their last rows."""
    there = torch.arange(4).flip(0) < torch.arange(5).unsqueeze(1)
    y = torch.cat([torch.rand(5, 4, 2), torch.ones(5, 4, 1)], dim=-1) * there.unsqueeze(-1)
    return torch.eye(5).double(), y.double()


def test_loss_is_that_of_ragged_sets() -> None:
    estimator, (x, y) = build(size_weight=0.5), batch()
    loss, statistics = estimator(x, y, torch.Generator().manual_seed(3))
    noise = torch.randn(5, 4, 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    code = estimator.input_encoder(x)
    elements = estimator.decoder(code, noise, first_rows(torch.arange(5), 4))
    distances = [chamfer(elements[n : n + 1, :n], y[n : n + 1, 4 - n :, :-1])[0] for n in range(5)]
    log_p = estimator.sizes(code)[torch.arange(5), torch.arange(5)]
    torch.testing.assert_close(statistics["risk"], torch.stack(distances).mean().detach())
    torch.testing.assert_close(statistics["size"], -log_p.mean().detach())
    torch.testing.assert_close(loss, torch.stack(distances).mean() - 0.5 * log_p.mean())
    assert estimator.capturable


def test_all_randomness_comes_from_the_generator() -> None:
    estimator, (x, y) = build(), batch()
    first, again, other = (estimator(x, y, torch.Generator().manual_seed(seed))[0] for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_training_learns_elements_and_sizes() -> None:
    estimator, (x, y) = build(), batch()
    optimiser = torch.optim.Adam(estimator.parameters(), lr=1e-2)
    generator, risks = torch.Generator().manual_seed(0), []
    for _ in range(150):
        loss, statistics = estimator(x, y, generator)
        risks.append(statistics["risk"].item())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert sum(risks[-10:]) / 10 < 0.1 * risks[0]
    assert estimator.sizes.most_probable(estimator.input_encoder(x)).tolist() == [0, 1, 2, 3, 4]
