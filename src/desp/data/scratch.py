"""Arrays that grow, in memory or in a temporary file."""

import tempfile
import weakref
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from desp.paths import writing

KEPT_IN_MEMORY = 2**28
"""Bytes above which a growing array moves to an unnamed file in the folder for temporary files (TMPDIR)."""


class GrowingArray:
    """A flat array that grows at its end, first in memory, then in a file that ends with the process.

    Args:
        dtype: of its numbers.
    """

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self.dtype = np.dtype(dtype)
        self._memory = bytearray()
        self._file: BinaryIO | None = None

    def add(self, values: Any) -> None:
        """Append numbers, in the order in which they lie in an array.

        Raises:
            StorageError: there is no room for them.
        """
        self._memory += np.ascontiguousarray(values, dtype=self.dtype).tobytes()
        if len(self._memory) > KEPT_IN_MEMORY:
            self._to_file()

    def done(self) -> npt.NDArray[Any]:
        """All numbers (L,), to be read only; nothing can be added any more."""
        if self._file is None:
            return np.frombuffer(bytes(self._memory) if not self._memory else self._memory, dtype=self.dtype)
        self._to_file()
        return np.memmap(cast(Any, self._file), dtype=self.dtype, mode="r")

    def _to_file(self) -> None:
        with writing(Path(tempfile.gettempdir())):
            if self._file is None:
                self._file = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 - closed with this array
                weakref.finalize(self, self._file.close)
            self._file.write(self._memory)
            self._file.flush()
        self._memory = bytearray()
