"""The score of Digits, styles, and set sizes."""

import statistics

import pytest
import torch

from desp.data.digits import SEVEN, draw_digits, draw_styles
from desp.metrics.digits import digit_score, digit_style, style_distances, templates
from desp.metrics.sizes import size_rmse

CPU = torch.device("cpu")


def test_a_template_is_at_distance_zero_under_its_own_draw() -> None:
    for digit in (0, 1):
        for style in (0, 1):
            sets = templates(CPU)[digit, style]  # ten draws
            distances = style_distances(sets, torch.full((10,), digit))
            own = distances[torch.arange(10), style, torch.arange(10)]
            assert float(own.abs().max()) == 0
            assert float(distances[torch.arange(10), 1 - style].min()) > 1e-5


def test_the_score_takes_the_nearer_style_of_every_draw() -> None:
    batch = draw_digits(6, torch.Generator().manual_seed(0))
    digits = batch.x.argmax(dim=1)
    distances = style_distances(batch.sets.elements, digits)
    expected = [sum(min(float(row[0, draw]), float(row[1, draw])) for draw in range(10)) / 10 for row in distances]
    assert digit_score(batch.sets.elements, digits).tolist() == pytest.approx(expected)


def test_the_nearer_style_is_chosen_for_each_draw_anew() -> None:
    """Real digits are always nearer to their own style; between a crossed seven and a plain one, draws differ."""
    sets = draw_styles(SEVEN, 60, torch.Generator().manual_seed(0))[1]
    sets[:, 48:] *= torch.linspace(0, 1, 60).view(-1, 1, 1)  # what the second style adds goes to zero
    digits = torch.ones(60, dtype=torch.int64)
    distances = style_distances(sets, digits)
    nearer = distances.argmin(dim=1)
    assert (nearer != nearer[:, :1]).any()
    expected = [statistics.fmean(min(pair) for pair in zip(*row, strict=True)) for row in distances.tolist()]
    assert digit_score(sets, digits).tolist() == pytest.approx(expected)
    of_means = distances.mean(dim=2).amin(dim=1)
    assert float((of_means / digit_score(sets, digits)).max()) > 1.001  # else all is one number


def test_the_style_is_that_of_most_draws() -> None:
    """Not of the nearest: a set near one draw of a style, and far from the others, is not of that style."""
    sets = draw_styles(SEVEN, 100, torch.Generator().manual_seed(0))[1]
    sets[:, 48:] *= torch.linspace(0.3, 0.32, 100).view(-1, 1, 1)
    digits = torch.ones(100, dtype=torch.int64)
    distances = style_distances(sets, digits)
    expected = [int(statistics.fmean(plain) > statistics.fmean(crossed)) for plain, crossed in distances.tolist()]
    assert digit_style(sets, digits).tolist() == expected
    assert [int(min(plain) > min(crossed)) for plain, crossed in distances.tolist()] != expected


def test_templates_are_the_same_every_time() -> None:
    before = templates(CPU)
    templates.cache_clear()
    torch.manual_seed(5)
    assert torch.equal(templates(CPU), before)


def test_real_data_score_and_style() -> None:
    batch = draw_digits(2000, torch.Generator().manual_seed(0))
    digits = batch.x.argmax(dim=1)
    score = float(digit_score(batch.sets.elements, digits).mean())
    assert score == pytest.approx(9.4e-5, rel=0.05)
    # Ones with a hook and sevens with a bar have all 64 points.
    style = (batch.sets.sizes == 64).long()
    found = digit_style(batch.sets.elements, digits)
    assert float((found == style).double().mean()) >= 0.99


def test_the_wrong_digit_scores_far_worse() -> None:
    batch = draw_digits(100, torch.Generator().manual_seed(0))
    digits = batch.x.argmax(dim=1)
    right = digit_score(batch.sets.elements, digits)
    wrong = digit_score(batch.sets.elements, 1 - digits)
    assert float(wrong.min()) > float(right.max())


def test_size_rmse() -> None:
    true = torch.tensor([3, 3, 5, 5])
    assert size_rmse(true, true) == 0
    assert size_rmse(torch.tensor([4, 2, 5, 5]), true) == pytest.approx(0.5**0.5)
    assert size_rmse(torch.tensor([0, 0, 0, 0]), true) == pytest.approx(17**0.5)


def test_distances_do_not_depend_on_how_many_sets_are_compared_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = draw_digits(5, torch.Generator().manual_seed(0))
    sets, digits = batch.sets.elements, batch.x.argmax(dim=1)
    whole = style_distances(sets, digits)
    monkeypatch.setattr("desp.metrics.digits.SETS_AT_ONCE", 2)
    torch.testing.assert_close(style_distances(sets, digits), whole, rtol=0, atol=0)
