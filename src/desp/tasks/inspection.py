"""A user's data file: what would be used of it, and what looks wrong."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from desp.data.files import DataFile
from desp.nn import check_channels_first
from desp.predictor.dataset_summary import DatasetSummary
from desp.settings import Columns, FilesSettings
from desp.tasks.files import FilesTask

SETS_AT_ONCE = 1000
NAMED = 5
"""More constant columns of inputs than this are counted, and the first of them named."""


def inspect_file(settings: FilesSettings, seed: int = 0) -> dict[str, Any]:
    """Facts about a data file, as JSON values; `findings` are sentences on what looks wrong.

    Args:
        settings: as `desp train custom` takes them.
        seed: decides which examples are held out.

    Raises:
        DataError: the file cannot be used at all.
    """
    task = FilesTask(settings, seed)
    summary, data = task.summary(), task.whole
    shape = summary.shape()
    if shape.input_kind == "image":
        check_channels_first(shape.input_shape)
    elements = _Elements(data)
    names = shape.description.feature_columns
    low, high, sizes = _ranges(elements)
    examples = len(data.examples)
    parts = zip(("test", "validation", "training"), task.parts, strict=True)
    return {
        "file": str(task.path),
        "examples": examples,
        "sets": len(data),
        "input": {"kind": data.input_kind, "shape": list(shape.input_shape)},
        "columns": {"input": list(shape.description.input_columns), "features": list(names)},
        "features": [
            {"low": least, "high": most} for least, most in zip(low.tolist(), high.tolist(), strict=True)
        ],
        "set_sizes": {"least": min(sizes), "most": max(sizes), "mean": round(sum(sizes) / len(sizes), 2)},
        "empty_sets": sizes.count(0),
        "categories": [list(item) for item in shape.description.categories],
        "boxes": [list(item) for item in shape.description.boxes],
        "different_inputs": task.distinct_inputs,
        "split": {name: len(part.examples) for name, part in parts},
        "findings": [
            *summary.findings(data.name_of),
            *task.split_findings(),
            *_unnamed_categories(one_hot_columns(elements), shape.description.categories),
            *_constant_features(low, high, names),
            *_constant_inputs(summary, task, shape.description.input_columns),
        ],
    }


class _Elements:
    """The elements of all sets, in parts of `SETS_AT_ONCE` sets; can be iterated over repeatedly."""

    def __init__(self, data: DataFile) -> None:
        self.data = data

    def __iter__(self) -> Iterator[Tensor]:
        for first in range(0, len(self.data), SETS_AT_ONCE):
            yield torch.cat(self.sets(first))

    def sets(self, first: int) -> list[Tensor]:
        """Up to `SETS_AT_ONCE` sets (n, D), from number `first` on."""
        return [self.data[index][1] for index in range(first, min(first + SETS_AT_ONCE, len(self.data)))]


def _ranges(elements: _Elements) -> tuple[Tensor, Tensor, list[int]]:
    """The smallest and largest value of each feature (D,), and the sizes of all sets."""
    ends, sizes = list[Tensor](), list[int]()
    for first in range(0, len(elements.data), SETS_AT_ONCE):
        sets = elements.sets(first)
        sizes += map(len, sets)
        if len(together := torch.cat(sets)):
            ends += [together.amin(dim=0), together.amax(dim=0)]
    joined = torch.stack(ends)
    return joined.amin(dim=0), joined.amax(dim=0), sizes


def one_hot_columns(parts: Iterable[Tensor]) -> Columns:
    """Neighbouring columns of elements (n, D), two or more, that are one-hot: a single 1 and zeros.

    `parts` are iterated over twice, so that not all elements need to be there at once.
    """
    binary: list[bool] = (
        torch.stack([((some == 0) | (some == 1)).all(dim=0) for some in parts]).all(dim=0).tolist()
    )
    ends = [column for column in range(1, len(binary) + 1) if column == len(binary) or not binary[column]]
    found = []
    for end in ends:
        first = end
        while first and binary[first - 1]:
            first -= 1
        if end - first > 1 and all(bool((some[:, first:end].sum(dim=1) == 1).all()) for some in parts):
            found.append((first, end))
    return tuple(found)


def _unnamed_categories(one_hot: Columns, named: Columns) -> list[str]:
    return [
        f"Columns {first} to {end - 1} are one-hot. If they are categories, predictions are one-hot too with "
        f"--task.description.categories {first} {end}"
        for first, end in one_hot
        if not any(start < end and first < last for start, last in named)
    ]


def _constant_features(low: Tensor, high: Tensor, names: Sequence[str]) -> list[str]:
    same = (low == high).nonzero().flatten().tolist()
    called = [f" ({names[column]})" if names else "" for column in same]
    return [
        f"Column {column}{name} is {float(low[column]):g} in all elements."
        for column, name in zip(same, called, strict=True)
    ]


def _constant_inputs(summary: DatasetSummary, task: FilesTask, names: Sequence[str]) -> list[str]:
    """What is the same in all inputs. That whole examples are equal is among the findings of the summary."""
    if task.distinct_inputs == 1:
        equal = f"All {len(task.whole.examples)} inputs are equal, so they tell nothing about the sets."
        return [] if summary.all_equal else [equal]
    same, of = summary.constant_inputs(), "input elements" if summary.kind == "set" else "the input"
    if len(same) > NAMED:
        first = ", ".join(map(str, list(same)[:NAMED]))
        return [f"{len(same)} columns of {of} are the same in all examples: {first}, ..."]
    called = {column: f" ({names[column]})" if column < len(names) else "" for column in same}
    return [f"Column {column}{called[column]} of {of} is {same[column]:g} in all examples." for column in same]
