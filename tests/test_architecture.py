"""The charter, checked: imports follow the layers, and files and functions stay small."""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "src" / "desp"

# Low to high. A module may import from its own layer and from those below it. A new top-level module or
# package gets its place here.
LAYERS = (
    {"errors", "extras", "paths", "storage", "locks", "randomness", "process_setting", "plugins", "settings"},
    {"sets", "tensors", "scaling", "categories", "boxes", "kernels", "capture", "constants", "precision"},
    {"distances", "nn", "data"},
    {"energies"},
    {"samplers"},
    {"methods"},
    {"training"},
    {"predictor"},
    {"metrics"},
    {"features"},
    {"tasks"},
    {"comparison"},
    {"recipes"},
    {"older_results", "raw_and_returned", "results", "run_lengths", "runs"},
    {"paper"},
    {"benchmarks"},
    {"report"},
    {"cli"},
)
INDEPENDENT = {"distances", "nn", "data"}  # one layer, but they do not know each other
ENTRANCES = {"__init__", "__main__"}  # the package itself: it may name anything, lazily

WITHOUT_TORCH = (
    "settings",
    "recipes",
    "older_results",
    "results",
    "run_lengths",
    "raw_and_returned",
    "paper",
    "report",
    "cli",
)
# By a command that varies a sampler, once it runs.
LOADED_LATE = {ROOT / "paper" / "ablation.py"}
# Besides `storage.py` itself: what `write_atomically` is given to fill a file, and a switch of the kernel's.
WRITE_FILES = {
    "storage.py",
    "data/image_cache.py",
    "data/box_annotations.py",
    "benchmarks/measure.py",
    "benchmarks/own_data/problem.py",  # into memory
}
LOADS_TORCH = {"torch", "accelerate", "torchvision", "torchmetrics"}

MOST_LINES_IN_A_FILE = 350
MOST_LINES_IN_A_FUNCTION = 60
MOST_LINES_THAT_TEST_SETTINGS = 20

FILES = sorted(ROOT.rglob("*.py"))


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


def called_names(path: Path) -> set[str]:
    return {ast.unparse(node.func) for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)}


def named(path: Path) -> str:
    """A file as messages name it."""
    return str(path.relative_to(ROOT))


def imports_against_the_layers(path: Path) -> Iterator[str]:
    part = part_of(path)
    if part in ENTRANCES:
        return
    for other in sorted(inner_imports(path) - {part} - ENTRANCES):
        if level_of(other) > level_of(part):
            yield f"{named(path)}: {part} is below {other} and must not import it"
        if {part, other} <= INDEPENDENT:
            yield f"{named(path)}: {part} and {other} must not know each other"


def ways_to_pickles(path: Path) -> Iterator[str]:
    roots = {name.split(".")[0] for name in imported_names(ast.walk(tree_of(path)), path)}
    for name in sorted(roots & {"pickle", "cPickle", "dill", "cloudpickle", "joblib"}):
        yield f"{named(path)} imports {name}"
    for name in sorted(called_names(path) & {"torch.load", "load_state_dict_from_url"}):
        yield f"{named(path)} calls {name}"
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle" and ast.unparse(node.value) != "False":
            yield f"{named(path)}:{node.value.lineno} allows pickles"


def large_functions(path: Path) -> Iterator[str]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MOST_LINES_IN_A_FUNCTION:
                yield f"{named(path)}: {node.name} has {lines} lines"


def lines_that_test_settings(path: Path) -> Iterator[str]:
    """Where it is asked of which class settings are; they should rather say themselves what they are like."""
    for node in ast.walk(tree_of(path)):
        asked: ast.AST | None = None
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
            asked = node.args[1]
        elif isinstance(node, ast.MatchClass):
            asked = node.cls
        elif isinstance(node, ast.Compare) and ast.unparse(node.left).startswith("type("):
            asked = node.comparators[0]
        if asked is not None and any(names_settings(part) for part in ast.walk(asked)):
            yield f"{named(path)}:{asked.lineno}: {ast.unparse(node)}"


def names_settings(node: ast.AST) -> bool:
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name == "Variant" or name.endswith("Settings")


