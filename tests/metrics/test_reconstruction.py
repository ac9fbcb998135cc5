"""Scores of reconstructed sets against closed forms and brute force."""

from itertools import permutations

import pytest
import torch
from torch import Tensor

from desp.distances import chamfer
from desp.errors import DataError
from desp.metrics import reconstruction
from desp.metrics.reconstruction import batched_size_rmse, distance_each, reconstruction_scores, released_sizes
from desp.metrics.sizes import right_size, size_rmse


def random_sets(count: int, size: int, generator: torch.Generator) -> Tensor:
    """Sets in [0, 1] with presence 0 or 1."""
    sets = torch.rand(count, size, 3, generator=generator)
    sets[..., 2] = (sets[..., 2] > 0.4).float()
    return sets * sets[..., 2:]


def scores(predicted: Tensor, true: Tensor) -> dict[str, float]:
    """Of all sets."""
    return reconstruction_scores(predicted, true, [len(true)])[0][len(true)]


# -- sizes -----------------------------------------------------------------------------------------------


def test_one_wrong_size_among_a_thousand() -> None:
    true = torch.full((1000,), 100)
    predicted = true.clone()
    predicted[317] += 1
    assert batched_size_rmse(predicted, true) == pytest.approx(0.010)
    assert size_rmse(predicted, true) == pytest.approx(1000**-0.5)  # .032
    assert right_size(predicted, true) == pytest.approx(0.999)


def test_errors_of_batches_are_averaged() -> None:
    true = torch.zeros(5, dtype=torch.int64)
    predicted = torch.tensor([3, 3, 0, 0, -4])
    assert batched_size_rmse(predicted, true, batch_size=2) == pytest.approx((3 + 0 + 4) / 3)
    assert batched_size_rmse(predicted, true, batch_size=100) == pytest.approx(size_rmse(predicted, true))


def test_the_released_rule_wants_every_number_above_its_threshold() -> None:
    rows = [[0.5, 0.5, 1.0], [0.0, 0.5, 1.0], [0.5, 0.015, 1.0], [0.5, 0.5, 0.0], [0.016, 0.016, 0.016]]
    assert released_sizes(torch.tensor([rows])).tolist() == [2]
    assert released_sizes(torch.zeros(3, 0, 3)).tolist() == [0, 0, 0]


def test_pixels_on_the_edge_count_on_neither_side() -> None:
    true = torch.tensor([[[0.0, 0.5, 1.0], [0.5, 0.5, 1.0]]])
    without = torch.tensor([[[0.0, 0.0, 0.0], [0.5, 0.5, 1.0]]])
    found = scores(without, true)
    assert found["size_rmse_released"] == 0
    assert found["size_rmse"] == 1
    assert found["right_size"] == 0


# -- distances -------------------------------------------------------------------------------------------


def test_a_perfect_reconstruction_costs_nothing(generator: torch.Generator) -> None:
    true = random_sets(7, 9, generator)
    mixed = true[:, torch.randperm(9, generator=generator)]
    assert scores(mixed, true) == {
        "chamfer": pytest.approx(0),
        "hungarian": pytest.approx(0),
        "size_rmse_released": 0,
        "size_rmse": 0,
        "right_size": 1,
    }


def test_a_shift_costs_what_it_must() -> None:
    """All elements moved by d in one of three features: half d squared over three, in each direction."""
    true = torch.zeros(2, 4, 3)
    true[..., 0] = torch.tensor([0.1, 0.3, 0.5, 0.7])
    moved = true.clone()
    moved[1, :, 1] += 0.06
    found, distances = reconstruction_scores(moved, true, (1, 2))
    cost = 0.06**2 / 2 / 3
    torch.testing.assert_close(distances, torch.tensor([0.0, 2 * cost]))
    assert [found[count]["hungarian"] for count in (1, 2)] == pytest.approx([0, cost / 2])
    assert [found[count]["chamfer"] for count in (1, 2)] == pytest.approx([0, cost])


def test_the_first_sets_alone_are_scored() -> None:
    true = torch.tensor([0.5, 0.5, 1.0]).expand(3, 4, 3)
    lost = true.clone()
    lost[2, :2] = 0
    found, _ = reconstruction_scores(lost, true, (2, 3))
    assert set(found[2].values()) == {0, 1}
    assert found[2]["right_size"] == 1
    whole = found[3]
    assert (whole["size_rmse_released"], whole["size_rmse"]) == pytest.approx(((4 / 3) ** 0.5, (4 / 3) ** 0.5))
    assert whole["right_size"] == pytest.approx(2 / 3)
    assert whole["hungarian"] == pytest.approx(2 / 4 * 1.5 / 2 / 3 / 3)  # two of four rows, of one set of three
    assert whole["chamfer"] == pytest.approx(2 / 4 * 1.5 / 2 / 3 / 3)


def test_an_element_is_present_from_one_half_on() -> None:
    presence = torch.tensor([0.0, 0.45, 0.5, 0.55, 1.0])
    sets = torch.cat([torch.full((5, 2), 0.3), presence.unsqueeze(1)], dim=1).unsqueeze(0)
    for size in range(6):
        true = torch.cat([sets[..., :2], (torch.arange(5) < size).view(1, 5, 1)], dim=2)
        for found in (scores(sets, true), scores(true, sets)):
            assert (found["size_rmse"], found["right_size"]) == (abs(size - 2), size == 2)


def test_against_brute_force(generator: torch.Generator) -> None:
    predicted, true = random_sets(5, 5, generator), random_sets(5, 5, generator)
    _, distances = reconstruction_scores(predicted, true, [5])
    for index, (a, b) in enumerate(zip(predicted, true, strict=True)):
        pairs = torch.tensor([[float((x - y).square().mean() / 2) for y in b] for x in a])  # differences below 1
        nearest = pairs.amin(dim=1).mean() + pairs.amin(dim=0).mean()
        assert float(distances[index]) == pytest.approx(float(nearest), abs=1e-6)
        best = min(float(pairs[torch.arange(5), list(order)].mean()) for order in permutations(range(5)))
        found = scores(predicted[index : index + 1], true[index : index + 1])
        assert found["hungarian"] == pytest.approx(best, abs=1e-6)
        assert found["size_rmse"] == abs(float(a[:, 2].sum() - b[:, 2].sum()))


def test_parts_do_not_matter(generator: torch.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    predicted, true = random_sets(11, 6, generator), random_sets(11, 6, generator)
    whole, assigned = distance_each(chamfer, predicted, true), scores(predicted, true)["hungarian"]
    monkeypatch.setattr(reconstruction, "PAIRS_AT_ONCE", 4 * 36)
    assert [len(part) for part, _ in reconstruction._parts(predicted, true)] == [4, 4, 3]
    torch.testing.assert_close(distance_each(chamfer, predicted, true), whole)
    assert scores(predicted, true)["hungarian"] == pytest.approx(assigned)
    monkeypatch.setattr(reconstruction, "PAIRS_AT_ONCE", 1)
    torch.testing.assert_close(distance_each(chamfer, predicted, true), whole)


def test_nan_is_named() -> None:
    true = torch.zeros(2, 3, 3)
    predicted = true.clone()
    predicted[1, 0, 0] = torch.nan
    with pytest.raises(DataError, match="NaN or infinity"):
        scores(predicted, true)
