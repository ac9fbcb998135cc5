"""The rule of valid answers, applied to probabilities of attributes."""

import sys
from pathlib import Path

import pytest
import torch

from desp.data.subsets import attribute_bits, candidate_subsets, valid_subsets
from desp.metrics.subsets import subset_scores

FOLDER = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(FOLDER))
import celeba_rule  # noqa: E402

sys.path.remove(str(FOLDER))


def random_attributes(count: int) -> torch.Tensor:
    return torch.rand(count, 5, 6, generator=torch.Generator().manual_seed(0)) < 0.7


def test_what_is_certain_has_the_valid_answers_alone() -> None:
    has = random_attributes(200)
    bits = attribute_bits(has.flatten(end_dim=1)).view(200, 5)
    valid = valid_subsets(bits, 6)
    shares = celeba_rule.validity(has.float(), torch.Generator().manual_seed(1), 3)
    assert torch.equal(shares > 0.5, valid)
    assert torch.equal(shares.unique(), torch.tensor([0.0, 1.0]))
    some = valid.any(dim=1) & (valid.sum(dim=1) <= 10)
    found = celeba_rule.predictions(shares[some], 0.01)
    assert found.shape == (int(some.sum()), 10, 5)
    scores = subset_scores(found, candidate_subsets(5), valid[some])
    assert (scores["precision"], scores["recall"]) == (1, 1)


def test_what_is_uncertain_is_valid_as_often_as_it_is_drawn() -> None:
    probabilities = random_attributes(1).float()
    probabilities[0, 0, 0] = 0.3
    with_it, without = probabilities.clone(), probabilities.clone()
    with_it[0, 0, 0], without[0, 0, 0] = 1, 0
    generator = torch.Generator().manual_seed(2)
    first, second = (celeba_rule.validity(item, generator, 1) for item in (with_it, without))
    shares = celeba_rule.validity(probabilities, generator, 4000)
    assert not torch.equal(first, second)
    assert torch.allclose(shares, 0.3 * first + 0.7 * second, atol=0.03)


def test_factor_and_threshold_are_chosen_on_validation_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two answers are valid, the second with a small share: only a low threshold finds both."""
    valid = torch.zeros(3, 16, dtype=torch.bool)
    valid[:, :2] = True
    shares = torch.zeros(3, 16)
    shares[:, 0], shares[:, 1] = 0.93, 0.07

    class Sets:
        pass

    asked = []

    def sets(_: object, part: str, factor: float) -> tuple[Sets, torch.Tensor]:
        asked.append((part, factor))
        found = Sets()
        found.valid = valid  # type: ignore[attr-defined]
        return found, shares if factor == 2 else shares.flip(dims=[1])  # with others the answers are wrong

    monkeypatch.setattr(celeba_rule, "_sets", sets)
    scores = celeba_rule.measure_rule(None)  # type: ignore[arg-type]
    assert asked == [*(("validation", factor) for factor in celeba_rule.FACTORS), ("test", 2)]
    assert scores["threshold"] == 0.02
    assert (scores["f1"], scores["ambiguous/f1"]) == (1, 1)
