"""Numbers on the page on CelebA are those of the recorded files."""

import json
import re
import statistics
from typing import Any

from desp.recipes import get_recipe
from shown_numbers import RECORDED, RESULTS, about, flat, mean, numbers, page, published, record, rows_with, same


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
        r"likelihood is highest \((\.\d+) against DESP's (\.\d+)\)\. With ten independent samples it has (\.\d+), "
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


def test_the_oracle_rule() -> None:
    head = "| | precision | recall | F1 | ambiguous: precision | recall | F1 |"
    (shown,) = [row[1:] for row in rows_with(page("docs/celeba.md"), head) if row[0].startswith("oracle rule")]
    rule = record("celeba/rule.json")
    metrics = [f"{part}{metric}" for part in ("", "ambiguous/") for metric in ("precision", "recall", "f1")]
    assert all(same(number, rule["scores"][metric]) for number, metric in zip(shown, metrics, strict=True))
    (auc,) = numbers(r"mean AUC of (\.\d+) on test faces", "docs/celeba.md")
    assert auc == round(rule["classifier"]["test_auc"], 3)


def choices(name: str) -> dict[str, Any]:
    return {row["run"]: row for row in record(f"celeba/{name}.json")["rows"]}


def test_how_the_exact_likelihood_was_chosen() -> None:
    least, *both, other, all_other, ambiguous_other = numbers(
        r"The least probability of an answer, (\.\d+), has the largest sum of F1 on all and on ambiguous sets "
        r"\((\.\d+) and (\.\d+); (\.\d+) has (\.\d+) and (\.\d+)\)",
        "docs/celeba.md",
    )
    *of_noise_1, all_1, ambiguous_1 = numbers(
        r"By that sum a noise of (\d) would be better than the chosen (\d) \((\.\d+) and (\.\d+)\)",
        "docs/celeba.md",
    )
    runs = choices("choices")

    def f1(noise: float, probability: object) -> list[float]:
        scores = runs[f"b-n{noise:.0f}"]["scores"][f"min_probability {probability}"]
        return [scores["f1"], scores["ambiguous/f1"]]

    assert both == [about(value, 3) for value in f1(2, least)]
    assert [all_other, ambiguous_other] == [about(value, 3) for value in f1(2, other)]
    assert [all_1, ambiguous_1] == [about(value, 3) for value in f1(1, least)]
    assert max((0.03, 0.05, 0.07, 0.1), key=lambda probability: sum(f1(2, probability))) == least
    assert of_noise_1 == [max((1, 2, 3), key=lambda noise: sum(f1(noise, least))), get_noise()]
    assert max((1, 2, 3), key=lambda noise: f1(noise, least)[0]) == get_noise()


def get_noise() -> float:
    """That of the recipe."""
    task: Any = get_recipe("celeba-likelihood").build().task
    return float(task.feature_noise)


def test_desp_with_noise_on_features_is_not_recorded() -> None:
    assert "DESP with noise on features is not recorded." in flat("docs/celeba.md")
    rows = [*choices("choices").values(), *choices("choices-feature-noise").values()]
    desp = [row["settings"]["task"]["feature_noise"] for row in rows if "desp" in row["settings"]["recipe"]]
    assert desp == [0]


def test_noise_would_help_the_tagger_little() -> None:
    shown = numbers(
        r"F1 of its one answer rises from (\.\d+) to (\.\d+), of independent samples it stays (\.\d+)",
        "docs/celeba.md",
    )
    runs = (choices("choices")["tagger-full-b"], choices("choices-feature-noise")["tagger-noise2.0"])
    assert [run["settings"]["task"]["feature_noise"] for run in runs] == [0, 2]
    assert all(run["settings"]["training"]["patience"] is None for run in runs)
    answers, samples = (
        [round(run["scores"][f"min_probability {least}"]["f1"], 3) for run in runs] for least in ("0.03", "None")
    )
    assert (shown[:2], shown[2:] * 2) == (answers, samples)


def test_features_of_training_faces() -> None:
    _, *rows = rows_with(page("docs/celeba.md"), "| features | `task.feature_noise` | all | ambiguous |")
    by_row = [("b1-n1", "b1-n2"), ("b-n1", "b-n2", "b-n3"), ("d-n1", "d-n2"), ("c-n0", "c-n05", "c-n1")]
    runs = choices("choices")

    def f1(name: str, part: str = "") -> float:
        return float(runs[name]["scores"]["min_probability 0.03"][f"{part}f1"])

    for (_, noise, *shown), names in zip(rows, by_row, strict=True):
        best = max(names, key=f1)
        assert runs[best]["settings"]["task"]["feature_noise"] == float(noise)
        assert [same(shown[0], f1(best)), same(shown[1], f1(best, "ambiguous/"))] == [True, True], best
    gains = numbers(
        r"Four views raise F1 of all sets by (\S+), of ambiguous ones by (\S+) "
        r"\(with noise of 1 by (\S+) and (\.\d+);",
        "docs/celeba.md",
    )
    pairs = [(f"b-n{noise}", f"b1-n{noise}", part) for noise in (2, 1) for part in ("", "ambiguous/")]
    assert [float(str(gain).rstrip(",")) for gain in gains] == [
        round(f1(four, part) - f1(one, part), 3) for four, one, part in pairs
    ]


