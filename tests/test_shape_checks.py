"""The live shape checks find what they are for, also in functions inside functions."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from jaxtyping import Float, TypeCheckError, jaxtyped
from torch import Tensor

import shape_checks
from desp.distances import chamfer
from shape_checks import EVERY, FIRST, _kept, checked

live = pytest.mark.skipif(torch.cuda.is_available(), reason="there are no live checks beside CUDA")


def joined(a: Float[Tensor, "b n d"], b: Float[Tensor, "b m d"], *, flat: bool = False) -> Float[Tensor, "b k d"]:
    found = torch.cat([a, b], dim=1)
    return found.flatten(1) if flat else found


def wrong_width(a: Float[Tensor, "b n"]) -> Float[Tensor, "b n"]:
    return a[:, :-1]


def test_arguments_and_results_are_checked_against_each_other() -> None:
    function = jaxtyped(typechecker=checked)(joined)
    assert function(torch.rand(2, 3, 4), torch.rand(2, 1, 4)).shape == (2, 4, 4)
    with pytest.raises(TypeCheckError, match="parameters"):
        function(torch.rand(2, 3, 4), torch.rand(2, 1, 5))
    with pytest.raises(TypeCheckError, match="return value"):
        function(torch.rand(2, 3, 4), torch.rand(2, 1, 4), flat=True)
    with pytest.raises(TypeCheckError, match="return value"):  # whose sizes are those of the arguments
        jaxtyped(typechecker=checked)(wrong_width)(torch.rand(2, 3))


def inner_function(kind: Any, added: float) -> Callable[[Any], Any]:
    @jaxtyped(typechecker=checked)
    def inner(value: kind) -> Float[Tensor, " n"]:
        return value + added

    return inner


def test_an_inner_function_is_checked_whenever_it_is_defined() -> None:
    """By the types that it has this time; and it is the new one that is called."""
    kept = []
    for _ in range(2):
        vectors, matrices = Float[Tensor, " n"], Float[Tensor, "n m"]
        for added in (1.0, 2.0):
            assert inner_function(vectors, added)(torch.zeros(2)).tolist() == [added] * 2
            with pytest.raises(TypeCheckError, match="parameters"):
                inner_function(vectors, added)(torch.zeros(2, 2))
            with pytest.raises(TypeCheckError, match="return value"):
                inner_function(matrices, added)(torch.zeros(2, 2))
        kept.append(len(_kept))
    assert kept[0] == kept[1]  # nothing is made twice


@live
def test_the_library_is_checked() -> None:
    with pytest.raises(TypeCheckError, match="chamfer"):
        chamfer(torch.rand(2, 3, 4), torch.rand(2, 3, 5))


def test_first_calls_in_a_test_are_checked_and_some_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    function, wrong = (
        shape_checks.jaxtyped(typechecker=checked)(joined),
        (torch.rand(2, 3, 4), torch.rand(3, 1, 4)),
    )

    def is_checked() -> bool:
        with pytest.raises((TypeCheckError, RuntimeError)) as found:  # torch cannot join them either
            function(*wrong)
        return found.type is TypeCheckError

    calls = [is_checked() for _ in range(2 * EVERY)]
    assert [number for number, found in enumerate(calls, 1) if found] == [*range(1, FIRST + 1), EVERY, 2 * EVERY]
    monkeypatch.setattr(shape_checks.Test, "number", shape_checks.Test.number + 1)
    assert is_checked()
