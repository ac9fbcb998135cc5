"""Energies, densities and scores of elements in a data frame are those of lists in the order of the inputs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from small_predictors import SHORT, VARIANTS

from desp.errors import DataError
from desp.predictor import SetPredictor

pytestmark = pytest.mark.usefixtures("unchecked")
KINDS = ("chair", "lamp", "table")
EMPTY = 5
"""This input has the empty set."""


def inputs_and_elements() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Inputs r0 to r11, whose order is not that of their sorted names; shuffled elements with a category."""
    numbers = np.random.default_rng(3)
    inputs = pd.DataFrame(
        {"size": numbers.random(12), "style": ["old", "new"] * 6}, index=[f"r{row}" for row in range(12)]
    )
    owners = [row for row in range(12) for _ in range(row % 3 + 1) if row != EMPTY]
    elements = pd.DataFrame(
        {
            "u": np.float32(owners) / 12,
            "kind": [KINDS[place % 3] for place in range(len(owners))],
            "v": numbers.random(len(owners), dtype=np.float32),
        },
        index=[f"r{row}" for row in owners],
    )
    return inputs, elements.sample(frac=1, random_state=1)


def as_lists(inputs: pd.DataFrame, elements: pd.DataFrame) -> list[list[list[float]]]:
    """The sets in the order of the inputs, categories one-hot."""
    return [
        [
            [row.u, *(float(row.kind == kind) for kind in KINDS), row.v]
            for row in elements[elements.index == name].itertuples()
        ]
        for name in inputs.index
    ]


@pytest.fixture(scope="module")
def fitted_to_frames() -> SetPredictor:
    predictor = VARIANTS["attention"].predictor(device="cpu")
    predictor.fit(*inputs_and_elements(), SHORT)
    return predictor


def scored(predictor: SetPredictor, inputs: Any, sets: Any) -> list[torch.Tensor]:
    return [
        predictor.log_prob(inputs, sets, steps=4).value,
        predictor.energy(inputs, sets),
        torch.tensor(predictor.score(inputs, sets, samples=2)),
    ]


def reset(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.reset_index(names="id")


def reordered(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[frame.columns[::-1]]


@pytest.mark.parametrize("change", [lambda frame: frame, reset, reordered])
def test_frames_are_scored_as_lists_in_the_order_of_the_inputs(
    change: Callable[[pd.DataFrame], pd.DataFrame], fitted_to_frames: SetPredictor
) -> None:
    inputs, elements = inputs_and_elements()
    sets = as_lists(inputs, elements)
    assert sets[EMPTY] == []
    expected = scored(fitted_to_frames, inputs, sets)
    found = scored(fitted_to_frames, change(inputs), change(elements))
    assert all(torch.allclose(one, other, atol=1e-4) for one, other in zip(found, expected, strict=True))
    turned = fitted_to_frames.log_prob(inputs, sets[::-1], steps=4).value
    assert not torch.allclose(found[0], turned, atol=1e-2)  # so another order would show


def test_some_of_the_inputs_keep_the_categories_of_training(fitted_to_frames: SetPredictor) -> None:
    inputs, elements = inputs_and_elements()
    one = inputs[3:4]
    lamps = elements[(elements.index == "r3") & (elements["kind"] == elements.loc["r3", "kind"])]
    for some in (lamps, elements[:0]):
        expected = fitted_to_frames.energy(one, as_lists(one, some))
        assert torch.allclose(fitted_to_frames.energy(one, some), expected, atol=1e-5)


def test_frames_that_do_not_fit_those_of_training(fitted_to_frames: SetPredictor) -> None:
    inputs, elements = inputs_and_elements()
    one, single = inputs[:1], elements.loc[["r0"]]
    for given, sets, message in (
        (inputs[:3], elements, "there is no input with the id"),
        (inputs, elements.drop(columns="v"), "there is no column 'v'"),
        (inputs, elements.replace({"kind": {"lamp": "bed"}}), "is 'bed', but its known values are: chair"),
        (one, single.assign(u="wide"), "the column 'u' held numbers in training, but now it holds text"),
        (
            inputs.to_dict("records"),
            elements,
            "Pass both as data frames, or sets as a list; got inputs of type list",
        ),
    ):
        with pytest.raises(DataError, match=message):
            fitted_to_frames.energy(given, sets)


def test_names_of_elements_must_be_known(fitted_to_frames: SetPredictor) -> None:
    inputs, elements = inputs_and_elements()
    predictor = VARIANTS["attention"].predictor(device="cpu")
    predictor.fit(inputs, [np.array(item).reshape(-1, 5) for item in as_lists(inputs, elements)], SHORT)
    with pytest.raises(DataError, match=r"fitted to sets without names of columns.*in their order"):
        predictor.log_prob(inputs, elements)
