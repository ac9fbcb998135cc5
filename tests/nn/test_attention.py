"""Attention that may look near or far."""

import torch
from torch import Tensor

from desp.nn import SelfAttention, distances_apart


def example(near: bool) -> tuple[SelfAttention, Tensor, Tensor]:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    values, places = (torch.randn(3, 6, width, generator=generator).double() for width in (8, 2))
    return SelfAttention(8, 2, near=near).double(), values, places


def test_distances_apart() -> None:
    _, _, places = example(near=False)
    expected = torch.stack([torch.cdist(some, some).square() for some in places])
    torch.testing.assert_close(distances_apart(places), expected)


def test_distances_are_taken_off_the_scores() -> None:
    attention, values, places = example(near=True)
    apart = distances_apart(places)
    assert attention.nearness is not None
    assert attention.nearness.tolist() == [0, 2.5]
    parts = attention.queries_keys_values(values).view(3, 6, 3, 2, 4).permute(2, 0, 3, 1, 4)
    bias = -torch.tensor([0.0, 6.25]).view(1, 2, 1, 1) * apart.unsqueeze(1)
    seen = torch.nn.functional.scaled_dot_product_attention(*parts, attn_mask=bias)
    expected = attention.from_heads(seen.transpose(1, 2).reshape(3, 6, 8))
    torch.testing.assert_close(attention(values, None, apart), expected)


def test_a_head_that_looks_near_does_not_see_what_is_far() -> None:
    attention, values, places = example(near=True)
    assert attention.nearness is not None
    with torch.no_grad():
        attention.nearness.fill_(5.0)
    far = places.clone()
    far[:, 5] = 100.0
    seen = attention(values, None, distances_apart(far))
    without = attention(values[:, :5], None, distances_apart(places[:, :5]))
    torch.testing.assert_close(seen[:, :5], without)


def test_without_distances_nothing_is_near() -> None:
    attention, values, places = example(near=False)
    assert attention.nearness is None
    assert torch.equal(attention(values, None, distances_apart(places)), attention(values))
