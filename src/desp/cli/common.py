"""What several commands share: parsing, tables, and what is shown while something takes long."""

import inspect
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

T = TypeVar("T")


_parsing = threading.Lock()  # tyro keeps what it found in dictionaries of the process


def _unwrapped(helptext: str) -> str:
    """Each paragraph in one line; indented lines stay."""
    return re.sub(r"(?<!\n)\n(?=\S)", " ", inspect.cleandoc(helptext))


if hasattr(tyro, "_strings"):  # tyro 1.0.16 joins lines before it dedents them, so those of a field stay apart
    tyro._strings.remove_single_line_breaks = _unwrapped


def parse(
    arguments_type: type[T],
    arguments: Sequence[str],
    command: str,
    examples: str,
    *,
    default: T | None = None,
    about: str | None = None,
) -> T:
    """Parse a command's arguments into a dataclass; `--help` ends with examples.

    Args:
        arguments_type: the dataclass.
        arguments: what stood behind the command.
        command: its name.
        examples: lines to show at the end of the help.
        default: values of whatever is not given.
        about: what the command does; the docstring of the dataclass if not given.
    """
    with _parsing:
        return tyro.cli(arguments_type, **_options(arguments_type, arguments, command, examples, default, about))


def parse_known(
    arguments_type: type[T],
    arguments: Sequence[str],
    command: str,
    examples: str,
    *,
    default: T,
    about: str | None = None,
) -> tuple[T, list[str]]:
    """As `parse`, but arguments that the dataclass does not take are returned beside it, not refused."""
    options = _options(arguments_type, arguments, command, examples, default, about)
    with _parsing:
        return tyro.cli(arguments_type, **options, return_unknown_args=True)


def _options(
    arguments_type: type, arguments: Sequence[str], command: str, examples: str, default: Any, about: str | None
) -> dict[str, Any]:
    return {
        "args": list(arguments),
        "prog": f"desp {command}",
        "description": f"{inspect.cleandoc(about or arguments_type.__doc__ or '')}\n\nexamples:\n{examples}",
        "config": (tyro.conf.AvoidSubcommands,),
        "default": tyro.MISSING_NONPROP if default is None else default,
    }


# A column that gives way keeps the first width, the second one as long as other columns can be left out. Around a
# column are a border and two blanks.
NARROWEST, READABLE, BORDERS = 12, 24, 3


def show_table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    wrapped: Sequence[str] = (),
    optional: Sequence[str | tuple[str, ...]] = (),
) -> None:
    """Print a table. Where it is too wide, columns in `optional` are left out, the first one first, those of a
    tuple together, and those in `wrapped` give way; the others are never cut."""
    cells = list(zip(columns, *rows, strict=True))  # a tuple for each column, its heading first
    out, left_out = console(), list[str]()
    for item in optional:
        if _width(cells, wrapped, READABLE) <= out.width:
            break
        names = (item,) if isinstance(item, str) else item
        cells = [column for column in cells if column[0] not in names]
        left_out.extend(names)
    table = Table(title=title, title_justify="left")
    for name, *_ in cells:
        table.add_column(name, no_wrap=name not in wrapped, overflow="fold")
    for row in list(zip(*cells, strict=True))[1:]:
        table.add_row(*row)
    needed = _width(cells, wrapped, NARROWEST)
    (out if out.width >= needed else _literal(width=needed)).print(table)
    if left_out:
        out.print(f"left out, as the terminal is narrow: {', '.join(left_out)}")


def _width(cells: Sequence[Sequence[str]], wrapped: Sequence[str], narrowest: int) -> int:
    """The width of a table whose wrapped columns have at most the width `narrowest`."""
    widths = [(max(map(len, column)), column[0] in wrapped) for column in cells]
    return 1 + sum(BORDERS + (min(width, narrowest) if gives_way else width) for width, gives_way in widths)


def console() -> Console:
    """Standard output; wide where it is not a terminal, so that tables stay whole in files and pipes."""
    plain = _literal()
    return plain if plain.is_terminal else _literal(width=200)


def _literal(**options: Any) -> Console:
    """A console without rich's markup and emoji codes: names may have brackets and colons."""
    return Console(markup=False, emoji=False, **options)


def number(value: Any) -> str:
    """A number for people; a dash for None."""
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


@contextmanager
def busy(text: str) -> Iterator[Callable[[str], None]]:
    """Show that something takes long: a spinner on a terminal, else a line, so that a log does not look stuck.

    Yields a function that replaces the text of the spinner, or prints another line.
    """
    out = _literal(stderr=True)
    if not out.is_terminal:
        out.print(f"{text} ...")
        yield out.print
        return
    with out.status(Text(text)) as status:
        yield lambda words: status.update(Text(words))


@contextmanager
def bar(text: str = "") -> Iterator[Callable[[str, int, int | None], None]]:
    """A progress bar on standard error that vanishes at the end; where that is no terminal, a line for each name.

    Yields a function of a name, how much is done, and of how much; `text` is shown until it is called.
    """
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    # Names are shown as they are: brackets and colons mean nothing.
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    out, names = _literal(stderr=True), {""}
    if not out.is_terminal and text:
        out.print(f"{text} ...")
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as progress:
        shown = progress.add_task(text, total=None)

        def tell(name: str, done: int, total: int | None) -> None:
            progress.update(shown, description=name, completed=done, total=total)
            if not out.is_terminal and name not in names:
                names.add(name)
                out.print(f"{name} ...")

        yield tell
