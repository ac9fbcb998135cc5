"""Tables for people: in narrow terminals text gives way, and numbers stay whole."""

import pytest
from rich.console import Console

from desp.cli import common


@pytest.mark.parametrize("width", [40, 80, 200])
def test_numbers_are_never_cut(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(common, "console", lambda: Console(width=width))
    rows = [("a recipe with a long name", "0.000123456", "1,782 of 17,820"), ("b", "5.45e-05", "-")]
    common.show_table("title", ("recipe", "ours", "steps"), rows, wrapped=("recipe",))
    shown = capsys.readouterr().out
    for cell in ("0.000123456", "1,782 of 17,820", "5.45e-05"):
        assert cell in shown
    assert "…" not in shown
    assert "a recipe" in shown


def test_an_empty_table_has_its_head(capsys: pytest.CaptureFixture[str]) -> None:
    common.show_table("title", ("recipe", "ours"), [])
    assert "recipe" in capsys.readouterr().out
