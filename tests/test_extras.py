"""Optional dependencies, and what is said where they are missing."""

import json
import sys
from pathlib import Path

import pytest

from desp.errors import MissingExtraError
from desp.extras import require


def test_modules_that_are_there_are_given() -> None:
    assert require("json", "viz", "read JSON") is json
    assert require("os.path", "viz", "join paths").__name__ in ("posixpath", "ntpath")


@pytest.mark.parametrize("name", ["surely_not_installed", "surely_not_installed.part"])
def test_missing_modules_name_the_extra(name: str) -> None:
    with pytest.raises(MissingExtraError) as caught:
        require(name, "viz", "draw pictures")
    message = str(caught.value)
    assert "'surely_not_installed' is needed to draw pictures" in message
    assert 'pip install "desp[viz]"' in message
    assert isinstance(caught.value, ImportError)


def test_modules_broken_inside_are_not_called_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_inside.py").write_text("import surely_not_installed\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError) as caught:
        require("broken_inside", "viz", "draw pictures")
    assert not isinstance(caught.value, MissingExtraError)
    assert "broken_inside" not in sys.modules
