"""What would be used of a file of one's own, and what in it looks wrong."""

from typing import Any

import torch
from torch import Tensor

from desp.nn import check_channels_first
from desp.settings import Columns, FilesSettings
from desp.tasks.files import FilesTask


def inspect_file(settings: FilesSettings, seed: int = 0) -> dict[str, Any]:
    """Facts of a data file, as JSON values; `findings` are sentences on what looks wrong.

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
    sets = [data[index][1] for index in range(len(data))]
    elements, sizes = torch.cat(sets), [len(item) for item in sets]
    ranges = zip(elements.amin(dim=0).tolist(), elements.amax(dim=0).tolist(), strict=True)
    examples = len(data.examples)
    parts = zip(("test", "validation", "training"), task.parts, strict=True)
    return {
        "file": str(task.path),
        "examples": examples,
        "sets": len(sets),
        "input": {"kind": data.input_kind, "shape": list(shape.input_shape)},
        "features": [{"low": low, "high": high} for low, high in ranges],
        "set_sizes": {"least": min(sizes), "most": max(sizes), "mean": round(sum(sizes) / len(sizes), 2)},
        "empty_sets": sizes.count(0),
        "categories": [list(item) for item in settings.description.categories],
        "boxes": [list(item) for item in settings.description.boxes],
        "different_inputs": task.distinct_inputs,
        "split": {name: len(part.examples) for name, part in parts},
        "findings": [
            *summary.findings(data.name_of),
            *task.split_findings(),
            *_unnamed_categories(elements, settings.description.categories),
            *_constant_features(elements),
        ],
    }


def one_hot_columns(elements: Tensor) -> Columns:
    """Neighbouring columns of elements (n, D), two or more, that are one-hot: a single 1 and zeros."""
    binary = ((elements == 0) | (elements == 1)).all(dim=0).tolist()
    ends = [column for column in range(1, len(binary) + 1) if column == len(binary) or not binary[column]]
    found = []
    for end in ends:
        first = end
        while first and binary[first - 1]:
            first -= 1
        if end - first > 1 and bool((elements[:, first:end].sum(dim=1) == 1).all()):
            found.append((first, end))
    return tuple(found)


def _unnamed_categories(elements: Tensor, named: Columns) -> list[str]:
    return [
        f"Features {first} to {end - 1} are one-hot. If they are categories, predictions are one-hot too with "
        f"--task.description.categories {first} {end}"
        for first, end in one_hot_columns(elements)
        if not any(start < end and first < last for start, last in named)
    ]


def _constant_features(elements: Tensor) -> list[str]:
    same = (elements == elements[0]).all(dim=0).nonzero().flatten().tolist() if len(elements) > 1 else []
    return [f"Feature {column} is {float(elements[0, column]):g} in all elements." for column in same]
