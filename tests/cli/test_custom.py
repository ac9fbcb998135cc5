"""A user's own data, from file to report, and every way a file can be wrong."""

import json
import math
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from desp.cli.train_end import ending_words
from desp.training import TrainingOutcome

Desp = Callable[..., Any]
Write = Callable[..., Path]


@pytest.fixture(autouse=True)
def _undrawn(request: pytest.FixtureRequest) -> None:
    """Every run here ends with a page; it is drawn for one kind of input."""
    if not request.node.name.endswith("[image]"):
        request.getfixturevalue("undrawn")


@pytest.fixture
def tiny() -> list[str]:
    """Arguments that make training short."""
    shorter = {"training.steps": 6, "training.batch-size": 8, "method.energy.hidden": 8}
    shorter |= {"method.sampler.steps": 3}
    return [*(part for name, value in shorter.items() for part in (f"--{name}", str(value))), "--device", "cpu"]


def sets(numbers: random.Random, largest: int = 3) -> list[list[float]]:
    """A set whose features are in the thousands and negative."""
    count = numbers.randint(1, largest)
    return [[2000 + 1000 * numbers.random(), -5 * numbers.random()] for _ in range(count)]


def inputs_of(kind: str, numbers: random.Random) -> list[Any]:
    if kind == "number":
        return [100 * numbers.random() for _ in range(12)]
    if kind == "vector":
        return [[numbers.random(), -3.0, 7] for _ in range(12)]
    if kind == "set":
        return [sets(numbers, 4) for _ in range(12)]
    image = pytest.importorskip("PIL.Image")
    for index in range(12):
        image.new("RGB", (9, 7), (20 * index, 0, 255)).save(f"{index}.png")
    return [f"{index}.png" for index in range(12)]


HOW_TO_WRITE = {
    "number": "Write a column 'input', or JSON lines.",
    "vector": 'Write JSON lines, one {"input": [...]} a line, with a list of 3 numbers.',
    "set": 'Write JSON lines, one {"input": [[...], ...]} a line.',
    "image": "Write a column 'input', or JSON lines.",
}


@pytest.mark.parametrize("kind", HOW_TO_WRITE)
def test_from_json_lines_to_report_and_predictions(desp: Desp, write: Write, tiny: list[str], kind: str) -> None:
    numbers = random.Random(1)
    inputs = inputs_of(kind, numbers)
    data = write("data.jsonl", [{"input": x, "set": sets(numbers)} for x in inputs])
    finished = desp("train", "custom", "--data", data, "--run", "run", *tiny)
    assert finished.status == 0
    assert "score_best_of_k" in finished.out
    assert "report: run/report.html" in finished.out
    assert Path("run/report.html").read_text()
    rows = json.loads(desp("evaluate", "run", "--json", "--samples", 2).out)
    assert {row["data"] for row in rows} == {"data.jsonl"}
    assert {row["table"] for row in rows} == {None}
    assert {row["metric"] for row in rows} == {"score", "score_best_of_k", "size_rmse", "right_size"}

    new = write("new.jsonl", [{"input": x} for x in inputs[:3]])
    assert desp("predict", "run", "--input", new, "--output", "out.jsonl", "--samples", 2).status == 0
    lines = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert [line["input"] for line in lines] == inputs[:3]
    assert all(len(line["samples"]) == 2 for line in lines)
    Path("new.csv").write_text("a,b\n1,2\n")  # a cell holds no list
    finished = desp("predict", "run", "--input", "new.csv", "--output", "out.jsonl")
    assert f"cannot be found in these: a, b. {HOW_TO_WRITE[kind]}" in finished.err


@pytest.mark.parametrize("shape", [(12,), (12, 3), (12, 3, 8, 8)])
def test_from_npz(desp: Desp, write: Write, tiny: list[str], shape: tuple[int, ...]) -> None:
    numbers = np.random.default_rng(0)
    sizes = numbers.integers(0, 5, 12)
    np.savez("data.npz", inputs=numbers.random(shape), sets=1e4 * numbers.normal(size=(12, 4, 2)), sizes=sizes)
    assert desp("train", "custom", "--data", "data.npz", "--run", "run", *tiny).status == 0
    assert Path("run/report.html").is_file()
    config = json.loads(Path("run/model/config.json").read_text())["desp"]
    assert config["shape"]["max_size"] == sizes.max()
    assert min(config["shape"]["scaling"]["span"]) > 1e4  # far from [0, 1], so scaled


