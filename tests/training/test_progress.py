"""The log of JSON lines."""

import json
from pathlib import Path

from desp.training.progress import add_to_log, rewind_log


def test_records_are_lines(tmp_path: Path) -> None:
    log = tmp_path / "run" / "log.jsonl"
    rewind_log(log, 0, 0)  # as every run begins
    add_to_log(log, {"step": 1, "loss": 0.5})
    add_to_log(log, {"step": 2, "loss": float("nan")})
    lines = log.read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"step": 1, "loss": 0.5}, {"step": 2, "loss": None}]


def test_rewinding_drops_later_lines_and_half_a_line(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    whole = '{"step": 1}\n{"step": 2, "loss": 1}\n{"step": 2, "validation_score": 3}\n'
    log.write_text(whole + '{"step": 3}\n{"step": 2, "lo')
    rewind_log(log, 2, 2)
    assert log.read_text() == whole
    add_to_log(log, {"step": 3})
    assert log.read_text() == whole + '{"step": 3}\n'
    rewind_log(log, 0, 0)
    assert log.read_text() == ""


def test_a_half_line_that_is_whole_json_is_dropped_too(tmp_path: Path) -> None:
    """Without its line end the next record would be glued to it."""
    log = tmp_path / "log.jsonl"
    log.write_text('{"step": 1}\n{"step": 2}')
    rewind_log(log, 5, 5)
    assert log.read_text() == '{"step": 1}\n'


def test_a_validation_that_was_logged_and_not_saved_is_not_logged_twice(tmp_path: Path) -> None:
    """A process that is killed between the two does it again when it is resumed."""
    log = tmp_path / "log.jsonl"
    kept = '{"step": 2, "validation_score": 3}\n{"step": 4, "loss": 1}\n'
    log.write_text(kept + '{"step": 4, "validation_score": 2}\n')
    rewind_log(log, 4, validated=2)
    assert log.read_text() == kept
