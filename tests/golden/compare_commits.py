"""Compare two commits bit for bit on this machine: losses, predictions, and predictions of saved models.

    python tests/golden/compare_commits.py OLD [NEW] [CASE ...]

runs `golden_runs.py`, as it is in this tree, with the library of each commit, and prints for each case whether all
numbers are the same. NEW is this working tree if it is not given or is ``.``. Exits with 1 if any number differs.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@contextmanager
def checked_out(commit: str, folder: Path) -> Iterator[Path]:
    """The tree of a commit, for a while."""
    if commit == ".":
        yield ROOT
        return
    tree = folder / "tree"
    subprocess.run(["git", "worktree", "add", "--quiet", "--detach", tree, commit], cwd=ROOT, check=True)
    try:
        yield tree
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)


def run(commit: str, cases: list[str], folder: Path) -> dict[str, dict[str, object]]:
    """All numbers of each case, by that commit's library."""
    output = folder / "numbers"
    output.mkdir(parents=True)
    with checked_out(commit, folder) as tree:
        environment = os.environ | {"PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, str(HERE / "golden_runs.py"), str(output), *cases]
        subprocess.run(command, env=environment, check=True)
    return {path.stem: json.loads(path.read_text()) for path in sorted(output.glob("*.json"))}


def main() -> int:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new", nargs="?", default=".")
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        old, new = (
            run(commit, options.cases, Path(folder) / name)
            for name, commit in (("old", options.old), ("new", options.new))
        )
    status = 0
    for case in old:
        different = [name for name in old[case] if old[case][name] != new[case].get(name)]
        print(f"{case:<26}{'the same' if not different else 'differs in ' + '; '.join(different)}")
        status = max(status, int(bool(different)))
    return status


if __name__ == "__main__":
    sys.exit(main())
