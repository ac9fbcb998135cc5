"""How training went, from its log."""

import json
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from desp.runs.evaluate import _training_words
from desp.runs.folder import LoadedRun, RunFolder
from desp.runs.log import earlier_kept, last_step, read_log, training_words, validations


def lines(*scores: float | None, error: float | None = None) -> tuple[dict[str, object], ...]:
    more = {} if error is None else {"validation_score_se": error}
    return tuple({"step": 100 * place, "validation_score": score, **more} for place, score in enumerate(scores, 1))


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        ((), ""),
        ((1.0,), ""),
        ((None, 1.0), ""),  # not finite
        ((1.0, 0.5), "still improving when it stopped"),
        ((1.0, 0.5, 0.499), "no longer improving when it stopped"),
        ((0.5, 1.0, 0.502), "no longer improving when it stopped"),
        ((1.0, 0.5, 0.8, 0.9), "no longer improving after step 200"),
    ],
)
def test_the_last_validation_beside_the_best_before(scores: tuple[float | None, ...], words: str) -> None:
    assert training_words(lines(*scores)) == words


def test_scores_that_grow() -> None:
    assert training_words(lines(0.5, 0.8), higher_is_better=True) == "still improving when it stopped"
    worse = training_words(lines(0.5, 0.8, 0.1), higher_is_better=True)
    assert worse == "no longer improving after step 200"


def test_two_standard_errors_where_validations_have_them() -> None:
    assert training_words(lines(1.0, 0.9, error=0.01)) == "still improving when it stopped"
    assert training_words(lines(1.0, 1.0, error=0.1)) == "no longer improving when it stopped"
    assert training_words(lines(1.0, 0.9, error=0.1)) == ""  # it may be a gain


def test_what_training_itself_knows_goes_first() -> None:
    assert training_words(lines(1.0, 0.5), "converged") == "training has converged"
    assert training_words((), "out of time") == "not converged when time was over"
    assert training_words(lines(1.0, 0.5), None) == "still improving when it stopped"


@pytest.mark.parametrize(
    ("keep", "kept", "steps", "error", "step"),
    [
        ("last", 200, 962, 0.1, 200),
        ("last", 962, 962, 0.1, None),
        ("best", 200, 962, 0.1, None),
        ("last", None, 962, None, None),
        ("last", 200, 962, None, None),  # one score in all: any better one keeps earlier weights
    ],
)
def test_clearly_better_earlier_weights(
    keep: str, kept: int | None, steps: int, error: float | None, step: int | None
) -> None:
    assert earlier_kept(keep, kept, steps, error) == step


@pytest.mark.parametrize(
    ("error", "words"), [(0.1, "validation got worse after step 200"), (None, "not converged when time was over")]
)
def test_what_a_result_says_of_earlier_weights(tmp_path: Path, error: float | None, words: str) -> None:
    folder = RunFolder(tmp_path)
    summary = {"steps": 962, "kept_step": 200, "kept_score_se": error, "stop_reason": "out of time"}
    folder.summary_file.write_text(json.dumps(summary))
    training = SimpleNamespace(keep="last", validation_mode="min")
    run = Mock(spec=LoadedRun, settings=SimpleNamespace(training=training))
    assert _training_words(folder, run).startswith(words)


def test_out_of_time_after_it_got_worse() -> None:
    words = "validation got worse after step 1,200, whose weights are kept; more time would not help"
    assert training_words(lines(0.5, 0.8), "out of time", worse_after=1200) == words
    assert training_words(lines(0.5, 0.8), "converged", worse_after=1200) == "training has converged"


def test_the_last_step_of_a_log_that_is_being_written(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    assert last_step(path) is None
    path.write_text('{"step": 5')
    assert last_step(path) is None
    path.write_text('{"step": 1, "loss": 1.0}\n' * 1000 + '{"step": 7, "loss": 1.0}\n{"step": 8, "lo')
    assert last_step(path) == 7


def test_of_a_step_that_was_run_twice_the_later_line_counts() -> None:
    read = [*lines(3.0, 2.0), {"step": 5, "loss": 1.0}, {"step": 100, "validation_score": 9.0}]
    assert [line["validation_score"] for line in validations(read)] == [9.0, 2.0]


def test_a_log_of_an_older_version(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 5, "validation_score": 1.0, "validation_error": 0.1}\n')
    assert read_log(path) == [{"step": 5, "validation_score": 1.0, "validation_score_se": 0.1}]
