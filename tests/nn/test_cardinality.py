"""p(size | x)."""

import math

import pytest
import torch

from desp.nn import SizeHead


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("max_size", [0, 1, 30])
def test_probabilities_sum_to_one(max_size: int, ordered: bool) -> None:
    head = SizeHead(4, max_size, 8, ordered=ordered)
    values = head(torch.randn(5, 4))
    assert values.shape == (5, max_size + 1)
    torch.testing.assert_close(values.exp().sum(dim=1), torch.ones(5))


def test_an_ordered_head_prefers_sizes_near_its_centre() -> None:
    head = SizeHead(4, 30, 8, ordered=True)
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.zero_()
    (values,) = head(torch.zeros(1, 4))
    assert int(values.argmax()) == 15
    # A bell as wide as a quarter of all sizes, about: never narrower than one of 30.
    width = 1 / 30 * math.exp(math.log1p(math.exp(math.log(0.25 * 30))))
    torch.testing.assert_close(values[15] - values[0], torch.tensor(2 * math.log(1 + (0.5 / width) ** 2)))


def test_an_ordered_head_learns_many_sizes_sooner() -> None:
    losses = []
    for ordered in (False, True):
        torch.manual_seed(0)
        head = SizeHead(1, 300, 16, ordered=ordered)
        optimizer = torch.optim.Adam(head.parameters(), lr=3e-3)
        sizes = torch.arange(0, 301, 3)
        code = sizes.unsqueeze(1) / 300
        for _ in range(150):
            optimizer.zero_grad()
            loss = head.loss(code, sizes)
            loss.backward()
            optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[1] < losses[0] - 0.5
