"""Which command was asked for, and how errors are shown."""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from types import FrameType
from typing import NoReturn

from desp.errors import DespError, TrainingInterrupted

# One line each, in the order a user meets them; the module has a function `run(arguments)`.
COMMANDS = {
    "demo": "train on generated polygons, predict, write a report",
    "recipes": "list every recipe",
    "data": "fetch and check a dataset, convert annotations, or look at a file of your own",
    "train": "train a recipe, or your own data",
    "evaluate": "score a trained run",
    "predict": "predict sets for the inputs of a file",
    "report": "one HTML page about a run",
    "tune": "choose the sampler of a run on validation data",
    "ablate": "score and energy against S/T, the fraction of steps with noise",
    "tables": "recorded results, beside the paper's numbers where there are any",
    "reproduce": "train, score and record all recipes of a table",
    "bench": "how fast chains and training steps are here, and how good the defaults are",
}

EXAMPLES = """examples:
  desp demo
  desp train custom --data my_sets.jsonl --run runs/mine
  desp predict runs/mine --input new.jsonl --samples 5 --output predicted.jsonl
  desp train polygons-desp --run runs/polygons --seed 1 --training.steps 2000
  desp train polygons-desp --run runs/polygons --resume
  desp evaluate runs/polygons --json"""


def usage() -> str:
    """The help page."""
    commands = "\n".join(f"  {name:<10} {text}" for name, text in COMMANDS.items())
    return (
        "usage: desp COMMAND [arguments]\n\n"
        "Predict sets when more than one answer is right.\n\n"
        f"commands:\n{commands}\n\n"
        "`desp COMMAND --help` explains a command, `desp train RECIPE --help` shows all its settings.\n\n"
        f"{EXAMPLES}"
    )


def _do_nothing(number: int, frame: FrameType | None) -> None:
    """A handler of signals."""
    del number, frame


class _Interrupt:
    """What Ctrl-C does: it interrupts the command, which tidies up. A second time, or while modules are imported
    (some of them turn the interruption into errors of their own), it ends the process at once."""

    def __init__(self) -> None:
        self.received = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        # A further one would run this inside of itself. SIG_IGN in its place races: Python writes a traceback if a
        # signal that it has noted is ignored by the time it is handled.
        signal.signal(signal.SIGINT, _do_nothing)
        if self.received or _importing(frame):
            shown_again = b"\x1b[?25h" if os.isatty(2) else b""  # the cursor, which a progress bar may have hidden
            os.write(2, shown_again + (b"" if self.received else b"\ninterrupted\n"))
            os._exit(130)
        self.received = True
        signal.signal(signal.SIGINT, self)
        signal.default_int_handler(number, frame)


_interrupt = _Interrupt()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exits with status 2 after a user's mistake, 130 after Ctrl-C.

    Args:
        arguments: of the command line; None: the arguments of the process, and only then is Ctrl-C handled for
            the whole process.
    """
    if arguments is None and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        _run(list(sys.argv[1:] if arguments is None else arguments))
        if arguments is None and sys.stdout is not None:  # None where it was closed
            sys.stdout.flush()  # while a full disk is still an error with a message
    except TrainingInterrupted as stop:
        _end(f"\n{stop}", 130)
    except DespError as error:
        _end(f"error: {error}", 2)
    except KeyboardInterrupt:
        _end("\ninterrupted", 130)
    except BrokenPipeError:  # the reader of our output, such as `head`, has seen enough
        sys.stderr.close()
    except OSError as error:  # no permission, a full disk, ...
        _end(f"error: {error}. Check the path, its permissions and the space left.", 2)
    finally:
        _interrupt.received = arguments is None  # from now on nobody could tidy up


def _end(message: str, status: int) -> NoReturn:
    """End with a message; output that a full or closed standard output does not take is lost."""
    _interrupt.received = True
    with suppress(OSError):  # whoever read it may be gone
        print(message, file=sys.stderr, flush=True)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        sys.stdout = sys.stderr  # it would be tried again, with a traceback
    sys.exit(status)


def _importing(frame: FrameType | None) -> bool:
    """Whether a module was being imported when a signal came."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _run(given: list[str]) -> None:
    import logging

    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    if not given or given[0] in ("-h", "--help", "help"):
        print(usage())
    elif given[0] in ("-V", "--version"):
        from desp import __version__

        print(f"desp {__version__}")
    else:
        _command(given[0])(given[1:])


def _command(name: str) -> Callable[[list[str]], None]:
    if name not in COMMANDS:
        import difflib

        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"Did you mean '{near[0]}'? " if near else ""
        raise DespError(f"Unknown command '{name}'. {hint}`desp --help` lists all commands.")
    run: Callable[[list[str]], None] = import_module(f"desp.cli.{name}").run
    return run
