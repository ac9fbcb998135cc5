"""Where batches come from: drawn on the device, or collected from any torch dataset."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from itertools import count, islice
from os import PathLike
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset

from desp.errors import DataError
from desp.randomness import derive_seed, make_generator
from desp.sets import SetBatch
from desp.tensors import NOT_FINITE, as_numbers, nonfinite_places

EMPTY = "The dataset is empty: it must hold at least one (input, set) pair."


@dataclass(frozen=True)
class Batch:
    """B inputs with their sets.

    Attributes:
        x: (B, ...) inputs; images may be bytes (B, C, H, W), see `to_float`.
        sets: B sets. Where they are aligned with inputs, row i of a set belongs to row i of its input.
    """

    x: Tensor
    sets: SetBatch


Augmentation = Callable[[Batch, torch.Generator], Batch]
"""Changes a training batch at random; all random numbers come from the generator, on its device."""


Draw = Callable[[int, torch.Generator], Batch]
"""Draws a batch of the given size, on the generator's device."""


class BatchSource(ABC):
    """An endless stream of batches in which batch k is always the same.

    What the k-th batch holds depends on the seed, the attempt, the process, the number of processes, and k alone,
    so a resumed run goes on exactly where it was.
    """

    @abstractmethod
    def batches(self, first: int, attempt: int = 0) -> Iterator[Batch]:
        """Batches number `first`, `first` + 1, ...; `attempt` counts rollbacks of training, and each gives another
        stream (for an iterable dataset the same items, with other augmentation)."""


class DeviceSource(BatchSource):
    """Batches drawn whole on the training device: generated, or from a table that lies there.

    Args:
        draw: draws a batch of a size with a generator, on the generator's device.
        batch_size: B.
        seed: of the stream.
        device: where to draw.
        process: number of this process, so that each draws its own data.
        augment: changes every batch after it is drawn.
    """

    def __init__(
        self,
        draw: Draw,
        batch_size: int,
        seed: int,
        device: torch.device | str = "cpu",
        process: int = 0,
        augment: Augmentation | None = None,
    ) -> None:
        self.draw, self.batch_size, self.seed = draw, batch_size, seed
        self.device, self.process, self.augment = device, process, augment

    def batches(self, first: int, attempt: int = 0) -> Iterator[Batch]:
        """Draw one batch after another."""
        for seed in self.seeds(first, attempt):
            yield self.draw_with(torch.Generator(device=self.device).manual_seed(seed))

    def seeds(self, first: int, attempt: int = 0) -> Iterator[int]:
        """The seeds of the generators that batches number `first`, `first` + 1, ... are drawn with."""
        for step in count(first):
            yield derive_seed(self.seed, "data", attempt, step, self.process)

    def draw_with(self, generator: torch.Generator) -> Batch:
        """The batch drawn with a generator; no work on the host depends on its values."""
        batch = self.draw(self.batch_size, generator)
        return self.augment(batch, generator) if self.augment else batch


class DatasetSource(BatchSource):
    """Batches from a torch dataset of (input, set) pairs.

    A map-style dataset is shuffled anew in every epoch. Epochs follow each other without a break: a batch may
    hold the end of one and the beginning of the next, so all batches have the same size, also when the dataset
    is smaller than a batch. An iterable dataset is read in its own order, again and again.

    Args:
        dataset: yields (input, set); sets may differ in size. A list of pairs will do.
        batch_size: B, in each process.
        max_size: the padded set size.
        features: features of one element.
        seed: of the order, and of `augment`.
        process, processes: number of this process, and how many there are; each gets its own part of the data.
        workers: processes that load items of a map-style dataset.
        augment: changes every batch after it is collected.
    """

    def __init__(
        self,
        dataset: "Dataset[Any] | Sequence[Any]",
        batch_size: int,
        *,
        max_size: int,
        features: int,
        seed: int = 0,
        process: int = 0,
        processes: int = 1,
        workers: int = 0,
        augment: Augmentation | None = None,
    ) -> None:
        self.dataset, self.batch_size, self.seed = dataset, batch_size, seed
        self.max_size, self.features = max_size, features
        self.process, self.processes, self.workers = process, processes, workers
        self.augment = augment

    def batches(self, first: int, attempt: int = 0) -> Iterator[Batch]:
        """Collect one batch after another."""
        for step, batch in enumerate(self._collected(first, attempt), start=first):
            if self.augment is None:
                yield batch
            else:
                yield _augmented(
                    self.augment, batch, make_generator(self.seed, "augment", attempt, step, self.process)
                )

    def _collected(self, first: int, attempt: int) -> Iterator[Batch]:
        if isinstance(self.dataset, IterableDataset):
            items = islice(self._repeated(), first * self.batch_size * self.processes, None)
            while True:
                together = list(islice(items, self.batch_size * self.processes))
                yield self._collate(together[self.process :: self.processes])
        loader = DataLoader(
            cast("Dataset[Any]", self.dataset),
            batch_sampler=self._indices(first, attempt),
            collate_fn=self._collate,
            num_workers=self.workers,
            # Loaders draw a seed for their workers; not from the generator that the user's program draws from.
            generator=make_generator(self.seed, "loader", attempt),
        )
        yield from loader

    def _indices(self, first: int, attempt: int) -> Iterator[list[int]]:
        """The indices of each batch: shuffled epochs, one after the other, cut into batches."""
        length = len(cast(Sized, self.dataset))
        if length == 0:
            raise DataError(EMPTY)
        epoch, order = -1, torch.empty(0, dtype=torch.int64)
        for step in count(first):
            start = (step * self.processes + self.process) * self.batch_size
            batch = []
            for place in range(start, start + self.batch_size):
                if place // length != epoch:
                    epoch = place // length
                    order = torch.randperm(length, generator=make_generator(self.seed, "order", attempt, epoch))
                batch.append(int(order[place % length]))
            yield batch

    def _repeated(self) -> Iterator[Any]:
        while True:
            empty = True
            for item in dataset_items(self.dataset):
                empty = False
                yield item
            if empty:
                raise DataError(EMPTY)

    def _collate(self, items: Sequence[Any]) -> Batch:
        return collate(items, self.max_size, self.features)


