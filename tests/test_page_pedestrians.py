"""Numbers on the page on pedestrians are those of the recorded files."""

import json
import re
import statistics
from collections.abc import Callable
from typing import Any

import pytest

from desp.data.pedestrian_windows import OBSERVED, PREDICTED
from shown_numbers import RECORDED, RESULTS, about, flat, mean, numbers, page, record, rows_with, same

PAGE = "docs/pedestrians.md"
SCENES = ("eth", "hotel", "univ", "zara1", "zara2")


def of_baseline(name: str, scene: str, metric: str) -> float:
    return float(record(f"baselines/pedestrians-{scene}-{name}.json")["scores"][metric])


def better(values: dict[str, float], baseline: str, metric: str) -> dict[str, float]:
    """By how many percent in each scene."""
    return {scene: 100 - 100 * value / of_baseline(baseline, scene, metric) for scene, value in values.items()}


def of_recipes(scoring: str, metric: str) -> dict[str, float]:
    return {scene: mean(f"pedestrians-{scene}", None, scoring, metric)[0] for scene in SCENES}


def test_windows_of_scenes() -> None:
    _, *rows = rows_with(page(PAGE), "| scene | recordings | windows |")
    shown = {scene: int(windows) for scene, _, windows in rows}
    assert shown == {
        item["task"]: item["details"]["windows"] for item in RECORDED if item["table"] == "pedestrians"
    }


def test_pedestrians() -> None:
    head = "| | metric | eth | hotel | univ | zara1 | zara2 | mean |"
    (_, *scenes), *rows = rows_with(page(PAGE), head)  # the first cell is empty
    assert len(rows) == 9
    for name, metric, *shown in rows:
        values = [_pedestrian_score(name.strip("`"), scene, metric.strip("`")) for scene in scenes[:-1]]
        for number, value in zip(shown, [*values, statistics.fmean(values)], strict=True):
            assert same(number, value), (name, metric)
    metrics = ("energy_score", "joint_ade", "joint_fde")
    for name, *shown in rows_with(page(PAGE), "| | `energy_score` | `joint_ade` | `joint_fde` |")[1:]:
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


def test_plain_samples_of_pedestrians() -> None:
    shown = numbers(
        r"is better than `constant-velocity` by (\d+) % \(`joint_ade`\) and (\d+) % \(`joint_fde`\) on average, "
        r"and than random turns by (\d+) and (\d+) %; but in univ it is worse than `constant-velocity`, by (\d+) "
        r"and (\d+) %, and by `joint_fde` than random turns, by (\d+) %",
        PAGE,
    )
    gains = [
        better(of_recipes("raw", metric), baseline, metric)
        for baseline in ("constant-velocity", "constant-velocity-turned")
        for metric in ("joint_ade", "joint_fde")
    ]
    in_univ = [-gains[place]["univ"] for place in (0, 1, 3)]
    assert shown == [round(value) for value in [*(statistics.fmean(gain.values()) for gain in gains), *in_univ]]


def test_collisions_of_pedestrians() -> None:
    shown = numbers(
        r"in univ (\d+) % of them in plain samples and (\d+) % in centres, against (\d+) %\. .*? but for zara2 "
        r"\((\S+) against (\S+) %\)",
        PAGE,
    )
    raw, centres = (of_recipes(scoring, "collisions") for scoring in ("raw", "returned"))
    straight, turned = (
        {scene: of_baseline(name, scene, "collisions") for scene in SCENES}
        for name in ("constant-velocity", "constant-velocity-turned")
    )
    of_univ = [round(100 * item["univ"]) for item in (raw, centres, straight)]
    assert shown == [*of_univ, *(round(100 * item["zara2"], 1) for item in (raw, turned))]
    assert all(min(raw[scene], centres[scene]) > straight[scene] for scene in SCENES)
    assert all(centres[scene] < turned[scene] for scene in SCENES)
    assert [scene for scene in SCENES if raw[scene] > turned[scene]] == ["zara2"]


def test_spread_is_punished_by_the_mean_of_all_predictions() -> None:
    assert "it is worse than `constant-velocity` in every scene" in flat(PAGE)
    for scoring in ("raw", "returned"):
        for metric in ("ade", "fde"):
            assert max(better(of_recipes(scoring, metric), "constant-velocity", metric).values()) < 0


@pytest.mark.parametrize("name", ["first", "second", "third"])
def test_earlier_recipes_of_pedestrians(name: str) -> None:
    average = "" if name == "first" else r", on average (\d+) % better"
    seed, *shown = numbers(
        rf"- {name.capitalize()}, seed (\d) \(`results/pedestrians/{name}-settings.json`\): (0\.\d+), (0\.\d+), "
        rf"(0\.\d+), (0\.\d+) and (0\.\d+){average}",
        PAGE,
    )
    rows = record(f"pedestrians/{name}-settings.json")["rows"]
    assert {row["seed"] for row in rows} == {seed}
    scores = {row["task"]: row["scores"]["returned"]["energy_score"] for row in rows}
    gains = better(scores, "constant-velocity-turned", "energy_score")
    found = [about(scores[scene], 3) for scene in SCENES]
    assert shown == found + ([about(statistics.fmean(gains.values()))] if average else [])
    if name == "first":
        assert "in eth and univ worse than random turns" in flat(PAGE)
        assert {scene for scene, gain in gains.items() if gain < 0} == {"eth", "univ"}


