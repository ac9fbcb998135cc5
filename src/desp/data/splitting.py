"""Which examples are held out: whole groups, such as examples of equal inputs."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from desp.settings import InputKind

# If there are fewer different inputs, they are labels, and each of them must be trained on.
FEW_INPUTS = 10


def group_by_input(inputs: Iterable[Tensor], kind: InputKind, *, ordered: bool) -> list[int]:
    """The group of each input: the number of the first input that is equal to it.

    Args:
        inputs: one after the other.
        kind: sets are equal whatever the order of their elements.
        ordered: the order of elements counts, as outputs are aligned with them.
    """
    first: dict[bytes, int] = {}
    as_sets = kind == "set" and not ordered
    return [first.setdefault(_digest(x, as_sets), number) for number, x in enumerate(inputs)]


def _digest(x: Tensor, as_set: bool) -> bytes:
    x = x.detach().cpu()
    numbers = ((x.float() if x.dtype == torch.bfloat16 else x) + 0).numpy()  # -0.0 becomes 0.0
    rows = sorted(row.tobytes() for row in numbers) if as_set else [numbers.tobytes()]
    return hashlib.blake2b(b"".join(rows), digest_size=16).digest()


def take_groups(
    order: Sequence[int], groups: Sequence[int], count: int, *, at_least_one: bool
) -> tuple[list[int], list[int]]:
    """About `count` examples, and the others, both in their order. Whole groups are taken if they fit, first come
    first served.

    Where each group is a single example, they are exactly the first `count`.

    Args:
        order: examples to take from.
        groups: the group of every example.
        count: at most this many are taken.
        at_least_one: where no group is small enough, take the smallest one, unless it is the only one.
    """
    sizes = Counter(groups[example] for example in order)
    taken, room = set(), count
    for group, size in sizes.items():  # in the order in which they come first
        if size <= room:
            taken.add(group)
            room -= size
    if not taken and at_least_one and len(sizes) > 1:
        taken = {min(sizes, key=lambda group: sizes[group])}
    parts: tuple[list[int], list[int]] = [], []
    for example in order:
        parts[groups[example] not in taken].append(example)
    return parts
