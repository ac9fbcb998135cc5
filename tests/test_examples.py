"""Examples that no other test runs."""

import runpy
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_scenes_are_drawn(tmp_path: Path) -> None:
    picture = tmp_path / "scenes.png"
    runpy.run_path(str(EXAMPLES / "clevr_scenes.py"))["main"](picture, count=1)
    assert picture.stat().st_size > 1000
