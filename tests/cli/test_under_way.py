"""What is shown of runs side by side: on a terminal, in a file."""

import io
import json
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr
from dataclasses import dataclass
from pathlib import Path

import pytest

from desp.cli.under_way import RunsUnderWay
from desp.runs.side_by_side import Work


@dataclass(frozen=True)
class _Run(Work):
    place: Path

    @property
    def folder(self) -> Path:
        return self.place

    def commands(self) -> Iterator[list[str]]:
        yield ["train"]


class Terminal(io.StringIO):
    """Stands for a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _no_dumb_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


def test_steps_of_runs_under_way_are_shown_on_a_terminal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    one, other = _Run(tmp_path / "one"), _Run(tmp_path / "other")
    one.folder.mkdir()
    (one.folder / "log.jsonl").write_text(json.dumps({"step": 1200}) + "\n")
    out, terminal = sys.stdout, Terminal()
    with redirect_stderr(terminal), RunsUnderWay[_Run](lambda item: item.folder.name, 2) as shown:
        assert sys.stdout is out  # it may be a file, or one of each thread
        shown.begin(one, ["train"])
        shown.begin(other, ["evaluate"])
        assert shown._now().text.plain == "0 of 2 done; one: train, step 1,200; other: evaluate"
        shown.begin(one, ["evaluate"])
        shown.end(other, "recorded")
        assert shown._now().text.plain == "1 of 2 done; one: evaluate"
    assert "0 of 2 done; one: train, step 1,200" in terminal.getvalue()
    assert terminal.getvalue().count("\x1b[?25l") == terminal.getvalue().count("\x1b[?25h") == 4  # the cursor
    assert capsys.readouterr().out.splitlines() == [
        f"one: begins; log: {tmp_path / 'one.log'}",
        f"other: begins; log: {tmp_path / 'other.log'}",
        "other: recorded",
    ]


def test_nothing_moves_where_there_is_no_terminal_or_a_run_shows_its_own_progress(
    tmp_path: Path,
) -> None:
    for stream, spinning in ((Terminal(), False), (io.StringIO(), True)):
        with redirect_stderr(stream), RunsUnderWay[_Run](str, 1, spinning=spinning) as shown:
            shown.begin(_Run(tmp_path), ["train"])
        assert stream.getvalue() == ""
