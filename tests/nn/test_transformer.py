"""The transformer decoder: no order, no absent elements, whatever the size."""

import pytest
import torch
from torch import Tensor

from desp.nn import TransformerDecoder
from desp.sets import prefix_mask
from desp.settings import TSPNSettings

SETTINGS = TSPNSettings(hidden=8, layers=2, heads=2, feedforward=16, latent=5)


@pytest.fixture
def decoder() -> TransformerDecoder:
    return TransformerDecoder(5, 2, SETTINGS).double()


def example(sizes: list[int], rows: int = 6) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    code = torch.randn(len(sizes), 5, generator=generator, dtype=torch.float64)
    noise = torch.randn(len(sizes), rows, 2, generator=generator, dtype=torch.float64)
    return code, noise, prefix_mask(torch.tensor(sizes), rows)


def test_permuted_points_give_permuted_elements(decoder: TransformerDecoder) -> None:
    code, noise, presence = example([6, 4, 1, 0])
    elements = decoder(code, noise, presence)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    permuted = decoder(code, noise[:, order], presence[:, order])
    torch.testing.assert_close(permuted, elements[:, order])


def test_absent_points_do_not_matter(decoder: TransformerDecoder) -> None:
    code, noise, presence = example([6, 4, 1, 0])
    elements = decoder(code, noise, presence)
    rubbish = torch.where(presence.unsqueeze(-1), noise, 1000.0)
    assert torch.equal(decoder(code, rubbish, presence), elements)
    assert not elements[~presence].any()
    for row, size in enumerate([6, 4, 1]):  # alone and unpadded it is the same
        one = decoder(code[row : row + 1], noise[row : row + 1, :size], presence[row : row + 1, :size])
        torch.testing.assert_close(one[0], elements[row, :size])


def test_an_empty_set_is_no_reason_for_nan(decoder: TransformerDecoder) -> None:
    code, noise, presence = example([0, 2])
    code.requires_grad_()
    elements = decoder(code, noise, presence)
    assert not elements[0].any()
    loss = elements.square().sum()
    slope, *slopes = torch.autograd.grad(loss, (code, *decoder.parameters()))
    assert not slope[0].any()
    without = decoder(code[1:], noise[1:], presence[1:]).square().sum()
    torch.testing.assert_close(loss, without)
    torch.testing.assert_close(slopes, list(torch.autograd.grad(without, list(decoder.parameters()))))


def test_elements_hear_of_each_other_and_of_the_code(decoder: TransformerDecoder) -> None:
    code, noise, presence = example([6, 6])
    elements = decoder(code, noise, presence)
    moved = noise.clone()
    moved[:, 0] += 1
    assert (decoder(code, moved, presence)[:, 1:] != elements[:, 1:]).all()
    assert (decoder(code + 1, noise, presence) != elements).all()


def test_derivatives(decoder: TransformerDecoder) -> None:
    code, noise, presence = example([3, 1, 0], rows=3)
    inputs = (code.requires_grad_(), noise.requires_grad_())
    assert torch.autograd.gradcheck(lambda a, b: decoder(a, b, presence), inputs)


def test_all_weights_are_trained(decoder: TransformerDecoder) -> None:
    decoder(*example([6, 4])).square().sum().backward()
    assert all(weight.grad is not None and weight.grad.any() for weight in decoder.parameters())


def test_points_come_from_the_learned_normal_distribution(decoder: TransformerDecoder) -> None:
    code, noise, presence = example([6, 4])
    with torch.no_grad():
        decoder.mean.copy_(torch.tensor([3.0, -1.0]))
        decoder.log_deviation.copy_(torch.tensor([0.5, -2.0]))
    points = decoder.mean + decoder.log_deviation.exp() * noise
    found = decoder(code, noise, presence)
    with torch.no_grad():
        decoder.mean.zero_()
        decoder.log_deviation.zero_()
    torch.testing.assert_close(found, decoder(code, points, presence))


def test_the_attention_is_torchs() -> None:
    attention = TransformerDecoder(5, 2, SETTINGS).blocks[0].attention
    values, heard = torch.randn(3, 6, 8), prefix_mask(torch.tensor([6, 4, 1]), 6)
    parts = attention.queries_keys_values(values).view(3, 6, 3, 2, 4).permute(2, 0, 3, 1, 4)
    expected = torch.nn.functional.scaled_dot_product_attention(*parts, attn_mask=heard[:, None, None, :])
    expected = attention.from_heads(expected.transpose(1, 2).reshape(3, 6, 8))
    torch.testing.assert_close(attention(values, heard), expected)
