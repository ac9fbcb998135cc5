"""The energy of a box denoiser: a closed form for a network without output, and the symmetries of sets."""

from dataclasses import replace
from typing import Literal

import pytest
import torch
from torch import Tensor

from desp.data.shape import DataShape
from desp.errors import SettingsError
from desp.methods import Method, build_method
from desp.methods.box_denoiser import ENERGY_SIGMAS
from desp.predictor import SetPredictor
from desp.randomness import make_generator
from desp.scaling import FeatureScaling
from desp.sets import SetRepresentation
from desp.settings import (
    BoxDenoiserSettings,
    DataDescription,
    EDMSettings,
    PyramidEncoderSettings,
    RepresentationSettings,
)

SETTINGS = BoxDenoiserSettings(
    encoder=PyramidEncoderSettings(hidden=8, out=8),
    sampler=EDMSettings(steps=2),
    hidden=8,
    layers=1,
    heads=2,
    fourier_frequencies=2,
    points=2,
)
BOXES = DataDescription(boxes=((0, 4),))
SIZE = 4


def made(seed: int | None = None) -> Method:
    """In double precision; with a seed, all weights are random, also those that begin at zero."""
    scaling = FeatureScaling.from_range([0.0] * 4, [1.0] * 4, boxes=BOXES.boxes)
    shape = DataShape((1, 32, 32), 4, SIZE, scaling, "image", BOXES)
    method = (
        build_method(SETTINGS, shape, SetRepresentation(RepresentationSettings(padding="presence")))
        .double()
        .eval()
    )
    if seed is not None:
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for weight in method.parameters():
                weight.add_(0.3 * torch.randn(weight.shape, generator=generator, dtype=weight.dtype))
    return method


def padded(sizes: tuple[int, ...] = (3, 1, 0), seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    y = torch.rand(len(sizes), SIZE, 5, generator=generator, dtype=torch.float64)
    y[..., -1] = (torch.arange(SIZE) < torch.tensor(sizes).unsqueeze(1)).double()
    return y.masked_fill(y[..., -1:] == 0, 0.0)


def code_of(method: Method, count: int) -> Tensor:
    x = torch.rand(count, 1, 32, 32, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    with torch.no_grad():
        return method.encode(x)


@pytest.mark.parametrize("cardinality", ["predicted", "denoised"])
def test_boxes_need_presence(cardinality: Literal["predicted", "denoised"]) -> None:
    """The network takes the last feature for presence, however the cardinality is found."""
    settings = replace(SETTINGS, cardinality=cardinality)
    with pytest.raises(SettingsError, match=r"^representation\.padding must be presence for the method"):
        SetPredictor(settings, RepresentationSettings(padding="zero", scaling="none"), device="cpu")


def test_a_network_without_output_leads_towards_the_middle() -> None:
    """It denoises to c_skip u, which is known in closed form."""
    method, y = made(), padded((1,))
    clean = 2 * y[0, 0, :4] - 1
    noises = torch.randn((4, SIZE, 5), generator=make_generator("box energy"), dtype=torch.float64)[:, 0, :4]
    expected = sum(
        float((0.25 / (0.25 + sigma**2) * (clean + sigma * noise) - clean).square().sum()) / (2 * sigma**2)
        for sigma, noise in zip(ENERGY_SIGMAS, noises, strict=True)
    )
    assert float(method.energies(code_of(method, 1), y)[0]) == pytest.approx(expected)


def test_energies_do_not_depend_on_the_order_of_elements() -> None:
    method, y = made(seed=2), padded((3, 4, 1))
    code = code_of(method, 3)
    expected = method.energies(code, y)
    for order in ([2, 0, 1, 3], [1, 2, 0, 3]):
        changed = y.clone()
        changed[0] = y[0, order]
        changed[1] = y[1, order]
        torch.testing.assert_close(method.energies(code, changed), expected)
    absent_first = y[:, [3, 1, 2, 0]]
    torch.testing.assert_close(method.energies(code[:1], absent_first[:1]), expected[:1])


@pytest.mark.parametrize("tied", [1, 3])
def test_boxes_in_one_column_may_come_in_any_order(tied: int) -> None:
    method, y = made(seed=2), padded((3,))
    y[0, :3, :tied] = 0.4  # the same centre x, and for more features also the same centre y and width
    code = code_of(method, 1)
    torch.testing.assert_close(method.energies(code, y[:, [2, 0, 1, 3]]), method.energies(code, y))


def test_energies_are_those_of_each_set_and_input() -> None:
    method, y = made(seed=2), padded((3, 2))
    code = code_of(method, 2)
    both = method.energies(code, y)
    torch.testing.assert_close(torch.cat([method.energies(code[i : i + 1], y[i : i + 1]) for i in (0, 1)]), both)
    assert not torch.isclose(method.energies(code[[1, 0]], y), both).any()
    assert torch.equal(method.energies(code, y), both)


@pytest.mark.parametrize("at_once", [1, 4, 5])
def test_levels_may_be_denoised_in_parts(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    method, y = made(seed=2), padded((3, 2))
    code = code_of(method, 2)
    expected = method.energies(code, y)
    monkeypatch.setattr("desp.methods.box_denoiser.DENOISED_AT_ONCE", at_once)
    torch.testing.assert_close(method.energies(code, y), expected)


def test_an_empty_set_has_nothing_to_denoise() -> None:
    method = made(seed=2)
    assert float(method.energies(code_of(method, 1), padded((0,)))[0]) == 0
