"""Lets tests here import `golden_runs`, which scripts share."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
