"""Lets tests here import `set_examples`, which two of them share."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
