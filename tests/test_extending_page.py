"""The page on extending: its code is a package, and its commands run."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from desp.cli import main

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
COMMANDS = [line for kind, text in BLOCKS if kind == "bash" for line in text.splitlines()]
MOST_LINES = 22


def save(folder: Path) -> None:
    """Write each block of the page to the file that its first line names."""
    files: dict[str, list[str]] = {"mine/__init__.py": []}
    for kind, text in BLOCKS:
        if kind != "bash":
            name = re.match(r"# (\S+?\.(py|toml))", text)
            assert name, text
            files.setdefault(name[1], []).append(text)
    for name, parts in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("\n".join(parts))


def install(package: Path, folder: Path) -> None:
    """Install it into a folder of its own, as no test changes the environment; the network is not needed."""
    pip = [sys.executable, "-m", "pip", "-qq", "--disable-pip-version-check", "install"]
    alone = ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(folder)]
    done = subprocess.run([*pip, *alone, str(package)], capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr[-3000:]


def desp(installed: Path, work: Path, *commands: list[str]) -> "subprocess.CompletedProcess[str]":
    """Run commands in one process of their own, as loading torch takes longer than any of them."""
    script = "import sys; from desp.cli.main import main; [main(line) for line in eval(sys.argv[1])]"
    path = [str(installed), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    return subprocess.run(
        [sys.executable, "-c", script, repr(list(commands))],
        cwd=work,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=250,
    )


def test_a_package_outside_trains_scores_predicts_and_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work, installed = tmp_path / "work", tmp_path / "installed"
    work.mkdir()
    save(work)
    assert COMMANDS[:2] == ["pip install -e .", "python make_data.py"]
    install(work, installed)
    assert (installed / "mine" / "task.py").is_file()
    subprocess.run([sys.executable, "make_data.py"], cwd=work, check=True)
    commands = [shlex.split(line) for line in COMMANDS[2:]]
    assert {command[0] for command in commands} == {"desp"}
    done = desp(installed, work, *(command[1:] for command in commands), ["recipes", "--json"])
    assert done.returncode == 0, done.stderr[-3000:]
    saved = {
        name: json.loads((work / "runs" / name / "settings.json").read_text())["settings"]
        for name in ("energy", "mine", "method")
    }
    assert saved["energy"]["method"]["energy"] == {"kind": "mine", "hidden": 16}
    assert (saved["method"]["method"]["kind"], saved["method"]["method"]["hidden"]) == ("mine", 8)
    assert (saved["mine"]["task"], saved["mine"]["method"]["encoder"]) == (
        {"kind": "mine"},
        {"kind": "mine", "out": 8},
    )
    predicted = [json.loads(line) for line in (work / "predicted.jsonl").read_text().splitlines()]
    assert [len(line["samples"]) for line in predicted] == [2, 2]
    rows = json.loads((work / "runs" / "mine" / "evaluation.json").read_text())["rows"]
    assert rows[0]["metric"] == "score"
    assert "mine" in (work / "runs" / "mine" / "report.html").read_text()
    # Without the package, its runs say what is missing.
    with pytest.raises(SystemExit, match="2"):
        main(["evaluate", str(work / "runs" / "mine")])
    assert "Is the package installed that adds it?" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("kind", ["energy", "encoder", "task", "method"])
def test_each_is_short(kind: str) -> None:
    (text,) = (text for _, text in BLOCKS if text.startswith(f"# mine/{kind}.py"))
    assert len(text.splitlines()) <= MOST_LINES
