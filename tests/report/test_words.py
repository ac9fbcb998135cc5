"""What the page says in words and tables: every number under its own name, every note for its own kind of run."""

import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from desp.report.folder import read_run
from desp.report.numbers import DASH, MINUS
from desp.report.page import write_report
from desp.results import make_row

pytestmark = pytest.mark.usefixtures("undrawn")
MakeRun = Callable[..., Path]
ABSENT = {"samples": None, "ablation": None, "log": None}  # what the top does not speak of
ROW = {"metric": "Chamfer", "value": 3.0, "paper": 2.0, "real_data": 1.5}


def page_of(folder: Path) -> str:
    return write_report(folder).read_text(encoding="utf-8")


def words(html: str) -> str:
    """The text of a part of the page, in one line."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


def top(page: str) -> str:
    return words(page[page.index("<h1>") : page.index("<nav")])


def section(page: str, anchor: str) -> str:
    found = re.search(rf'<section id="{anchor}".*?</section>', page, flags=re.DOTALL)
    assert found, anchor
    return found.group()


def table(html: str) -> list[list[str]]:
    """The cells of the first table, line by line."""
    inside = html[html.index("<table") : html.index("</table>")]
    return [
        [words(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line)]
        for line in re.findall(r"<tr>(.*?)</tr>", inside)
    ]


def with_method(kind: str, padding: str = "presence", **method: Any) -> dict[str, Any]:
    parts = {"method": {"kind": kind, **method}, "representation": {"padding": padding}}
    return {"recipe": "r", "seed": 0, "settings": {"schema": 4, **parts}}


# -- the top ---------------------------------------------------------------------------------------------


def test_each_number_of_the_top_has_its_own_name(make_run: MakeRun) -> None:
    text = top(page_of(make_run(**ABSENT, evaluation={"rows": [ROW]})))
    assert "This run 3 lower is better Paper 2 as published Real data 1.5 the data themselves" in text
    assert "The number above is Chamfer (lower is better). It is 1.5 times the number the paper reports." in text
    assert "This run is at 2 times that reference." in text


def test_the_papers_number_is_compared_with_raw_output(make_run: MakeRun) -> None:
    row = {**ROW, "scored": "returned", "raw": 5.0}
    text = top(page_of(make_run(**ABSENT, evaluation={"rows": [row]})))
    assert "This run 3 " in text
    assert "For raw output it is 2.5 times the number the paper reports." in text


def test_the_top_shows_the_first_row_that_the_paper_has(make_run: MakeRun) -> None:
    others = [{"metric": "a", "value": None, "paper": 9.0}, {"metric": "b", "value": 7.0}]
    second = {**ROW, "value": 4.0}
    assert "This run 3 " in top(page_of(make_run(**ABSENT, evaluation={"rows": [*others, ROW, second]})))
    assert "This run 7 one run" in top(page_of(make_run(**ABSENT, evaluation={"rows": others})))


def test_several_seeds_have_a_spread(make_run: MakeRun) -> None:
    row = {**ROW, "std": 0.25, "seeds": [0, 1, 2, 3, 7]}
    assert "This run 3 standard deviation 0.25 over 5 seeds" in top(
        page_of(make_run(**ABSENT, evaluation={"rows": [row]}))
    )


def test_seeds_are_counted(make_run: MakeRun) -> None:
    rows = [make_row("toy", "polygons", "desp", "score", value=3.0, seeds=seeds) for seeds in ([4], [0, 1, 7])]
    page = page_of(make_run(**ABSENT, evaluation={"rows": rows}))
    head, *lines = table(section(page, "evaluation"))
    assert [line[head.index("Seeds")] for line in lines] == ["1", "3"]


@pytest.mark.parametrize(
    ("metric", "direction"),
    [
        ("size RMSE", "lower is better"),
        ("Hungarian", "lower is better"),
        ("accuracy", "higher is better"),
        ("AP@0.5", "higher is better"),
        ("AP", "higher is better"),
        ("nearest_neighbour_accuracy", "near 0.5 is better"),
        ("mAP", "higher is better"),
        ("maple", None),
    ],
)
def test_which_way_is_better(make_run: MakeRun, metric: str, direction: str | None) -> None:
    text = top(page_of(make_run(**ABSENT, evaluation={"rows": [{"metric": metric, "value": 3.0}]})))
    assert f"The number above is {metric} {f'({direction})' if direction else ''}".strip() in text
    assert ("better" in text) == (direction is not None)


def test_a_metric_says_itself_what_it_is_and_which_way_is_better(make_run: MakeRun) -> None:
    described = {"score": {"unit": 1.0, "direction": "higher", "text": "share of <hits>"}}
    row = {"metric": "score", "value": 3.0, "unit": 1.0, "direction": "higher"}
    page = page_of(make_run(**ABSENT, evaluation={"rows": [row], "result": {"metrics": described}}))
    assert "The score is share of <hits>: higher is better." in top(page)
    assert table(section(page, "evaluation")) == [["Metric", "Better", "Value"], ["score", "higher", "3"]]


def test_a_score_without_another_name_is_a_distance(make_run: MakeRun) -> None:
    text = top(page_of(make_run(**ABSENT, evaluation={"rows": [{"metric": "score", "value": 3.0}]})))
    assert "The score is a distance to true sets: lower is better." in text
    assert "Paper" not in text
    assert "Real data" not in text


def test_the_top_says_what_was_run(make_run: MakeRun) -> None:
    folder = make_run()
    text = top(page_of(folder))
    assert text.startswith("polygons seed 3 · finished ")
    assert re.search(r"finished \d{4}-\d\d-\d\d \d\d:\d\d UTC · 30 steps · trained for 1 min 32 s · on cpu", text)
    (folder / "summary.json").unlink()
    assert "seed 3 · training is not finished at step 30" in top(page_of(folder))


@pytest.mark.parametrize(
    ("step", "told"), [({"kept_step": 20}, "at step 20"), ({"kept_step": 0}, "at step 0"), ({}, "during training")]
)
def test_a_run_that_is_not_scored_shows_its_best_validation(
    make_run: MakeRun, step: dict[str, int], told: str
) -> None:
    absent = {"evaluation": None, "samples": None, "ablation": None, "log": None}
    text = top(page_of(make_run(summary={"kept_score": 8.7e-05, **step}, **absent)))
    tile = f"Validation score of the kept weights 8.7e{MINUS}5"
    assert f"{tile} {told} Not scored yet. desp evaluate RUN scores" in text


# -- sections --------------------------------------------------------------------------------------------


def test_sections_come_in_reading_order(make_run: MakeRun) -> None:
    cases = [{"group": "best", "index": 0, "score": 1.0, "truth": [[0, 0]], "prediction": [[1, 1]]}]
    details = {"calibration": {"inputs": 50, "samples": 2, "histogram": [0.2, 0.3, 0.5]}}
    page = page_of(make_run(evaluation={"rows": [ROW], "cases": cases, "details": details}))
    expected = ["predictions", "chain", "learning", "ablation", "cases", "spread"]
    expected += ["evaluation", "settings", "provenance"]
    assert re.findall(r'<section id="(\w+)"', page) == expected
    assert re.findall(r'<a href="#(\w+)">', page[page.index("<nav") :]) == expected


def test_the_ranks_of_an_evaluation_are_those_that_are_drawn(make_run: MakeRun, drawn: list[Figure]) -> None:
    details = {"calibration": {"inputs": 50, "samples": 2, "histogram": [0.2, 0.3, 0.5]}}
    page = page_of(make_run(evaluation={"rows": [ROW], "details": details}))
    text = words(section(page, "spread"))
    assert "For 50 inputs the true set was put among 2 predictions" in text
    assert "Shares of the ranks 0 to 2 of true sets among predictions." in section(page, "spread")
    (figure,) = [item for item in drawn if any(axes.get_ylabel() == "share of inputs" for axes in item.axes)]
    (axes,) = figure.axes
    assert [bar.get_height() for bar in axes.containers[0]] == [0.2, 0.3, 0.5]
    band = next(patch for patch in axes.patches if patch not in axes.containers[0].patches)
    assert band.get_height() == pytest.approx(2 * 1.96 * (1 / 3 * 2 / 3 / 50) ** 0.5)


@pytest.mark.parametrize(
    ("method", "told"),
    [
        ("contrastive", "steps descend the energy, the first S of them with noise"),
        ("set-risk", "begins at a learned set, the same for all inputs"),
        ("denoising", "each step removes some of it"),
        ("tspn", "no sampling chain, so there are no steps"),
    ],
)
def test_a_chain_is_told_as_what_it_is(make_run: MakeRun, method: str, told: str) -> None:
    page = page_of(make_run(settings=with_method(method)))
    text = words(section(page, "chain"))
    assert told in text
    assert (
        "The curve below each panel is the energy of the set at each step, computed as for a prediction" in text
    ) == (method != "tspn")
    assert ("the tinted part of it is without noise" in text.lower()) == (method == "contrastive")
    assert ("E is the energy of a prediction" in words(section(page, "predictions"))) == (method != "tspn")
    contrastive = method == "contrastive"
    learning = words(section(page, "learning"))
    assert (
        "the difference of the energies of real and sampled sets: it hovers near zero" in learning
    ) == contrastive
    assert ('<section id="ablation"' in page) == contrastive  # others have no share of noise to vary


@pytest.mark.parametrize("method", ["contrastive", "set-risk"])
def test_a_deterministic_method_draws_nothing(make_run: MakeRun, method: str) -> None:
    told = words(section(page_of(make_run(settings=with_method(method))), "predictions"))
    assert ("are sampled independently" in told) == (method == "contrastive")
    assert ("it gives one answer" in told) == (method == "set-risk")


@pytest.mark.parametrize("added", ["infonce_temperature", "real_energy_weight"])
def test_what_is_added_to_the_loss_is_told(make_run: MakeRun, added: str) -> None:
    page = page_of(make_run(settings=with_method("contrastive", **{added: 0.1})))
    learning = words(section(page, "learning"))
    assert "with InfoNCE or the weighted energy of real sets added: the difference hovers near zero" in learning


@pytest.mark.parametrize("stochastic_steps", [0, 4])
def test_a_chain_without_noise_or_with_noise_alone_has_no_tinted_part_to_tell_of(
    make_run: MakeRun, stochastic_steps: int
) -> None:
    sampler = {"kind": "langevin", "steps": 4, "stochastic_steps": stochastic_steps}
    page = page_of(make_run(settings=with_method("contrastive", sampler=sampler)))
    assert "tinted" not in words(section(page, "chain"))
    assert '<section id="ablation"' in page  # that is its share of noise now


def test_a_denoiser_has_no_energies_to_tell_of(make_run: MakeRun) -> None:
    page = page_of(make_run(settings=with_method("denoiser")))
    assert "E is the energy" not in words(section(page, "predictions"))
    assert "the energy of the set" not in words(section(page, "chain"))


@pytest.mark.parametrize(
    ("padding", "told"), [("zero", "they come to rest at the origin."), ("presence", "element.")]
)
def test_absent_rows_of_a_chain_are_explained(make_run: MakeRun, padding: str, told: str) -> None:
    settings = with_method("contrastive", padding)
    text = words(section(page_of(make_run(settings=settings)), "chain"))
    assert f"{told} Play" in text


@pytest.mark.parametrize(
    ("axes", "told"),
    [
        ({"names": ["x", "y"]}, "x to the right, y upwards."),
        ({"names": ["x", "y", "z"]}, "x to the right, y upwards, colour shows z."),
        ({"names": ["t"]}, "each tick is one element, at its t."),
        ({"names": ["row", "column"], "row_first": True}, "row grows downwards and column to the right."),
    ],
)
def test_the_axes_of_predictions_are_told(
    make_run: MakeRun, sample_data: dict[str, Any], axes: dict[str, Any], told: str
) -> None:
    page = page_of(make_run(samples={**sample_data, "axes": axes}))
    assert told in words(section(page, "predictions"))
    assert "for 2 inputs: 3 corners, 4 corners." in section(page, "predictions")


def test_the_ablation_says_how_long_a_chain_is_and_lists_its_numbers(whole_page: str) -> None:
    part = section(whole_page, "ablation")
    assert "The first S of T = 4 steps of a chain add noise" in words(part)
    head, *rows = table(part)
    assert head == ["ratio", "stochastic_steps", "score (raw)", "energy (raw)"]
    assert [row[:2] for row in rows] == [["0", "0"], ["0.5", "2"], ["1", "4"]]


# -- tables ----------------------------------------------------------------------------------------------


def test_rows_of_an_evaluation_are_under_their_names(make_run: MakeRun) -> None:
    rows = [{**ROW, "extra": "x", "std": None}, {"metric": "other", "value": None, "extra": 5}]
    part = section(page_of(make_run(evaluation={"rows": rows})), "evaluation")
    assert table(part) == [
        ["Metric", "Value", "Paper", "Real data", "extra"],
        ["Chamfer", "3", "2", "1.5", "x"],
        ["other", DASH, DASH, DASH, "5"],
    ]
    assert part.count('<th scope="col" class="number">') == 3  # not of words, nor where some are


def test_details_of_an_evaluation_are_listed_and_cut_where_they_are_long(make_run: MakeRun) -> None:
    details = {"by_size": {"3": 1.5, "4": {"a": {"b": 2.5}}}, "long": list(range(30)), "short": list(range(24))}
    part = section(page_of(make_run(evaluation={"rows": [], "details": details})), "evaluation")
    listed = ", ".join(map(str, range(24)))
    assert table(part) == [
        ["by_size.3", "1.5"],
        ["by_size.4.a.b", "2.5"],
        ["long", f"{listed}, … (30 values)"],
        ["short", listed],
    ]


def test_provenance_has_every_fact_beside_its_name(whole_page: str) -> None:
    assert table(section(whole_page, "provenance")) == [
        ["command", "desp train polygons"],
        ["commit", "0123abc"],
        ["commit known from", "unknown"],
        ["device", "cpu"],
        ["engine", "eager"],
        ["wall time", "1 min 32 s"],
        ["peak memory", "120.5 MB"],
        ["parameters", "12 345"],
        ["steps", "30"],
        ["validation score of the kept weights", f"8.7e{MINUS}5"],
        ["step of the kept weights", "20"],
        ["version of desp", "0.1.0"],
    ]


def test_settings_are_grouped(whole_page: str) -> None:
    part = section(whole_page, "settings")
    assert re.findall(r"<summary>(\w+)</summary>", part) == [
        "task",
        "method",
        "representation",
        "training",
        "other",
    ]
    assert ["energy.hidden", "8"] in table(part[part.index("<summary>method") :])
    assert table(part[part.index("<summary>other") :]) == [["engine", "auto"]]


def test_the_sampler_that_was_chosen_since_is_the_runs(make_run: MakeRun) -> None:
    chosen = {"kind": "langevin", "steps": 40, "stochastic_steps": 11}
    folder = make_run(tuning={"sampler": chosen})
    record = read_run(folder)
    assert record.settings["method"]["sampler"] == chosen
    assert record.settings["method"]["energy"] == {"kind": "deep-sets", "hidden": 8}
    assert '"stochasticSteps":11' in page_of(folder)


def test_elements_and_sets_of_an_aligned_output_are_counted_from_one(make_run: MakeRun) -> None:
    shown = {
        "label": "held-out",
        "elements": [[1.0, 2.0], [3.0, 4.0]],
        "truth": [[[5.0], [6.0]]],
        "samples": [{"set": [[7.0], [8.0]], "energy": 0.5}, {"set": [[9.0], [10.0]], "energy": 0.25}],
    }
    found = section(page_of(make_run(samples={"axes": {"names": ["a"]}, "examples": [shown]})), "predictions")
    assert table(found) == [
        ["element", "input", "true 1", "prediction 1", "prediction 2"],
        ["1", "1, 2", "5", "7", "9"],
        ["2", "3, 4", "6", "8", "10"],
    ]


@pytest.mark.parametrize(
    ("least", "told"),
    [(None, "sampled independently"), (0.03, "the most probable answers"), (1.0, "gives one answer")],
)
def test_the_most_probable_labels_are_not_called_draws(make_run: MakeRun, least: float | None, told: str) -> None:
    shown = {"label": "", "elements": [[1.0]], "truth": [[[1.0]]], "samples": [{"set": [[1.0]], "energy": 0.5}]}
    settings = with_method("label-likelihood", sampler={"kind": "labels", "min_probability": least})
    samples = {"axes": {"names": ["a"]}, "examples": [shown]}
    found = words(section(page_of(make_run(settings=settings, samples=samples)), "predictions"))
    assert told in found
    # Where fewer answers are so probable, the first one is predicted again.
    assert ("the most probable one fills the other columns" in found) is (told == "the most probable answers")
    assert "each once" not in found
