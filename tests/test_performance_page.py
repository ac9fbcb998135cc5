"""The page on performance shows what was recorded."""

import json
import re
from pathlib import Path

import pytest

from desp.cli.bench import markdown

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"<!-- recorded: (\S+) -->\n(.*?)\n<!-- end -->", PAGE, re.DOTALL)


def test_something_is_shown() -> None:
    assert SHOWN


def test_no_record_has_the_captured_reference() -> None:
    assert "None of the records below has it: their speedups are against operations launched one by one" in PAGE
    rows = [row for file, _ in SHOWN for row in json.loads((ROOT / file).read_text(encoding="utf-8"))["rows"]]
    assert not [row for row in rows if "captured_ms" in row]


def test_chains_on_a_cpu_are_compiled() -> None:
    assert "Chains are as in training, compiled." in PAGE
    for task in ("sampler", "train"):
        record = json.loads((ROOT / f"results/bench/{task}-cpu.json").read_text(encoding="utf-8"))
        assert {row["engine"] for row in record["rows"]} == {"compiled"}


@pytest.mark.parametrize(("file", "table"), SHOWN, ids=[file for file, _ in SHOWN])
def test_tables_are_the_recorded_ones(file: str, table: str) -> None:
    record = json.loads((ROOT / file).read_text(encoding="utf-8"))
    assert table == markdown(record["rows"]), f"put the rows of {file} as `desp.cli.bench.markdown` writes them"
    assert record["command"].startswith(("desp bench", "predictions.py"))
    assert len(record["commit"]) == 40, "record from a clean checkout"
