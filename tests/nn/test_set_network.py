"""Networks from sets to an output for each element: who sees whom."""

import pytest
import torch
from torch import Tensor

from desp.errors import SettingsError
from desp.nn import SetNetwork
from desp.randomness import make_generator
from desp.sets import presence_mask
from desp.settings import AttentionSettings


def network(heads: int, known_presence: bool = True) -> SetNetwork:
    settings = AttentionSettings(hidden=8, layers=2, heads=heads, fourier_frequencies=1)
    made = SetNetwork(settings, 3, (4, 5), known_presence=known_presence, outputs=2)
    with torch.no_grad():
        for layer in made.layers:
            layer.from_code.weight.normal_(generator=make_generator("weights"))  # else codes do not scale
    return made


def example() -> tuple[Tensor, Tensor]:
    """Codes (2, 4, 5), and sets (2, 4, 3) of three elements and of one, presence 1 or -1 last."""
    generator = make_generator("example")
    code, y = torch.randn(2, 4, 5, generator=generator), torch.randn(2, 4, 3, generator=generator)
    y[..., -1] = torch.tensor([[1.0, 1, 1, -1], [1, -1, -1, -1]])
    return code, y


@pytest.mark.parametrize("heads", [0, 2])
def test_elements_see_others_by_attention_alone(heads: int) -> None:
    made, (code, y) = network(heads), example()
    moved = y.clone()
    moved[0, 0, :2] += 1
    before, after = made(code, y), made(code, moved)
    assert not torch.allclose(before[0, 0], after[0, 0])
    assert torch.equal(before[0, 1:3], after[0, 1:3]) == (heads == 0)
    fewer = y.clone()
    fewer[0, 0, -1] = -1
    assert torch.equal(made(code, fewer)[0, 1:3], before[0, 1:3]) == (heads == 0)


@pytest.mark.parametrize("heads", [0, 2])
@pytest.mark.parametrize("known_presence", [False, True])
def test_outputs_follow_the_order_of_elements(heads: int, known_presence: bool) -> None:
    made, (code, y) = network(heads, known_presence), example()
    order = torch.tensor([2, 0, 3, 1])
    torch.testing.assert_close(made(code[:, order], y[:, order]), made(code, y)[:, order])


@pytest.mark.parametrize("heads", [0, 2])
def test_masked_elements_have_no_output(heads: int) -> None:
    made, (code, y) = network(heads), example()
    found = made(code, y)
    assert bool((found[~presence_mask(y)] == 0).all())
    assert bool((found[presence_mask(y)] != 0).all())
    empty = y.clone()
    empty[..., -1] = -1
    assert bool((made(code, empty) == 0).all())


def test_heads_divide_the_width() -> None:
    with pytest.raises(SettingsError, match="heads"):
        AttentionSettings(hidden=8, heads=3)
    with pytest.raises(SettingsError, match="heads"):
        AttentionSettings(heads=-1)
