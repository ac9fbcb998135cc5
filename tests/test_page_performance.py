"""The page on performance shows what was recorded."""

import json
import re
import statistics

import pytest

from desp.cli.bench import markdown
from shown_numbers import RESULTS, ROOT, about, flat, numbers, page, record

PAGE = page("docs/performance.md")
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
    assert record["command"].startswith(("desp bench", "predictions.py", "distances.py"))
    assert len(record["commit"]) == 40, "record from a clean checkout"


def test_a_training_alone_on_the_gpu() -> None:
    (seconds,) = numbers(r"GPU to itself takes (\d+) seconds", "docs/performance.md")
    assert seconds == round(record("engines/alone/polygons-desp-paper-seed0.json")["training"]["seconds"])


def test_scores_of_engines_and_of_full_precision() -> None:
    """Means differ by less than the 95 % interval of either."""
    shown = numbers(
        r"CUDA graphs of whole steps \(raw score ([\d.]+e-5)\) and eagerly \(([\d.]+e-5), by another commit\)",
        "docs/performance.md",
    )
    text = flat("docs/performance.md")
    assert "settings on Polygons and Digits in full precision, whose scores are no better" in text

    def of(folder: str, recipe: str) -> list[float]:
        files = [RESULTS / folder / f"{recipe}-seed{seed}.json" for seed in range(3)]
        return [json.loads(file.read_text())["scores"]["raw"]["score"] for file in files]

    graph, eager = (of(f"engines/{engine}", "polygons-desp-paper") for engine in ("graph", "eager"))
    assert shown == [about(statistics.fmean(graph), 6), about(statistics.fmean(eager), 6)]
    pairs = [(graph, eager)]
    for recipe in ("polygons-desp-paper", "digits-desp-paper"):
        full, tf32 = of("precision", recipe), of(".", recipe)
        assert statistics.fmean(full) > statistics.fmean(tf32)
        pairs.append((full, tf32))
    for pair in pairs:
        half_widths = [4.303 * statistics.stdev(scores) / 3**0.5 for scores in pair]
        assert abs(statistics.fmean(pair[0]) - statistics.fmean(pair[1])) < max(half_widths)


def test_times_of_commits() -> None:
    *chains, least, most = numbers(
        r"five tasks took (\.\d+) to (\d\.\d+) times as long at c311993 .*? other commits, at (\.\d+) to "
        r"(\d\.\d+)\)",
        "docs/performance.md",
    )
    ratios = {
        path.stem.split("-")[0]: [row["ratio"] for row in record(f"comparisons/{path.name}")["rows"]]
        for path in (RESULTS / "comparisons").iterdir()
    }
    both_orders = ratios.pop("c311993")
    others = [ratio for found in ratios.values() for ratio in found]
    found = [end(values) for values in (both_orders, others) for end in (min, max)]
    assert [*chains, least, most] == [about(value, 2) for value in found]