def registered_targets(path: Path) -> Iterator[str]:
    """What settings build, as `register` is told: ``module:name``."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "register":
            yield from (item.value for item in node.args[1:] if isinstance(item, ast.Constant) and item.value)


def defines(target: str) -> bool:
    """Whether the module of a target has a class or function of that name at its top."""
    module, _, name = target.partition(":")
    path = ROOT.parent / Path(*module.split(".")).with_suffix(".py")
    kinds = ast.ClassDef | ast.FunctionDef
    return path.is_file() and name in {item.name for item in tree_of(path).body if isinstance(item, kinds)}


def assert_none(offenders: Iterable[str], advice: str = "") -> None:
    """All of them are named, however long the list: pytest shortens comparisons of lists, but no messages."""
    found = list(offenders)
    assert found == [], "\n".join([advice, *found])


def test_files_are_found() -> None:
    """Every check below would pass without any."""
    assert ROOT / "__init__.py" in FILES
    assert len(FILES) > 100


def test_every_part_has_a_layer() -> None:
    known = set().union(*LAYERS) | ENTRANCES
    assert_none(sorted({part_of(path) for path in FILES} - known), "give new modules their places in LAYERS")


def test_the_page_on_design_has_the_layers() -> None:
    page = (ROOT.parents[1] / "docs" / "design.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (`.*`) \|$", page, re.MULTILINE)
    assert [int(number) for number, _ in rows] == [*range(1, len(LAYERS) + 1)]
    assert tuple(set(re.findall(r"`(\w+)`", modules)) for _, modules in rows) == LAYERS


def test_imports_follow_the_layers() -> None:
    assert_none(line for path in FILES for line in imports_against_the_layers(path))


@pytest.mark.parametrize("part", WITHOUT_TORCH)
def test_starts_without_torch(part: str) -> None:
    seen: set[Path] = set()
    roots = [path for path in FILES if part_of(path) == part and path not in LOADED_LATE]
    assert_none(line for path in roots for line in heavy_imports(path, seen))


def test_report_never_imports_torch() -> None:
    offenders = [
        f"{named(path)} imports {name}"
        for path in FILES
        if part_of(path) == "report"
        for name in imported_names(ast.walk(tree_of(path)), path)
        if name.split(".")[0] in LOADS_TORCH
    ]
    assert_none(offenders)


def test_prints_only_on_the_command_line() -> None:
    offenders = [named(path) for path in FILES if part_of(path) != "cli" and "print" in called_names(path)]
    assert_none(offenders)


def test_files_are_written_in_one_place() -> None:
    """There, and only there, a full disk becomes an error that says what to do."""
    writers = ("write_text", "write_bytes", "savez", "save")
    offenders = [
        f"{named(path)}:{node.lineno} calls {ast.unparse(node.func)}"
        for path in FILES
        if named(path) not in WRITE_FILES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in writers
        if ast.unparse(node.func).split(".")[0] not in ("self", "store")
    ]
    assert_none(offenders, "use desp.storage")


def test_has_no_assert_statements() -> None:
    offenders = [
        f"{named(path)}:{node.lineno}"
        for path in FILES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Assert)
    ]
    assert_none(offenders, "raise errors that say what to do")


def test_reads_no_pickles() -> None:
    assert_none(line for path in FILES for line in ways_to_pickles(path))


def test_files_stay_small() -> None:
    lines = {named(path): len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    offenders = [f"{name} has {count} lines" for name, count in lines.items() if count > MOST_LINES_IN_A_FILE]
    assert_none(offenders)


def test_functions_stay_small() -> None:
    assert_none(line for path in FILES for line in large_functions(path))


def test_settings_are_seldom_asked_for_their_class() -> None:
    """What differs between methods, energies and tasks is theirs to say: a new one needs no edits elsewhere."""
    found = [line for path in FILES for line in lines_that_test_settings(path)]
    assert len(found) > 1, "none is found, so the check itself is broken"
    assert len(found) <= MOST_LINES_THAT_TEST_SETTINGS, "\n".join(found)


def test_what_settings_build_is_there() -> None:
    targets = [target for path in FILES for target in registered_targets(path)]
    assert len(targets) > 15
    assert_none(target for target in targets if not defines(target))


def test_only_one_place_sets_the_precision_of_products() -> None:
    setter = "torch.set_float32_matmul_precision"
    users = [path for path in FILES if setter in path.read_text(encoding="utf-8")]
    assert [part_of(path) for path in users] == ["precision"]


def test_every_module_says_what_it_is_for() -> None:
    offenders = [named(path) for path in FILES if not ast.get_docstring(tree_of(path))]
    assert_none(offenders)
