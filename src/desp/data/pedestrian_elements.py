"""People as elements of sets: features of their observed paths, and their future paths as seen by each of them.

Each person has a coordinate frame: its origin is the last observed position, and its first axis points where the
person was walking. So what is learned for one direction holds for all.
Each person also has a unit of length: people who stand move by centimetres, people who walk by metres, and in this
unit the numbers that a network predicts are about 1 for both.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from desp.data.base import Batch
from desp.data.pedestrian_windows import OBSERVED, PREDICTED, Windows
from desp.errors import DataError
from desp.sets import SetBatch
from desp.tensors import as_numbers

VERSION = 4
"""Version of the features and their scaling: a run that was begun with another version cannot be resumed."""

# Columns of an input element; presence comes after them.
HISTORY = slice(0, 2 * (OBSERVED - 1))
PLACE, HEADING = slice(HISTORY.stop, HISTORY.stop + 2), slice(HISTORY.stop + 2, HISTORY.stop + 4)
MOTION = slice(HEADING.stop, HEADING.stop + 2 * (OBSERVED - 1) + 2 * (OBSERVED - 2) + 3)
INPUTS, OUTPUTS = MOTION.stop, 2 * PREDICTED

# Metres: a person whose first and last observed positions are nearer than this has no direction of walking.
STILL = 0.01
# Square metres that are added to a mean square before its logarithm: in recordings of splines it is nearly zero.
SMOOTH = 1e-6
# Metres per frame that are added to a person's mean step, so that the unit of length is never 0.
SHORTEST = 0.3


def as_batch(windows: Windows) -> Batch:
    """Inputs (B, N, 48) and sets (B, N, 24), aligned: element i of a set is the future of person i.

    An input element has the seven positions before the last one in the person's own frame; the last position
    relative to the mean of all and the direction of walking, both in the window's frame; what `_motion` tells;
    then presence. An element of a set has the twelve next positions in the person's own frame, less those of
    walking on at the last velocity, in units of the person's `_length`.
    """
    paths, mask = windows.paths, windows.mask
    last = paths[:, :, OBSERVED - 1]
    heading = _heading(paths)
    own = _into(heading.unsqueeze(2), paths - last.unsqueeze(2))  # (B, N, 20, 2)
    count = mask.sum(dim=1).clamp(min=1).view(-1, 1, 1)
    place = last - (last * mask.unsqueeze(-1)).sum(dim=1, keepdim=True) / count
    history = own[:, :, : OBSERVED - 1].flatten(2)
    x = torch.cat([history, place, heading, _motion(history)], dim=-1)
    y = (own[:, :, OBSERVED:] - _walked_on(velocity(x))).flatten(2) / _length(x)
    present = mask.unsqueeze(-1)
    return Batch(SetBatch(x * present, mask).with_presence(), SetBatch(y * present, mask))


def observed_input(value: Any, where: str, max_size: int) -> Float[Tensor, "n c"]:
    """The input of one window, from everybody's observed positions.

    Args:
        value: [[[x, y], ...], ...], eight positions of each person.
        where: names the place in messages.
        max_size: N, to which it is padded.

    Raises:
        DataError: it is something else, or there are too many people.
    """
    wanted = f"{OBSERVED} positions [x, y] of each person, [[[x, y], ...], ...]"
    seen = as_numbers(value, where, wanted, ("person", "position", "coordinate")).float()
    if seen.dim() != 3 or seen.shape[1:] != (OBSERVED, 2) or not seen.isfinite().all():
        raise DataError(
            f"{where}: expected {wanted}, got shape {tuple(seen.shape)}, or numbers that are not finite."
        )
    if not 1 <= len(seen) <= max_size:
        raise DataError(f"{where}: expected 1 to {max_size} people, got {len(seen)}.")
    still = seen[:, -1:].expand(-1, PREDICTED, -1)  # any future: inputs do not depend on it
    return as_batch(Windows.of([torch.cat([seen, still], dim=1)], max_size)).x[0]


def futures(x: Float[Tensor, "*#b n c"], y: Float[Tensor, "*#b n 24"]) -> Float[Tensor, "*b n 12 2"]:
    """The next positions that elements of sets stand for, in metres from the window's centre.

    Args:
        x: inputs, as `as_batch` makes them.
        y: elements of sets, without presence.
    """
    own = (y * _length(x)).unflatten(-1, (PREDICTED, 2)) + _walked_on(velocity(x))
    return _out_of(x[..., HEADING].unsqueeze(-2), own) + x[..., PLACE].unsqueeze(-2)


def pasts(x: Float[Tensor, "*b n c"]) -> Float[Tensor, "*b n 8 2"]:
    """The observed positions of each person, in metres from the window's centre."""
    own = F.pad(x[..., HISTORY].unflatten(-1, (OBSERVED - 1, 2)), (0, 0, 0, 1))
    return _out_of(x[..., HEADING].unsqueeze(-2), own) + x[..., PLACE].unsqueeze(-2)


