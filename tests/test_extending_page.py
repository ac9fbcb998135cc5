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


def install(folder: Path) -> None:
    """Write the page's package as an installed one would lie."""
    files: dict[str, list[str]] = {}
    for kind, text in BLOCKS:
        if kind == "python":
            name = re.match(r"# (\S+?\.py)", text)
            assert name, text
            files.setdefault(name[1], []).append(text)
    for name, parts in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("\n".join(parts))
    (folder / "mine" / "__init__.py").touch()
    information = folder / "mine-0.1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 0.1\n")
    (entry,) = (text for kind, text in BLOCKS if kind == "toml")
    module = re.search(r'mine = "(\S+)"', entry)
    assert module
    (information / "entry_points.txt").write_text(f"[desp.plugins]\nmine = {module[1]}\n")


def desp(folder: Path, *commands: list[str]) -> "subprocess.CompletedProcess[str]":
    """Run commands in one process of their own, as loading torch takes longer than any of them."""
    script = "import sys; from desp.cli.main import main; [main(line) for line in eval(sys.argv[1])]"
    path = [str(folder), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    return subprocess.run(
        [sys.executable, "-c", script, repr(list(commands))],
        cwd=folder / "work",
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=250,
    )


def test_a_package_outside_trains_scores_predicts_and_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(tmp_path)
    work = tmp_path / "work"
    work.mkdir()
    records = [{"input": [i / 9], "set": [[i / 9, 0.5], [0.5, i / 9]]} for i in range(10)]
    (work / "data.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (work / "radii.jsonl").write_text('{"input": 0.1}\n{"input": 0.3}\n')
    done = desp(tmp_path, *(shlex.split(line)[1:] for line in COMMANDS), ["recipes", "--json"])
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
