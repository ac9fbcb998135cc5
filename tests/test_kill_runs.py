"""A few kills by the script that kills many."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
def test_nothing_is_lost_by_a_few_kills() -> None:
    command = [sys.executable, str(Path(__file__).parent / "kill_runs.py"), "--kills", "3", "--seconds", "200"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 kills" in done.stdout
    assert "nothing was lost" in done.stdout
