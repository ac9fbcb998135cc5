"""Reading run folders: whole, unfinished and damaged ones."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from desp.errors import RunError
from desp.report.folder import read_run
from desp.report.page import write_report
from desp.settings import ContrastiveSettings

MakeRun = Callable[..., Path]


def test_reads_every_file(make_run: MakeRun) -> None:
    record = read_run(make_run())
    assert (record.recipe, record.seed) == ("polygons", 3)
    assert record.settings["task"]["kind"] == "polygons"
    assert [line["step"] for line in record.log] == list(range(1, 31))
    assert [line["step"] for line in record.validations] == [10, 20, 30]
    assert record.summary is not None
    assert record.summary["device"] == "cpu"
    assert record.finished is not None
    assert record.finished.tzinfo is not None
    assert None not in (record.evaluation, record.samples, record.ablation)


def test_settings_of_an_older_schema_have_their_present_names(make_run: MakeRun) -> None:
    parts = {
        "energy": {"kind": "deep-sets", "hidden": 8},
        "estimator": {"kind": "contrastive", "data_noise": 0.015},
        "sampler": {"kind": "langevin", "steps": 4, "stochastic_steps": 2, "tries": 3},
        "padding": {"kind": "zero"},
    }
    settings = {"task": {"kind": "polygons", "corners": [3, 4]}, "predictor": parts}
    record = read_run(make_run(settings={"recipe": "polygons", "seed": 3, "settings": settings}))
    assert record.settings["method"]["sampler"]["restarts"] == 3
    assert record.settings["representation"] == {"padding": "zero", "scaling": "none"}
    assert isinstance(record.method, ContrastiveSettings)
    assert record.stochastic_steps == 2


@pytest.mark.usefixtures("undrawn")
def test_settings_with_something_that_was_removed_are_shown_as_they_are(make_run: MakeRun) -> None:
    estimator = {"kind": "contrastive", "replay": 0.5}
    settings = {"task": {"kind": "polygons"}, "predictor": {"estimator": estimator}}
    folder = make_run(settings={"recipe": "polygons", "seed": 3, "settings": settings})
    record = read_run(folder)
    assert record.settings == settings
    assert record.method is None
    page = write_report(folder).read_text(encoding="utf-8")
    assert '<section id="ablation"' in page  # it was measured
    assert "E is the energy of a prediction" in page  # they are drawn


def test_missing_optional_files_are_none(make_run: MakeRun) -> None:
    record = read_run(make_run(summary=None, evaluation=None, samples=None, ablation=None, log=None))
    assert (record.summary, record.finished, record.evaluation, record.samples, record.ablation) == (None,) * 5
    assert record.log == record.validations == ()


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"no folder .*nowhere.*desp train"):
        read_run(tmp_path / "nowhere")


def test_folder_of_something_else(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"no run folder.*settings\.json"):
        read_run(tmp_path)


@pytest.mark.parametrize("name", ["settings", "summary", "evaluation", "samples", "ablation"])
@pytest.mark.parametrize("content", ['{"a": ', "[1, 2]", b"\xff\xfe{}"])
def test_damaged_file(make_run: MakeRun, name: str, content: str | bytes) -> None:
    folder = make_run()
    (folder / f"{name}.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(RunError, match=rf"{name}\.json is damaged.*Restore it, or delete it and run"):
        read_run(folder)


def test_rows_that_are_not_objects(make_run: MakeRun) -> None:
    with pytest.raises(RunError, match=r"evaluation\.json is damaged: 'rows' must be a list of objects"):
        read_run(make_run(evaluation={"rows": [1]}))


def test_half_written_last_line_is_skipped(make_run: MakeRun) -> None:
    folder = make_run()
    with (folder / "log.jsonl").open("a") as file:
        file.write('{"step": 31, "lo')
    assert read_run(folder).log[-1]["step"] == 30


def test_broken_earlier_line_is_an_error(make_run: MakeRun) -> None:
    folder = make_run(log=[{"step": 1, "loss": 1.0}])
    with (folder / "log.jsonl").open("a") as file:
        file.write('{"step": 2, "lo\n{"step": 3, "loss": 1.0}\n')
    with pytest.raises(RunError, match=r"log\.jsonl, line 2 is damaged"):
        read_run(folder)


def test_line_without_step_is_an_error(make_run: MakeRun) -> None:
    with pytest.raises(RunError, match="line 1 is damaged: expected an object with a whole number 'step'"):
        read_run(make_run(log=[{"loss": 1.0}]))


def test_step_run_twice_counts_once(make_run: MakeRun) -> None:
    lines = [{"step": 1, "loss": 1.0}, {"step": 2, "loss": 2.0}, {"step": 1, "loss": 3.0}]
    assert json.dumps([line["loss"] for line in read_run(make_run(log=lines)).log]) == "[3.0, 2.0]"


def test_damaged_cases_are_named(make_run: Callable[..., Path]) -> None:
    folder = make_run(evaluation={"rows": [], "cases": ["x"]})
    with pytest.raises(RunError, match=r"evaluation\.json is damaged: 'cases' must be a list of objects"):
        read_run(folder)