def test_scenes_that_became_better_with_the_fourth_recipes() -> None:
    assert "than the third's: eth, hotel and zara2 became better, univ and zara1 worse" in flat(PAGE)
    now = of_recipes("returned", "energy_score")
    rows = record("pedestrians/third-settings.json")["rows"]
    before = {row["task"]: row["scores"]["returned"]["energy_score"] for row in rows}
    assert {scene for scene in SCENES if now[scene] < before[scene]} == {"eth", "hotel", "zara2"}
    assert "On average its energy score is no better" in flat(PAGE)
    assert statistics.fmean(now.values()) > statistics.fmean(before.values()) - 5e-4


def test_plain_samples_of_earlier_recipes() -> None:
    shown = numbers(
        r"Twenty plain samples are better: (\d+) % better `joint_ade` than random turns, in place of (\d+) %; "
        r"the second recipes had (\d+) %",
        PAGE,
    )
    now = of_recipes("raw", "joint_ade")
    earlier = [
        {
            row["task"]: row["scores"]["raw"]["joint_ade"]
            for row in record(f"pedestrians/{name}-settings.json")["rows"]
        }
        for name in ("third", "second")
    ]
    gains = [better(values, "constant-velocity-turned", "joint_ade") for values in (now, *earlier)]
    assert shown == [round(statistics.fmean(gain.values())) for gain in gains]


def tried(file: str, part: str, keep: Callable[[dict[str, Any]], bool]) -> dict[tuple[str, str], float]:
    """In percent better than random turns, by the scene that was scored and the one it was chosen for."""
    rows = [row for row in record(f"pedestrians/{file}.json")[part] if keep(row)]
    return {(row["scored"], row.get("chosen_for", "")): row["better_than_turned_percent"] for row in rows}


def test_what_was_tried_on_pedestrians() -> None:
    (ceiling, longer) = numbers(r"among them: 2,000; 8,000 steps \| (\d+) %; (\d+) % \|", PAGE)
    for shown, steps in ((ceiling, "2,000"), (longer, "8,000")):
        found = tried("choices-method", "ceiling", lambda row, steps=steps: steps in row["variant"])  # type: ignore[misc]
        assert shown == round(statistics.fmean(found.values()))
    (gain,) = numbers(r"three networks, .*? at most (\.\d) percentage points more", PAGE)
    single, joined = (
        tried("choices-method", "ensembles", lambda row, word=word: word in row["variant"])  # type: ignore[misc]
        for word in ("mean of their scores", "samples of all")
    )
    assert gain == pytest.approx(max(joined[pair] - single[pair] for pair in single))
    denoiser = tried("choices-elements", "rows", lambda row: "5,000 steps" in row["variant"])
    assert len(denoiser) == 4
    (shown,) = numbers(r"denoiser of 5,000 steps\. Four of these pairs \| \d+ to \d+ %; (\d+) %", PAGE)
    assert shown == round(statistics.fmean(denoiser.values()))


def test_engression_beside_the_denoiser() -> None:
    least, most, denoiser, fewest, highest = numbers(
        r"mean of the five scenes .*? \| (\d+) to (\d+) %; (\d+) % .*? "
        r"Four of these pairs \| (\d+) to (\d+) %",
        PAGE,
    )
    by_variant: dict[str, dict[tuple[str, str], float]] = {}
    for row in record("pedestrians/choices-method.json")["script"]:
        pair = (row["scored"], row["chosen_for"])
        by_variant.setdefault(row["variant"], {})[pair] = row["better_than_turned_percent"]
    complete = {name: gains for name, gains in by_variant.items() if len(gains) == 6}

    def over_scenes(gains: dict[tuple[str, str], float]) -> int:
        of_scenes = [[gain for pair, gain in gains.items() if pair[0] == scene] for scene in SCENES]
        return round(statistics.fmean(statistics.fmean(each) for each in of_scenes))

    engression = [gains for name, gains in complete.items() if name.startswith("engression")]
    means = [over_scenes(gains) for gains in engression]
    assert [least, most, denoiser] == [min(means), max(means), over_scenes(complete["denoiser"])]
    others = [over_scenes(gains) for name, gains in complete.items() if name.startswith("denoiser")]
    assert (len(engression), len(others)) == (17, 7)
    assert "the best of 17 variants" in flat(PAGE)
    assert numbers(r"seven variants of it: (\d+) to (\d+) %", PAGE) == [min(others), max(others)]
    pairs = tried("choices-elements", "rows", lambda row: "5,000 steps" in row["variant"])
    on_four = [round(statistics.fmean(gains[pair] for pair in pairs)) for gains in engression]
    assert [fewest, highest] == [min(on_four), max(on_four)]


