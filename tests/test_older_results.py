"""Metrics of older results under today's names."""

import json
from pathlib import Path
from typing import Any

import pytest

from desp.benchmarks.own_data.run import read_record
from desp.comparison.words import VERDICT_WORDS
from desp.older_results import SET_MNIST, migrate_ablation, migrate_evaluation, migrate_metric, migrate_result
from desp.results import read_results, result_path
from desp.run_lengths import training_facts
from desp.settings import SCHEMA
from made_up_results import made_up

RESULTS = Path(__file__).parents[1] / "results"


@pytest.mark.parametrize(
    ("old", "on_mnist", "elsewhere"),
    [
        ("size_rmse", "size_rmse_released", "size_rmse"),
        ("size_rmse_pooled", "size_rmse", "size_rmse_pooled"),
        ("size_rmse_all", "size_rmse_released_all", "size_rmse_all"),
        ("size_rmse_pooled_first100", "size_rmse_first100", "size_rmse_pooled_first100"),
        ("size_rmse_bfloat16_code", "size_rmse_released_bfloat16_code", "size_rmse_bfloat16_code"),
        ("size_rmse_pooled_bfloat16_code_first7", "size_rmse_bfloat16_code_first7", None),
        ("size_rmse_returned", "size_rmse_released_returned", "size_rmse_returned"),
        ("size_rmse_released", "size_rmse_released", "size_rmse_released"),
        ("calibration", "calibration_error", "calibration_error"),
        ("calibration_error", "calibration_error", "calibration_error"),
        ("right_size", "right_size", "right_size"),
        ("a_size_rmse", "a_size_rmse", "a_size_rmse"),
    ],
)
def test_names_of_metrics(old: str, on_mnist: str, elsewhere: str | None) -> None:
    assert migrate_metric(old, SET_MNIST) == on_mnist
    for task in ("polygons", None):
        assert migrate_metric(old, task) == (elsewhere or old)


def older(**more: Any) -> dict[str, Any]:
    scores = {"score": 1.0, "size_rmse": 0.25, "size_rmse_pooled": 0.5, "calibration": 0.1}
    both = {"raw": dict(scores), "returned": dict(scores)}
    metrics = {"size_rmse": {"name": "size_rmse", "unit": 1.0, "direction": "lower", "text": "released"}}
    return (
        made_up("mnist-desp", 0, 1.0, 1.0, task=SET_MNIST, scores=both, real_data=dict(scores), metrics=metrics)
        | more
    )


@pytest.mark.parametrize("settings", [{}, {"settings": {}}, {"settings": {"schema": 5}}])
def test_an_older_result(settings: dict[str, Any]) -> None:
    old = older(**settings)
    before = json.dumps(old)
    new = migrate_result(old)
    wanted = {"score": 1.0, "size_rmse_released": 0.25, "size_rmse": 0.5, "calibration_error": 0.1}
    assert new["scores"] == {"raw": wanted, "returned": wanted}
    assert new["real_data"] == wanted
    facts = {"name": "size_rmse_released", "unit": 1.0, "direction": "lower", "text": "released"}
    assert new["metrics"] == {"size_rmse_released": facts}
    assert json.dumps(old) == before  # what is read is not changed


def test_a_present_result_stays() -> None:
    new = older(settings={"schema": SCHEMA})
    assert migrate_result(new) is new


def test_rows_of_an_evaluation() -> None:
    rows = [{"metric": "size_rmse_raw", "task": SET_MNIST}, {"metric": "size_rmse", "task": "polygons"}, {}]
    old = {"rows": rows, "details": {"calibration": {}}}
    found = migrate_evaluation(old | {"result": {"settings": {"schema": 5}}})
    assert [row.get("metric") for row in found["rows"]] == ["size_rmse_released_raw", "size_rmse", None]
    assert found["details"] == old["details"]
    assert migrate_evaluation(old)["rows"] == found["rows"]  # of before results were kept beside rows
    new = old | {"result": {"settings": {"schema": SCHEMA}}}
    assert migrate_evaluation(new) is new
    assert migrate_evaluation({}) == {}


def test_facts_of_metrics_beside_rows_have_the_same_names() -> None:
    facts = {"name": "size_rmse", "unit": 1.0, "direction": "lower", "text": "released"}
    result = {"settings": {"schema": 5}, "task": SET_MNIST, "metrics": {"size_rmse": facts}}
    found = migrate_evaluation({"rows": [{"metric": "size_rmse", "task": SET_MNIST}], "result": result})
    assert found["result"]["metrics"] == {"size_rmse_released": facts | {"name": "size_rmse_released"}}
    assert found["rows"][0]["metric"] in found["result"]["metrics"]


def test_columns_of_an_ablation() -> None:
    old = {"rows": [{"ratio": 0.5, "size_rmse": 0.2}]}
    assert migrate_ablation(old, SET_MNIST)["rows"] == [{"ratio": 0.5, "size_rmse_released": 0.2}]
    assert migrate_ablation(old, None) == old
    new = {"rows": [{"ratio": 0.5, "size_rmse_released": 0.2}]}
    assert migrate_ablation(new, SET_MNIST) == new
    assert migrate_ablation({}, SET_MNIST) == {}


