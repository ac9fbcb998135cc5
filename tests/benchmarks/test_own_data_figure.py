"""The own-data benchmark as a picture."""

import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(FOLDER))
import own_data_figure  # noqa: E402

sys.path.remove(str(FOLDER))


def test_recorded_problems_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    picture = tmp_path / "own.png"
    monkeypatch.setattr(sys, "argv", ["figure", str(FOLDER.parent / "results" / "own-data"), str(picture)])
    own_data_figure.main()
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_folder_without_records(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="has no records"):
        own_data_figure.read_records(tmp_path)
