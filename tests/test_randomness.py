"""Seeds as a pure function of names and numbers."""

import itertools

import pytest
import torch

from desp.randomness import derive_seed, make_generator, seeded_weights


def test_values_never_change() -> None:
    # Results on file depend on these numbers: a change breaks every resumed run.
    assert derive_seed(0) == 6711488920161924273
    assert derive_seed(0, "chain", 3) == 6769842467404581013


def test_different_paths_have_different_seeds() -> None:
    parts = (0, 1, -1, 10, "0", "1", "data", "chain", "")
    paths = [path for length in (1, 2, 3) for path in itertools.product(parts, repeat=length)]
    assert len({derive_seed(*path) for path in paths}) == len(paths)


def test_seeds_fit_a_generator() -> None:
    seeds = [derive_seed("many", k) for k in range(1000)]
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert max(seeds).bit_length() == 63


def test_generators_draw_what_their_path_says() -> None:
    draws = [torch.rand(4, generator=make_generator(*path)) for path in ((1, "a"), (1, "a"), (2, "a"))]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert make_generator(1, device="cpu").device.type == "cpu"


def test_a_generator_is_made_where_it_is_asked_for() -> None:
    """Without a GPU: torch has no generator on the meta device, and says so."""
    with pytest.raises(RuntimeError, match=r"(?i)meta"):
        make_generator(1, device="meta")


def test_weights_are_drawn_by_their_path_and_no_generator_is_left_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not those of GPUs either, which `torch.manual_seed` seeds and nothing puts back."""
    seeded: list[int] = []
    monkeypatch.setattr("torch.cuda.manual_seed_all", seeded.append)
    before = torch.default_generator.get_state()
    with seeded_weights(3, "weights"):
        drawn = torch.rand(5)
    assert torch.equal(drawn, torch.rand(5, generator=make_generator(3, "weights")))
    assert torch.equal(torch.default_generator.get_state(), before)
    assert seeded == []
