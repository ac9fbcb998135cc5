"""Examples of a file of rows, gathered in arrays in memory or in a temporary file, and read one at a time."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from desp.data.arrays import Example
from desp.data.inputs import GatheredInputs
from desp.data.scratch import GrowingArray
from desp.errors import DataError
from desp.sets import as_set

ALL_EMPTY = "every set is empty, so there is nothing to learn."


class GatheredSets:
    """The elements of sets that are added one after another; all elements have the same number of features."""

    def __init__(self) -> None:
        self.features: int | None = None
        self._elements = GrowingArray(np.float32)

    def add(self, value: Any, where: str) -> int:
        """Add a set, a list of lists of numbers, and return its cardinality.

        Raises:
            DataError: it is no such list, or has another number of features than the sets before.
        """
        elements = as_set(value, where)
        if len(elements):
            self.features = elements.shape[1] if self.features is None else self.features
            if elements.shape[1] != self.features:
                raise DataError(
                    f"{where}: elements have {elements.shape[1]} features, but {self.features} in the sets before."
                )
            self._elements.add(elements)
        return len(elements)

    def done(self, path: Path) -> npt.NDArray[np.float32]:
        """All elements (E, D).

        Raises:
            DataError: there are none.
        """
        if self.features is None:
            raise DataError(f"{path}: {ALL_EMPTY}")
        return self._elements.done().reshape(-1, self.features)


class GatheredExamples:
    """Inputs with their valid sets, added one by one.

    Args:
        inputs: gathers the inputs.
        aligned: each element of an input must have its own in the set.
    """

    def __init__(self, inputs: GatheredInputs, *, aligned: bool) -> None:
        self.inputs, self.aligned = inputs, aligned
        self.sets, self.answer_counts = GatheredSets(), list[int]()
        self._sizes = GrowingArray(np.int64)

    def add(self, value: Any, answers: Sequence[Any], where: str) -> None:
        """Add an input and all its valid sets, as they are written in the file.

        Raises:
            DataError: one of them cannot be used; `where` names the place.
        """
        for number, answer in enumerate(answers):
            size = self.sets.add(answer, where if len(answers) == 1 else f"{where}, answer {number}")
            self._sizes.add([size])
            if self.aligned:
                _check_aligned(value, size, where)
        self.answer_counts.append(len(answers))
        self.inputs.add(value, where)

    def reader(self, path: Path) -> Callable[[int], Example]:
        """A function from the number of an example to the example.

        Raises:
            DataError: all sets, or all inputs, are empty.
        """
        elements, sizes = self.sets.done(path), self._sizes.done()
        read_input, ends = self.inputs.reader(), sizes.cumsum()
        last = np.cumsum(self.answer_counts)

        def read(index: int) -> Example:
            places = range(last[index] - self.answer_counts[index], last[index])
            return read_input(index), tuple(as_tensor(elements[ends[at] - sizes[at] : ends[at]]) for at in places)

        return read


def as_tensor(rows: npt.NDArray[np.float32]) -> Tensor:
    """A copy of rows that may lie in a file."""
    return torch.from_numpy(np.array(rows))


def _check_aligned(value: Any, size: int, where: str) -> None:
    if not isinstance(value, list):
        raise DataError(f"{where}: outputs can only be aligned with inputs that are sets, [[...], ...].")
    if size != len(value):
        raise DataError(
            f"{where}: the set has {size} elements and the input {len(value)}. Where outputs are aligned with "
            "inputs, each element of the input has its own in the set."
        )
