"""Numbers as a person says them."""

from typing import Any

import pytest

from desp.comparison.words import (
    compared_words,
    numbers_to_compare,
    plus_minus,
    sentence,
    share,
    sizes_words,
    spread_verdict,
    with_interval,
)


def system(score: float, verdict: str | None = None, right: float = 1.0) -> dict[str, Any]:
    scores = {"energy_score": score, "single_error": 2 * score, "right_size": right}
    return scores | ({"verdict": verdict} if verdict else {})


def test_a_clear_win_names_neighbours_and_the_mlp_once() -> None:
    systems = {
        "desp": system(0.0311),
        "knn": system(0.081, "clearly better"),
        "random": system(0.3, "clearly better"),
        "mlp": system(0.05, "clearly better"),
    }
    assert compared_words(systems) == (
        "clearly better than nearest neighbours (energy score 0.031 against 0.081) and an MLP (error of the "
        "single answer 0.062 against 0.1)"
    )


def test_random_sets_are_named_only_where_they_are_not_worse() -> None:
    systems = {"desp": system(0.3), "knn": system(0.2, "clearly worse"), "random": system(0.301, "tie")}
    assert compared_words(systems) == (
        "clearly worse than nearest neighbours (energy score 0.3 against 0.2), not clearly better or worse "
        "than random training sets (0.301)"
    )


def test_the_own_score_has_as_many_digits_as_those_it_is_compared_with() -> None:
    """With two digits it would be 0.28, and look better than the 0.282 of random sets, which are better."""
    systems = {"desp": system(0.2849), "knn": system(0.2, "tie"), "random": system(0.2821, "tie")}
    assert compared_words(systems) == (
        "not clearly better or worse than nearest neighbours (energy score 0.285 against 0.2) and random training "
        "sets (0.282)"
    )


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((0.0311, 0.0809), ["0.031", "0.081"]),
        ((0.1234, 0.1242), ["0.123", "0.124"]),
        ((0.1234, 0.5, 0.1242), ["0.123", "0.5", "0.124"]),
        ((1.0, 1.0), ["1", "1"]),
    ],
)
def test_compared_numbers_do_not_look_the_same(numbers: tuple[float, ...], expected: list[str]) -> None:
    assert numbers_to_compare(*numbers) == expected


@pytest.mark.parametrize(
    ("value", "half", "expected"),
    [
        (0.00676, 0.0066, "0.0068 ± 0.0066"),
        (-0.00671, 0.00669, "-0.00671 ± 0.00669"),  # clearly different, so they must not look the same
        (44.93, 12.3, "45 ± 12"),
        (49.2, 20.04, "49 ± 20"),
        (4.93, 0.996, "4.9 ± 1.0"),
        (31234.5, 1234.0, "31234 ± 1234"),
        (0.5, 0.0, "0.500 ± 0.000"),
        (0.0, 0.0, "0.00 ± 0.00"),
        (12.0, 1e-9, "12.00000 ± 0.00000"),
        (-0.001, 1.2, "0.0 ± 1.2"),
        (0.00012, 0.00003, "0.000120 ± 0.000030"),
        (6.754e-6, 1.2e-7, "6.75e-6 ± 0.12e-6"),
        (1.234e6, 5.7e4, "1.234e6 ± 0.057e6"),
        (float("nan"), 0.1, "nan ± 0.1"),
        (3.0, float("nan"), "3 ± nan"),
    ],
)
def test_a_number_and_its_interval_end_at_the_same_place(value: float, half: float, expected: str) -> None:
    assert " ± ".join(plus_minus(value, half)) == expected
    assert with_interval(value, half / 2) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1.0, "100%"), (0.999, "over 99%"), (0.97, "97%"), (0.001, "under 1%"), (0.0, "0%")],
)
def test_only_all_and_nothing_are_called_so(value: float, expected: str) -> None:
    assert share(value) == expected


def test_sizes_that_are_often_wrong_stand_beside_those_of_neighbours() -> None:
    assert sizes_words({"desp": system(0, right=0.97), "knn": system(0, right=0.5)}) == "sizes right in 97%"
    wrong = {"desp": system(0, right=0.2), "knn": system(0, right=0.21)}
    assert sizes_words(wrong) == "sizes right in 20% (nearest neighbours: 21%)"


def ranks(low: float, high: float) -> list[float]:
    """Ten ranks, of which the lower half has the share `low`, the upper half `high`."""
    return [low / 5] * 5 + [high / 5] * 5


@pytest.mark.parametrize(
    ("histogram", "inputs", "words"),
    [
        (ranks(0.5, 0.5), 200, "predictions are spread like the data"),
        (ranks(0.6, 0.4), 200, "predictions are slightly too wide"),
        (ranks(0.6, 0.4), 20, "predictions are spread like the data"),  # may be chance
        (ranks(0.4, 0.6), 200, "predictions are slightly too narrow, or off"),
        (ranks(0.2, 0.8), 200, "predictions are too narrow, or off"),
        ([1.0] + [0.0] * 9, 200, "predictions are far too wide"),
    ],
)
def test_the_spread_in_words(histogram: list[float], inputs: int, words: str) -> None:
    assert spread_verdict(histogram, inputs).words == words


def test_uneven_ranks_around_the_middle_are_told() -> None:
    ends = [0.5, *[0.0] * 8, 0.5]
    found = spread_verdict(ends, 200, p_value=1e-9)
    assert found.words == "predictions are spread too widely for some inputs, too little for others"
    assert found.mean_rank == 0.5
    assert spread_verdict(ends, 200, p_value=0.5).words == "predictions are spread like the data"


def test_the_error_of_the_mean_rank_is_that_of_uniform_ranks() -> None:
    """Of ranks 0 and 1 alone: a coin's."""
    assert spread_verdict([0.5, 0.5], 100).standard_error == pytest.approx(0.05)


def test_a_sentence_of_what_is_known() -> None:
    assert sentence(["better", "", "sizes right"]) == "Better; sizes right."
    assert sentence(["", ""]) == ""
