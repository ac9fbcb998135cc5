"""Inputs and codes standardised by training data."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from desp.nn import InputScaling
from desp.nn.standardisation import StandardCodes
from desp.randomness import make_generator
from desp.settings import MLPEncoderSettings


def test_input_scaling_standardises_and_keeps_constants() -> None:
    x = torch.randn(500, 3) * torch.tensor([5.0, 0.1, 0.0]) + torch.tensor([100.0, -3.0, 7.0])
    scaling = InputScaling((3,))
    assert torch.equal(scaling(x), x)
    scaling.set_from(x.mean(dim=0), x.std(dim=0, correction=0))
    scaled = scaling(x)
    torch.testing.assert_close(scaled.mean(dim=0), torch.zeros(3), atol=1e-4, rtol=0)
    torch.testing.assert_close(scaled.std(dim=0, correction=0), torch.tensor([1.0, 1, 0]), atol=1e-4, rtol=0)


def test_input_scaling_is_saved_and_not_trained() -> None:
    scaling, other = InputScaling((2,)), InputScaling((2,))
    scaling.set_from(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    assert list(scaling.parameters()) == []
    other.load_state_dict(scaling.state_dict())
    x = torch.randn(5, 2)
    torch.testing.assert_close(other(x), (x - torch.tensor([1.0, 2.0])) / torch.tensor([3.0, 4.0]))


def test_codes_are_standardised_by_their_batch_and_later_by_what_was_seen() -> None:
    codes = torch.tensor([3.7, -2.0]) + torch.tensor([1e-3, 5.0]) * torch.randn(64, 2, generator=make_generator(0))
    norm = StandardCodes(2)
    for _ in range(400):  # until the deviation it began with, 1, is forgotten
        seen = norm(codes)
    torch.testing.assert_close(seen.mean(dim=0), torch.zeros(2), atol=1e-3, rtol=0)
    assert seen.std(dim=0).tolist() == pytest.approx([1, 1], rel=0.02)
    before = norm.running_mean.clone()
    alone = norm(codes[:1])  # in training, too: one code has no deviation
    assert torch.equal(norm.running_mean, before)
    torch.testing.assert_close(alone, norm.eval()(codes)[:1])
    torch.testing.assert_close(norm(codes), seen, atol=0.02, rtol=0.02)


@pytest.mark.parametrize("padding", [0, 5])
def test_codes_of_elements_are_standardised_without_padding(padding: int) -> None:
    """As batch norm would the present elements alone, in training and later."""
    generator = make_generator(0)
    settings = MLPEncoderSettings(8, 4, standardise_codes=True)
    encoder, alone = settings.load()(settings, (8, 3)), StandardCodes(4)
    raw = nn.Sequential(*list(encoder)[:-1])
    present = torch.ones(6, 3, 3)
    present[..., :2] = torch.randn(6, 3, 2, generator=generator)
    x = F.pad(present, (0, 0, 0, padding))
    for _ in range(3):
        codes, expected = encoder(x), alone(raw(present))
        torch.testing.assert_close(codes[:, :3], expected)
        assert not codes[:, 3:].any()
    for name in ("running_mean", "running_var"):
        torch.testing.assert_close(getattr(encoder[-1], name), getattr(alone, name))
    encoder.eval()
    alone.eval()
    torch.testing.assert_close(encoder(x)[:, :3], alone(raw(present)))


def test_a_single_element_is_standardised_by_the_averages() -> None:
    settings = MLPEncoderSettings(8, 4, standardise_codes=True)
    encoder = settings.load()(settings, (8, 3))
    one = torch.tensor([[[0.3, -0.2, 1.0], [0.0, 0.0, 0.0]]])
    before = encoder[-1].running_mean.clone()
    torch.testing.assert_close(encoder(one), encoder.eval()(one))
    assert torch.equal(encoder[-1].running_mean, before)


def test_inputs_that_differ_by_rounding_alone_keep_their_unit() -> None:
    scaling = InputScaling((2,))
    scaling.set_from(torch.tensor([5.0, 5.0]), torch.tensor([1e-9, 1e-7]))
    assert scaling.deviation.tolist() == pytest.approx([1.0, 1e-7])


def test_large_inputs_that_differ_by_rounding_alone_keep_their_unit() -> None:
    scaling = InputScaling((2,))
    scaling.set_from(torch.tensor([1e9, 1e9]), torch.tensor([1e-6, 1e3]))
    assert scaling.deviation.tolist() == [1.0, 1e3]


def test_inputs_in_small_units_are_standardised() -> None:
    x = torch.tensor([[1e-9, 1e-15], [3e-9, 1e-15]])  # metres, some nanometres; a constant
    scaling = InputScaling((2,))
    scaling.set_from(x.mean(dim=0), x.std(dim=0, correction=0))
    torch.testing.assert_close(scaling(x), torch.tensor([[-1.0, 0.0], [1.0, 0.0]]))
