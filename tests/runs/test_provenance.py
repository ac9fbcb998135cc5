"""Where a number comes from: commit, machine, versions, command."""

import json
import os
import platform
import subprocess
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import desp
from desp.runs.provenance import commit, device_name, peak_memory_mb, provenance


def test_provenance_names_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/somewhere/bin/desp", "train", "my recipe"])
    facts = provenance(torch.device("cpu"))
    assert facts["command"] == "desp train 'my recipe'"
    assert facts["versions"]["torch"] == torch.__version__
    assert facts["versions"]["python"] == platform.python_version()
    assert {"python", "desp", "accelerate", "numpy", "scipy", "safetensors", "cuda"} <= facts["versions"].keys()
    assert "CPU" in facts["device"]
    assert 10 < peak_memory_mb(torch.device("cpu")) < 1e6
    json.dumps(facts)


def test_the_command_is_the_same_however_it_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/somewhere/desp/__main__.py", "tune", "run"])
    assert provenance(torch.device("cpu"))["command"] == "desp tune run"


@pytest.mark.parametrize("error", [subprocess.CalledProcessError(1, "git"), subprocess.TimeoutExpired("git", 10)])
def test_a_repository_of_the_users_own_is_not_asked(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is one if it does not hold this code; nor is one waited for without end."""

    def run(command: list[str], *, timeout: float, **_: Any) -> Any:
        assert timeout <= 60
        if command[3] == "ls-files":
            raise error
        return SimpleNamespace(stdout="1234\n")

    monkeypatch.delenv("DESP_COMMIT", raising=False)
    monkeypatch.setattr(subprocess, "run", run)
    assert commit() is None


def test_memory_is_told_in_megabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = SimpleNamespace(ru_maxrss=3 * 2**10)
    monkeypatch.setattr("resource.getrusage", lambda _: usage)
    monkeypatch.setattr("sys.platform", "linux")
    assert peak_memory_mb(torch.device("cpu")) == 3
    usage.ru_maxrss = 3 * 2**20  # bytes there
    monkeypatch.setattr("sys.platform", "darwin")
    assert peak_memory_mb(torch.device("cpu")) == 3
    monkeypatch.setattr("torch.cuda.max_memory_allocated", lambda _: 5 * 2**20)
    assert peak_memory_mb(torch.device("cuda")) == 5


@pytest.mark.parametrize(("processor", "told"), [("fast", "fast"), ("", "some-machine")])
def test_a_cpu_is_told_by_its_own_name(processor: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.processor", lambda: processor)
    monkeypatch.setattr("platform.machine", lambda: "some-machine")
    monkeypatch.setattr("torch.get_num_threads", lambda: 3)
    assert device_name(torch.device("cpu")) == f"{told} CPU, 3 threads"


@pytest.mark.parametrize(("status", "told"), [("", "1234"), (" M src/desp/sets.py", "1234-dirty")])
def test_a_commit_that_was_changed_since_is_told(status: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"ls-files": "provenance.py", "status": status, "rev-parse": "1234"}
    monkeypatch.delenv("DESP_COMMIT", raising=False)
    monkeypatch.setattr(subprocess, "run", lambda command, **_: SimpleNamespace(stdout=answers[command[3]] + "\n"))
    assert commit() == told


def test_files_that_git_does_not_know_change_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of runs beside the code is no change of it."""
    code = tmp_path / "provenance.py"
    code.write_text("1\n")
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)  # inside a hook, they name another repository
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    for command in (("init", "-q"), ("add", "."), (*who, "commit", "-q", "-m", "first")):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    monkeypatch.delenv("DESP_COMMIT", raising=False)
    monkeypatch.setattr("desp.runs.provenance.__file__", str(code))
    (tmp_path / "runs.json").write_text("{}")
    clean = commit()
    assert clean is not None
    assert len(clean) == 40
    code.write_text("2\n")
    assert commit() == f"{clean}-dirty"


def test_commit_can_be_given_or_is_asked_of_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESP_COMMIT", "1234")
    assert commit() == "1234"
    monkeypatch.delenv("DESP_COMMIT")
    monkeypatch.setenv("PATH", "")  # no git
    assert commit() is None


@pytest.mark.parametrize(("given", "told"), [("1234", "environment"), ("", None)])
def test_a_commit_that_is_given_is_told_from_one_that_git_knows(
    given: str, told: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESP_COMMIT", given)
    monkeypatch.setattr("desp.runs.provenance._git", lambda *_: "1234")
    assert provenance(torch.device("cpu"))["commit_source"] == (told or "git")
    monkeypatch.setattr("desp.runs.provenance.commit", lambda: None)
    assert provenance(torch.device("cpu"))["commit_source"] == told


def test_the_version_is_that_of_the_code_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it was copied without being installed; else none is recorded."""
    project = Path(desp.__file__).parents[2] / "pyproject.toml"
    assert desp.__version__ == tomllib.loads(project.read_text())["project"]["version"]
    monkeypatch.setattr(desp, "__file__", str(tmp_path / "src" / "desp" / "__init__.py"))
    copied = tmp_path / "pyproject.toml"
    copied.write_text('[project]\nname = "desp"\nversion = "9.8.7"\n')
    assert desp.__version__ == "9.8.7"
    copied.write_text('[project]\nname = "theirs"\nversion = "9.8.7"\n')
    assert desp.__version__ != "9.8.7"
    monkeypatch.setattr("desp.runs.provenance.__version__", "0+unknown")
    assert provenance(torch.device("cpu"))["versions"]["desp"] is None


def test_what_a_failing_git_says_is_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git = tmp_path / "git"
    git.write_text("#!/bin/sh\necho 1234\nexit 1\n")
    git.chmod(0o755)
    monkeypatch.delenv("DESP_COMMIT", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit() is None
