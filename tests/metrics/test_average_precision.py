"""Average precision: by hand, and against the published loop over one global ranking."""

import math

import pytest
import torch
from detection_examples import (
    IOUS,
    image,
    of_boxes,
    of_states,
    plain_ap,
    plain_distance,
    plain_iou,
    random_case,
    random_states,
    state,
)
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from desp.errors import DataError, SettingsError
from desp.metrics.average_precision import (
    AP_METRICS,
    STATE_METRICS,
    average_precision,
    average_precision_of_matches,
    by_name,
    mean_over_ties,
    state_average_precision,
)
from desp.metrics.base import find_metric

DISTANCES = (math.inf, 1.0, 0.5, 0.25, 0.125)
seeds = st.integers(0, 10_000)

# -- by hand -------------------------------------------------------------------------------------------

A, B, C = [0, 0, 10, 10], [20, 0, 30, 10], [40, 0, 50, 10]
NOTHING = [70, 70, 80, 80]


def test_a_curve_with_a_dip_is_interpolated() -> None:
    """Three truths, detections in this order.

    | detection | right | precision | recall | interpolated |
    |---|---|---|---|---|
    | A | yes | 1/1 | 1/3 | 1 |
    | nothing | no | 1/2 | 1/3 | 3/5 |
    | nothing | no | 1/3 | 1/3 | 3/5 |
    | B | yes | 2/4 | 2/3 | 3/5 |
    | C | yes | 3/5 | 3/3 | 3/5 |
    """
    case = image([C, NOTHING, A, NOTHING, B], [0.1, 0.4, 0.9, 0.5, 0.2], [A, B, C])
    assert of_boxes(case)[0.5] == pytest.approx((1 + 3 / 5 + 3 / 5) / 3)


def test_what_is_never_found_adds_nothing() -> None:
    """Two of four truths: precision 1 up to recall 1/4, 2/3 up to 2/4, then 0."""
    case = image([A, NOTHING, B], [0.9, 0.8, 0.7], [A, B, C, [90, 90, 99, 99]])
    assert of_boxes(case)[0.5] == pytest.approx((1 + 2 / 3) / 4)


def test_a_truth_is_matched_once() -> None:
    """A, A again (wrong), B: precisions 1, 1/2, 2/3."""
    case = image([A, A, B], [0.9, 0.8, 0.7], [A, B])
    assert of_boxes(case)[0.5] == pytest.approx((1 + 2 / 3) / 2)


def test_a_detection_looks_at_its_best_truth_only() -> None:
    """The second box overlaps the second truth enough as well, but the first by more, and that is taken."""
    first, second = [0, 0, 10, 10], [4, 0, 14, 10]
    between = [1, 0, 11, 10]  # 90/110 with the first, 70/130 with the second
    assert plain_iou(between, second) >= 0.5
    case = image([first, between], [0.9, 0.8], [first, second])
    assert of_boxes(case, [0.5])[0.5] == pytest.approx(1 / 2)


def test_thresholds_are_reached_by_equality() -> None:
    """IoUs 5/10, 6/10, ... 9/10 in images of their own, in single precision."""
    names = ("predicted", "confidence", "detected", "truth", "truth_mask")
    cases = [image([[0, 0, 1, part]], [part], [[0, 0, 1, 10]]) for part in (5, 6, 7, 8, 9)]
    case = {name: torch.cat([item[name] for item in cases]) for name in names}
    case |= {name: case[name].float() for name in ("predicted", "confidence", "truth")}
    assert of_boxes(case) == pytest.approx({0.5: 1.0, 0.6: 0.8, 0.7: 0.6, 0.8: 0.4, 0.9: 0.2})


def test_the_iou_is_not_rounded_to_single_precision() -> None:
    """The threshold is what double precision gives for corners of single precision."""
    boxes = torch.rand(40, 2, 4, generator=torch.Generator().manual_seed(0)) / 4 + torch.tensor([0, 0, 0.5, 0.5])
    one = torch.ones(1, 1)
    for a, b in boxes:
        iou = plain_iou(a.tolist(), b.tolist())
        assert average_precision(a.view(1, 1, 4), one, one.bool(), b.view(1, 1, 4), one.bool(), [iou]) == {iou: 1}


