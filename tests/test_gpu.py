"""The script behind `make test-gpu`: what it counts, writes and tells the shell."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from desp.results import read_results

SCRIPT = Path(__file__).with_name("gpu.py")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
PASSING = """
import pytest

@pytest.mark.gpu
@pytest.mark.parametrize("number", [1, 2])
def test_good(number): pass

@pytest.mark.gpu
@pytest.mark.skip
def test_elsewhere(): pass

def test_of_another_kind(): raise AssertionError("not marked")
"""
FAILING = """
@pytest.fixture
def broken(): raise ValueError

@pytest.mark.gpu
def test_bad(): assert False

@pytest.mark.gpu
def test_without_its_fixture(broken): pass
"""
SKIPPED = """
import pytest

@pytest.mark.gpu
@pytest.mark.skip
def test_elsewhere(): pass
"""
UNIMPORTABLE = "import pytest, nothing_of_that_name\n\npytestmark = pytest.mark.gpu\n"


@pytest.mark.parametrize(
    ("texts", "counts", "failed", "code"),
    [
        pytest.param([PASSING], (2, 0, 1, 0), [], 0, marks=pytest.mark.long),
        ([PASSING + FAILING], (2, 1, 1, 1), ["test_bad", "test_without_its_fixture"], 1),
        # What is not of this kind is not read.
        pytest.param([SKIPPED, "import nothing_of_that_name"], (0, 0, 1, 0), [], 1, marks=pytest.mark.long),
        pytest.param([PASSING, UNIMPORTABLE], (2, 0, 1, 1), ["test_1.py"], 1, marks=pytest.mark.long),
    ],
    ids=["passing", "failing", "none ran", "unimportable"],
)
def test_outcomes_are_counted_and_written_down(
    tmp_path: Path, texts: list[str], counts: tuple[int, ...], failed: list[str], code: int
) -> None:
    for number, text in enumerate(texts):
        (tmp_path / f"test_{number}.py").write_text(text)
    output = tmp_path / "results" / "gpu-tests.json"
    command = [sys.executable, str(SCRIPT), "--commit", COMMIT, "--output", str(output), "--", str(tmp_path)]
    environment = {name: value for name, value in os.environ.items() if name != "DESP_COMMIT"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == code, done.stdout + done.stderr
    record = json.loads(output.read_text())
    assert tuple(record[name] for name in ("passed", "failed", "skipped", "errors")) == counts
    assert [name.rsplit("::")[-1].rsplit("/")[-1] for name in record["failed_tests"]] == failed
    assert record["commit"] == COMMIT
    assert record["device"]
    assert {"python", "torch", "cuda", "triton", "pytest"} <= record["versions"].keys()
    assert record["seconds"] >= 0
    assert record["command"].startswith("gpu.py --commit")
    assert ("No test ran" in done.stdout) == (code == 1 and not failed)
    assert read_results(output.parent) == []  # `desp tables` does not take it for the result of a recipe


@pytest.mark.long  # it starts four processes that load torch
def test_processes_share_the_tests_out_and_their_outcomes_are_added(tmp_path: Path) -> None:
    many = PASSING.replace("[1, 2]", "range(9)") + FAILING
    (tmp_path / "test_many.py").write_text(many)
    output = tmp_path / "results" / "gpu-tests.json"
    output.parent.mkdir()
    options = ["--jobs", "3", "--output", output, "--commit", COMMIT]
    command = [sys.executable, SCRIPT, *options, "--", tmp_path / "test_many.py"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    written = json.loads(output.read_text())
    assert [written[name] for name in ("passed", "failed", "skipped", "errors")] == [9, 1, 1, 1]
    assert sorted(item.rpartition("::")[2] for item in written["failed_tests"]) == [
        "test_bad",
        "test_without_its_fixture",
    ]
    assert written["commit"] == COMMIT
