"""Numbers described by waves."""

import math

import torch

from desp.nn import wave_features, with_waves


def test_waves_of_two_numbers() -> None:
    values = torch.tensor([[0.5, -1.0]])
    expected = [0.5, -1.0]
    for frequency in (math.pi / 2, math.pi, 3 * math.pi / 2):
        expected += [math.sin(0.5 * frequency), math.sin(-frequency)]
        expected += [math.cos(0.5 * frequency), math.cos(-frequency)]
    torch.testing.assert_close(with_waves(values, 3), torch.tensor([expected]))
    assert with_waves(values, 3).shape[-1] == wave_features(2, 3) == 14


def test_no_waves() -> None:
    values = torch.rand(3, 4)
    assert torch.equal(with_waves(values, 0), values)
    assert wave_features(4, 0) == 4
