"""A package outside adds an energy, an encoder, a method and a task with a recipe; the command line uses them."""

import json
import os
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parent / "package"
SOURCE = Path(__file__).parents[2] / "src"


def desp(folder: Path, *arguments: object) -> str:
    """Run a command in a process of its own, in which the package is installed; returns what it prints."""
    path = os.pathsep.join([str(PACKAGE), str(SOURCE), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "DESP_COMMIT": "0" * 40}
    command = [sys.executable, "-m", "desp", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_recipe_with_its_own_task_energy_and_encoder(tmp_path: Path) -> None:
    assert "outside-segments" in desp(tmp_path, "recipes", "--json")
    desp(tmp_path, "train", "outside-segments", "--run", "run", "--method.energy.hidden", 8)
    saved = json.loads((tmp_path / "run" / "settings.json").read_text())["settings"]
    assert saved["task"] == {"kind": "segments", "longest": 0.4}
    assert saved["method"]["energy"] == {"kind": "spring", "hidden": 8}
    assert saved["method"]["encoder"] == {"kind": "linear", "out": 4}
    rows = json.loads(desp(tmp_path, "evaluate", "run", "--json"))
    assert [row["metric"] for row in rows][:1] == ["score"]
    (tmp_path / "lengths.jsonl").write_text('{"input": 0.1}\n{"input": 0.3}\n')
    desp(tmp_path, "predict", "run", "--input", "lengths.jsonl", "--samples", 3, "--output", "predicted.jsonl")
    predicted = lines(tmp_path / "predicted.jsonl")
    assert [len(line["samples"]) for line in predicted] == [3, 3]
    desp(tmp_path, "report", "run")
    assert "spring" in (tmp_path / "run" / "report.html").read_text()


def test_its_method_on_own_data(tmp_path: Path) -> None:
    records = [{"input": [i / 9], "set": [[i / 9, 0.5], [0.5, i / 9]]} for i in range(10)]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    options = ["--use-method", "regression", "--method.hidden", 4, "--training.steps", 4, "--device", "cpu"]
    desp(tmp_path, "train", "custom", "--data", "data.jsonl", "--run", "run", *options)
    saved = json.loads((tmp_path / "run" / "settings.json").read_text())["settings"]
    assert (saved["method"]["kind"], saved["method"]["hidden"]) == ("regression", 4)
    desp(tmp_path, "predict", "run", "--input", "data.jsonl", "--samples", 2, "--output", "predicted.jsonl")
    first = lines(tmp_path / "predicted.jsonl")[0]["samples"]
    assert first[0] == first[1]  # deterministic, without an energy
    assert first[0]["energy"] is None


def test_without_the_package_its_runs_say_what_is_missing(tmp_path: Path) -> None:
    desp(tmp_path, "train", "outside-segments", "--run", "run")
    done = subprocess.run(
        [sys.executable, "-m", "desp", "evaluate", "run"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 2
    assert "Is the package installed that adds it?" in done.stderr