def test_noise_on_some_positions_of_pedestrians() -> None:
    *some, every = numbers(
        r"\(runs `motion-\*`, temperature 1\): hotel, two runs \| (\d+) and (\d+) % .*? "
        r"\(variant `all`\): hotel \| (\d+) %",
        PAGE,
    )
    rows = record("pedestrians/choices-scenes.json")["rows"]
    scores = [
        row["temperatures"]["1.0"]["energy_score"]
        for row in rows
        if row["run"].startswith("motion-") and row["scored"] == "hotel"
    ]
    turned = of_baseline("constant-velocity-turned", "hotel", "energy_score")
    assert some == sorted(round(100 - 100 * score / turned) for score in scores)
    (all_positions,) = [
        gain
        for pair, gain in tried("choices-elements", "rows", lambda row: row["variant"] == "all").items()
        if pair[0] == "hotel"
    ]
    assert every == round(all_positions)


def test_people_who_stand() -> None:
    worse, *less = numbers(
        r"people who stand: zara2; eth, hotel and univ \| -(\d+) %; (\d+), (\d+) and (\d+) %",
        PAGE,
    )
    ratios = {
        row["scored"]: row["energy_score"] / row["random_turns"]
        for row in record("pedestrians/choices-method.json")["standing"]
    }
    assert worse == round(100 * ratios["zara2"] - 100)
    assert less == [round(100 - 100 * ratios[scene]) for scene in ("eth", "hotel", "univ")]


def test_what_encoders_are_told_of_pedestrians() -> None:
    eth, eth_without, hotel, hotel_without, places, no_places = numbers(
        r"told the number of people .*?: eth \| (\d+) %; (\d+) % .*? "
        r"hotel, if univ is trained on \| (\d+) %; (\d+) % .*? "
        r"told where people are in the window .*?: eth \| (\d+) %; (\d+) %",
        PAGE,
    )
    told = tried("choices-method", "script", lambda row: "at most 10" in row["variant"])
    not_told = tried("choices-method", "script", lambda row: row["variant"].endswith("eight people, 2,500 steps"))
    pairs = (("eth", "zara2"), ("hotel", "zara1"))
    assert [eth, hotel] == [round(told[pair]) for pair in pairs]
    assert [eth_without, hotel_without] == [round(not_told[pair]) for pair in pairs]
    seen = tried("choices-method", "library", lambda row: "encoders see places" in row["variant"])
    not_seen = tried("choices-method", "library", lambda row: row["variant"] == "engression, 3,000 steps")
    assert [places, no_places] == [round(runs["eth", "zara2"]) for runs in (seen, not_seen)]


def test_elements_of_pedestrians() -> None:
    shown = numbers(
        r"without attention, too: univ \| (-\d+) %; (\d+) %; (\d+) %; (\d+) %",
        PAGE,
    )
    variants = ("all", "no-neighbours", "no-neighbours, no-cardinality", "independent")
    found = [
        tried("choices-elements", "rows", lambda row, name=name: row["variant"] == name)["univ", "hotel"]  # type: ignore[misc]
        for name in variants
    ]
    assert shown == [round(value) for value in found]


def test_univ_is_the_hardest_scene() -> None:
    shown = numbers(
        r"In univ the energy score is only (\d) % better than that of random turns, and `joint_ade` \(of "
        r"centres\) (\d) % better than that of constant velocity",
        PAGE,
    )
    score = better(of_recipes("returned", "energy_score"), "constant-velocity-turned", "energy_score")
    centres = better(of_recipes("returned", "joint_ade"), "constant-velocity", "joint_ade")
    assert shown == [about(gains["univ"]) for gains in (score, centres)]


def test_how_pedestrians_were_trained() -> None:
    text = flat(PAGE)
    assert "trained on one CPU core in nine minutes" in text
    assert "The files name three commits" in text
    assert "for eth and zara1 something was not committed when they began" in text
    runs = {item["task"]: item["training"] for item in RECORDED if item["table"] == "pedestrians"}
    assert {round(run["seconds"] / 60) for run in runs.values()} == {9}
    begun = {scene: run["parts"][0]["commit"] for scene, run in runs.items()}
    assert {scene for scene, commit in begun.items() if commit.endswith("-dirty")} == {"eth", "zara1"}
    ended = {run["commit"] for run in runs.values()}
    assert len(ended | {commit.removesuffix("-dirty") for commit in begun.values()}) == 3


def test_frames_and_seconds() -> None:
    (rate,) = numbers(r"positions in metres, (\d\.\d) frames per second", PAGE)
    seen, seen_seconds, predicted, seconds = numbers(
        r"the last (\d+) frames \((\d\.\d) seconds\) .*? next (\d+) frames \((\d\.\d) seconds\)", PAGE
    )
    assert (seen, predicted) == (OBSERVED, PREDICTED)
    assert [seen_seconds, seconds] == [seen / rate, predicted / rate]
    assert numbers(r"(0\.\d) seconds apart", PAGE) == [1 / rate]
