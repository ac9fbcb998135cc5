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


@pytest.mark.parametrize(("file", "table"), SHOWN, ids=[file for file, _ in SHOWN])
def test_tables_are_the_recorded_ones(file: str, table: str) -> None:
    record = json.loads((ROOT / file).read_text(encoding="utf-8"))
    assert table == markdown(record["rows"]), f"put the rows of {file} as `desp.cli.bench.markdown` writes them"
    assert record["command"].startswith(("desp bench", "predictions.py"))
    assert len(record["commit"]) == 40, "record from a clean checkout"
