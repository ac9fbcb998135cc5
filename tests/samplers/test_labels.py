"""Which labellings are predicted, from their probabilities."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from desp.errors import SettingsError
from desp.predictor.checks import check_sampler
from desp.randomness import make_generator
from desp.runs.tune import _thresholds, is_allowed
from desp.samplers.labels import choose_labellings
from desp.settings import LabelSamplerSettings, TaggerSettings

# Of six labellings of two inputs.
PROBABILITIES = torch.tensor([[0.05, 0.5, 0.25, 0.14, 0.06, 0.0], [0.97, 0.0, 0.01, 0.02, 0.0, 0.0]])


def chosen(least: float | None, samples: int, seed: int = 0) -> list[list[int]]:
    settings = LabelSamplerSettings(least)
    return choose_labellings(PROBABILITIES.log(), settings, samples, make_generator(seed)).tolist()


@pytest.mark.parametrize(
    ("least", "first"),
    [(0.2, [1, 2, 1, 1]), (0.1, [1, 2, 3, 1]), (0.01, [1, 2, 3, 4]), (0.9, [1, 1, 1, 1]), (1.0, [1, 1, 1, 1])],
)
def test_the_most_probable_come_once_each_and_the_best_takes_the_other_places(
    least: float, first: list[int]
) -> None:
    found = chosen(least, 4)
    assert found[0] == first
    assert found[1] == ([0, 3, 2, 0] if least == 0.01 else [0, 0, 0, 0])
    assert chosen(least, 4, seed=1) == found


def test_more_predictions_than_labellings() -> None:
    assert chosen(0.001, 9)[0] == [1, 2, 3, 4, 0, 1, 1, 1, 1]


def test_samples_have_their_probabilities() -> None:
    found = torch.tensor(chosen(None, 20_000))
    shares = torch.stack([(found == number).double().mean(dim=1) for number in range(6)], dim=1)
    torch.testing.assert_close(shares, PROBABILITIES.double(), atol=0.015, rtol=0)
    assert chosen(None, 20) != chosen(None, 20, seed=1)


@given(
    st.lists(st.floats(-30, 30), min_size=1, max_size=8),
    st.integers(1, 12),
    st.floats(0.001, 1),
)
def test_what_is_predicted_is_probable_enough_or_the_best(logits: list[float], samples: int, least: float) -> None:
    values = torch.tensor([logits])
    numbers = choose_labellings(values, LabelSamplerSettings(least), samples, make_generator(0))[0]
    assert numbers.shape == (samples,)
    probabilities = values.softmax(dim=1)[0]
    best = probabilities.max()
    assert probabilities[numbers[0]] == best
    others = numbers[1:][numbers[1:] != numbers[0]]
    assert (probabilities[others] >= least).all()
    assert len(set(others.tolist())) == len(others)
    enough = int((probabilities >= least).sum())
    assert len(set(numbers.tolist())) == min(samples, max(enough, 1))


@pytest.mark.parametrize("least", [0.0, -0.1, 1.01, float("nan")])
def test_what_is_no_probability_is_refused(least: float) -> None:
    with pytest.raises(SettingsError, match=r"min_probability must be (above 0 and at most 1, or None|a finite)"):
        LabelSamplerSettings(least)


def test_which_samplers_are_deterministic() -> None:
    assert [LabelSamplerSettings(least).deterministic for least in (None, 0.5, 0.6)] == [False, False, True]


def test_which_samplers_follow_the_distribution() -> None:
    assert [LabelSamplerSettings(least).follows_distribution for least in (None, 0.1, 1)] == [True, False, False]


def test_a_tagger_knows_two_ways() -> None:
    assert TaggerSettings().deterministic
    assert not TaggerSettings(sampler=LabelSamplerSettings()).deterministic
    with pytest.raises(SettingsError, match=r"sampler.min_probability must be 1 or None for the method tagger"):
        TaggerSettings(sampler=LabelSamplerSettings(0.5))
    with pytest.raises(SettingsError, match=r"must be 1 or None for the method tagger"):
        check_sampler(LabelSamplerSettings(0.5), TaggerSettings())


def test_tuning_a_tagger_tries_what_it_can_do() -> None:
    tagger = TaggerSettings(sampler=LabelSamplerSettings())
    found = [item for item in _thresholds(tagger.sampler) if is_allowed(tagger, item)]
    assert [item.min_probability for item in found] == [None, 1]
