"""Augmentations keep examples valid, and are a function of the generator alone."""

import pytest
import torch

from desp.data.base import Batch, DatasetSource, DeviceSource
from desp.data.mnist import translate_points
from desp.randomness import make_generator
from desp.sets import SetBatch, SetRepresentation
from desp.settings import RepresentationSettings

GRID = 6


def batch_of(*sets: list[list[int]]) -> Batch:
    padded = SetBatch.from_ragged([torch.tensor(item, dtype=torch.float32) / (GRID - 1) for item in sets], 4)
    return Batch(SetRepresentation(RepresentationSettings()).to_tensor(padded), padded)


def test_translated_points_keep_their_form_and_stay_on_the_grid() -> None:
    batch = batch_of(*[[[1, 2], [3, 2]]] * 400)
    moved = translate_points(1.0, GRID)(batch, make_generator(0))
    places = (moved.sets.elements * (GRID - 1))[:, :2]
    assert torch.equal(places, places.round())
    assert torch.equal((places[:, 1] - places[:, 0]).round(), torch.tensor([2.0, 0.0]).expand(400, 2))
    # Rows have room for 4 places, columns for 6; all of them are used.
    assert places[:, 0, 0].unique().tolist() == [0, 1, 2, 3]
    assert places[:, 0, 1].unique().tolist() == [0, 1, 2, 3, 4, 5]
    assert torch.equal(moved.x, SetRepresentation(RepresentationSettings()).to_tensor(moved.sets))
    assert not moved.sets.elements[:, 2:].any()


def test_the_fraction_says_how_many_are_translated() -> None:
    batch = batch_of(*[[[1, 2]]] * 2000)
    moved = translate_points(0.25, GRID)(batch, make_generator(0)).sets.elements
    changed = (moved != batch.sets.elements).any(dim=2).any(dim=1).double().mean()
    assert float(changed) == pytest.approx(0.25 * 35 / 36, abs=0.03)
    assert torch.equal(translate_points(0.0, GRID)(batch, make_generator(0)).sets.elements, batch.sets.elements)


def add_noise(batch: Batch, generator: torch.Generator) -> Batch:
    return Batch(batch.x + torch.rand(batch.x.shape, generator=generator), batch.sets)


def test_sources_augment_each_batch_anew_and_repeatably() -> None:
    pairs = [(torch.zeros(2), torch.ones(1, 1))] * 3
    for source in (
        DatasetSource(pairs, 3, max_size=1, features=1, seed=4, augment=add_noise),
        DeviceSource(
            lambda size, _: Batch(torch.zeros(size, 2), batch_of(*[[[1, 1]]] * size).sets), 3, 4, augment=add_noise
        ),
    ):
        stream = source.batches(0)
        first, second = next(stream).x, next(stream).x
        assert bool((first > 0).all())
        assert not torch.equal(first, second)
        assert torch.equal(next(source.batches(1)).x, second)  # a resumed run goes on with the same
        assert not torch.equal(next(source.batches(0, attempt=1)).x, first)


@pytest.mark.parametrize("changed", [{"seed": 5}, {"process": 1, "processes": 2}], ids=["seed", "process"])
def test_augmentations_follow_the_seed_and_the_process(changed: dict[str, int]) -> None:
    pairs = [(torch.zeros(2), torch.ones(1, 1))] * 6
    usual = {"max_size": 1, "features": 1, "seed": 4}
    first, again, other = (
        next(DatasetSource(pairs, 3, augment=add_noise, **options).batches(0)).x
        for options in (usual, usual, {**usual, **changed})
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
