"""Small recordings of people who walk, made up."""

from pathlib import Path

import numpy as np

from desp.data.mnist_files import file_md5
from desp.data.pedestrian_files import CHECKSUMS, Rows


def straight_walkers(people: int, frames: int, first: int = 0, seed: int = 0) -> Rows:
    """Rows of people who walk straight on, each at a velocity of their own; frames are ten apart."""
    draws = np.random.default_rng(seed)
    places, steps = draws.uniform(0, 10, (people, 2)), draws.uniform(-0.6, 0.6, (people, 2))
    rows = [
        [10.0 * (first + frame), person + 1, *(places[person] + frame * steps[person])]
        for frame in range(frames)
        for person in range(people)
    ]
    return np.array(rows)


def write_recordings(folder: Path) -> dict[str, str]:
    """Eight small recordings under the names of the published ones; returns their checksums."""
    folder.mkdir(parents=True)
    for seed, name in enumerate(CHECKSUMS):
        rows = straight_walkers(1 + seed % 3, 160, seed=seed)
        rows[:, 2:] += np.random.default_rng(seed).normal(0, 0.05, (len(rows), 2))
        np.savetxt(folder / name, rows, delimiter="\t", fmt="%.6f")
    return {name: file_md5(folder / name) for name in CHECKSUMS}
