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


def test_brackets_and_colons_are_text(capsys: pytest.CaptureFixture[str]) -> None:
    """Units of features and names of files may look like markup, or like an emoji."""
    odd = ("amount [kg]", "[/b]", "a:heart:b.jsonl")
    common.show_table("title [red]", odd, [odd])
    with common.busy(odd[0]) as say:
        say(odd[1])
    with common.bar(odd[0]) as tell:
        tell(odd[1], 1, 2)
    shown = capsys.readouterr()
    assert all(shown.out.count(item) == 2 for item in odd)
    assert "title [red]" in shown.out
    assert all(shown.err.count(item) == 2 for item in odd[:2])


def test_brackets_are_text_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    with common.busy("amount [kg]") as say:
        say("[/b]")
    with common.bar("amount [kg]") as tell:
        tell("[/b]", 1, 2)
    assert "amount [kg]" in capsys.readouterr().err
