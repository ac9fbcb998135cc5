"""The log of JSON lines."""

import json
from pathlib import Path

from desp.training.progress import JsonLinesLog


def test_records_are_lines(tmp_path: Path) -> None:
    log = JsonLinesLog(tmp_path / "run" / "log.jsonl")
    log.rewind(0)  # as every run begins
    log.add({"step": 1, "loss": 0.5})
    log.add({"step": 2, "loss": float("nan")})
    lines = log.path.read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"step": 1, "loss": 0.5}, {"step": 2, "loss": None}]


def test_rewinding_drops_later_lines_and_half_a_line(tmp_path: Path) -> None:
    log = JsonLinesLog(tmp_path / "log.jsonl")
    whole = '{"step": 1}\n{"step": 2, "loss": 1}\n{"step": 2, "validation_score": 3}\n'
    log.path.write_text(whole + '{"step": 3}\n{"step": 2, "lo')
    log.rewind(2)
    assert log.path.read_text() == whole
    log.add({"step": 3})
    assert log.path.read_text() == whole + '{"step": 3}\n'
    log.rewind(0)
    assert log.path.read_text() == ""


def test_a_half_line_that_is_whole_json_is_dropped_too(tmp_path: Path) -> None:
    """Without its line end the next record would be glued to it."""
    log = JsonLinesLog(tmp_path / "log.jsonl")
    log.path.write_text('{"step": 1}\n{"step": 2}')
    log.rewind(5)
    assert log.path.read_text() == '{"step": 1}\n'
