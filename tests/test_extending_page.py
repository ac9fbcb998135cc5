"""The page on extending: its code is a package, and its commands run."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

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


def test_the_page_works(tmp_path: Path) -> None:
    install(tmp_path)
    records = [{"input": [i / 9], "set": [[i / 9, 0.5], [0.5, i / 9]]} for i in range(10)]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    (tmp_path / "radii.jsonl").write_text('{"input": 0.1}\n{"input": 0.3}\n')
    # One process for all commands: loading torch takes longer than any of them.
    script = "import sys; from desp.cli.main import main; [main(line) for line in eval(sys.argv[1])]"
    lines = [shlex.split(line)[1:] for line in COMMANDS]
    path = os.pathsep.join([str(tmp_path), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", script, repr(lines)],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for name in ("energy", "mine", "method"):
        assert (tmp_path / "runs" / name / "model").is_dir()
    predicted = [json.loads(line) for line in (tmp_path / "predicted.jsonl").read_text().splitlines()]
    assert [len(line["samples"]) for line in predicted] == [2, 2]
    assert (tmp_path / "runs" / "mine" / "report.html").exists()


@pytest.mark.parametrize("kind", ["energy", "encoder", "task", "method"])
def test_each_is_short(kind: str) -> None:
    (text,) = (text for _, text in BLOCKS if text.startswith(f"# mine/{kind}.py"))
    assert len(text.splitlines()) <= MOST_LINES