def test_predictions_come_in_the_units_of_the_file(desp: Desp, vectors: Path, write: Write) -> None:
    """Long enough to learn where the points are: thousands of metres, and a little below zero."""
    arguments = [
        *("--training.steps", 80),
        *("--training.batch-size", 16),
        *("--training.warmup-steps", 10),
        *("--training.learning-rate", 2e-3),
        *("--training.validate-every", 0),
        *("--method.energy.hidden", 32),
        *("--method.sampler.steps", 20),
        *("--device", "cpu"),
    ]
    assert desp("train", "custom", "--data", vectors, "--run", "run", *arguments).status == 0
    new = write("new.jsonl", [{"input": [0.5, 25]}])
    assert desp("predict", "run", "--input", new, "--output", "out.jsonl", "--samples", 8).status == 0
    samples = json.loads(Path("out.jsonl").read_text())["samples"]
    points = [point for sample in samples for point in sample["set"]]
    assert points, "some elements should be present after training"
    assert all(1500 < east < 3500 for east, _ in points)
    assert all(-7.5 < depth < 2.5 for _, depth in points)


def test_predicting_needs_no_training_file(desp: Desp, vectors: Path, write: Write, tiny: list[str]) -> None:
    assert desp("train", "custom", "--data", vectors, "--run", "run", *tiny).status == 0
    vectors.unlink()
    new = write("new.jsonl", [{"input": [0.5, 25]}])
    assert desp("predict", "run", "--input", new, "--output", "out.jsonl").status == 0
    finished = desp("evaluate", "run")
    assert finished.status == 2
    assert f"no data file at {vectors}" in finished.err


def test_a_changed_file_is_noticed(desp: Desp, vectors: Path, tiny: list[str]) -> None:
    assert desp("train", "custom", "--data", vectors, "--run", "run", *tiny).status == 0
    shutil.copy(vectors, "original.jsonl")
    with vectors.open("a") as file:
        file.write('{"input": [0, 0], "set": [[2500, -1]]}\n')
    for command in (
        ["evaluate", "run"],
        ["tune", "run"],
        ["train", "custom", "--data", vectors, "--run", "run", *tiny, "--resume"],
    ):
        finished = desp(*command)
        assert finished.status == 2
        assert "vectors.jsonl has changed" in finished.err
    shutil.copy("original.jsonl", vectors)
    assert desp("evaluate", "run").status == 0


def test_inputs_of_another_kind_are_refused(desp: Desp, vectors: Path, write: Write, tiny: list[str]) -> None:
    assert desp("train", "custom", "--data", vectors, "--run", "run", *tiny).status == 0
    for value, words in (
        ([1, 2, 3], "expected an input of shape (2,) (vector), got (3,)"),
        ([[1, 2]], "expected an input of kind 'vector'"),
        ("cat.png", "expected an input of kind 'vector'"),
        ([1, None], "line 1"),
    ):
        new = write("new.jsonl", [{"input": value}])
        finished = desp("predict", "run", "--input", new, "--output", "out.jsonl")
        assert finished.status == 2
        assert "new.jsonl, line 1" in finished.err
        assert words in finished.err
    assert not Path("out.jsonl").exists()


