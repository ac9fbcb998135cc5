"""Sphinx: runs the pages that are notebooks, and shows what their cells print and draw.

A notebook is a page in MyST's text format, which Jupyter opens with jupytext. Its ``{code-cell}`` blocks run one
after another, in one namespace, when the documentation is built; a cell that fails, fails the build. myst-nb does
the same with 37 more packages, a Jupyter kernel among them; this needs matplotlib alone.
"""

import ast
import contextlib
import hashlib
import io
import logging
import os
import tempfile
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

FIGURES = "notebook-figures"


class CodeCell(SphinxDirective):
    """A cell: its code, then what it printed, the value of its last expression, and its figures."""

    has_content = True
    optional_arguments = 1
    final_argument_whitespace = True
    option_spec = {"tags": lambda text: text}  # noqa: RUF012 - as docutils wants it

    def run(self) -> list[nodes.Node]:
        """Run the cell in the namespace of its page."""
        code = "\n".join(self.content)
        told = _run(code, _namespace(self.env), f"{self.env.docname}:{self.lineno}")
        found: list[nodes.Node] = [nodes.literal_block(code, code, language="python")]
        if told.strip():
            found.append(nodes.literal_block(told, told.rstrip(), language="text", classes=["cell-output"]))
        return [*found, *self._figures(code)]

    def _figures(self, code: str) -> list[nodes.Node]:
        from matplotlib import pyplot

        name = hashlib.sha256(f"{self.env.docname}{self.lineno}{code}".encode()).hexdigest()[:12]
        images: list[nodes.Node] = []
        for number in pyplot.get_fignums():
            path = Path(self.env.app.outdir) / "_images" / FIGURES / f"{name}-{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            pyplot.figure(number).savefig(path, dpi=120, bbox_inches="tight")
            images.append(nodes.raw("", f'<img src="_images/{FIGURES}/{path.name}" alt="figure">', format="html"))
        pyplot.close("all")
        return images


def _namespace(env: Any) -> dict[str, Any]:
    """The names that the cells of a page have made so far; a page that is read again begins anew."""
    return env.temp_data.setdefault("notebook", {"__name__": "notebook"})


def _run(code: str, names: dict[str, Any], where: str) -> str:
    """Run code in a folder of its own, and give what it prints, with the value of a last expression."""
    tree = ast.parse(code, where)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    out, home = io.StringIO(), os.getcwd()
    if "__folder__" not in names:
        names["__folder__"] = tempfile.TemporaryDirectory()
    try:
        os.chdir(names["__folder__"].name)
        with contextlib.redirect_stdout(out):
            exec(compile(tree, where, "exec"), names)  # noqa: S102 - our own pages
            value = None
            if last is not None:
                value = eval(compile(ast.Expression(last.value), where, "eval"), names)  # noqa: S307
            if value is not None:
                print(repr(value))  # noqa: T201 - shown on the page
    except Exception as error:
        raise ExtensionError(f"{where}: the cell failed: {error!r}", error) from error
    finally:
        os.chdir(home)
    return out.getvalue()


def setup(app: Sphinx) -> dict[str, Any]:
    """Add the directive."""
    import matplotlib

    matplotlib.use("agg")
    logging.getLogger("desp").setLevel(logging.WARNING)
    app.add_directive("code-cell", CodeCell)
    return {"version": "1", "parallel_read_safe": False}
