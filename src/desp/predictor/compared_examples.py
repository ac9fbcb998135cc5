"""What run folders of `SetPredictor.fit` note of a few training examples, so that a resumed run has the same."""

import hashlib
from collections.abc import Sequence, Sized
from dataclasses import dataclass
from typing import Any, Self, cast

from torch.utils.data import Dataset, IterableDataset

from desp.data.base import collate

MOST_COMPARED = 16
"""Number of examples that are compared, at most."""


@dataclass(frozen=True)
class ComparedExamples:
    """What tells training data from others, without reading all of them.

    Attributes:
        total: how many examples there are.
        hashes: of a few of them, at even distances.
    """

    total: int
    hashes: tuple[str, ...]

    @classmethod
    def of(cls, dataset: "Dataset[Any] | Sequence[Any]", features: int) -> "Self | None":
        """Those of a dataset whose elements have `features` numbers; None if it is iterable."""
        if isinstance(dataset, IterableDataset):
            return None
        length = len(cast(Sized, dataset))
        compared = min(length, MOST_COMPARED)
        some = (dataset[place * length // compared] for place in range(compared))
        return cls(length, tuple(_hash_of(example, features) for example in some))

    @classmethod
    def from_json(cls, values: Any) -> Self:
        """What `asdict` gave."""
        return cls(int(values["total"]), tuple(map(str, values["hashes"])))

    def differs(self, other: "ComparedExamples") -> bool:
        """Whether most of the compared examples are others; a few may have been repaired."""
        same = sum(mine == theirs for mine, theirs in zip(self.hashes, other.hashes, strict=False))
        return 2 * same < len(self.hashes)


def difference(
    then: ComparedExamples | None, dataset: "Dataset[Any] | Sequence[Any]", features: int
) -> str | None:
    """How a dataset differs from the one that a run was begun with, in words; None if it does not, or if that is
    not known. A dataset that changes some examples at random when they are read is known by its length alone."""
    now = ComparedExamples.of(dataset, features)
    if then is None or now is None:
        return None
    if then.total != now.total:
        return f"{then.total} training examples then, {now.total} now, without held-out ones"
    if not then.differs(now):
        return None
    at_random = ComparedExamples.of(dataset, features) != now
    return None if at_random else f"{now.total} training examples as before, but others, or in another order"


def _hash_of(example: Any, features: int) -> str:
    """Of an example's numbers in single precision, so that lists, arrays and tensors of them have the same."""
    batch = collate([example], features=features)
    content = hashlib.sha256()
    for values in (batch.x, batch.sets.elements):
        content.update(str(tuple(values.shape[1:])).encode())
        content.update(values.detach().cpu().float().numpy().tobytes())
    return content.hexdigest()[:16]
