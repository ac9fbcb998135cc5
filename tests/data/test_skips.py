"""What was left out: counted, and the first named."""

from desp.data.skips import Skips


def test_skips_are_counted_by_reason_and_the_first_named() -> None:
    skips = Skips()
    assert (skips.total, skips.lines(), skips.summary()) == (0, [], "nothing was found")
    skips.add("rare", "x")
    for name in "abcde":
        skips.add("frequent", name)
    assert skips.total == 6
    assert skips.lines() == ["5 x frequent: a, b, c, ...", "1 x rare: x"]
    assert skips.summary() == "5 x frequent: a, b, c, ...; 1 x rare: x"


def test_a_copy_counts_for_itself() -> None:
    skips = Skips()
    skips.add("one", "a")
    other = skips.copy()
    other.add("one", "b")
    assert (skips.lines(), other.lines()) == (["1 x one: a"], ["2 x one: a, b"])