def test_the_ranking_is_one_for_all_images() -> None:
    """A wrong detection of an image without truth comes first: precisions 0, 1/2, 2/3."""
    case = {
        "predicted": torch.tensor([[A, B], [NOTHING, NOTHING]]).double(),
        "confidence": torch.tensor([[0.5, 0.4], [0.9, 1.0]]),
        "detected": torch.tensor([[True, True], [True, False]]),
        "truth": torch.tensor([[A, B], [NOTHING, NOTHING]]).double(),
        "truth_mask": torch.tensor([[True, True], [False, False]]),
    }
    assert of_boxes(case)[0.5] == pytest.approx(2 / 3)
    # Averaged over the images it would be 1 of the first alone.
    assert of_boxes({name: value[:1] for name, value in case.items()})[0.5] == 1


def test_the_distance_of_states_is_in_scene_units() -> None:
    case = image([state(0.26)], [1.0], [state(0)])
    assert of_states(case) == {math.inf: 1, 1.0: 1, 0.5: 1, 0.25: 0, 0.125: 0}


def test_the_distance_of_states_is_reached_by_equality() -> None:
    """Three times an eighth, along y."""
    case = image([[0, 0.125, 0, *state(0)[3:]]], [1.0], [state(0)])
    found = state_average_precision(*list(case.values()), distances=[0.376, 0.375, 0.374])
    assert found == {0.376: 1, 0.375: 1, 0.374: 0}


@pytest.mark.parametrize("wrong", ["colour", "shape", "size", "material"])
def test_every_attribute_must_be_right(wrong: str) -> None:
    case = image([state(0, **{wrong: 1})], [1.0], [state(0)])
    assert set(of_states(case).values()) == {0}
    assert set(of_states(image([state(0, **{wrong: 1})], [1.0], [state(0, **{wrong: 1})])).values()) == {1}


def test_states_look_at_the_nearest_truth_of_their_attributes_only() -> None:
    """The second detection is nearest to a truth that is taken; another of the same attributes stays free."""
    case = image([state(0), state(0.1)], [0.9, 0.8], [state(0), state(1)])
    assert of_states(case)[math.inf] == pytest.approx(1 / 2)
    # A truth of another colour is not looked at, however near.
    case = image([state(0), state(0.1)], [0.9, 0.8], [state(0, colour=1), state(1)])
    assert of_states(case)[1.0] == pytest.approx(1 / 2)


# -- against the slow implementation -------------------------------------------------------------------


@given(seed=seeds, ties=st.booleans(), levels=st.sampled_from([1, 3, 1000]))
def test_boxes_against_loops(seed: int, ties: bool, levels: int) -> None:
    """Its ranking runs over all images: within an image it is all that matching needs."""
    case = random_case(seed, levels=levels, ties=ties)
    for threshold, value in of_boxes(case, (0.25, *IOUS, 1.0)).items():
        assert value == pytest.approx(plain_ap(case, plain_iou, threshold))


@given(seed=seeds)
def test_states_against_loops(seed: int) -> None:
    case = random_states(seed)
    found = of_states(case)
    assert tuple(found) == DISTANCES
    for distance, value in found.items():
        assert value == pytest.approx(plain_ap(case, lambda a, b: -plain_distance(a, b), -distance))


def test_the_random_cases_are_not_all_alike() -> None:
    """Else the comparisons above would say nothing."""
    boxes = [of_boxes(random_case(seed))[0.5] for seed in range(50)]
    states = [of_states(random_states(seed))[0.5] for seed in range(50)]
    for values in (boxes, states):
        assert len({round(value, 6) for value in values}) > 15
        assert 0.1 < sum(values) / 50 < 0.9


# -- symmetries ----------------------------------------------------------------------------------------


@given(seed=seeds)
def test_images_in_any_order(seed: int) -> None:
    case = random_case(seed, ties=True)
    order = torch.randperm(len(case["truth"]), generator=torch.Generator().manual_seed(seed))
    assert of_boxes({name: value[order] for name, value in case.items()}) == of_boxes(case)


@given(seed=seeds)
def test_slots_in_any_order(seed: int) -> None:
    """All confidences are equal; distinct ties, which are moved along, have the effect of distinct confidences."""
    case = random_case(seed, levels=1, ties=True)
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(case["confidence"].shape[1], generator=generator)
    moved = {name: value if name.startswith("truth") else value[:, order] for name, value in case.items()}
    assert of_boxes(moved) == of_boxes(case)


