"""Which command was asked for, and how errors are shown."""

import difflib
import logging
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from desp import __version__
from desp.errors import DespError, TrainingInterrupted

# One line each, in the order a user meets them; the module has a function `run(arguments)`.
COMMANDS = {
    "demo": "train on generated polygons, predict, write a report",
    "recipes": "list every recipe",
    "data": "fetch and check a dataset, or convert box annotations",
    "train": "train a recipe, or your own data",
    "evaluate": "score a trained run",
    "predict": "predict sets for the inputs of a file",
    "report": "one HTML page about a run",
    "tune": "choose the sampler of a run on validation data",
    "ablate": "score and energy against S/T, the fraction of steps with noise",
    "tables": "the paper's tables, from recorded results",
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exits with status 2 after a user's mistake, 130 after Ctrl-C."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    if not given or given[0] in ("-h", "--help", "help"):
        print(usage())
        return
    if given[0] in ("-V", "--version"):
        print(f"desp {__version__}")
        return
    try:
        _command(given[0])(given[1:])
    except TrainingInterrupted as stop:
        print(f"\n{stop}", file=sys.stderr)
        sys.exit(130)
    except DespError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output, such as `head`, has seen enough
        sys.stderr.close()
    except OSError as error:  # no permission, a full disk, ...
        print(f"error: {error}. Check the path, its permissions and the space left.", file=sys.stderr)
        sys.exit(2)


def _command(name: str) -> Callable[[list[str]], None]:
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f"Did you mean '{near[0]}'? " if near else ""
        raise DespError(f"Unknown command '{name}'. {hint}`desp --help` lists all commands.")
    run: Callable[[list[str]], None] = import_module(f"desp.cli.{name}").run
    return run
