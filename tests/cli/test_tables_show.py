"""Tables for people: in narrow terminals text gives way, and numbers stay whole."""

import pytest
from rich.console import Console

from desp.cli import common, main


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


@pytest.mark.parametrize(
    ("width", "shown", "left_out"),
    [
        (94, ["name", "a", "b", "c", "text"], []),
        (80, ["name", "b", "c", "text"], ["a"]),
        (60, ["name", "text"], ["a", "b", "c"]),  # c would fit without b
        (20, ["name", "text"], ["a", "b", "c"]),
    ],
)
def test_the_least_needed_columns_are_left_out(
    width: int,
    shown: list[str],
    left_out: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(common, "console", lambda: Console(width=width))
    rows = [("x" * 12, "1" * 10, "2" * 10, "3" * 10, "words " * 20)]
    names = ("name", "a", "b", "c", "text")
    common.show_table("title", names, rows, wrapped=("text",), optional=("a", ("b", "c")))
    lines = capsys.readouterr().out.splitlines()
    assert [cell.strip() for cell in lines[2].strip("┃").split("┃")] == shown
    told = " ".join(" ".join(lines).split()).partition("left out, as the terminal is narrow: ")[2]
    assert told == ", ".join(left_out)


def test_recipes_fit_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(common, "console", lambda: Console(width=80))
    main(["recipes"])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert all(name in lines[2] for name in ("recipe", "expected", "summary"))
    assert not any(name in lines[2] for name in ("minutes", "hardware"))  # minutes are of the hardware


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