def test_steps_of_the_recorded_runs_on_celeba() -> None:
    fewest, most, longest, likelihood = numbers(
        r"after ([\d,]+) to ([\d,]+) of ([\d,]+) steps; `celeba-likelihood` trains for all ([\d,]+)",
        "docs/celeba.md",
    )
    steps = {
        name: [item["training"]["steps"] for item in RECORDED if item["recipe"] == f"celeba-{name}"]
        for name in ("desp-paper", "tagger", "likelihood")
    }
    stopped = steps["desp-paper"] + steps["tagger"]
    assert [fewest, most] == [min(stopped), max(stopped)]
    assert set(steps["likelihood"]) == {likelihood} == {longest}


def test_the_tagger_beside_desp() -> None:
    *f1, precision = numbers(
        r"F1 is higher by (\.\d+) on all sets and by (\.\d+) on ambiguous ones\. The paper has (\.\d+) and "
        r"(\.\d+), at equal precision; here the tagger's precision is higher by (\.\d+)\.",
        "docs/celeba.md",
    )

    def ahead(metric: str) -> float:
        of_both = [mean(f"celeba-{name}", "10-000-faces", "raw", metric)[0] for name in ("desp-paper", "tagger")]
        return of_both[0] - of_both[1]

    def ahead_in_paper(task: str, metric: str) -> float:
        return published(task, "desp", metric)[0] - published(task, "tagger", metric)[0]

    in_paper = [about(ahead_in_paper(task, "f1"), 2) for task in ("all", "ambiguous")]
    assert f1 == [about(ahead("f1"), 2), about(ahead("ambiguous/f1"), 2), *in_paper]
    assert precision == about(-ahead("precision"), 2)
    assert abs(ahead_in_paper("all", "precision")) < published("all", "desp", "precision")[1]


def test_settings_of_the_oracle_rule() -> None:
    shown = numbers(
        r"Subsets with at least (\.\d+) of the sum of these counts are predicted; this threshold and a factor on "
        r"the logits \((\d\.\d)\) have the highest F1",
        "docs/celeba.md",
    )
    scores = record("celeba/rule.json")["scores"]
    assert shown == [scores["threshold"], scores["factor"]]


def test_how_features_were_compared() -> None:
    seed, least = numbers(
        r"validation sets, one seed \((\d)\), with answers of probability (\.\d+) or more", "docs/celeba.md"
    )
    rows = [row for row in record("celeba/choices.json")["rows"] if "likelihood" in row["settings"]["recipe"]]
    assert {row["seed"] for row in rows} == {seed}
    assert all(f"min_probability {least}" in row["scores"] for row in rows)
    noises = numbers(
        r"tried for it: (\d) and (\d), with four views also (\d), cross-fitted (\.\d), (\.\d) and (\d)\.",
        "docs/celeba.md",
    )
    names = ("b-n1", "b-n2", "b-n3", "c-n0", "c-n05", "c-n1")
    assert noises == [choices("choices")[name]["settings"]["task"]["feature_noise"] for name in names]


def test_how_faces_are_split() -> None:
    shown = numbers(r"Else (\d+) % train, (\d+) % validate and (\d+) % test", "docs/celeba.md")
    splits = {item["details"]["split"] for item in RECORDED if item["table"] == "celeba"}
    assert splits == {"/".join(f"{number:.0f}" for number in shown)}


def test_sizes_of_what_is_cached() -> None:
    """Of 202,599 faces, 162,770 of which train with four views."""
    (images,) = numbers(r"\(M, 3, 96, 96\) bytes \| ([\d.]+) GB", "docs/celeba.md")
    (features,) = numbers(r"\(M, 512\), 16 bits each; .*? \| ([\d.]+) GB", "docs/celeba.md")
    assert images == about(202_599 * 3 * 96 * 96 / 1e9, 1)
    assert features == about((202_599 + 3 * 162_770) * 512 * 2 / 1e9, 1)


def test_training_takes_less_than_a_minute() -> None:
    assert "Training took less than a minute for each run; nine shared one H200" in flat("docs/celeba.md")
    runs = [item["training"] for item in RECORDED if item["table"] == "celeba"]
    assert (len(runs), {run["device"] for run in runs}) == (9, {"NVIDIA H200"})
    assert max(run["seconds"] for run in runs) < 60


def test_how_many_sets_are_scored() -> None:
    (sets,) = numbers(
        r"Means of three seeds \(0 to 2\), ([\d,]+) test sets, ten predictions for each", "docs/celeba.md"
    )
    details = [item["details"] for item in RECORDED if item["table"] == "celeba"]
    assert {(found["sets"], found["samples"]) for found in details} <= {(sets, 10), (sets, 1)}


def test_recall_is_lowest_without_noise() -> None:
    assert "Without noise there is one answer, and recall is lowest" in flat("docs/celeba.md")
    for seed in (0, 1, 2):
        rows = record(f"ablations/celeba-desp-paper-10-000-faces-seed{seed}.json")["rows"]
        assert min(rows, key=lambda row: row["recall"])["ratio"] == 0
