"""Every method's first losses, its predictions, and those of a saved model, as commit 33be6b2 had them.

They change only when a method does. After a wanted change, look at what `golden_runs.py` writes and put it in the
place of the numbers in ``golden.json``; the saved folders themselves stay.
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate.state import AcceleratorState
from golden_runs import CASES, RUNS, arithmetic, precision, record_saved, record_training

# Between CPUs double precision differs by 1e-7 at most, single precision by 1e-5.
DOUBLE_TOLERANCE, SINGLE_TOLERANCE = 1e-5, 1e-4

each_case = pytest.mark.parametrize("case", CASES)


@pytest.fixture(autouse=True)
def _apart(monkeypatch: pytest.MonkeyPatch, without_matplotlib: None) -> Iterator[None]:
    """Runs leave nothing behind; without matplotlib no report is made, which takes longer than the rest."""
    import desp.data.mnist_files

    monkeypatch.setenv("DESP_COMMIT", "0" * 40)
    monkeypatch.setitem(desp.data.mnist_files.CHECKSUMS, "mnist", {})
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


def on_file(case: str) -> dict[str, Any]:
    """All that is kept of a case: numbers, and what they were computed with."""
    return json.loads((RUNS / case / "golden.json").read_text())


def golden(case: str, width: str) -> dict[str, Any]:
    """The numbers on file."""
    return on_file(case)[width]


def differences(got: Any, expected: Any, tolerance: float, where: str = "") -> Iterator[str]:
    """Where two trees of numbers differ by more than a relative `tolerance`."""
    if isinstance(expected, dict) and isinstance(got, dict) and got.keys() == expected.keys():
        for name in expected:
            yield from differences(got[name], expected[name], tolerance, f"{where}/{name}")
    elif isinstance(expected, list) and isinstance(got, list) and len(got) == len(expected):
        for index, pair in enumerate(zip(got, expected, strict=True)):
            yield from differences(*pair, tolerance, f"{where}/{index}")
    elif not same(got, expected, tolerance):
        yield f"{where}: {got}, on file {expected}"


def same(got: Any, expected: Any, tolerance: float) -> bool:
    """Whether two values, of which neither is a list, are alike."""
    if isinstance(got, float) and isinstance(expected, float):
        return math.isclose(got, expected, rel_tol=tolerance)
    return bool(got == expected)


def only(numbers: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Those whose names begin so."""
    return {name: value for name, value in numbers.items() if name.startswith(prefix)}


@each_case
def test_losses_and_predictions_of_a_new_run_are_those_on_file(case: str, tmp_path: Path) -> None:
    with precision(double=True):
        numbers = record_training(case, tmp_path)
    expected = {name: golden(case, "double")[name] for name in numbers}
    assert len(numbers["losses"]) == 20
    assert list(differences(numbers, expected, DOUBLE_TOLERANCE)) == []


@each_case
def test_a_saved_model_predicts_what_it_did(case: str, tmp_path: Path) -> None:
    with precision(double=True):
        numbers = record_saved(case, tmp_path)
    assert list(differences(numbers, only(golden(case, "double"), "saved"), DOUBLE_TOLERANCE)) == []


@each_case
def test_a_saved_model_predicts_the_same_bits_on_the_same_arithmetic(case: str, tmp_path: Path) -> None:
    numbers, expected = record_saved(case, tmp_path), only(golden(case, "single"), "saved")
    recorded_with = {
        name: json.loads((RUNS / case / "golden.json").read_text())[name] for name in ("cpu", "torch")
    }
    exact = recorded_with == arithmetic()
    assert list(differences(only(numbers, "saved, K=1"), only(expected, "saved, K=1"), exact_or(exact))) == []
    assert list(differences(numbers, expected, SINGLE_TOLERANCE)) == []


def exact_or(exact: bool) -> float:
    """No tolerance where every bit must be the same."""
    return 0.0 if exact else SINGLE_TOLERANCE


@each_case
def test_a_case_can_tell_a_changed_method(case: str) -> None:
    """Losses fall apart and some sets hold elements, or numbers that stay the same would say little."""
    numbers = golden(case, "double")
    assert len(set(numbers["losses"])) == 20
    for name in ("trained, K=1", "saved, K=3"):
        assert any(sample["set"] for line in numbers[name] for sample in line["samples"])
    assert torch.tensor(numbers["losses"]).abs().min() > 0