GOOD = '{"input": [1, 2], "set": [[1, 2], [3, 4]]}\n'
BROKEN = {
    "NaN": (GOOD + '{"input": [1, 2], "set": [[1, NaN]]}\n', ("line 2", "NaN")),
    "another feature count": (GOOD + '{"input": [1, 2], "set": [[1]]}\n', ("line 2", "1 features, but 2")),
    "broken line": (GOOD + GOOD + '{"input": [1, 2], "set"\n', ("line 3", "not valid JSON")),
    "ragged element": (GOOD + '{"input": [1, 2], "set": [[1, 2], [3]]}\n', ("line 2",)),
    "missing field": (
        GOOD + '{"input": [1, 2], "sets": []}\n',
        ("line 2", "'set' is missing (found: input, sets)"),
    ),
    "another input": (GOOD + '{"input": [1], "set": [[1, 2]]}\n', ("line 2", "shape (2,)")),
    "missing image": ('{"input": "cat.png", "set": [[1, 2]]}\n' * 2, ("line 1", "cat.png")),
    "empty": ("", ("holds no examples", '{"input": ..., "set": [[...]]}')),
    "one example": (GOOD, ("at least two",)),
    "empty sets": ('{"input": 1, "set": []}\n' * 3, ("every set is empty",)),
    "list": ("[1, 2]\n", ("line 1", "JSON object")),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files_are_refused_and_nothing_is_written(desp: Desp, tiny: list[str], case: str) -> None:
    text, words = BROKEN[case]
    Path("data.jsonl").write_text(text)
    finished = desp("train", "custom", "--data", "data.jsonl", "--run", "run", *tiny)
    assert finished.status == 2
    for word in (*words, "data.jsonl"):
        assert word in finished.err
    assert [path.name for path in Path.cwd().iterdir()] == ["data.jsonl"]


def test_damaged_and_missing_files_are_refused(desp: Desp, tiny: list[str]) -> None:
    Path("data.npz").write_bytes(b"PK\x03\x04 not really")
    for name, words in (("data.npz", "cannot be read"), ("missing.jsonl", "no data file at")):
        finished = desp("train", "custom", "--data", name, "--run", "run", *tiny)
        assert finished.status == 2
        assert words in finished.err
    assert not Path("run").exists()


def test_data_and_recipe_must_fit(desp: Desp, vectors: Path, tiny: list[str]) -> None:
    finished = desp("train", "custom", "--run", "run", *tiny)
    assert finished.status == 2
    assert "desp train custom --data FILE" in finished.err
    finished = desp("train", "polygons-denoising", "--data", vectors, "--run", "run", *tiny)
    assert finished.status == 2
    assert "'polygons-denoising' makes its own data" in finished.err
    assert not Path("run").exists()


def test_the_held_out_share_is_checked(desp: Desp, vectors: Path, tiny: list[str]) -> None:
    finished = desp("train", "custom", "--data", vectors, "--run", "run", *tiny, "--task.held-out", 1.5)
    assert finished.status == 2
    assert "held_out must be between 0 and 1" in finished.message


def test_evaluate_needs_samples(desp: Desp, vectors: Path, tiny: list[str]) -> None:
    assert desp("train", "custom", "--data", vectors, "--run", "run", *tiny).status == 0
    finished = desp("evaluate", "run", "--samples", 0)
    assert finished.status == 2
    assert "--samples must be at least 1" in finished.err


# -- length, and how many answers -------------------------------------------------------------------------------


@pytest.fixture
def small() -> list[str]:
    """Arguments that make steps cheap, and leave their number open."""
    changes = {"training.batch-size": 8, "method.energy.hidden": 8, "method.sampler.steps": 2}
    changes |= {"training.validate-every": 8, "training.log-every": 1}
    return [*(part for name, value in changes.items() for part in (f"--{name}", str(value))), "--device", "cpu"]


def test_training_ends_by_itself_and_says_how(desp: Desp, vectors: Path, small: list[str]) -> None:
    """No time at all is over after the first step; then it is told what it would take."""
    finished = desp("train", "custom", "--data", vectors, "--run", "run", *small, "--minutes", 1e-9)
    assert finished.status == 0
    assert "not converged when time was over: validation score" in finished.out
    assert "--minutes N, in another folder" in finished.out
    summary = json.loads(Path("run/summary.json").read_text())
    assert (summary["steps"], summary["stop_reason"]) == (1, "out of time")
    settings = json.loads(Path("run/settings.json").read_text())["settings"]["training"]
    assert (settings["steps"], settings["minutes"]) == (None, 1e-9)


def test_minutes_do_not_go_with_a_number_of_steps(desp: Desp, vectors: Path, tiny: list[str]) -> None:
    finished = desp("train", "custom", "--data", vectors, "--run", "run", *tiny, "--minutes", 1)
    assert finished.status != 0
    assert "here there are 6 steps. Leave --minutes out" in finished.err
    assert "--training.validate-every N" in finished.err


def test_a_number_of_steps_takes_the_place_of_minutes(desp: Desp, vectors: Path, small: list[str]) -> None:
    """In a run that is resumed, too."""
    assert desp("train", "custom", "--data", vectors, "--run", "run", *small, "--minutes", 1e-9).status == 0
    assert desp("train", "custom", "--run", "run", "--resume", "--training.steps=3").status == 0
    training = json.loads(Path("run/settings.json").read_text())["settings"]["training"]
    assert (training["steps"], training["minutes"]) == (3, None)
    assert desp("train", "custom", "--run", "run", "--resume").status == 0
    both = ["--training.steps", 3, "--training.minutes", 2]
    finished = desp("train", "custom", "--data", vectors, "--run", "other", *small, *both)
    assert "minutes must be None where steps are given" in finished.message


def test_one_answer_has_the_most_probable_cardinality(desp: Desp, vectors: Path, tiny: list[str]) -> None:
    finished = desp("train", "custom", "--data", vectors, "--run", "run", *tiny, "--answers", "one")
    assert finished.status == 0
    method = json.loads(Path("run/settings.json").read_text())["settings"]["method"]
    assert method["sampler"]["cardinality"] == "mode"
    assert method["sampler"]["steps"] == 3  # other flags change what it chose
    again = ("train", "custom", "--run", "run", "--resume")
    finished = desp(*again, "--data", vectors, *tiny, "--answers", "one")
    assert finished.status == 0, finished.err
    assert desp(*again, "--answers", "one").status == 0  # what is not given again is as it was
    assert "has its method and energy already" in desp(*again, "--answers", "several").message
    assert "was begun with other settings" in desp(*again, "--answers", "one", "--method.energy.hidden", 9).message
    assert json.loads(Path("run/settings.json").read_text())["settings"]["method"] == method


def test_answers_that_other_flags_changed_are_resumed_by_the_same_command(
    desp: Desp, vectors: Path, tiny: list[str]
) -> None:
    changed = ("--answers", "one", "--method.sampler.cardinality", "sampled")
    command = ("train", "custom", "--data", vectors, "--run", "run", *tiny, *changed)
    assert desp(*command).status == 0
    finished = desp(*command, "--resume")
    assert finished.status == 0, finished.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["custom", "--answers", "many"], "--answers must be one or several, got 'many'"),
        (["custom", "--answers", "one", "--use-method", "tspn"], "Leave one of them out"),
        (["custom-contrastive", "--answers", "one"], "--answers goes with 'custom'"),
        (["polygons-desp", "--answers", "one"], "--answers goes with 'custom'"),
        (["custom", "--answers", "many", "--use-method", "denoiser"], "Leave one of them out"),
        (
            ["custom", "--data", "x.jsonl", "--task.description.aligned", "--answers", "several"],
            "which the input gives where outputs are aligned with it. Leave it out.",
        ),
    ],
)
def test_answers_that_cannot_be_chosen(desp: Desp, arguments: list[str], message: str) -> None:
    finished = desp("train", *arguments)
    assert finished.status != 0
    assert message in finished.err


