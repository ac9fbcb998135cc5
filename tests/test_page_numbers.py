"""Numbers that pages show in tables of their own, or name a recorded file for, are those of `results/`."""

import json
import re
import statistics
from typing import Any

import pytest

from desp.paper.published import PUBLISHED
from desp.recipes import get_recipe
from desp.results import metric_facts, read_results
from shown_numbers import RECORDED, RESULTS, ROOT, flat, mean, numbers, page, rows_with, same

# -- CLEVR -----------------------------------------------------------------------------------------------

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


# -- CelebA ----------------------------------------------------------------------------------------------


def test_recorded_results_of_celeba() -> None:
    head = "| | precision | recall | F1 | ambiguous: precision | recall | F1 |"
    _, *rows = rows_with(page("docs/celeba.md"), head)
    of_recipes = [row for row in rows if "`" in row[0]]
    assert len(of_recipes) == 5
    for name, *shown in of_recipes:
        ending = "_sampled" if "ten independent" in name else ""
        metrics = [
            f"{part}{metric}{ending}" for part in ("", "ambiguous/") for metric in ("precision", "recall", "f1")
        ]
        for number, metric in zip(shown, metrics, strict=True):
            value, count = mean(re.findall(r"`(\S+)`", name)[0], "10-000-faces", "raw", metric)
            assert (count, same(number, value)) == (3, True), (name, metric, value)


def test_what_is_said_of_the_exact_likelihood() -> None:
    shown = numbers(
        r"likelihood is highest \((\.\d+) against DESP's (\.\d+)\).*? the exact likelihood has (\.\d+), "
        r"and on ambiguous sets about as much as DESP \((\.\d+) against (\.\d+)\)",
        "docs/celeba.md",
    )
    cells = [
        ("celeba-likelihood", "f1"),
        ("celeba-desp-paper", "f1"),
        ("celeba-likelihood", "f1_sampled"),
        ("celeba-likelihood", "ambiguous/f1_sampled"),
        ("celeba-desp-paper", "ambiguous/f1"),
    ]
    assert shown == [round(mean(recipe, "10-000-faces", "raw", metric)[0], 3) for recipe, metric in cells]


def test_stochastic_steps_of_celeba() -> None:
    _, *rows = rows_with(page("docs/celeba.md"), "| S/T | precision | recall | F1 |")
    files = sorted((RESULTS / "ablations").glob("celeba-desp-paper-*.json"))
    ablations = [json.loads(file.read_text())["rows"] for file in files]
    assert len(ablations) == 3
    for ratio, *shown in rows:
        for number, metric in zip(shown, ("precision", "recall", "f1"), strict=True):
            found = [row[metric] for rows in ablations for row in rows if row["ratio"] == float(ratio)]
            assert len(found) == 3
            assert same(number, statistics.fmean(found)), (ratio, metric)


def test_the_least_probability_of_an_answer() -> None:
    sampler: Any = get_recipe("celeba-likelihood").build().method.prediction_sampler
    text = flat("docs/celeba.md")
    (shown,) = re.findall(r"every labelling with probability of at least (\.\d+), once each", text)
    assert float(shown) == sampler.min_probability


# -- sentences that name a file ---------------------------------------------------------------------------


def scores_in(folder: str, recipe: str, scoring: str) -> list[float]:
    results = [item for item in read_results(RESULTS / folder) if item["recipe"] == recipe]
    return [item["scores"][scoring]["score"] for item in results]


def test_ten_seeds_of_the_fast_recipes() -> None:
    head = "| recipe | score, returned sets | raw | to compare with | standard deviation over seeds | raw |"
    _, *rows = rows_with(page("docs/methods.md"), head)
    assert [row[0] for row in rows] == ["`polygons-desp-fast`", "`digits-desp-fast`"]
    for name, returned, raw, _, *spreads in rows:
        shown = {"returned": (returned, spreads[0]), "raw": (raw, spreads[1])}
        for scoring, (average, spread) in shown.items():
            scores = scores_in("robust", name.strip("`"), scoring)
            assert len(scores) == 10
            assert float(average) == pytest.approx(statistics.fmean(scores), abs=0.05e-5)
            assert spread == f"{round(100 * statistics.stdev(scores) / statistics.fmean(scores))} %"


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


@pytest.mark.parametrize(
    "name", ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
)
def test_recorded_files_that_pages_name_are_there(name: str) -> None:
    named = re.findall(r"`(results/[\w./-]+)`", page(name))
    missing = [path for path in named if not (ROOT / path).exists()]
    assert [path for path in missing if path != "results/custom-NAME-seedN.json"] == []  # an example


def test_generated_scenes_look_like_rendered_ones() -> None:
    pattern = r"reaches an AP50 of (\.\d+) and an AP90 of (\.\d+) on the 500 re-rendered test images"
    recorded = json.loads((RESULTS / "clevr" / "transfer.json").read_text())
    for shown, metric in zip(numbers(pattern, "docs/clevr.md"), ("ap50", "ap90"), strict=True):
        assert abs(shown - recorded["scores"]["returned"][metric]) <= 5.01e-4
    (rate,) = numbers(r"On an H200 (\d),500 of them are drawn and rendered a second", "docs/clevr.md")
    measured = json.loads((RESULTS / "bench" / "scenes-cuda.json").read_text())["rows"]
    assert rate * 1000 + 500 <= max(row["images_per_s"] for row in measured)


