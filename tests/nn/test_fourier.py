"""Numbers described by Fourier features."""

import math

import torch

from desp.nn.fourier import fourier_length, with_fourier_features


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
