"""Attention that may look near or far."""

import pytest
import torch
from torch import Tensor

from desp.nn.attention import SelfAttention, squared_distances


def example(local_heads: bool) -> tuple[SelfAttention, Tensor, Tensor]:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    values, places = (torch.randn(3, 6, width, generator=generator).double() for width in (8, 2))
    return SelfAttention(8, 2, local_heads=local_heads).double(), values, places


def test_squared_distances() -> None:
    _, _, places = example(local_heads=False)
    expected = torch.stack([torch.cdist(some, some).square() for some in places])
    torch.testing.assert_close(squared_distances(places), expected)


def test_distances_are_taken_off_the_scores() -> None:
    attention, values, places = example(local_heads=True)
    apart = squared_distances(places)
    assert attention.nearness is not None
    assert attention.nearness.tolist() == [2.5]
    parts = attention.queries_keys_values(values).view(3, 6, 3, 2, 4).permute(2, 0, 3, 1, 4)
    bias = -torch.tensor([0.0, 6.25]).view(1, 2, 1, 1) * apart.unsqueeze(1)
    seen = torch.nn.functional.scaled_dot_product_attention(*parts, attn_mask=bias)
    expected = attention.from_heads(seen.transpose(1, 2).reshape(3, 6, 8))
    torch.testing.assert_close(attention(values, None, apart), expected)


def test_a_head_that_looks_near_does_not_see_what_is_far() -> None:
    attention, values, places = example(local_heads=True)
    assert attention.nearness is not None
    attention.from_heads = torch.nn.Identity()  # the second half of what is seen is the second head's
    far = places.clone()
    far[:, 5] = 100.0
    seen = attention(values, None, squared_distances(far))
    without = attention(values[:, :5], None, squared_distances(places[:, :5]))
    torch.testing.assert_close(seen[:, :5, 4:], without[..., 4:])
    assert (seen[:, :5, :4] != without[..., :4]).all()


def test_how_near_to_look_is_learned() -> None:
    attention, values, places = example(local_heads=True)
    apart, nearness = squared_distances(places), attention.nearness
    assert nearness is not None

    def seen(nearness: Tensor) -> Tensor:
        return torch.func.functional_call(attention, {"nearness": nearness}, (values, None, apart))

    assert torch.autograd.gradcheck(seen, nearness.detach().requires_grad_())
    (slope,) = torch.autograd.grad(seen(nearness).square().sum(), nearness)
    assert slope.all()
    with pytest.raises(TypeError, match="need `distances`"):
        attention(values)


def test_one_head_sees_all() -> None:
    assert SelfAttention(8, 1, local_heads=True).nearness is None