@given(seed=seeds)
def test_only_the_order_of_confidences_matters(seed: int) -> None:
    case = random_case(seed)
    moved = {**case, "confidence": torch.logit(case["confidence"].double(), eps=1e-3) * 7 - 2}
    assert of_boxes(moved) == of_boxes(case)


@given(seed=seeds)
def test_padding_does_not_matter(seed: int) -> None:
    case = random_case(seed)
    rubbish = {"predicted": math.nan, "confidence": math.nan, "truth": math.nan, "detected": 0, "truth_mask": 0}
    padded = {
        name: torch.cat(
            [torch.full_like(value[:, :1].expand(-1, 1, *value.shape[2:]), rubbish[name]), value], dim=1
        )
        if value.shape[1]
        else value
        for name, value in case.items()
    }
    assert of_boxes(padded) == of_boxes(case)


# -- ties ----------------------------------------------------------------------------------------------


def test_ties_are_in_the_order_of_their_keys() -> None:
    case = image([NOTHING, A], [0.5, 0.5], [A])
    assert of_boxes(case)[0.5] == 1 / 2  # as the slots are
    for keys, expected in (([1, 2], 1 / 2), ([2, 1], 1), ([1, 1], 1 / 2)):
        assert of_boxes({**case, "ties": torch.tensor([keys])})[0.5] == expected


def test_the_mean_over_ties_is_that_of_its_orders() -> None:
    case = random_case(3, levels=1)
    assert case["detected"].sum() > 3
    generator = torch.Generator().manual_seed(5)
    seen: list[Tensor] = []

    def score(ties: Tensor) -> dict[float, float]:
        seen.append(ties)
        return of_boxes({**case, "ties": ties})

    found = mean_over_ties(score, case["confidence"], generator)
    assert len(seen) == 10
    assert len({tuple(order.flatten().tolist()) for order in seen}) == 10
    for threshold, value in found.items():
        assert value == pytest.approx(sum(of_boxes({**case, "ties": o})[threshold] for o in seen) / 10)
    again = mean_over_ties(score, case["confidence"], torch.Generator().manual_seed(5))
    assert again == found


def test_random_orders_are_even() -> None:
    """One right and one wrong: 1 or 1/2, each in half of the orders."""
    case = image([NOTHING, A], [0.5, 0.5], [A])
    generator = torch.Generator().manual_seed(0)
    found = mean_over_ties(
        lambda ties: of_boxes({**case, "ties": ties}), case["confidence"], generator, orders=200
    )
    assert found[0.5] == pytest.approx(3 / 4, abs=0.04)


def test_distinct_confidences_have_no_ties() -> None:
    case = image([NOTHING, A], [0.6, 0.5], [A])
    found = mean_over_ties(
        lambda ties: of_boxes({**case, "ties": ties}), case["confidence"], torch.Generator().manual_seed(0)
    )
    assert found[0.5] == 1 / 2


# -- nothing, NaN, and mistakes ------------------------------------------------------------------------


def test_no_detections() -> None:
    case = image([A], [0.5], [A])
    assert set(of_boxes({**case, "detected": torch.zeros(1, 1, dtype=torch.bool)}).values()) == {0}
    empty = {name: value[:, :0] for name, value in case.items() if not name.startswith("truth")}
    assert set(of_boxes({**case, **empty}).values()) == {0}


@pytest.mark.parametrize("truths", [0, 2])
def test_no_truth_at_all(truths: int) -> None:
    case = image([A], [0.5], [A, B])
    none = {"truth": case["truth"][:, :truths], "truth_mask": torch.zeros(1, truths, dtype=torch.bool)}
    with pytest.raises(DataError, match="at least one true element"):
        of_boxes({**case, **none})


def test_nan_never_matches() -> None:
    case = image([A, B], [0.9, 0.8], [A, B])
    case["predicted"][0, 0, 2] = math.nan
    assert of_boxes(case)[0.5] == pytest.approx(1 / 2 / 2)
    for column in (0, 3, 4):  # a coordinate, and the numbers of an attribute
        states = image([state(0), state(5)], [0.9, 0.8], [state(0), state(5)])
        states["predicted"][0, 0, column] = math.nan
        assert of_states(states)[math.inf] == pytest.approx(1 / 2 / 2)


