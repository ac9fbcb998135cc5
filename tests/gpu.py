"""Run every test marked gpu, and write down how they went: what `make test-gpu` does.

Where only torch and pytest are at hand, and no repository, as on a borrowed machine:

    PYTHONPATH=src python3 tests/gpu.py --commit "$COMMIT"

Arguments after `--` go to pytest, e.g. ``-- -m "gpu and not long"``.
"""

import argparse
import os
import sys
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


def run_tests(arguments: Sequence[str]) -> tuple[Results, float]:
    """Run pytest in this process; how it went, and in how many seconds."""
    results, began = Results(), time.monotonic()
    everywhere = [] if any(Path(item.split("::")[0]).exists() for item in arguments) else [str(TESTS)]
    # A file that cannot be imported is an error, and no reason to leave the others out.
    settings = ["-c", str(TESTS.parent / "pyproject.toml"), "--continue-on-collection-errors"]
    code = pytest.main([*settings, "-m", "gpu", *arguments, *everywhere], plugins=[results])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and not results.failed:
        results.failed.append(f"pytest ended with {pytest.ExitCode(code).name}")
    return results, round(time.monotonic() - began, 1)


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
    parser.add_argument("pytest", nargs="*", help="arguments for pytest, after --")
    options = parser.parse_args(arguments)
    if options.commit:
        os.environ["DESP_COMMIT"] = options.commit
    results, seconds = run_tests(options.pytest)
    from desp.storage import write_json

    write_json(options.output, record(results, seconds))
    counts = ", ".join(f"{count} {name}" for name, count in results.counts.items())
    sys.stdout.write(f"{counts} in {seconds} s, recorded in {options.output}\n")
    if not results.good and not results.failed:
        sys.stdout.write("No test ran: they need a CUDA device.\n")
    return 0 if results.good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
