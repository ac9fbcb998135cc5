"""The charter, checked: imports follow the layers, and files and functions stay small."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "desp"

# Low to high. A module may import from its own layer and from those below it. A new top-level module or
# package gets its place here.
LAYERS = (
    {"errors", "extras", "storage", "randomness", "settings"},
    {"sets", "scaling", "categories", "kernels", "capture", "constants"},
    {"distances", "nn", "data"},
    {"energies"},
    {"samplers"},
    {"estimators"},
    {"training"},
    {"predictors"},
    {"metrics"},
    {"tasks"},
    {"recipes"},
    {"results", "runs"},
    {"benchmarks"},
    {"report"},
    {"cli"},
)
INDEPENDENT = {"distances", "nn", "data"}  # one layer, but they do not know each other
ENTRANCES = {"__init__", "__main__"}  # the package itself: it may name anything, lazily

WITHOUT_TORCH = ("settings", "recipes", "report", "cli")
LOADED_LATE = {ROOT / "cli" / "progress.py"}  # by a command that trains, once it runs
LOADS_TORCH = {"torch", "accelerate", "torchvision", "torchmetrics"}

MOST_LINES_IN_A_FILE = 350
MOST_LINES_IN_A_FUNCTION = 60

FILES = sorted(ROOT.rglob("*.py"))
each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def part_of(path: Path) -> str:
    """The top-level module or package a file belongs to."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_names(nodes: Iterator[ast.AST], path: Path) -> Iterator[str]:
    """Dotted names of everything imported by `nodes`; with ``from a import b``, both ``a`` and ``a.b``."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = ("desp", *path.relative_to(ROOT).parent.parts)
                base = ".".join([*package[: len(package) - node.level + 1], *([base] if base else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def inner_imports(path: Path) -> set[str]:
    """The parts of this package that a file imports anywhere."""
    names = imported_names(ast.walk(tree_of(path)), path)
    parts = {name.split(".")[1] for name in names if name.startswith("desp.")}
    return {part for part in parts if is_part(part)}


def is_part(name: str) -> bool:
    return (ROOT / name).is_dir() or (ROOT / f"{name}.py").is_file()


def level_of(part: str) -> int:
    return next(level for level, parts in enumerate(LAYERS) if part in parts)


def executed_on_import(node: ast.AST) -> Iterator[ast.AST]:
    """All statements that run when a module is imported: functions and ``if TYPE_CHECKING`` left out."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from executed_on_import(child)


def modules_loaded_by(name: str) -> list[Path]:
    """The files of this package that importing the dotted `name` runs itself, parents included."""
    files, folder = [], ROOT
    for part in name.split(".")[1:]:
        if (folder / f"{part}.py").is_file():
            files.append(folder / f"{part}.py")
            break
        folder = folder / part
        if not folder.is_dir():
            break
        files.append(folder / "__init__.py")
    return [file for file in files if file.is_file()]


def heavy_imports(path: Path, seen: set[Path]) -> Iterator[str]:
    """Where importing `path`, and whatever that imports, loads torch."""
    if path in seen:
        return
    seen.add(path)
    for name in imported_names(executed_on_import(tree_of(path)), path):
        if name.split(".")[0] in LOADS_TORCH:
            yield f"{path.relative_to(ROOT)} imports {name}"
        if name.startswith("desp."):
            for file in modules_loaded_by(name):
                yield from heavy_imports(file, seen)


def test_every_part_has_a_layer() -> None:
    known = set().union(*LAYERS) | ENTRANCES
    assert {part_of(path) for path in FILES} <= known, "give the new module its place in LAYERS"


@each_file
def test_imports_follow_the_layers(path: Path) -> None:
    part = part_of(path)
    if part in ENTRANCES:
        return
    for other in inner_imports(path) - {part} - ENTRANCES:
        assert level_of(other) <= level_of(part), f"{part} is below {other} and must not import it"
        assert not {part, other} <= INDEPENDENT, f"{part} and {other} must not know each other"


@pytest.mark.parametrize("part", WITHOUT_TORCH)
def test_starts_without_torch(part: str) -> None:
    seen: set[Path] = set()
    roots = [path for path in FILES if part_of(path) == part and path not in LOADED_LATE]
    found = [line for path in roots for line in heavy_imports(path, seen)]
    assert found == []


def test_report_never_imports_torch() -> None:
    for path in FILES:
        if part_of(path) == "report":
            names = {name.split(".")[0] for name in imported_names(ast.walk(tree_of(path)), path)}
            assert not names & LOADS_TORCH


@each_file
def test_prints_only_on_the_command_line(path: Path) -> None:
    if part_of(path) != "cli":
        assert "print" not in called_names(path)


@each_file
def test_has_no_assert_statements(path: Path) -> None:
    lines = [node.lineno for node in ast.walk(tree_of(path)) if isinstance(node, ast.Assert)]
    assert lines == [], "raise an error that says what to do"


@each_file
def test_reads_no_pickles(path: Path) -> None:
    roots = {name.split(".")[0] for name in imported_names(ast.walk(tree_of(path)), path)}
    assert not roots & {"pickle", "cPickle", "dill", "cloudpickle", "joblib"}
    assert not called_names(path) & {"torch.load", "load_state_dict_from_url"}
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            assert ast.unparse(node.value) == "False"


def called_names(path: Path) -> set[str]:
    return {ast.unparse(node.func) for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)}


@each_file
def test_files_stay_small(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES_IN_A_FILE


@each_file
def test_functions_stay_small(path: Path) -> None:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            assert lines <= MOST_LINES_IN_A_FUNCTION, f"{node.name} has {lines} lines"


@each_file
def test_every_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(tree_of(path))