def test_repeated_inputs_with_different_sets_are_told(desp: Desp, write: Write, tiny: list[str]) -> None:
    data = write("data.jsonl", [{"input": [i // 2], "set": [[float(i)]]} for i in range(12)])
    finished = desp("train", "custom", "--data", data, "--run", "run", *tiny, "--answers", "one")
    assert "of 6 inputs with more than one set, 6 have sets that differ, so several seem right" in (
        finished.out.replace("\n", " ")
    )


@pytest.mark.parametrize(("recipe", "advice"), [("custom", True), ("custom-contrastive", False)])
def test_answers_are_advised_where_they_can_be_chosen(desp: Desp, write: Write, recipe: str, advice: bool) -> None:
    data = write("data.jsonl", [{"input": [i // 2], "set": [[i // 2 + 0.5]]} for i in range(12)])
    shorter = ["--training.steps", 2, "--training.batch-size", 8, "--method.sampler.steps", 3, "--device", "cpu"]
    if recipe == "custom-contrastive":
        shorter += ["--method.sampler.stochastic-steps", 2]
    finished = desp("train", recipe, "--data", data, "--run", "run", *shorter)
    told = finished.out.replace("\n", " ")
    assert "of 6 inputs with more than one set, 0 have sets that differ, so one seems right" in told
    assert ("--answers one, in another folder" in told) == advice


AFTER = "not converged when time was over"
MORE = "More may help: --minutes N, in another folder"
BEFORE = "before the final decay, the second half of the steps"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"stop_reason": "converged"}, "converged; more time would hardly help, more examples may"),
        (
            {"stop_reason": "converged", "score": 0.5, "score_standard_error": 0.1},
            "converged: validation score 0.5 (standard error 0.1); more time would hardly help, more examples may",
        ),
        ({"score": 2.0}, f"{AFTER}: validation score 2. {MORE}"),
        (
            {"score": 2.0, "recent_gain": 0.25},
            f"{AFTER}: validation score 2; {BEFORE} improved the score by 0.25. {MORE}",
        ),
        (
            {"score": 2.0, "recent_gain": -0.25},
            f"{AFTER}: validation score 2; {BEFORE} did not improve the score",
        ),
        ({"recent_gain": math.nan}, f"{AFTER}. {MORE}"),
        (
            {"score": 2.0, "score_step": 4, "score_standard_error": 0.1},
            "time was over; validation got worse after step 4, whose weights are kept: validation score 2 "
            "(standard error 0.1); more time would not help, more examples or a narrower network may",
        ),
        ({"score": 2.0, "score_step": 4}, f"{AFTER}: validation score 2. {MORE}"),  # one score: noise is not known
        ({"score": 2.0, "score_step": 9}, f"{AFTER}: validation score 2. {MORE}"),
    ],
)
def test_words_about_the_end_of_training(changes: dict[str, Any], words: str) -> None:
    facts = {"steps": 9, "score": None, "score_step": None, "stop_reason": "out of time"} | changes
    outcome = TrainingOutcome(weights={}, seconds=1.0, engine="eager", stopped_early=False, **facts)
    assert ending_words(outcome, "last") == words


def test_the_best_of_noisy_validations_does_not_say_that_it_got_worse() -> None:
    facts = {"steps": 9, "score": 2.0, "score_step": 4, "score_standard_error": 0.1, "stop_reason": "out of time"}
    outcome = TrainingOutcome(weights={}, seconds=1.0, engine="eager", stopped_early=False, **facts)
    assert ending_words(outcome, "best") == f"{AFTER}: validation score 2 (standard error 0.1). {MORE}"