def velocity(x: Float[Tensor, "*b n c"]) -> Float[Tensor, "*b n 2"]:
    """Velocity of the last observed step, in metres per frame, in each person's own coordinates."""
    return -x[..., HISTORY.stop - 2 : HISTORY.stop]


def turned(x: Float[Tensor, "*b n c"], angle: Float[Tensor, "*b n"]) -> Float[Tensor, "*b n 24"]:
    """Elements of sets in which everybody walks on at the last velocity, turned by the angles."""
    direction, own = torch.stack([angle.cos(), angle.sin()], dim=-1), velocity(x)
    return _walked_on(_out_of(direction, own) - own).flatten(-2) / _length(x)


def _length(x: Float[Tensor, "*b n c"]) -> Float[Tensor, "*b n 1"]:
    """The person's unit of length: the mean observed step, plus `SHORTEST`."""
    return _steps(x[..., HISTORY]).norm(dim=-1).mean(dim=-1, keepdim=True) + SHORTEST


def _steps(history: Float[Tensor, "*b 14"]) -> Float[Tensor, "*b 7 2"]:
    """Steps between the observed positions; the last position is the origin."""
    return F.pad(history.unflatten(-1, (OBSERVED - 1, 2)), (0, 0, 0, 1)).diff(dim=-2)


def _motion(history: Float[Tensor, "*b 14"]) -> Float[Tensor, "*b 29"]:
    """Steps between observed positions and differences of steps, in units of `_length`; and the logarithms
    of the mean step, of the last one, and of how rough the path is.

    Some recordings are splines through few points, others have the noise of a tracker in each position. Where the
    path is rough, the last step says little of the velocity; a network must know which of them it sees.
    """
    steps = _steps(history)
    turns = steps.diff(dim=-2)
    roughness = turns.diff(dim=-2).square().mean(dim=(-2, -1)) + SMOOTH
    lengths = steps.norm(dim=-1)
    length = lengths.mean(dim=-1, keepdim=True)
    relative = torch.cat([steps.flatten(-2), turns.flatten(-2)], dim=-1) / (length + SHORTEST)
    logarithms = [(length + STILL).log(), (lengths[..., -1:] + STILL).log(), roughness.log().unsqueeze(-1)]
    return torch.cat([relative, *logarithms], dim=-1)


def _heading(paths: Float[Tensor, "b n 20 2"]) -> Float[Tensor, "b n 2"]:
    """Unit vectors from the first to the last observed position; the first axis for people who stand still."""
    way = paths[:, :, OBSERVED - 1] - paths[:, :, 0]
    length = way.norm(dim=-1, keepdim=True)
    ahead = torch.zeros_like(way)
    ahead[..., 0] = 1
    return torch.where(length > STILL, way / length.clamp(min=STILL), ahead)


def _walked_on(step: Float[Tensor, "*b 2"]) -> Float[Tensor, "*b 12 2"]:
    """Displacements of walking on by the same step in every frame."""
    times = torch.arange(1, PREDICTED + 1, device=step.device, dtype=step.dtype)
    return step.unsqueeze(-2) * times.unsqueeze(-1)


def _out_of(direction: Tensor, vector: Tensor) -> Tensor:
    """Vectors (..., 2) out of coordinates whose first axis is `direction`, into those it is given in."""
    cos, sin = direction.unbind(-1)
    first, second = vector.unbind(-1)
    return torch.stack([cos * first - sin * second, sin * first + cos * second], dim=-1)


def _into(direction: Tensor, vector: Tensor) -> Tensor:
    """The inverse of `_out_of`."""
    return _out_of(direction * direction.new_tensor([1.0, -1.0]), vector)
