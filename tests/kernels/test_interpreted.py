"""The kernels without a GPU: Triton's interpreter runs them on the CPU, in a process of its own."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is made for Linux on x86_64 alone")
def test_interpreted_kernels_compute_what_torch_does() -> None:
    """Forward and gradient: odd sizes, blocks that are not full, one element, ties, huge and tiny values."""
    command = [sys.executable, str(Path(__file__).with_name("interpreted.py"))]
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == ["38 checked"]
