"""Numbers on the page on CLEVR are those of the recorded files."""

import json
import re

import pytest

from shown_numbers import RESULTS, flat, mean, numbers, page, rows_with, same

_WITH_SEEDS = "| | seeds | AP50 | AP60 | AP70 | AP80 | AP90 |"


@pytest.mark.parametrize(
    ("head", "data"),
    [(f"{_WITH_SEEDS}\n", "re-rendered"), (f"{_WITH_SEEDS} AP50, exact |", "generated")],
    ids=["re-rendered", "generated"],
)
def test_boxes_of_one_raw_sample(head: str, data: str) -> None:
    columns, *rows = rows_with(page("docs/clevr.md"), head)
    assert len(rows) > 5
    for name, seeds, *shown in rows:
        recipe = re.findall(r"`(\S+)`", name)[0]
        steps = re.findall(r"(\d\d) steps", name)
        ending = f"_{steps[0]}_steps" if steps and steps[0] != "10" else ""
        for column, number in zip(columns[-len(shown) :], shown, strict=True):
            exact = "_exact" if "exact" in column else ""
            value, count = mean(recipe, data, "raw", f"{column[:4].lower()}{exact}{ending}")
            assert count == int(seeds), name
            assert same(number, value), (name, column, value)


@pytest.mark.parametrize(
    ("head", "data", "metrics"),
    [
        ("| | test images | AP50 | AP60 | AP70 | AP80 | AP90 |", None, ("ap50", "ap60", "ap70", "ap80", "ap90")),
        ("| | any | 1 | .5 | .25 | .125 |", "generated", ("ap_inf", "ap1", "ap05", "ap025", "ap0125")),
    ],
    ids=["boxes", "states"],
)
def test_methods_with_spatial_features(head: str, data: str | None, metrics: tuple[str, ...]) -> None:
    """A table of several sources has a column that names them."""
    _, *rows = rows_with(page("docs/clevr.md"), head)
    for name, *cells in rows:
        source, shown = (data, cells) if data else (cells[0], cells[1:])
        scoring = "raw" if "one sample" in name else "returned"
        for number, metric in zip(shown, metrics, strict=True):
            value, count = mean(re.findall(r"`(\S+)`", name)[0], source, scoring, metric)
            assert (count, same(number, value)) == (1, True), (name, metric, value)


@pytest.mark.parametrize(
    ("pattern", "of"),
    [
        (r"Ten samples of `clevr-desp`, pooled, have an AP50 of (\.\d+)", ("clevr-desp", "re-rendered", "ap50")),
        (r"pooled, have an AP50 of \.\d+, of `clevr-tspn` (\.\d+)", ("clevr-tspn", "re-rendered", "ap50")),
        (r"Here ten pooled samples of `clevr-desp` have an AP50 of (\.\d+)", ("clevr-desp", "generated", "ap50")),
        (r"Here ten .*? AP50 of \.\d+, of `clevr-tspn` (\.\d+)", ("clevr-tspn", "generated", "ap50")),
        (
            r"One sample of `clevr-desp` finds (\.\d+) ± \.\d+ of the mostly hidden",
            ("clevr-desp", "generated", "hidden_recall"),
        ),
        (
            r"at least one of five samples finds (\.\d+) ± \.\d+ of them",
            ("clevr-desp", "generated", "hidden_recall_of_5"),
        ),
        (r"calibration error of its pooled boxes is (\.\d+)", ("clevr-desp", "generated", "confidence_ece")),
        (
            r"one sample of `clevr-box-denoiser` finds (\.\d+) of the mostly hidden",
            ("clevr-box-denoiser", "generated", "hidden_recall"),
        ),
        (
            r"at least one of five samples (\.\d+), which is one object more",
            ("clevr-box-denoiser", "generated", "hidden_recall_of_5"),
        ),
        (
            r"one object more\. The calibration error of its pooled boxes is (\.\d+)",
            ("clevr-box-denoiser", "generated", "confidence_ece"),
        ),
    ],
)
def test_sentences_on_pooled_boxes(pattern: str, of: tuple[str, str, str]) -> None:
    found = re.search(pattern, flat("docs/clevr.md"))
    assert found is not None
    assert same(found[1], mean(of[0], of[1], "returned", of[2])[0])


def test_generated_scenes_look_like_rendered_ones() -> None:
    pattern = r"reaches an AP50 of (\.\d+) and an AP90 of (\.\d+) on the 500 re-rendered test images"
    recorded = json.loads((RESULTS / "clevr" / "transfer.json").read_text())
    for shown, metric in zip(numbers(pattern, "docs/clevr.md"), ("ap50", "ap90"), strict=True):
        assert abs(shown - recorded["scores"]["returned"][metric]) <= 5.01e-4
    (rate,) = numbers(r"On an H200 (\d),500 of them are drawn and rendered a second", "docs/clevr.md")
    measured = json.loads((RESULTS / "bench" / "scenes-cuda.json").read_text())["rows"]
    assert rate * 1000 + 500 <= max(row["images_per_s"] for row in measured)