def test_pedestrians() -> None:
    head = "| | metric | eth | hotel | univ | zara1 | zara2 | mean |"
    (_, *scenes), *rows = rows_with(page("docs/pedestrians.md"), head)  # the first cell is empty
    assert len(rows) == 9
    for name, metric, *shown in rows:
        values = [_pedestrian_score(name.strip("`"), scene, metric.strip("`")) for scene in scenes[:-1]]
        for number, value in zip(shown, [*values, statistics.fmean(values)], strict=True):
            assert same(number, value), (name, metric)
    metrics = ("energy_score", "joint_ade", "joint_fde")
    for name, *shown in rows_with(page("docs/pedestrians.md"), "| | `energy_score` | `joint_ade` | `joint_fde` |")[
        1:
    ]:
        baseline = re.findall(r"`(.*)`", name)[0]
        for number, metric in zip(shown, metrics, strict=True):
            ratios = [
                _pedestrian_score("pedestrians-*", scene, metric) / _pedestrian_score(baseline, scene, metric)
                for scene in scenes[:-1]
            ]
            assert int(number.removesuffix(" %")) == round(100 - 100 * statistics.fmean(ratios)), (name, metric)


def _pedestrian_score(system: str, scene: str, metric: str) -> float:
    if system == "pedestrians-*":
        return mean(f"pedestrians-{scene}", None, "returned", metric)[0]
    path = RESULTS / "baselines" / f"pedestrians-{scene}-{system}.json"
    return float(json.loads(path.read_text())["scores"][metric])


# -- own data --------------------------------------------------------------------------------------------


def own_data(problem: str, system: str, metric: str) -> float:
    record = json.loads((RESULTS / "own-data" / f"{problem}.json").read_text())
    return float(record["systems"][system][metric])


def test_problems_whose_single_answer_of_the_mlp_is_nearer() -> None:
    shown = numbers(
        r"nearer on `events`, `sensors`, `incomes` and the held-out `baskets`, by (\d+), (\d+), (\d+) and (\d+) %",
        "docs/own-data-benchmark.md",
    )
    problems = sorted(path.stem for path in (RESULTS / "own-data").glob("*.json"))
    nearer = {
        problem: 1 - own_data(problem, "mlp", "best_error") / own_data(problem, "desp", "best_error")
        for problem in problems
    }
    named = ("events", "sensors", "incomes", "baskets")
    assert {problem for problem, share in nearer.items() if share > 0} == set(named)
    assert shown == [round(100 * nearer[problem]) for problem in named]


def test_calibration_on_own_data() -> None:
    pattern = (
        r"is (\.\d+) on `ellipse` \(of 50 test examples\), (\.\d+) on `divisors`, (\.\d+) on `roots`, (\.\d+) "
        r"on `few` and (\.\d+) on `sensors`, and at most (\.\d+) on the others\. "
        r"The oracle, whose errors are chance, has (\.\d+) to (\.\d+)"
    )
    *shown, most, lowest, highest = numbers(pattern, "docs/own-data-benchmark.md")
    named = ("ellipse", "divisors", "roots", "few", "sensors")
    problems = [path.stem for path in (RESULTS / "own-data").glob("*.json")]
    errors = {problem: own_data(problem, "desp", "calibration_error") for problem in problems}
    assert shown == [round(errors.pop(problem), 2) for problem in named]
    assert most == round(max(errors.values()), 2)
    oracles = [own_data(problem, "oracle", "calibration_error") for problem in problems]
    assert [lowest, highest] == [round(min(oracles), 2), round(max(oracles), 2)]


# -- deviations ------------------------------------------------------------------------------------------


def test_polygons_by_denoising() -> None:
    score, real, accuracy = numbers(
        r"The score is (\.\d+)e-5, where fresh true polygons have (\.\d+)e-5\. .*? with an accuracy of (\.\d+)",
        "docs/deviations.md",
    )
    results = [item for item in RECORDED if item["recipe"] == "polygons-denoising"]
    assert same(str(score), mean("polygons-denoising", None, "returned", "score")[0] / 1e-5)
    assert same(str(real), statistics.fmean(item["real_data"]["score"] for item in results) / 1e-5)
    assert same(str(accuracy), mean("polygons-denoising", None, "returned", "nearest_neighbour_accuracy")[0])


def test_each_number_of_tables_1_to_3_has_a_result() -> None:
    assert "(Tables 2 and 3) has a result beside it" in flat("docs/deviations.md")
    recorded = {(item["task"], item["system"], metric) for item in RECORDED for metric in item["scores"]["raw"]}
    published = [cell for table in PUBLISHED if table.name in ("toy", "mnist") for cell in table.published]
    assert len(published) > 10
    assert [cell for cell in published if cell not in recorded] == []


# -- all results -----------------------------------------------------------------------------------------


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
