"""What the documentation's notebooks run with; that they run is checked where the documentation is built."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sphinx")
DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def code_cells() -> Any:
    spec = importlib.util.spec_from_file_location("code_cells", DOCS / "code_cells.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_cells_share_names_and_show_what_they_print(code_cells: Any) -> None:
    names: dict[str, Any] = {}
    assert code_cells._run("x = 2\nprint('two')", names, "page:1") == "two\n"
    assert code_cells._run("print(x)\nx + 1", names, "page:2") == "2\n3\n"
    assert code_cells._run("None", names, "page:3") == ""
    names["__folder__"].cleanup()


def test_cells_run_in_a_folder_of_their_own(
    code_cells: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    code_cells._run("open('made.txt', 'w').close()", names, "page:1")
    assert list(tmp_path.iterdir()) == []
    assert [path.name for path in Path(names["__folder__"].name).iterdir()] == ["made.txt"]
    assert Path.cwd() == tmp_path
    names["__folder__"].cleanup()


def test_a_cell_that_fails_is_named(code_cells: Any) -> None:
    names: dict[str, Any] = {}
    with pytest.raises(Exception, match="page:7: the cell failed: ZeroDivisionError"):
        code_cells._run("1 / 0", names, "page:7")
    names["__folder__"].cleanup()


def test_notebooks_open_in_jupyter() -> None:
    pages = [path for path in DOCS.glob("*.md") if "{code-cell}" in path.read_text(encoding="utf-8")]
    assert pages
    for page in pages:
        head = page.read_text(encoding="utf-8").split("---")[1]
        assert "format_name: myst" in head
        assert "kernelspec:" in head
