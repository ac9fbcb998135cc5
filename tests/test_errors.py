"""Errors: one family, and each also what Python would call it."""

import inspect

import pytest

from desp import errors
from desp.errors import CheckpointError, DespError, RunError

ALL = [value for _, value in inspect.getmembers(errors, inspect.isclass)]


@pytest.mark.parametrize("error", ALL)
def test_all_are_one_family_and_show_their_message(error: type[DespError]) -> None:
    assert issubclass(error, DespError)
    assert str(error("what to do")) == "what to do"


def test_a_bad_checkpoint_is_a_bad_run() -> None:
    assert issubclass(CheckpointError, RunError)
