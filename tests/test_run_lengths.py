"""How long recorded runs were trained, in tables: what a file does not say is unknown, not zero."""

from typing import Any

import pytest

from desp.paper.tables import markdown_table, table_rows
from desp.recipes import get_recipe
from desp.results import rows_of
from desp.run_lengths import epoch_words, trained_words
from desp.settings import SCHEMA, to_json
from made_up_results import made_up


def row_of(recipe: str, *runs: dict[str, Any]) -> dict[str, Any]:
    return rows_of([made_up(recipe, seed, 1.0, 1.0, **run) for seed, run in enumerate(runs)])[0]


def run(asked: dict[str, Any] | None = None, **training: Any) -> dict[str, Any]:
    return {"training": training, "settings": {"training": {"steps": 100, "batch_size": 32, **(asked or {})}}}


@pytest.mark.parametrize(
    ("runs", "shown"),
    [
        ([run(rollbacks=0), run(rollbacks=0)], 0),
        ([run(rollbacks=2), run(rollbacks=1)], 3),
        ([run()], "unknown"),
        ([run(rollbacks=None), run(rollbacks=0)], "unknown"),
        ([run(), run(rollbacks=2)], "2 or more"),
    ],
)
def test_roll_backs_that_were_not_counted_are_unknown(runs: list[dict[str, Any]], shown: int | str) -> None:
    assert row_of("mnist-desp-paper", *runs)["rollbacks"] == shown


@pytest.mark.parametrize(
    ("of", "shown"),
    [
        (run({"steps": 35_640}, steps=35_640, stopped_early=False), "steps"),  # all that the recipe has
        (run(steps=100, stopped_early=False), "shortened"),
        (run({"patience": 7}, steps=60, stopped_early=True), "patience"),
        (run({"patience": None}, steps=100), "shortened"),  # an older file; nothing else could end it
        (run({"patience": 7}, steps=100), "unknown"),
        (run(steps=100), "unknown"),
        (run({"steps": None}, steps=100, stopped_early=False, stop_reason="out of time"), "time"),
        (run({"steps": None}, steps=100, stopped_early=False, stop_reason="converged"), "convergence"),
        (run(steps=60, stopped_early=False), "unknown"),
    ],
)
def test_what_ended_training(of: dict[str, Any], shown: str) -> None:
    assert row_of("mnist-tspn", of)["ended_by"] == shown


def with_settings(recipe: str, steps: int, **training: Any) -> dict[str, Any]:
    """As a file of today holds it."""
    settings = {"schema": SCHEMA, **to_json(get_recipe(recipe).build())}
    return {"training": {"steps": steps, **training}, "settings": settings}


@pytest.mark.parametrize(
    ("recipe", "training", "shown"),
    [
        ("mnist-tspn", {"steps": 17_820}, "10"),
        ("polygons-desp-paper", {"steps": 4000}, ""),  # ever new ones
        ("clevr-tspn", {"steps": 7000}, "unknown"),  # only the files knew
        ("clevr-tspn", {"steps": 7000, "examples": 2800}, "250"),
        ("clevr-tspn", {"steps": 7000, "examples": 2800, "processes": None}, "250"),  # of before it was counted
        ("clevr-tspn", {"steps": 7000, "examples": 2800, "processes": 2}, "500"),
        ("celeba-tagger", {"steps": 5000}, "10"),
    ],
)
def test_epochs_where_an_epoch_is_known(recipe: str, training: dict[str, Any], shown: str) -> None:
    row = row_of(recipe, with_settings(recipe, **training))
    assert epoch_words(row) == shown
    assert f"epochs: {shown}" in trained_words(row) or not shown


def test_a_commit_says_where_it_is_known_from() -> None:
    runs = [
        {"training": {"commit": "a" * 40, "commit_source": "environment"}},
        {"training": {"commit": f"{'b' * 40}-dirty", "commit_source": "git"}},
        {"training": {"commit": "c" * 40}},
        {"training": {"commit": "a" * 40, "parts": [{"commit": "d" * 40, "commit_source": "environment"}]}},
    ]
    shown = "aaaaaaa, ddddddd (environment); bbbbbbb-dirty (git); ccccccc (source unknown)"
    assert row_of("mnist-tspn", *runs)["commits"] == shown


def test_the_table_of_runs_has_a_row_for_each_recipe() -> None:
    results = [
        made_up("mnist-tspn", 0, 1.0, 1.0, **with_settings("mnist-tspn", 35_640, stopped_early=False)),
        made_up("polygons-desp", 0, 1.0, 1.0, training={"steps": 12_000, "rollbacks": 1}),
    ]
    for result in results:
        result["scores"]["raw"] |= {"chamfer": 1.0, "hungarian": 1.0}
    _, runs = markdown_table(table_rows(results), short=False).split("\n\n")
    assert runs.splitlines()[2:] == [
        "| `polygons-desp` | 0 | 12,000 |  | unknown | 1 | unknown | unknown (source unknown) |",
        "| `mnist-tspn` | 0 | 35,640 | 20 | steps | unknown | unknown | unknown (source unknown) |",
    ]
