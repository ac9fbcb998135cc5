"""Pictures of paths."""

import re
from typing import Any

import pytest

from desp.errors import RunError
from desp.report.figures.paths import path_grid


def example(people: int, samples: int) -> dict[str, Any]:
    """People who walk on, each beside the other."""
    seen = [[[0.3 * frame, float(person)] for frame in range(8)] for person in range(people)]
    ahead = [[[2.1 + 0.3 * frame, float(person)] for frame in range(1, 13)] for person in range(people)]
    return {"label": "a window", "paths": {"observed": seen, "truth": [ahead], "samples": [ahead] * samples}}


def lines(svg: bytes, colour: str) -> int:
    """Strokes of a colour."""
    return len(re.findall(rf"stroke: var\(--{colour}\)", svg.decode()))


def test_everybody_has_a_path_for_each_prediction() -> None:
    few, many = (path_grid([example(2, samples)]) for samples in (1, 4))
    assert lines(many, "prediction") == 8
    assert lines(few, "prediction") == 2
    assert lines(many, "truth") == lines(few, "truth") == 2
    assert b"a window" in many


def test_png_and_several_windows() -> None:
    assert path_grid([example(1, 2)] * 3, "png").startswith(b"\x89PNG")


def test_without_paths_there_is_no_picture() -> None:
    with pytest.raises(RunError, match="has no paths to draw"):
        path_grid([{"label": "nothing"}])
