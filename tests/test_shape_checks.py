"""The live shape checks find what they are for, also in functions inside functions."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from jaxtyping import Float, TypeCheckError, jaxtyped
from torch import Tensor

import shape_checks
from desp.distances import chamfer
from shape_checks import _kept, checked

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
    @shape_checks.jaxtyped(typechecker=checked)
    def inner(value: kind) -> Float[Tensor, " n"]:
        return value + added

    return inner


def test_an_inner_function_is_checked_when_it_is_defined(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the types that it has this time; and it is the new one that is called."""
    monkeypatch.setattr(shape_checks, "DEFINITIONS", 100)
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


def shortened(a: Float[Tensor, "b n"], wrong: list[bool], *, by: int = 0) -> Float[Tensor, "b n"]:
    return a[:, by + wrong[0] :]


def test_a_function_is_checked_once_in_a_test_for_the_same_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    function, vectors, wrong = shape_checks.jaxtyped(typechecker=checked)(shortened), torch.rand(2, 3), [False]

    def is_checked(*given: Any, **named: Any) -> bool:
        monkeypatch.setattr(shape_checks, "_like", lambda item: plain(item) if item is not wrong else None)
        wrong[0] = True
        try:
            function(*given, **named)
        except TypeCheckError:
            return True
        return False

    plain = shape_checks._like
    assert is_checked(vectors, wrong)  # what was wrong is checked again
    wrong[0] = False
    function(vectors, wrong)
    assert not is_checked(vectors.clone(), wrong)
    assert is_checked(torch.rand(2, 4), wrong)
    assert is_checked(vectors.double(), wrong)
    assert is_checked(vectors, wrong, by=1)
    monkeypatch.setattr(shape_checks.Test, "number", shape_checks.Test.number + 1)
    assert is_checked(vectors, wrong)


def test_the_first_definitions_of_an_inner_function_in_a_test_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    def is_checked() -> bool:
        try:
            inner_function(Float[Tensor, "n m"], 1.0)(torch.zeros(2))
        except TypeCheckError:
            return True
        return False

    checks = [is_checked() for _ in range(2 * shape_checks.DEFINITIONS)]
    assert checks == [True] * shape_checks.DEFINITIONS + [False] * shape_checks.DEFINITIONS
    monkeypatch.setattr(shape_checks.Test, "number", shape_checks.Test.number + 1)
    assert is_checked()
