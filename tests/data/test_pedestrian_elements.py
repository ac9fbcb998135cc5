"""People as elements: nothing is lost, and nothing depends on the direction."""

import math

import pytest
import torch
from torch import Tensor

from desp.data.base import Batch
from desp.data.pedestrian_elements import (
    HEADING,
    HISTORY,
    INPUTS,
    MOTION,
    OUTPUTS,
    as_batch,
    futures,
    observed_input,
    pasts,
    turned,
)
from desp.data.pedestrian_windows import FRAMES, OBSERVED, PREDICTED, Windows
from desp.errors import DataError


def random_windows(sizes: tuple[int, ...] = (3, 1, 12), seed: int = 0) -> Windows:
    """People who walk at random."""
    generator = torch.Generator().manual_seed(seed)
    steps = [0.3 * torch.randn(size, FRAMES, 2, generator=generator) for size in sizes]
    return Windows.of(
        [5 * torch.rand(len(item), 1, 2, generator=generator) + item.cumsum(dim=1) for item in steps]
    )


def centred(windows: Windows) -> Tensor:
    """Positions from the mean of the last observed ones."""
    last = windows.paths[:, :, OBSERVED - 1]
    centres = torch.stack([rows[mask].mean(dim=0) for rows, mask in zip(last, windows.mask, strict=True)])
    return windows.paths - centres.view(-1, 1, 1, 2)


def close(batch: Batch, other: Batch) -> None:
    torch.testing.assert_close(batch.x, other.x, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(batch.sets.elements, other.sets.elements, rtol=1e-4, atol=1e-5)


def test_paths_come_back_from_elements() -> None:
    windows = random_windows()
    batch = as_batch(windows)
    assert batch.x.shape == (3, 12, INPUTS + 1)
    assert batch.sets.elements.shape == (3, 12, OUTPUTS)
    assert torch.equal(batch.x[..., -1] > 0.5, windows.mask)
    seen, ahead = centred(windows)[:, :, :OBSERVED], centred(windows)[:, :, OBSERVED:]
    torch.testing.assert_close(pasts(batch.x)[windows.mask], seen[windows.mask])
    torch.testing.assert_close(futures(batch.x, batch.sets.elements)[windows.mask], ahead[windows.mask])


def test_who_walks_straight_on_has_zeros_and_looks_ahead() -> None:
    step = torch.tensor([[0.3, 0.4], [-0.6, 0.0]])
    paths = torch.arange(FRAMES).view(1, -1, 1) * step.unsqueeze(1)
    batch = as_batch(Windows.of([paths]))
    torch.testing.assert_close(batch.sets.elements, torch.zeros(1, 2, OUTPUTS), rtol=0, atol=1e-5)
    torch.testing.assert_close(batch.x[0, :, HEADING], torch.tensor([[0.6, 0.8], [-1.0, 0.0]]))
    before = batch.x[0, :, HISTORY].unflatten(-1, (OBSERVED - 1, 2))
    torch.testing.assert_close(before[:, -1], torch.tensor([[-0.5, 0.0], [-0.6, 0.0]]))


def test_who_stands_still_looks_along_the_first_axis() -> None:
    batch = as_batch(Windows.of([torch.ones(1, FRAMES, 2)]))
    assert batch.x[0, 0, HEADING].tolist() == [1, 0]
    assert bool(batch.x.isfinite().all())


def test_nothing_but_place_and_heading_depends_on_the_direction() -> None:
    windows = random_windows()
    turn = torch.tensor([[math.cos(1.0), math.sin(1.0)], [-math.sin(1.0), math.cos(1.0)]])
    first, second = (
        as_batch(windows),
        as_batch(Windows(windows.paths @ turn + 7 * windows.mask[..., None, None], windows.mask)),
    )
    for part in (HISTORY, MOTION):
        torch.testing.assert_close(first.x[..., part], second.x[..., part], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(first.sets.elements, second.sets.elements, rtol=1e-4, atol=1e-4)
    assert (first.x[..., HEADING] - second.x[..., HEADING]).abs().max() > 0.1


def test_futures_are_in_units_of_how_far_people_move() -> None:
    """Ten times the steps of who walks give nearly the same element; who stands is measured in units of 0.3 m."""
    windows = random_windows((4,))
    walking, running = (as_batch(Windows(length * windows.paths, windows.mask)) for length in (10.0, 100.0))
    torch.testing.assert_close(walking.sets.elements, running.sets.elements, rtol=0.1, atol=0.02)
    standing = torch.zeros(1, 1, FRAMES, 2)
    standing[..., OBSERVED:, 0] = 0.15
    found = as_batch(Windows(standing, torch.ones(1, 1, dtype=torch.bool))).sets.elements
    torch.testing.assert_close(found[0, 0, ::2], torch.full((PREDICTED,), 0.5))


def test_motion_is_steps_their_differences_and_logarithms() -> None:
    windows = random_windows((2,))
    motion = as_batch(windows).x[0, :, MOTION]
    steps = pasts(as_batch(windows).x)[0].diff(dim=1)
    lengths = steps.norm(dim=-1)
    unit = lengths.mean(dim=1, keepdim=True) + 0.3
    torch.testing.assert_close(motion[:, :14].unflatten(-1, (7, 2)).norm(dim=-1), lengths / unit)
    turns = steps.diff(dim=1).norm(dim=-1)
    torch.testing.assert_close(motion[:, 14:26].unflatten(-1, (6, 2)).norm(dim=-1), turns / unit)
    torch.testing.assert_close(motion[:, 26], (lengths.mean(dim=1) + 0.01).log(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(motion[:, 27], (lengths[:, -1] + 0.01).log(), rtol=1e-4, atol=1e-5)
    jerk = steps.diff(n=2, dim=1).square().mean(dim=(1, 2))
    torch.testing.assert_close(motion[:, 28], (jerk + 1e-6).log(), rtol=1e-4, atol=1e-4)


def test_turns() -> None:
    batch = as_batch(random_windows())
    assert turned(batch.x, torch.zeros(3, 12)).abs().max() == 0
    last = pasts(batch.x)[..., -2:, :]
    step = last[..., 1, :] - last[..., 0, :]
    left = futures(batch.x, turned(batch.x, torch.full((3, 12), math.pi / 2)))
    quarter = torch.stack([-step[..., 1], step[..., 0]], dim=-1)
    torch.testing.assert_close(left[..., 2, :], last[..., 1, :] + 3 * quarter, rtol=1e-4, atol=1e-5)


def test_inputs_as_they_are_written() -> None:
    windows = random_windows((3,))
    seen = windows.paths[0, :, :OBSERVED].tolist()
    found = observed_input(seen, "line 1", 5)
    assert found.shape == (5, INPUTS + 1)
    torch.testing.assert_close(found[:3], as_batch(windows).x[0])
    for wrong in (seen[0], [path[:4] for path in seen], [], "here", [[[float("nan"), 0.0]] * OBSERVED]):
        with pytest.raises(DataError, match="line 1"):
            observed_input(wrong, "line 1", 5)
    with pytest.raises(DataError, match="1 to 2 people, got 3"):
        observed_input(seen, "line 1", 2)