def _augmented(augment: Augmentation, batch: Batch, generator: torch.Generator) -> Batch:
    """The batch as the user's `augment` function changes it."""
    changed: Any = augment(batch, generator)
    if not isinstance(changed, Batch):
        raise DataError(
            f"augment must return a Batch, got {type(changed).__name__}. End it with: return replace(batch, "
            "x=..., sets=...)"
        )
    return changed


def random_order(sizes: Int[Tensor, " b"], rows: int, generator: torch.Generator) -> Int[Tensor, "b n"]:
    """A random order of the elements of each set, as places (B, N) to gather; absent rows stay behind them.

    Nothing waits for the device, and no shape depends on values, so a CUDA graph can capture it.

    Args:
        sizes: (B,) how many rows of each set are elements; they come first.
        rows: N.
        generator: on the device of `sizes`.
    """
    keys = torch.rand((len(sizes), rows), generator=generator, device=sizes.device)
    absent = torch.arange(rows, device=sizes.device) >= sizes.unsqueeze(1)
    return keys.masked_fill(absent, 2.0).argsort(dim=1)


def dataset_items(dataset: "Dataset[Any] | Sequence[Any]") -> Iterator[Any]:
    """The examples of a dataset, one after another: by iteration if it is iterable, else by index.

    Raises:
        DataError: it is no dataset.
    """
    _check_dataset(dataset)
    if isinstance(dataset, IterableDataset):
        return iter(dataset)
    length = len(cast(Sized, dataset))
    return (dataset[index] for index in range(length))


def _check_dataset(dataset: Any) -> None:
    if isinstance(dataset, IterableDataset):
        return
    fix = "Pass a list of pairs, list(zip(inputs, sets)), or a torch dataset."
    if isinstance(dataset, torch.utils.data.DataLoader):
        fix = "Pass its dataset, loader.dataset: fit makes batches itself."
    elif isinstance(dataset, str | bytes | PathLike):
        fix = "To read a file: desp.data.files.read_data_file(Path(...)), or `desp train custom --data FILE`."
    elif isinstance(dataset, Iterator):
        fix = "It can be read once only: pass list(...) of it, or an IterableDataset."
    indexed = hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
    if indexed and not isinstance(dataset, str | bytes | Mapping | type | Tensor | np.ndarray):
        return
    raise DataError(
        "Expected a dataset of (input, set) pairs, with a length and items by index, got "
        f"{type(dataset).__name__}. {fix}"
    )


def collate(
    items: Sequence[Any], max_size: int | None = None, features: int | None = None, first: int = 0
) -> Batch:
    """Join (input, set) pairs into a batch; `first` is the number of the first, for messages.

    Raises:
        DataError: an item is not a pair, inputs differ in shape, or a set is not usable.
    """
    inputs, sets = [], []
    for index, item in enumerate(items, first):
        if not isinstance(item, Sequence) or isinstance(item, str) or len(item) != 2:
            count = f" of {len(item)}" if isinstance(item, list | tuple) else ""
            raise DataError(
                f"Item {index} is not an (input, set) pair but {type(item).__name__}{count}. "
                "A dataset must return two values: the input x and its set. Where inputs and sets are two lists, "
                "pass both."
            )
        inputs.append(as_input(item[0], f"Input {index}"))
        sets.append(item[1])
    shapes = {tuple(value.shape) for value in inputs}
    if len(shapes) > 1:
        raise DataError(f"All inputs must have the same shape, got {sorted(shapes)} in one batch.")
    return Batch(torch.stack(inputs), SetBatch.from_ragged(sets, max_size, features, first))


def as_input(value: Any, where: str = "An input") -> Tensor:
    """Read an input x, or a batch of them, as a float tensor; images of bytes stay bytes.

    Raises:
        DataError: not numeric, or not finite; `where` names it in the message.
    """
    x = as_numbers(value, where, "a number, a tensor, or nested lists of numbers")
    if x.is_complex():
        raise DataError(f"{where} holds complex numbers. Pass real and imaginary parts as two numbers.")
    if _is_image_of_bytes(x, batched=False):
        return x
    x = x if x.is_floating_point() else x.to(torch.get_default_dtype())
    if len(wrong := nonfinite_places(x)):
        at = f", at {wrong[0].tolist()}" if x.dim() else ""
        raise DataError(f"{where} holds {NOT_FINITE}{at}. Remove or repair it.")
    return x


def to_float(x: Float[Tensor, "b *input"] | UInt8[Tensor, "b *input"], dtype: torch.dtype) -> Tensor:
    """Inputs (B, ...) in the precision of the weights; bytes of images become intensities in [0, 1].

    Called on the device that uses them: bytes take a quarter of the memory on the way there.
    """
    return x.to(dtype) / 255 if _is_image_of_bytes(x, batched=True) else x.to(dtype)


def _is_image_of_bytes(x: Tensor, *, batched: bool) -> bool:
    return x.dtype == torch.uint8 and x.dim() >= 3 + batched
