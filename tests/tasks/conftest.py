"""Predictors that know the answer, or none."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from desp.data.digits import DIGITS, draw_styles
from desp.data.polygons import polygon
from desp.predictors import DataShape, EnergyPredictor
from desp.samplers import ChainInfo
from desp.settings import PaddingSettings, PredictorSettings

Draw = Callable[[Tensor, torch.Generator], Tensor]


class KnowingPredictor(EnergyPredictor):
    """Gives what `draw` says in place of a chain's end, with energy 1."""

    def __init__(self, draw: Draw, shape: DataShape, padding: PaddingSettings) -> None:
        super().__init__(PredictorSettings.contrastive(padding=padding))
        self.draw = draw
        self.build(shape)

    def sample(self, x: Tensor, generator: torch.Generator, **_: Any) -> tuple[Tensor, ChainInfo]:
        return self.draw(x, generator), ChainInfo()

    def raw_energy(self, _: Tensor, values: Tensor) -> Tensor:
        return torch.ones(len(values))


ZERO = PaddingSettings(kind="zero", threshold=0.015)


def draw_true_polygons(x: Tensor, generator: torch.Generator) -> Tensor:
    """A fresh polygon with the right number of corners for every row."""
    corners = x.argmax(dim=1) + 4
    return polygon(corners, 2 * math.pi * torch.rand(len(x), generator=generator), 8)


def draw_true_digits(x: Tensor, generator: torch.Generator) -> Tensor:
    """A fresh digit in either style for every row."""
    variants = torch.stack([draw_styles(digit, len(x), generator) for digit in DIGITS])
    style = torch.randint(2, (len(x),), generator=generator)
    return variants[x.argmax(dim=1), style, torch.arange(len(x))]


@pytest.fixture
def polygon_predictor() -> Callable[..., KnowingPredictor]:
    """Makes predictors of polygons; true ones if not told otherwise."""
    shape = DataShape((5,), features=2, max_size=8)
    return lambda draw=draw_true_polygons: KnowingPredictor(draw, shape, ZERO)


@pytest.fixture
def digit_predictor() -> Callable[..., KnowingPredictor]:
    """Makes predictors of digits; true ones if not told otherwise."""
    shape = DataShape((2,), features=2, max_size=64)
    return lambda draw=draw_true_digits: KnowingPredictor(draw, shape, ZERO)


@pytest.fixture
def knowing() -> type[KnowingPredictor]:
    """The class itself."""
    return KnowingPredictor
