"""Batches as a pure function of their number, and how pairs become batches."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, TensorDataset, get_worker_info

from desp.data import DeviceSource, draw_polygons
from desp.data.base import Batch, DatasetSource, as_input, collate, to_float
from desp.errors import DataError
from desp.randomness import derive_seed, make_generator


class Numbered(Dataset[tuple[list[float], list[list[float]]]]):
    """Item i: the input [i], and a set of i % 3 elements."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> tuple[list[float], list[list[float]]]:
        return [float(index)], [[float(index), float(k)] for k in range(index % 3)]


class Stream(IterableDataset[tuple[list[float], list[list[float]]]]):
    """The same items, one after another."""

    def __init__(self, length: int) -> None:
        self.items = Numbered(length)

    def __iter__(self) -> Iterator[tuple[list[float], list[list[float]]]]:
        return (self.items[index] for index in range(len(self.items)))


def source(dataset: Any, batch_size: int = 4, **options: int) -> DatasetSource:
    return DatasetSource(dataset, batch_size, max_size=3, features=2, **options)


def numbers(batches: Any, count: int) -> list[list[int]]:
    """Which items the first `count` batches hold."""
    return [[int(value) for value in batch.x[:, 0]] for batch in islice(batches, count)]


def same(one: Batch, other: Batch) -> bool:
    pairs = (
        (one.x, other.x),
        (one.sets.elements, other.sets.elements),
        (one.sets.mask, other.sets.mask),
    )
    return all(torch.equal(*pair) for pair in pairs)


STREAMS = {
    "generated": DeviceSource(draw_polygons, 4, seed=3),
    "dataset": source(Numbered(11), seed=3),
    "small dataset": source(Numbered(3), seed=3),
    "iterable": source(Stream(11)),
    "second process": source(Numbered(11), process=1, processes=2),
    "second process of an iterable": source(Stream(11), process=1, processes=2),
}


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS.keys())
def test_batches_depend_on_their_number_alone(stream: Any) -> None:
    from_start = list(islice(stream.batches(0), 8))
    resumed = list(islice(stream.batches(5), 3))
    assert all(same(one, other) for one, other in zip(from_start[5:], resumed, strict=True))
    again = list(islice(stream.batches(0), 8))
    assert all(same(one, other) for one, other in zip(from_start, again, strict=True))
    assert not same(from_start[0], from_start[1])


@pytest.mark.parametrize("name", ["generated", "dataset"])
def test_other_attempts_and_seeds_are_other_streams(name: str) -> None:
    stream = STREAMS[name]
    other_seed = DeviceSource(draw_polygons, 4, seed=4) if name == "generated" else source(Numbered(11), seed=4)
    first = next(stream.batches(0))
    assert not same(first, next(stream.batches(0, attempt=1)))
    assert not same(first, next(other_seed.batches(0)))


def test_streams_never_change() -> None:
    """Resumed runs and results on file depend on which generator draws which batch, and on the order of data."""
    generated = DeviceSource(draw_polygons, 4, seed=3, process=1)
    assert list(islice(generated.seeds(5, attempt=2), 2)) == [
        derive_seed(3, "data", 2, 5, 1),
        derive_seed(3, "data", 2, 6, 1),
    ]
    drawn = draw_polygons(4, make_generator(3, "data", 2, 5, 1))
    assert same(next(generated.batches(5, attempt=2)), drawn)
    passes = [torch.randperm(6, generator=make_generator(3, "order", 2, epoch)).tolist() for epoch in (1, 2)]
    assert numbers(source(Numbered(6), 3, seed=3).batches(2, attempt=2), 4) == [
        part for order in passes for part in (order[:3], order[3:])
    ]


class WhoLoads(Numbered):
    """The input is the number of the process that loads an item, from 1, or 0 for the process itself."""

    def __getitem__(self, index: int) -> tuple[list[float], list[list[float]]]:
        worker = get_worker_info()
        return [0.0 if worker is None else 1.0 + worker.id], super().__getitem__(index)[1]


@pytest.mark.parametrize(("workers", "expected"), [(0, [[0, 0]] * 3), (2, [[1, 1], [2, 2], [1, 1]])])
def test_items_are_loaded_by_as_many_workers_as_asked_for(workers: int, expected: list[list[int]]) -> None:
    batches = source(WhoLoads(6), 2, workers=workers).batches(0)
    assert numbers(batches, 3) == expected


def test_loading_leaves_global_randomness_alone() -> None:
    state = torch.get_rng_state()
    next(source(Numbered(6)).batches(0))
    assert torch.equal(torch.get_rng_state(), state)


def test_processes_generate_different_batches() -> None:
    streams = [DeviceSource(draw_polygons, 4, seed=3, process=process) for process in (0, 1)]
    assert not same(*(next(stream.batches(0)) for stream in streams))


