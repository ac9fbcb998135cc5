"""Sphinx: the pages of this folder, and the reference made from docstrings."""

import importlib.metadata
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project, author = "desp", "the desp authors"
release = version = importlib.metadata.version("desp")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "code_cells"]
html_theme = "furo"
html_title = "desp"
# Section titles are targets of links, as on other hosts of Markdown.
myst_heading_anchors = 3
napoleon_numpy_docstring = False
autodoc_member_order = "bysource"
# Shapes such as Float[Tensor, "b n c"] say more than what they resolve to.
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
