"""The command line. Commands load torch only when they run; help must be quick."""

from desp.cli.main import main

__all__ = ["main"]
