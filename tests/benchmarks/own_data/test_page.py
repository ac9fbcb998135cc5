"""The page on the own-data benchmark has its problems, and the project's records are whole."""

import re
from pathlib import Path

import pytest

from desp.benchmarks.own_data.problems import PROBLEMS
from desp.benchmarks.own_data.run import read_record
from desp.comparison.words import verdict

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "own-data-benchmark.md").read_text(encoding="utf-8")
RECORDS = sorted((ROOT / "results" / "own-data").glob("*.json"))


def test_the_page_has_all_problems() -> None:
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| ([\d,]+) \| ([^|]+) \| (\d+) \|", PAGE, flags=re.MULTILINE)
    expected = []
    for problem in PROBLEMS:
        smallest, largest = problem.sizes
        sizes = f"{smallest} to {largest}" if smallest < largest else str(largest)
        expected.append((problem.name, f"{problem.count:,}", sizes, str(problem.features)))
    assert rows == expected


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_says_where_it_comes_from(path: Path) -> None:
    record = read_record(path)
    assert path.stem == "-".join(filter(None, (record["problem"], record["variant"])))
    assert record["problem"] in {problem.name for problem in PROBLEMS}
    assert bool(record["changed_settings"]) == (record["variant"] is not None)
    assert len(record["commit"]) == 40
    assert record["command"].startswith("desp bench own-data")
    assert record["device"]
    assert record["versions"]["torch"]
    paired = record["systems"]["desp"]["minus_knn"]
    assert record["verdict"] == verdict(paired["energy_score"], paired["energy_score_se"])