@pytest.mark.parametrize(("length", "batch_size"), [(11, 4), (12, 4), (3, 4), (1, 5), (5, 12)])
def test_every_pass_holds_each_item_once(length: int, batch_size: int) -> None:
    passes = 6
    batches = numbers(source(Numbered(length), batch_size).batches(0), -(-passes * length // batch_size))
    assert all(len(batch) == batch_size for batch in batches)
    order = [item for batch in batches for item in batch]
    for start in range(0, passes * length, length):
        assert sorted(order[start : start + length]) == list(range(length))
    if length > 3:
        assert order[:length] != order[length : 2 * length] != list(range(length))


@pytest.mark.parametrize("kind", [Numbered, Stream])
@pytest.mark.parametrize("processes", [2, 3])
def test_processes_share_the_data_out(kind: Any, processes: int) -> None:
    length, batch_size = 12 * processes, 4
    streams = [
        source(kind(length), batch_size, process=process, processes=processes) for process in range(processes)
    ]
    held = [{item for batch in numbers(stream.batches(0), 3) for item in batch} for stream in streams]
    assert Counter(item for items in held for item in items) == Counter(range(length))


def test_loaders_have_their_workers_and_a_seed_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers draw from it: other seeds and attempts must not repeat their noise."""
    made: list[dict[str, Any]] = []

    def loader(*_: Any, **options: Any) -> list[Any]:
        made.append(options)
        return []

    monkeypatch.setattr("desp.data.base.DataLoader", loader)
    for seed, attempt in ((3, 0), (3, 0), (4, 0), (3, 1)):
        list(source(Numbered(11), seed=seed, workers=2).batches(0, attempt))
    assert [options["num_workers"] for options in made] == [2] * 4
    first, again, *others = (options["generator"].initial_seed() for options in made)
    assert first == again
    assert len({first, *others}) == 3


def test_iterable_datasets_are_read_in_order_again_and_again() -> None:
    assert numbers(source(Stream(5)).batches(0), 3) == [[0, 1, 2, 3], [4, 0, 1, 2], [3, 4, 0, 1]]
    assert numbers(source(Stream(5)).batches(2), 1) == [[3, 4, 0, 1]]


def test_sets_are_padded_to_the_given_size() -> None:
    batch = next(source(Numbered(5), 5).batches(0))
    for number, elements in zip(batch.x[:, 0].tolist(), batch.sets.to_ragged(), strict=True):
        assert elements.tolist() == [[number, float(k)] for k in range(int(number) % 3)]
    assert batch.sets.elements.shape == (5, 3, 2)


@pytest.mark.parametrize("kind", [Numbered, Stream])
def test_empty_datasets_are_an_error(kind: Any) -> None:
    with pytest.raises(DataError, match="empty"):
        next(source(kind(0)).batches(0))


def test_tensor_datasets_work_as_they_are() -> None:
    dataset = TensorDataset(torch.randn(6, 3), torch.randn(6, 4, 2))
    batch = next(DatasetSource(dataset, 4, max_size=4, features=2).batches(0))
    assert (batch.x.shape, batch.sets.elements.shape) == ((4, 3), (4, 4, 2))


def test_collate_joins_pairs() -> None:
    batch = collate([(1.0, [[1.0], [2.0]]), (2, []), (np.float32(3), np.ones((1, 1)))])
    assert batch.x.tolist() == [1, 2, 3]
    assert batch.sets.sizes.tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([(1.0, [[1.0]]), 3.0], r"Item 1 is not an \(input, set\) pair but float"),
        ([(1.0, [[1.0]], 2.0)], "Item 0 is not an"),
        ([{"input": 1.0, "set": [[1.0]]}], "pair but dict"),
        ([([1.0], [[1.0]]), ([1.0, 2.0], [[1.0]])], r"same shape, got \[\(1,\), \(2,\)\]"),
        ([("a", [[1.0]])], "Input 0: expected a number, a tensor, or nested lists of numbers, got "),
        ([(None, [[1.0]])], "Input 0: expected a number, a tensor, or nested lists of numbers, got "),
        ([(float("nan"), [[1.0]])], "Input 0 holds NaN"),
        ([(1.0, [[1.0]]), (1.0, [[float("inf")]])], "set 1: element 0, feature 0 holds NaN or infinity"),
        ([(1.0, [[1.0]]), (1.0, [[1.0, 2.0]])], "set 1 has 2 features"),
        ([(1.0, [[1.0]] * 4)], "set 0 has 4 elements, but at most 3"),
    ],
)
def test_collate_says_what_is_wrong(items: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        collate(items, max_size=3)


@pytest.mark.parametrize("value", [3, [1, 2], True, torch.tensor([1, 2]), np.arange(3)])
def test_inputs_become_floats(value: Any) -> None:
    assert as_input(value).dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_inputs_that_are_floats_stay_as_they_are(dtype: torch.dtype) -> None:
    assert as_input(torch.ones(2, dtype=dtype)).dtype == dtype


def test_inputs_that_must_not_be_written_to_are_copied() -> None:
    """Torch warns about the rows of a memory map, and writing to them ends the program."""
    row = np.ones(3, dtype=np.float32)
    row.flags.writeable = False
    x = as_input(row)
    x[0] = 5.0
    assert (x.tolist(), row.tolist()) == ([5.0, 1.0, 1.0], [1.0, 1.0, 1.0])


def test_complex_inputs_are_refused() -> None:
    with pytest.raises(DataError):
        as_input(1 + 2j)


def test_whole_numbers_become_numbers_of_the_precision_that_is_set() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        assert as_input([2**40 + 1, 1]).tolist() == [2**40 + 1, 1]
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(("shape", "white"), [((2, 1, 4, 4), 1.0), ((2, 4, 4), 255.0), ((2, 4), 255.0)])
def test_only_bytes_of_images_are_intensities(shape: tuple[int, ...], white: float) -> None:
    """A batch of matrices has as many dimensions as an image."""
    assert to_float(torch.full(shape, 255, dtype=torch.uint8), torch.float32).unique().tolist() == [white]
