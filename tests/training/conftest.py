"""Training tests share a tiny problem with the scripts they start, and clean up after accelerate."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from accelerate.state import AcceleratorState

# Scripts find `tiny_problem` beside themselves; so do the tests.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def _fresh_accelerator() -> Iterator[None]:
    """accelerate keeps the first device it was given for the whole process."""
    yield
    AcceleratorState._reset_state(reset_partial_state=True)
