"""Outputs that are links, pipes or devices, and standard input and output as files."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Desp = Callable[..., Any]
Write = Callable[..., Path]


@pytest.fixture
def inputs(write: Write) -> Path:
    return write("inputs.jsonl", [{"input": 5}, {"input": 8}])


def test_predictions_go_through_a_link(desp: Desp, polygons: Path, inputs: Path) -> None:
    Path("far").mkdir()
    Path("link.jsonl").symlink_to("far/out.jsonl")
    for _ in range(2):  # first nothing is there, then a file
        assert desp("predict", polygons, "--input", inputs, "--output", "link.jsonl").status == 0
        assert Path("link.jsonl").is_symlink()
        assert len(Path("far/out.jsonl").read_text().splitlines()) == 2


def test_predictions_go_into_a_pipe_and_nowhere(desp: Desp, polygons: Path, inputs: Path) -> None:
    os.mkfifo("pipe")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(Path("pipe").read_text()))
    reader.start()
    assert desp("predict", polygons, "--input", inputs, "--output", "pipe").status == 0
    reader.join(timeout=20)
    assert [json.loads(line)["input"] for line in read[0].splitlines()] == [5, 8]
    assert Path("pipe").is_fifo()
    assert desp("predict", polygons, "--input", inputs, "--output", "/dev/null").status == 0
    assert Path("/dev/null").is_char_device()


def test_a_full_device(desp: Desp, polygons: Path, inputs: Path) -> None:
    finished = desp("predict", polygons, "--input", inputs, "--output", "/dev/full")
    assert finished.status == 2
    assert finished.err.startswith("error: /dev/full could not be written: No space left on device. Make room")
    assert finished.err.count("\n") == 1


@pytest.mark.parametrize("output", ["-", "/dev/stdout", "/dev/fd/1"])
def test_standard_input_and_output(polygons: Path, inputs: Path, output: str) -> None:
    """As a process of its own, as what is printed in this one does not go to its standard output."""
    command = [sys.executable, "-m", "desp", "predict", str(polygons), "--input", "-", "--output", output]
    with Path("out.jsonl").open("wb") as out, inputs.open() as given:
        done = subprocess.run(command, stdin=given, stdout=out, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr
    lines = Path("out.jsonl").read_text().splitlines()
    assert [json.loads(line)["input"] for line in lines] == [5, 8]  # and nothing else
    assert "2 inputs, 1 set each" in done.stderr


def test_images_named_on_standard_input_are_beside_the_user(desp: Desp, polygons: Path) -> None:
    """What is wrong with a line is told as of any other file."""
    reading, writing = os.pipe()
    os.write(writing, b'{"input": 5}\n{"input": 99}\n')
    os.close(writing)
    try:
        finished = desp("predict", polygons, "--input", f"/dev/fd/{reading}", "--output", "out")
    finally:
        os.close(reading)
    assert finished.status == 2
    assert f"/dev/fd/{reading}, line 2: expected one of" in finished.err
    assert not Path("out").exists()


def test_what_no_file_may_replace_is_refused_before_any_work(
    desp: Desp, polygons: Path, inputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("desp.runs.folder.RunFolder.open", lambda *_, **__: pytest.fail("work was done"))
    Path("one").symlink_to("other")
    Path("other").symlink_to("one")
    Path("folder").mkdir()
    for output, words in (("folder", "is a folder"), ("one", "symbolic links lead in a circle")):
        finished = desp("predict", polygons, "--input", inputs, "--output", output)
        assert finished.status == 2
        assert words in finished.err


def test_results_are_recorded_through_links_and_not_into_files(desp: Desp, digits: Path) -> None:
    Path("far").mkdir()
    Path("results").symlink_to("far")
    Path("taken").touch()
    named = ("--variant", "tiny")
    finished = desp("evaluate", digits, "--record", "taken", *named)
    assert (finished.status, "Choose a folder with --record" in finished.err) == (2, True)
    assert desp("evaluate", digits, "--record", "results", *named).status == 0
    assert [path.name for path in Path("far").iterdir()] == ["digits-desp-paper-tiny-seed0.json"]
    assert Path("results").is_symlink()


def test_converted_boxes_need_a_file(desp: Desp) -> None:
    finished = desp("data", "boxes", "none.json", "--images", ".", "--output", "/dev/stdout")
    assert finished.status == 2
    assert "Pass the name of a file" in finished.err


def test_a_closed_standard_output_is_no_error() -> None:
    done = subprocess.run(["/bin/sh", "-c", f"{sys.executable} -m desp --version >&-"], check=False)
    assert done.returncode == 0
