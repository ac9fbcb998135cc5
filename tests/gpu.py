"""Run every test marked gpu, and write down how they went: what `make test-gpu` does.

Where only torch and pytest are at hand, and no repository, as on a borrowed machine:

    PYTHONPATH=src python3 tests/gpu.py --commit "$COMMIT"

Arguments after `--` go to pytest, e.g. ``-- -m "gpu and not long"``.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

TESTS = Path(__file__).parent
OUTCOMES = ("passed", "failed", "skipped", "errors")


class Results:
    """A plugin that counts outcomes and keeps the names of what failed."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(OUTCOMES, 0)
        self.failed: list[str] = []
        self.collected: list[str] = []

    def pytest_addoption(self, parser: pytest.Parser) -> None:
        """Without pytest-timeout its setting would be unknown, which is an error."""
        if find_spec("pytest_timeout") is None:
            parser.addini("timeout", "seconds that a test may take, where pytest-timeout is installed")

    def pytest_configure(self, config: pytest.Config) -> None:
        config.addinivalue_line("markers", "timeout(seconds): for pytest-timeout")

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Leave out test files that say nothing of gpu: they may import what is not installed here."""
        is_test = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
        return True if is_test and "gpu" not in collection_path.read_text(encoding="utf-8") else None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._add("errors", report.nodeid)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.collected = [f"{item.path}::{item.nodeid.partition('::')[2]}" for item in session.items]

    def add_part(self, record: dict[str, Any]) -> None:
        """Take in what another process wrote; nothing, if it was killed."""
        if not record:
            self._add("errors", "a process ended without a result")
            return
        self.failed += record["failed_tests"]
        for outcome in OUTCOMES:
            self.counts[outcome] += record[outcome]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test passes or fails when it is called; before and after, it is an error if it fails."""
        if report.failed:
            self._add("failed" if report.when == "call" else "errors", report.nodeid)
        elif report.skipped:
            self._add("skipped")
        elif report.when == "call":
            self._add("passed")

    def _add(self, outcome: str, failed: str | None = None) -> None:
        self.counts[outcome] += 1
        if failed is not None:
            self.failed.append(failed)

    @property
    def good(self) -> bool:
        """Whether something ran, and nothing failed."""
        return self.counts["passed"] > 0 and not self.failed


def run_tests(arguments: Sequence[str]) -> Results:
    """Run pytest in this process."""
    results = Results()
    everywhere = [] if any(Path(item.split("::")[0]).exists() for item in arguments) else [str(TESTS)]
    # A file that cannot be imported is an error, and no reason to leave the others out.
    settings = ["-c", str(TESTS.parent / "pyproject.toml"), "--continue-on-collection-errors"]
    code = pytest.main([*settings, "-m", "gpu", *arguments, *everywhere], plugins=[results])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and not results.failed:
        results.failed.append(f"pytest ended with {pytest.ExitCode(code).name}")
    return results


def run_in_parts(jobs: int, arguments: Sequence[str]) -> Results:
    """Run pytest in several processes, each with its part of the tests: most of their time is compiling.

    Every process takes every so many-th test, as those of one file take about as long.
    """
    found = run_tests(["--collect-only", *arguments])
    if found.failed:
        return found  # what cannot be imported is an error, and must not be hidden by a second try in this process
    if len(found.collected) < 2 * jobs:
        return run_tests(arguments)
    options = [item for item in arguments if not Path(item.split("::")[0]).exists()]
    total = Results()
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{part}.json" for part in range(jobs)]
        this = [sys.executable, __file__, "--jobs", "1"]
        processes = [
            subprocess.Popen([*this, "--output", file, "--", *options, *found.collected[part::jobs]])
            for part, file in enumerate(files)
        ]
        for process, file in zip(processes, files, strict=True):
            process.wait()
            total.add_part(json.loads(file.read_text()) if file.exists() else {})
    return total


def record(results: Results, seconds: float) -> dict[str, Any]:
    """What goes into the file: outcomes first, then where they come from, as in all files of results/."""
    from desp.runs.provenance import provenance  # after pytest has switched the live shape checks on

    origin = provenance(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    origin["versions"] |= {"pytest": pytest.__version__, "triton": _version("triton")}
    return {**results.counts, "failed_tests": results.failed, "seconds": seconds, **origin}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def main(arguments: Sequence[str]) -> int:
    """Run, write, and return what the shell is told: 0 if something ran and nothing failed."""
    parser = argparse.ArgumentParser(description="Run every test marked gpu, and record how they went.")
    parser.add_argument("--output", type=Path, default=TESTS.parent / "results" / "gpu-tests.json")
    parser.add_argument("--commit", help="of the code, where there is no repository to ask")
    parser.add_argument("--jobs", type=int, default=1, help="processes among which the tests are shared out")
    parser.add_argument("pytest", nargs="*", help="arguments for pytest, after --")
    options = parser.parse_args(arguments)
    if options.commit:
        os.environ["DESP_COMMIT"] = options.commit
    began = time.monotonic()
    results = run_in_parts(options.jobs, options.pytest) if options.jobs > 1 else run_tests(options.pytest)
    seconds = round(time.monotonic() - began, 1)
    from desp.storage import write_json

    write_json(options.output, record(results, seconds))
    counts = ", ".join(f"{count} {name}" for name, count in results.counts.items())
    sys.stdout.write(f"{counts} in {seconds} s, recorded in {options.output}\n")
    if not results.good and not results.failed:
        sys.stdout.write("No test ran: they need a CUDA device.\n")
    return 0 if results.good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
