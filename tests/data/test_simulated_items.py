"""Simulated items: attributes as frequent as asked for, features of adjustable quality, always the same."""

import pytest
import torch

from desp.data.celeba_lists import USED
from desp.data.simulated_items import _FREQUENCY, FEATURES, simulated_pool


def test_attributes_have_their_frequencies_and_go_together() -> None:
    pool = simulated_pool(20_000, 0.5, "training")
    assert pool.names == USED
    shares = pool.attributes.float().mean(dim=0)
    torch.testing.assert_close(shares, torch.tensor(_FREQUENCY), atol=0.015, rtol=0.1)
    male, goatee, blond = (pool.attributes[:, USED.index(name)] for name in ("Male", "Goatee", "Blond_Hair"))
    assert float(goatee[male].float().mean()) > 5 * float(goatee[~male].float().mean())
    assert float(blond[male].float().mean()) < float(blond[~male].float().mean())


def test_features_tell_attributes_by_their_noise() -> None:
    """A linear read-out of one attribute, with the sign of the truth, in three qualities."""
    accuracies = []
    for noise in (0.0, 0.7, 3.0):
        pool = simulated_pool(4000, noise, "training")
        assert pool.features.shape == (4000, FEATURES)
        target = 2 * pool.attributes.float() - 1
        weights = torch.linalg.lstsq(pool.features, target).solution
        accuracies.append(float((((pool.features @ weights) > 0) == pool.attributes).float().mean()))
    assert accuracies[0] == 1
    assert 0.9 < accuracies[1] < 0.99
    assert accuracies[1] > accuracies[2]


def test_parts_are_always_the_same_and_share_nothing() -> None:
    first, again, other = (simulated_pool(300, 0.5, part) for part in ("test", "test", "validation"))
    assert torch.equal(first.features, again.features)
    assert torch.equal(first.attributes, again.attributes)
    assert not (first.features.unsqueeze(1) == other.features).all(dim=2).any()


@pytest.mark.parametrize("count", [400, 2000])
def test_sets_can_be_drawn_for_several_pairs(count: int) -> None:
    assert len(simulated_pool(count, 0.5, "test").pairs) >= 8
