"""Where data and caches are."""

from pathlib import Path

import pytest

from desp.data.folders import cache_folder, data_folder


def test_where_data_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DESP_DATA", raising=False)
    assert data_folder() == tmp_path / "home" / "desp"
    monkeypatch.setenv("DESP_DATA", str(tmp_path / "variable"))
    assert data_folder("") == tmp_path / "variable"
    assert data_folder(tmp_path / "given") == tmp_path / "given"


def test_where_data_are_without_any_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_DATA_HOME", "DESP_DATA"):
        monkeypatch.delenv(name, raising=False)
    assert data_folder() == tmp_path / ".local" / "share" / "desp"
    assert data_folder("~/mine") == tmp_path / "mine"


def test_where_caches_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == tmp_path / ".cache" / "desp"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    assert cache_folder() == tmp_path / "elsewhere" / "desp"
