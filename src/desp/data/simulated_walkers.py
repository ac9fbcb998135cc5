"""Simulated walkers, in place of recorded pedestrians: for trials and tests without the dataset.

A social force model (Helbing and Molnar 1995), reduced: people accelerate towards the velocity that they want, are
pushed away from those near them, and some change their goal on the way, so that futures have several modes.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from desp.data.pedestrian_files import Rows
from desp.randomness import make_generator
from desp.settings import PedestrianScene

SECONDS_OF_FRAME, STEPS_OF_FRAME = 0.4, 4
# Seconds in which people approach the velocity they want; strength of a push, in m/s², and its reach, in metres.
RELAXATION, PUSH, REACH = 0.6, 2.0, 0.5
FRAMES = 240
# Fractions of people who change their goal, and who walk with a friend; metres between friends.
CHANGES_GOAL, IN_PAIRS, BESIDE = 0.3, 0.4, 0.8


@dataclass(frozen=True)
class Layout:
    """A place to walk in.

    Attributes:
        width, height: in metres; people walk from one side to another.
        walkers: how many come in `FRAMES` frames.
        speed: mean, in metres per second.
    """

    width: float
    height: float
    walkers: int
    speed: float


LAYOUTS: dict[PedestrianScene, Layout] = {
    "eth": Layout(28.0, 20.0, 30, 1.6),
    "hotel": Layout(12.0, 24.0, 30, 1.1),
    "univ": Layout(18.0, 18.0, 60, 1.0),
    "zara1": Layout(24.0, 12.0, 30, 1.3),
    "zara2": Layout(24.0, 16.0, 40, 1.2),
}


def simulated_recording(scene: PedestrianScene) -> Rows:
    """The rows of a recording of simulated walkers, always the same: frame, person, x, y."""
    layout, generator = LAYOUTS[scene], make_generator("simulated walkers", scene)
    walkers = _Walkers(layout, generator)
    rows = [walkers.frame(frame) for frame in range(FRAMES)]
    return np.concatenate(rows)


class _Walkers:
    """All walkers of a recording; those who are not yet there, or have arrived, do not move."""

    def __init__(self, layout: Layout, generator: torch.Generator) -> None:
        self.generator = generator
        count = layout.walkers
        self.begins = (torch.rand(count, generator=generator) * FRAMES).long()
        self.places, self.goals = self._on_sides(layout, count)
        self.wanted = layout.speed * (1 + 0.2 * torch.randn(count, generator=generator)).clamp(0.4, 1.6)
        self.second_goals = self._on_sides(layout, count)[1]
        changes, when = torch.rand(2, count, generator=generator)
        self.changes_at = torch.where(changes < CHANGES_GOAL, self.begins + 8 + (16 * when).long(), FRAMES)
        self._pair_up(torch.rand(count, generator=generator) < IN_PAIRS)
        self.velocities = self.wanted.unsqueeze(1) * _unit(self.goals - self.places)
        self.arrived = torch.zeros(count, dtype=torch.bool)

    def _on_sides(self, layout: Layout, count: int) -> tuple[Float[Tensor, "w 2"], Float[Tensor, "w 2"]]:
        """For each walker a point on one side of the place, and one on another side."""
        side = torch.randint(4, (count,), generator=self.generator)
        other = (side + torch.randint(1, 4, (count,), generator=self.generator)) % 4
        along = torch.rand(2, count, generator=self.generator)
        size = torch.tensor([layout.width, layout.height])
        return _border(side, along[0]) * size, _border(other, along[1]) * size

    def _pair_up(self, with_friend: Tensor) -> None:
        """Those of odd number who walk with a friend come at the same time as the one before, beside them."""
        second = with_friend.clone()
        second[0::2] = False
        for number in second.nonzero().flatten().tolist():
            ahead = _unit(self.goals[number - 1] - self.places[number - 1])
            beside = BESIDE * torch.stack([-ahead[1], ahead[0]])
            for item in (self.places, self.goals, self.second_goals):
                item[number] = item[number - 1] + beside
            for item in (self.begins, self.wanted, self.changes_at):
                item[number] = item[number - 1]

    def frame(self, number: int) -> Rows:
        """The rows of people present in a frame; then they walk on to the next frame."""
        there = (self.begins <= number) & ~self.arrived
        people = there.nonzero().flatten()
        columns = [torch.full((len(people), 1), 10.0 * number), people.unsqueeze(1) + 1.0, self.places[people]]
        for _ in range(STEPS_OF_FRAME):
            self._step(there, number)
        rows: Rows = torch.cat(columns, dim=1).double().numpy()
        return rows

    def _step(self, there: Tensor, number: int) -> None:
        time = SECONDS_OF_FRAME / STEPS_OF_FRAME
        goals = torch.where((self.changes_at <= number).unsqueeze(1), self.second_goals, self.goals)
        way = goals - self.places
        wanted = self.wanted.unsqueeze(1) * _unit(way)
        noise = 0.15 * torch.randn(self.places.shape, generator=self.generator)
        force = (wanted - self.velocities) / RELAXATION + self._push(there) + noise
        moving = there.unsqueeze(1)
        self.velocities = torch.where(moving, self.velocities + time * force, self.velocities)
        self.places = torch.where(moving, self.places + time * self.velocities, self.places)
        self.arrived |= there & (way.norm(dim=1) < 0.5)

    def _push(self, there: Tensor) -> Float[Tensor, "w 2"]:
        """The force on each person, away from people nearby."""
        offset = self.places.unsqueeze(1) - self.places.unsqueeze(0)
        distance = offset.norm(dim=-1)
        strength = PUSH * torch.exp((0.4 - distance) / REACH) * (there.unsqueeze(0) & (distance > 0))
        return (strength.unsqueeze(-1) * _unit(offset)).sum(dim=1)


def _unit(vector: Float[Tensor, "*b 2"]) -> Float[Tensor, "*b 2"]:
    return vector / vector.norm(dim=-1, keepdim=True).clamp(min=1e-6)


def _border(side: Tensor, along: Tensor) -> Float[Tensor, "w 2"]:
    """Points of the unit square's sides: left, right, bottom, top."""
    far = (side % 2).to(along.dtype)
    upright = (side < 2).unsqueeze(1)
    return torch.where(upright, torch.stack([far, along], dim=1), torch.stack([along, far], dim=1))
