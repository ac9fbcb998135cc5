"""p(n | x)."""

import math

import pytest
import torch

from desp.nn import CardinalityHead
from desp.nn.cardinality import FEWEST_TO_CALIBRATE, HIGHEST_TEMPERATURE, fitted_temperature
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


def drawn_from(logits: torch.Tensor) -> torch.Tensor:
    return torch.multinomial(logits.softmax(dim=1), 1, generator=torch.Generator().manual_seed(1)).squeeze(1)


@pytest.mark.parametrize("temperature", [1.0, 1.5, 4.0, 20.0])
def test_the_temperature_of_overconfident_logits_is_found(temperature: float) -> None:
    logits = 2 * torch.randn(20_000, 6, generator=torch.Generator().manual_seed(0))
    found = fitted_temperature(temperature * logits, drawn_from(logits))
    assert found == pytest.approx(temperature, rel=0.03)
    assert found == fitted_temperature(temperature * logits, drawn_from(logits))


def test_the_temperature_of_two_cardinalities_in_closed_form() -> None:
    """Where three of four are right with log-odds z, the best log-odds are log 3."""
    logits, sizes = torch.tensor([[8.0, 0.0]]).expand(40, 2), torch.tensor([0, 0, 0, 1] * 10)
    assert fitted_temperature(logits, sizes) == pytest.approx(8 / math.log(3), rel=1e-9)


def test_the_temperature_has_bounds() -> None:
    logits = 2 * torch.randn(1000, 6, generator=torch.Generator().manual_seed(0))
    assert fitted_temperature(logits / 3, drawn_from(logits)) == 1  # too little confidence is left as it is
    assert fitted_temperature(logits, logits.argmin(dim=1)) == pytest.approx(HIGHEST_TEMPERATURE)
    assert fitted_temperature(torch.zeros(30, 1), torch.zeros(30, dtype=torch.long)) == 1


def test_cardinalities_are_sampled_at_the_temperature() -> None:
    head, code = CardinalityHead(4, 3, 8), torch.zeros(1, 4)
    with torch.no_grad():
        head.logits.linears[-1].weight.zero_()
        head.logits.linears[-1].bias.copy_(torch.tensor([6.0, 3.0, 0.0, 0.0]))
    true = (torch.tensor([6.0, 3.0, 0.0, 0.0]) / 3).expand(20_000, 4)
    before = head(code)[0].exp()
    temperature = head.calibrate(code.expand(20_000, 4), drawn_from(true))
    assert temperature == pytest.approx(3, rel=0.05)
    torch.testing.assert_close(head(code)[0].exp(), (before.log() / temperature).softmax(dim=0))
    sizes = head.sample(code.expand(20_000, 4), torch.Generator().manual_seed(0))
    torch.testing.assert_close(
        torch.bincount(sizes, minlength=4) / 20_000, true[0].softmax(dim=0), rtol=0, atol=0.015
    )
    assert head.mode(code).tolist() == [0]


def test_few_examples_calibrate_nothing() -> None:
    head, code = CardinalityHead(4, 3, 8), torch.randn(FEWEST_TO_CALIBRATE, 4)
    before, wrong = head(code), head(code).argmin(dim=1)
    assert head.calibrate(code[1:], wrong[1:]) == 1
    assert torch.equal(head(code), before)
    assert head.calibrate(code, wrong) > 1
