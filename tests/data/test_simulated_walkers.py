"""Simulated walkers: always the same ones, who walk as people do."""

import numpy as np
import pytest

from desp.data.pedestrian_windows import windows_of
from desp.data.simulated_walkers import LAYOUTS, simulated_recording


@pytest.mark.parametrize("scene", LAYOUTS)
def test_walkers_walk(scene: str) -> None:
    rows = simulated_recording(scene)  # type: ignore[arg-type]
    assert np.array_equal(rows, simulated_recording(scene))  # type: ignore[arg-type]
    speeds = []
    for person in np.unique(rows[:, 1]):
        path = rows[rows[:, 1] == person]
        assert (np.diff(path[:, 0]) == 10).all()  # without gaps
        speeds += list(np.linalg.norm(np.diff(path[:, 2:], axis=0), axis=1) / 0.4)
    assert np.mean(speeds) == pytest.approx(LAYOUTS[scene].speed, rel=0.25)  # type: ignore[index]
    assert max(speeds) < 5
    assert len(windows_of(rows)) > 40


def test_scenes_differ_and_crowds_keep_apart() -> None:
    first, crowd = simulated_recording("eth"), simulated_recording("univ")
    assert len(crowd) > len(first)
    distances = []
    for frame in np.unique(crowd[:, 0]):
        places = crowd[crowd[:, 0] == frame, 2:]
        apart = np.linalg.norm(places[:, None] - places[None], axis=-1)
        distances += list(apart[np.triu_indices(len(places), 1)])
    assert np.mean(np.array(distances) < 0.2) < 0.002