OLD_TRAINING = {"steps": 9, "best_score": 0.5, "best_step": 3, "best_error": 0.1, "verdict": "overfitted"}
TRAINING = {"steps": 9, "kept_score": 0.5, "kept_step": 3, "kept_score_se": 0.1, "stop_reason": "overfitted"}
OLD_SYSTEM = {"energy_score": 1.0, "best_error": 0.5, "best_error_se": 0.1, "verdict": "worse"}
SYSTEM = {"energy_score": 1.0, "single_error": 0.5, "single_error_se": 0.1, "verdict": "clearly worse"}


@pytest.mark.parametrize("settings", [{}, {"settings": {"schema": SCHEMA}}])
def test_training_and_comparison_of_a_result(settings: dict[str, Any]) -> None:
    sentence = {"sentence": "Clearly worse.", "training": "training has converged"}
    old = older(**settings, training=OLD_TRAINING, verdict=sentence, comparison={"tests": 7})
    old["comparison"]["systems"] = {"knn": OLD_SYSTEM, "random": SYSTEM}
    before = json.dumps(old)
    new = migrate_result(old)
    assert new["training"] == TRAINING
    assert new["comparison"] == {"tests": 7, "systems": {"knn": SYSTEM, "random": SYSTEM}}
    assert new["verdict"] == sentence
    assert json.dumps(old) == before
    assert migrate_result(new)["training"] == TRAINING
    assert migrate_result(older(training=None, comparison=None))["comparison"] is None  # not compared
    facts = training_facts([new])
    assert (facts["steps"], facts["ended_by"]) == ("9, best 3", "overfitting")


def test_training_and_comparison_of_an_evaluation() -> None:
    sentence = "Worse is said in words."
    rows = [
        {"metric": "energy_score", "compared": True, "verdict": sentence},
        {"metric": "energy_score", "compared": True, "verdict": "worse"},
        {"metric": "best_error", "compared": True},
        {"metric": "best_error", "verdict": "worse"},  # of a package outside: no comparison
    ]
    result = {"training": OLD_TRAINING, "comparison": {"systems": {"knn": OLD_SYSTEM}}, "settings": {"schema": 7}}
    old = {"rows": rows, "result": result}
    before = json.dumps(old)
    new = migrate_evaluation(old)
    assert new["result"] == result | {"training": TRAINING, "comparison": {"systems": {"knn": SYSTEM}}}
    assert [row["metric"] for row in new["rows"]] == ["energy_score", "energy_score", "single_error", "best_error"]
    assert [row.get("verdict") for row in new["rows"]] == [sentence, "clearly worse", None, "worse"]
    assert json.dumps(old) == before


def test_training_of_an_ablation() -> None:
    assert migrate_ablation({"rows": [], "training": OLD_TRAINING}, None)["training"] == TRAINING


def test_a_record_of_the_own_data_benchmark(tmp_path: Path) -> None:
    old_paired, paired = ({f"{name}_error": -0.1, f"{name}_error_se": 0.01} for name in ("best", "single"))
    own = {"best_error": 0.5, "best_step": 3, "verdict": "converged", "minus_knn": old_paired}
    path = tmp_path / "few.json"
    old = {"problem": "few", "verdict": "worse", "systems": {"desp": own, "knn": OLD_SYSTEM}}
    path.write_text(json.dumps(old))
    found = read_record(path)
    named = {"single_error": 0.5, "kept_step": 3, "stop_reason": "converged", "minus_knn": paired}
    assert found["systems"]["desp"] == named
    assert found["verdict"] == "clearly worse"


def test_the_projects_records_of_own_data_have_the_present_names() -> None:
    paths = sorted((RESULTS / "own-data").rglob("*.json"))
    assert paths
    for path in paths:
        record = read_record(path)
        assert record["verdict"] in VERDICT_WORDS
        assert record["systems"]["desp"]["kept_step"] <= record["systems"]["desp"]["steps"]
        for system in record["systems"].values():
            assert not {"best_error", "best_step", "verdict"} & set(system)
            assert system["single_error"] >= 0


def test_the_projects_results_have_the_present_names() -> None:
    saved = {path.name: json.loads(path.read_text()) for path in RESULTS.glob("*-seed*.json")}
    for result in read_results(RESULTS):
        path = result_path(RESULTS, result["recipe"], result["seed"], result.get("data_source"))
        old = saved[path.name]["scores"]["raw"]
        new = result["scores"]["raw"]
        assert list(new.values()) == list(old.values())
        assert "calibration" not in new
        if result["task"] == SET_MNIST and "size_rmse_pooled" in old:
            assert (new["size_rmse_released"], new["size_rmse"]) == (old["size_rmse"], old["size_rmse_pooled"])
            assert "size_rmse_pooled_all" not in new
        else:
            assert new.get("size_rmse") == old.get("size_rmse")
