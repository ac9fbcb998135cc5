"""Help: complete, quick, with examples."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from desp import __version__
from desp.cli.main import COMMANDS

Desp = Callable[..., Any]


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["help"]])
def test_the_first_page_lists_all_commands(desp: Desp, arguments: list[str]) -> None:
    finished = desp(*arguments)
    assert finished.status == 0
    for name, text in COMMANDS.items():
        assert name in finished.out
        assert text in finished.out
    assert "examples:" in finished.out
    assert "desp demo" in finished.out


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(desp: Desp, command: str) -> None:
    finished = desp(command, "--help")
    assert finished.status == 0
    assert "examples:" in finished.out
    assert f"desp {command}" in finished.out


@pytest.mark.parametrize("recipe", ["demo", "polygons-desp", "custom", "digits-risk-hungarian"])
def test_help_of_a_recipe_shows_its_settings_and_values(desp: Desp, recipe: str) -> None:
    finished = desp("train", recipe, "--help")
    assert finished.status == 0
    for option in ("--training.steps", "--method.energy.hidden", "--seed", "--resume", "--run", "--device"):
        assert option in finished.out
    assert "examples:" in finished.out
    assert f"desp {'train ' if recipe != 'demo' else ''}{recipe}" in finished.out


def test_a_paragraph_of_help_is_one_line(desp: Desp) -> None:
    assert "a list of points [[row, column], ...] between 0 and 1" in desp("predict", "--help").out


def test_the_text_of_an_option_is_one_paragraph(desp: Desp) -> None:
    assert "unfinished runs go on, finished ones stay" in desp("train", "custom", "--help").out


def test_help_of_train_lists_the_recipes(desp: Desp) -> None:
    finished = desp("train")
    assert finished.status == 0
    assert "polygons-desp-paper" in finished.out
    assert finished.out == desp("train", "--help").out


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_version(desp: Desp, option: str) -> None:
    assert desp(option).out == f"desp {__version__}\n"


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    "arguments", [None, ["--help"], ["train", "demo", "--help"], ["evaluate", "--help"], ["recipes"]]
)
def test_help_does_not_load_torch(arguments: list[str] | None) -> None:
    code = f"""
import sys
from desp.cli import main
arguments = {arguments!r}
if arguments is not None:
    try:
        main(arguments)
    except SystemExit as end:
        assert not end.code, end.code
sys.exit(3 if "torch" in sys.modules or "accelerate" in sys.modules else 0)
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr


def test_tables_do_not_load_torch(tmp_path: Any) -> None:
    code = f"""
import sys
from desp.cli import main
main(["tables", "--json", "--results", {str(tmp_path)!r}])
sys.exit(3 if "torch" in sys.modules else 0)
"""
    assert run_python(code).returncode == 0


def test_module_and_script_are_the_same_command() -> None:
    done = subprocess.run([sys.executable, "-m", "desp", "--version"], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, f"desp {__version__}\n")


def test_a_mistake_in_a_process_of_its_own() -> None:
    """Status 2, one line on standard error, no traceback."""
    command = [sys.executable, "-m", "desp", "train", "polygon-desp"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: There is no recipe 'polygon-desp'. Did you mean polygons-desp")
    assert done.stderr.count("\n") == 1
