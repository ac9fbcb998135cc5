"""What all pages say of results, and the page of all results."""

import re

import pytest

from desp.results import metric_facts
from shown_numbers import PAGES, RECORDED, ROOT, flat, page


@pytest.mark.parametrize("name", PAGES)
def test_recorded_files_that_pages_name_are_there(name: str) -> None:
    named = re.findall(r"`(results/[\w./-]+)`", page(name))
    missing = [path for path in named if not (ROOT / path).exists()]
    assert [path for path in missing if path != "results/custom-NAME-seedN.json"] == []  # an example


def test_metrics_that_are_better_when_larger() -> None:
    text = flat("docs/results.md")
    ((listed, tasks),) = re.findall(
        r"metrics whose name has (.*?), and `score` on (.*?) are better when larger", text
    )
    words = re.findall(r"`(\w+)`", listed)
    for item in RECORDED:
        for name in set(item["scores"]["raw"]) | set(item["scores"]["returned"]):
            if name in ("rarest_style", "nearest_neighbour_accuracy"):  # 0.5 is best
                continue
            larger = metric_facts(name, item.get("metrics"))["direction"] == "higher"
            of_task = item["table"] in tasks.lower()
            said = of_task if name == "score" else any(word in name for word in words)
            assert larger == (said or re.match(r"ap(\d|_)", name) is not None), (item["recipe"], name)
