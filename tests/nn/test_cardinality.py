"""p(n | x)."""

import pytest
import torch

from desp.nn import CardinalityHead
from desp.sets import prefix_mask


@pytest.mark.parametrize("max_size", [0, 1, 30])
def test_probabilities_sum_to_one(max_size: int) -> None:
    head = CardinalityHead(4, max_size, 8)
    values = head(torch.randn(5, 4))
    assert values.shape == (5, max_size + 1)
    torch.testing.assert_close(values.exp().sum(dim=1), torch.ones(5))


def test_codes_of_elements_count_by_their_mean() -> None:
    head, code = CardinalityHead(4, 6, 8), torch.randn(5, 3, 4)
    torch.testing.assert_close(head(code), head(code.mean(dim=1)))


def test_the_loss_is_the_likelihood() -> None:
    head, code, sizes = CardinalityHead(4, 6, 8), torch.randn(5, 4), torch.tensor([0, 6, 2, 2, 3])
    torch.testing.assert_close(head.loss(code, sizes), -head(code)[torch.arange(5), sizes].mean())


def test_cardinalities_are_sampled_by_their_probability() -> None:
    head, code = CardinalityHead(4, 3, 8), 3 * torch.randn(1, 4)
    sizes = head.sample(code.expand(20_000, 4), torch.Generator().manual_seed(0))
    again = head.sample(code.expand(20_000, 4), torch.Generator().manual_seed(0))
    assert torch.equal(sizes, again)
    shares = torch.bincount(sizes, minlength=4) / 20_000
    torch.testing.assert_close(shares, head(code)[0].exp().detach(), rtol=0, atol=0.015)


def test_cardinalities() -> None:
    head = CardinalityHead(4, 6, 8, layers=2)
    assert [layer.out_features for layer in head.logits.linears] == [8, 7]
    code = torch.randn(50, 4)
    found = head.mode(code)
    assert torch.equal(found, head(code).argmax(dim=1))
    assert prefix_mask(torch.tensor([0, 2, 3]), 3).tolist() == [[False] * 3, [True, True, False], [True] * 3]