def test_infinite_distances_and_confidences() -> None:
    states = image([state(math.inf), state(5)], [math.inf, -math.inf], [state(0), state(5)])
    assert of_states(states)[math.inf] == pytest.approx(1 / 2 / 2)


def test_pairs_that_never_match() -> None:
    """Minus infinity and NaN are no match even at a threshold of minus infinity."""
    quality = torch.tensor([[[-math.inf, math.nan]], [[-5.0, math.nan]]])
    one, mask = torch.ones(2, 1), torch.ones(2, 2, dtype=torch.bool)
    found = average_precision_of_matches(quality, one, one.bool(), mask, [-math.inf])
    assert found[-math.inf] == pytest.approx(1 / 2 / 4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"confidence": torch.tensor([[0.5, math.nan]])}, "confidence of a detection is NaN"),
        ({"ties": torch.tensor([[0.5, math.nan]])}, "ties of a detection is NaN"),
        ({"confidence": torch.zeros(1, 3)}, r"confidence: expected shape \(1, 2\), got \(1, 3\)"),
        ({"ties": torch.zeros(2, 2)}, r"ties: expected shape \(1, 2\), got \(2, 2\)"),
        ({"detected": torch.ones(2, dtype=torch.bool)}, r"detected: expected shape \(1, 2\), got \(2,\)"),
        ({"truth_mask": torch.ones(1, 3, dtype=torch.bool)}, r"truth_mask: expected shape \(1, 2\), got \(1, 3\)"),
        ({"truth": torch.full((1, 2, 4), math.nan)}, "truth holds NaN"),
        ({"truth": torch.zeros(1, 2, 5)}, r"truth: expected shape \(1 images, slots, 4 features\)"),
        ({"predicted": torch.zeros(3, 2, 4)}, r"predictions: expected shape \(1 images, .* got \(3, 2, 4\)"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_unusable_detections(changes: dict[str, Tensor], message: str) -> None:
    case = {**image([A, B], [0.9, 0.8], [A, B]), **changes}
    with pytest.raises(DataError, match=message):
        of_boxes(case)


@pytest.mark.parametrize("threshold", [0.0, -0.5, 1.1, math.nan])
def test_unusable_thresholds(threshold: float) -> None:
    with pytest.raises(SettingsError, match="IoU thresholds must be above 0 and at most 1, got"):
        of_boxes(image([A], [0.5], [A]), [0.5, threshold])


def test_unusable_distances_and_orders() -> None:
    case = image([state(0)], [0.5], [state(0)])
    with pytest.raises(SettingsError, match="distances must be 0 or more, got -1"):
        state_average_precision(*list(case.values()), distances=[-1.0])
    with pytest.raises(SettingsError, match="orders must be 1 or more, got 0"):
        mean_over_ties(lambda _: {}, case["confidence"], torch.Generator(), orders=0)


# -- their names ---------------------------------------------------------------------------------------


def test_metrics_have_names() -> None:
    assert [metric.name for metric in AP_METRICS] == ["ap50", "ap60", "ap70", "ap80", "ap90"]
    assert [metric.name for metric in STATE_METRICS] == ["ap_inf", "ap1", "ap05", "ap025", "ap0125"]
    for metric in (*AP_METRICS, *STATE_METRICS):
        assert (metric.direction, metric.unit) == ("higher", 0.01)
        assert find_metric([metric], f"{metric.name}_20_steps") == find_metric([metric], f"{metric.name}_exact")
        assert find_metric([metric], f"{metric.name}_20_steps") is metric
        assert find_metric((*AP_METRICS, *STATE_METRICS), f"{metric.name}_first100") == metric


def test_values_under_their_names() -> None:
    boxes = of_boxes(image([[0, 0, 1, 7]], [0.5], [[0, 0, 1, 10]]))
    assert by_name(AP_METRICS, boxes) == {"ap50": 1, "ap60": 1, "ap70": 1, "ap80": 0, "ap90": 0}
    states = of_states(image([state(0.3)], [0.5], [state(0)]))
    assert by_name(STATE_METRICS, states) == {"ap_inf": 1, "ap1": 1, "ap05": 1, "ap025": 0, "ap0125": 0}
