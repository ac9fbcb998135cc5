"""Numbers described by Fourier features."""

import math

import pytest
import torch

from desp.nn.fourier import SIGMA_FEATURES, fourier_length, with_fourier_features, with_sigma


def test_fourier_features_of_two_numbers() -> None:
    values = torch.tensor([[0.5, -1.0]])
    expected = [0.5, -1.0]
    for frequency in (math.pi / 2, math.pi, 3 * math.pi / 2):
        expected += [math.sin(0.5 * frequency), math.sin(-frequency)]
        expected += [math.cos(0.5 * frequency), math.cos(-frequency)]
    torch.testing.assert_close(with_fourier_features(values, 3), torch.tensor([expected]))
    assert with_fourier_features(values, 3).shape[-1] == fourier_length(2, 3) == 14


def test_no_fourier_features() -> None:
    values = torch.rand(3, 4)
    assert torch.equal(with_fourier_features(values, 0), values)
    assert fourier_length(4, 0) == 4


@pytest.mark.parametrize("shape", [(2, 3), (2, 4, 3)], ids=["a set", "each element"])
def test_codes_keep_their_precision_with_a_noise_level(shape: tuple[int, ...]) -> None:
    code = torch.rand(shape).bfloat16()
    joined = with_sigma(code, torch.tensor([0.1, 2.0], dtype=torch.float64))
    assert (joined.dtype, joined.shape) == (torch.bfloat16, (*shape[:-1], 3 + SIGMA_FEATURES))
    assert torch.equal(joined[..., :3], code)
