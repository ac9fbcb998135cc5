"""Optional dependencies: imported late, and named clearly when they are missing."""

import importlib
from types import ModuleType

from desp.errors import MissingExtraError


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Import `module`, or say which extra provides it.

    Args:
        module: dotted name of the module to import.
        extra: the extra of this package that installs it.
        purpose: what it is needed for, as it should read after "to".

    Raises:
        MissingExtraError: the module is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        # A module that is there but fails to import something else is a different problem.
        if error.name is None or module.split(".")[0] != error.name.split(".")[0]:
            raise
        raise MissingExtraError(
            f"'{error.name}' is needed to {purpose}, and it is not installed. "
            f'Install the extra: pip install "desp[{extra}]"'
        ) from error
