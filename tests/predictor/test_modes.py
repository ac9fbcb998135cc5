"""Predictions grouped into modes, on clusters made by hand."""

import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from desp.distances import SET_DISTANCES
from desp.errors import DataError, SettingsError
from desp.predictor.modes import SQUARES, Mode, group_modes
from desp.settings import Distance

both_distances = pytest.mark.parametrize("distance", SET_DISTANCES)


def centres(count: int, size: int = 5, seed: int = 0) -> list[Tensor]:
    """Unrelated sets in the unit square."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.rand(size, 2, generator=generator) for _ in range(count)]


def around(centre: Tensor, count: int, noise: float = 0.005, seed: int = 0) -> list[Tensor]:
    """Noisy copies of a set, each with its elements in another order."""
    generator = torch.Generator().manual_seed(seed)
    return [
        (centre + noise * torch.randn(centre.shape, generator=generator))[
            torch.randperm(len(centre), generator=generator)
        ]
        for _ in range(count)
    ]


def clusters(shares: Sequence[int], noise: float = 0.005) -> tuple[list[Tensor], list[set[int]]]:
    """Sets around as many centres as `shares` has, and which belong together, shuffled."""
    made = [
        (label, item)
        for label, (centre, count) in enumerate(zip(centres(len(shares)), shares, strict=True))
        for item in around(centre, count, noise, seed=label)
    ]
    order = torch.randperm(len(made), generator=torch.Generator().manual_seed(9)).tolist()
    labels = [made[index][0] for index in order]
    together = [{place for place, label in enumerate(labels) if label == wanted} for wanted in range(len(shares))]
    return [made[index][1] for index in order], together


def ring(count: int, corners: int = 4) -> list[Tensor]:
    """Regular polygons, evenly rotated through all that look different."""
    corner = torch.arange(corners) * 2 * math.pi / corners
    turns = [corner + 2 * math.pi / corners * index / count for index in range(count)]
    return [torch.stack([angles.cos(), angles.sin()], dim=1) for angles in turns]


def members(modes: list[Mode]) -> list[set[int]]:
    return [set(mode.members) for mode in modes]


# -- clusters ------------------------------------------------------------------------------------------


@both_distances
@pytest.mark.parametrize("shares", [(7, 3), (6, 3, 2), (9, 5, 4, 1), (30, 20, 10)])
@pytest.mark.parametrize("noise", [0.0, 0.001, 0.01, 0.02])
def test_clusters_are_found(distance: Distance, shares: tuple[int, ...], noise: float) -> None:
    sets, together = clusters(shares, noise)
    modes = group_modes(sets, torch.arange(len(sets)).float(), distance=distance)
    assert members(modes) == together
    assert [mode.fraction for mode in modes] == [count / sum(shares) for count in shares]


@both_distances
@pytest.mark.parametrize("factor", [1e-3, 255.0, 1e6])
@pytest.mark.parametrize("offset", [0.0, 30.0])
def test_units_and_origin_do_not_matter(distance: Distance, factor: float, offset: float) -> None:
    """Beyond differences of one the set distances are linear; modes are not."""
    sets, together = clusters((6, 3, 2))
    moved = [(item.double() + offset) * factor for item in sets]
    assert members(group_modes(moved, distance=distance)) == together
    by_hand = group_modes(moved, distance=distance, threshold=0.05 * factor)
    assert members(by_hand) == together


def test_a_far_outlier_does_not_hide_the_clusters() -> None:
    sets, together = clusters((6, 3))
    modes = group_modes([*sets, sets[0] + 1000])
    assert members(modes) == [*together, {9}]


def test_large_sets_are_told_apart_by_their_nearest_neighbours() -> None:
    """In a crowd every element of an unrelated set is near: what counts is the spacing, not the extent."""
    one, other = centres(2, size=80)
    assert members(group_modes([*around(one, 4), *around(other, 3)])) == [{0, 1, 2, 3}, {4, 5, 6}]


def test_chamfer_cannot_count_repeated_elements() -> None:
    a, b = torch.tensor([[0.0, 0.0], [1.0, 1.0]])
    sets = [torch.stack([a, a, b]), torch.stack([a, b, b])]
    assert len(group_modes(sets)) == 1
    assert len(group_modes(sets, distance="hungarian")) == 2


def test_a_continuum_is_one_mode_once_it_is_sampled_densely() -> None:
    assert [len(group_modes(ring(count))) for count in (2, 4, 40)] == [2, 4, 1]


def test_a_chain_joins_its_ends() -> None:
    sets = [torch.tensor([[0.0, 0.0], [1.0, 1.0]]) + 0.02 * step for step in range(50)]
    assert len(group_modes(sets)) == 1
    assert len(group_modes([sets[0], sets[-1]])) == 2


# -- the representative and the order ------------------------------------------------------------------


def test_the_representative_has_the_lowest_energy() -> None:
    sets, together = clusters((5, 3))
    energies = torch.linspace(3, -3, 8)
    for mode, expected in zip(group_modes(sets, energies), together, strict=True):
        assert mode.energy == energies[max(expected)].item()
        assert mode.set is sets[max(expected)]
        assert list(mode.members) == sorted(expected)


def test_without_energies_the_medoid() -> None:
    shifts = [0.0, 0.01, 0.012, 0.013, 0.03]
    square = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    (mode,) = group_modes([square + shift for shift in shifts])
    torch.testing.assert_close(mode.set, square + 0.012)
    assert math.isnan(mode.energy)


def test_equal_shares_by_energy() -> None:
    a, b, c = centres(3)
    sets = [a, b, c, a, b, c]
    modes = group_modes(sets, torch.tensor([1.0, -2.0, 0.0, 1.5, 7.0, 0.5]))
    assert [mode.energy for mode in modes] == [-2.0, 0.0, 1.0]
    assert members(group_modes(sets)) == [{0, 3}, {1, 4}, {2, 5}]


# -- thresholds ----------------------------------------------------------------------------------------


@both_distances
def test_the_threshold_is_a_root_mean_square_in_the_units_of_the_sets(distance: Distance) -> None:
    """Far apart elements moved by 3 in both coordinates are 3 apart, moved in one 3 / sqrt(2)."""
    a = torch.tensor([[0.0, 0.0], [0.0, 100.0], [100.0, 0.0]])
    both, one = a + 3, a + torch.tensor([3.0, 0.0])
    for other, apart in ((both, 3.0), (one, 3 / math.sqrt(2))):
        assert len(group_modes([a, other], distance=distance, threshold=apart * 1.001)) == 1
        assert len(group_modes([a, other], distance=distance, threshold=apart * 0.999)) == 2


@both_distances
def test_sets_on_both_sides_of_the_origin_are_as_far_apart_as_they_are(distance: Distance) -> None:
    """Twice their largest number: where the set distance must not have become linear."""
    sets = [torch.tensor([[1.0]]), torch.tensor([[-1.0]])]
    assert len(group_modes(sets, distance=distance, threshold=1.8)) == 2
    assert len(group_modes(sets, distance=distance, threshold=2.001)) == 1


def test_every_distance_has_its_factor() -> None:
    assert SQUARES.keys() == SET_DISTANCES.keys()


def test_thresholds_by_hand_join_and_split() -> None:
    sets = ring(4)
    assert [len(group_modes(sets, threshold=value)) for value in (0, 0.1, 10, math.inf)] == [4, 4, 1, 1]


@pytest.mark.parametrize(("apart", "count"), [(0.04, 1), (0.15, 1), (0.17, 2), (0.6, 2)])
def test_two_predictions_are_split_in_the_middle_of_both_bounds(apart: float, count: int) -> None:
    """Four corners of the unit square have a spacing of 1/2, so the threshold is 0.158 / 2."""
    square = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    assert len(group_modes([square, square + apart / 2])) == count


def test_the_widest_gap_decides_between_the_bounds() -> None:
    """Two alone would be split at 0.079: a gap above 0.09 raises that, and a gap below 0.07 lowers it."""
    square = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    joined = group_modes([square + shift for shift in (0.0, 0.05, 0.14, 0.6)])
    parted = group_modes([square + shift for shift in (0.0, 0.01, 0.08, 0.23)])
    assert members(joined) == [{0, 1, 2}, {3}]
    assert members(parted) == [{0, 1}, {2}, {3}]


@pytest.mark.parametrize("rounding", [0.0, 1e-12, -1e-12])
def test_of_equal_gaps_the_upper_one_decides(rounding: float) -> None:
    """In the middle between both bounds, in logarithms, a merge leaves two gaps of the same width."""
    square = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    low, high = 0.05 / 2, 0.5 / 2
    middle = math.sqrt(low * high) * (1 + rounding)
    assert len(group_modes([square, square + middle])) == 1
    thirds = [low * 10 ** (1 / 3), low * 10 ** (2 / 3)]
    assert len(group_modes([square, square + thirds[0], square + sum(thirds)])) == 1


# -- sizes, and few predictions ------------------------------------------------------------------------


@both_distances
@pytest.mark.parametrize("threshold", [None, 100.0, math.inf])
def test_sizes_separate_modes(distance: Distance, threshold: float | None) -> None:
    """A zero vector more or less looks like padding, and is still an element."""
    three = torch.tensor([[0.2, 0.3], [0.9, 0.1], [0.5, 0.5]])
    four = torch.cat([three, torch.zeros(1, 2)])
    modes = group_modes([three, four, three, three, four], distance=distance, threshold=threshold)
    assert members(modes) == [{0, 2, 3}, {1, 4}]
    assert [len(mode.set) for mode in modes] == [3, 4]


@both_distances
def test_empty_sets_are_a_mode(distance: Distance) -> None:
    empty, full = torch.zeros(0, 2), torch.tensor([[0.5, 0.5]])
    modes = group_modes([empty, full, empty], torch.tensor([1.0, 0.0, 2.0]), distance=distance)
    assert members(modes) == [{0, 2}, {1}]
    assert modes[0].set.shape == (0, 2)
    (only,) = group_modes([empty, empty], distance=distance)
    assert (only.fraction, only.members) == (1.0, (0, 1))


@both_distances
@pytest.mark.parametrize("size", [1, 2, 6])
def test_identical_predictions_are_one_mode(distance: Distance, size: int) -> None:
    (mode,) = group_modes(around(centres(1, size)[0], 12, noise=0.0), torch.zeros(12), distance=distance)
    assert (mode.fraction, mode.members) == (1.0, tuple(range(12)))


@both_distances
@pytest.mark.parametrize("size", [1, 2, 6])
@pytest.mark.parametrize("noise", [1e-7, 1e-4, 5e-3])
def test_nearly_identical_predictions_are_one_mode(distance: Distance, size: int, noise: float) -> None:
    assert len(group_modes(around(centres(1, size)[0], 20, noise), distance=distance)) == 1


@pytest.mark.parametrize("only", [torch.zeros(0, 3), torch.zeros(2, 3), torch.ones(1, 3), torch.rand(4, 1)])
def test_one_prediction(only: Tensor) -> None:
    (mode,) = group_modes([only], torch.tensor([-4.0]))
    assert mode.set is only
    assert (mode.fraction, mode.energy, mode.members) == (1.0, -4.0, (0,))


def test_one_element_sets() -> None:
    points = [0.2, 0.21, 0.8, 0.81, 0.805]
    assert members(group_modes([torch.tensor([[point]]) for point in points])) == [{2, 3, 4}, {0, 1}]


def test_sets_of_zeros() -> None:
    assert members(group_modes([torch.zeros(2, 2), torch.zeros(1, 2), torch.zeros(2, 2)])) == [{0, 2}, {1}]


def test_predictions_with_gradients_and_of_low_precision() -> None:
    a, b = centres(2)
    modes = group_modes([a.bfloat16(), b.requires_grad_(), a.double()], torch.zeros(3, requires_grad=True))
    assert members(modes) == [{0, 2}, {1}]


# -- whatever comes ------------------------------------------------------------------------------------

numbers = st.one_of(st.integers(-3, 3).map(float), st.floats(-2, 2, allow_subnormal=False, width=32))
elements = st.lists(st.tuples(numbers, numbers), max_size=3)
predictions = st.lists(elements, min_size=1, max_size=9).map(
    lambda sets: [torch.tensor(item, dtype=torch.float64).reshape(-1, 2) for item in sets]
)
thresholds = st.sampled_from([None, 0.0, 0.3, 5.0])


@both_distances
@given(sets=predictions, threshold=thresholds)
def test_members_partition_the_predictions(
    distance: Distance, sets: list[Tensor], threshold: float | None
) -> None:
    modes = group_modes(sets, torch.arange(len(sets)).float(), distance=distance, threshold=threshold)
    assert sorted(index for mode in modes for index in mode.members) == list(range(len(sets)))
    assert sum(mode.fraction for mode in modes) == pytest.approx(1)
    assert [mode.fraction for mode in modes] == sorted((mode.fraction for mode in modes), reverse=True)
    for mode in modes:
        assert {len(sets[index]) for index in mode.members} == {len(mode.set)}
        assert mode.energy == min(mode.members)


@both_distances
@given(sets=predictions, seed=st.integers(0, 100))
def test_no_order_matters(distance: Distance, sets: list[Tensor], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    energies, order = torch.arange(len(sets)).float(), torch.randperm(len(sets), generator=generator)
    mixed = [sets[index][torch.randperm(len(sets[index]), generator=generator)] for index in order.tolist()]
    expected = group_modes(sets, energies, distance=distance)
    modes = group_modes(mixed, energies[order], distance=distance)
    assert [{int(order[index]) for index in mode.members} for mode in modes] == members(expected)
    assert [mode.energy for mode in modes] == [mode.energy for mode in expected]


# -- mistakes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sets", "energies", "message"),
    [
        ([], torch.zeros(0), "at least one set"),
        ([torch.zeros(2, 2)], torch.zeros(2), r"one energy for each of 1 sets, got shape \(2,\)"),
        ([torch.zeros(2, 2)] * 2, torch.zeros(2, 1), r"one energy for each of 2 sets, got shape \(2, 1\)"),
        ([torch.zeros(2, 2), torch.zeros(2, 3)], torch.zeros(2), "set 1 has 3 features"),
        (
            [torch.zeros(2, 2), torch.tensor([[0.0, math.nan]])],
            torch.zeros(2),
            "set 1: element 0, feature 1 holds NaN",
        ),
        ([torch.tensor([[0.0], [math.inf]])], torch.zeros(1), "set 0: element 1, feature 0 holds NaN or infinity"),
        ([torch.zeros(3)], torch.zeros(1), "set 0: expected two dimensions"),
        ([torch.tensor(3.0)], torch.zeros(1), "set 0: expected two dimensions"),
        ([torch.zeros(2, 2)] * 3, torch.tensor([0.0, 1.0, math.nan]), "energy of set 2 is NaN"),
        ([torch.zeros(2, 2)] * 2, torch.tensor([math.inf, 0.0]), "energy of set 0 is NaN or infinity"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_unusable_predictions(sets: list[Tensor], energies: Tensor, message: str) -> None:
    with pytest.raises(DataError, match=message):
        group_modes(sets, energies)


@pytest.mark.parametrize("threshold", [-0.1, math.nan])
def test_unusable_thresholds(threshold: float) -> None:
    with pytest.raises(SettingsError, match="threshold must be 0 or more"):
        group_modes([torch.zeros(2, 2)], threshold=threshold)


@pytest.mark.usefixtures("unchecked")
def test_unknown_distances() -> None:
    with pytest.raises(SettingsError, match="distance must be one of chamfer, hungarian, got 'euclid'"):
        group_modes([torch.zeros(2, 2)], distance="euclid")  # type: ignore[arg-type]
