"""Shared by all tests: live shape checks, one thread, and the symmetry every set function must have."""

from collections.abc import Callable, Iterator

import beartype.typing  # noqa: F401 - the checker below names it
import jaxtyping
import pytest
import torch
from hypothesis import settings

# Shapes in annotations are checked while tests run. Compiled functions cannot be traced through the checks,
# so machines with a CUDA device, where chains are compiled, go without them.
# Whole numbers pass where floats are asked for, as everywhere in Python; `Self` is not understood there.
CHECKER = (
    "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True, "
    "hint_overrides=beartype.FrozenDict({beartype.typing.Self: object})))"
)
if not torch.cuda.is_available():
    jaxtyping.install_import_hook("desp", CHECKER)

torch.set_num_threads(1)  # tiny tensors: more threads only wait for each other

settings.register_profile("desp", deadline=None, derandomize=True, max_examples=30)
settings.load_profile("desp")


@pytest.fixture
def generator() -> torch.Generator:
    """A generator with a fixed seed."""
    return torch.Generator().manual_seed(0)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Networks take their initial weights from torch's global generator."""
    torch.manual_seed(0)


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Switch the live shape checks off, for tests of what a user without them is told."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", before)


SetFunction = Callable[..., torch.Tensor]


def check_invariance(
    function: SetFunction,
    sets: torch.Tensor,
    presence: torch.Tensor | None = None,
    *,
    tolerance: float = 1e-5,
) -> None:
    """Check that `function` of sets (B, N, D) does not depend on the order of elements.

    Args:
        function: from sets, and with a mask from sets and presence, to one row for each set.
        sets: (B, N, D).
        presence: (B, N); given, `function(sets, presence)` must also ignore what absent rows hold and how
            many of them there are.
        tolerance: absolute and relative.
    """
    extra = () if presence is None else (presence,)
    expected = function(sets, *extra)
    assert expected.shape[0] == sets.shape[0]
    generator = torch.Generator().manual_seed(1)
    for _ in range(3):
        order = torch.randperm(sets.shape[1], generator=generator)
        mixed = function(sets[:, order], *(mask[:, order] for mask in extra))
        torch.testing.assert_close(mixed, expected, rtol=tolerance, atol=tolerance)
    if presence is None:
        return
    rubbish = 100 * torch.randn(sets.shape, generator=generator, dtype=sets.dtype)
    overwritten = torch.where(presence.unsqueeze(-1), sets, rubbish)
    torch.testing.assert_close(function(overwritten, presence), expected, rtol=tolerance, atol=tolerance)
    padded = torch.cat([rubbish[:, :3], sets], dim=1)
    mask = torch.nn.functional.pad(presence, (min(3, sets.shape[1]), 0))
    torch.testing.assert_close(function(padded, mask), expected, rtol=tolerance, atol=tolerance)


@pytest.fixture(scope="session")
def assert_invariant() -> Callable[..., None]:
    """`check_invariance`: one symmetry check for every pool, encoder, energy and distance."""
    return check_invariance
