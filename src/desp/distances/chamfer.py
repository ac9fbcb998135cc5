"""Chamfer distance: every element to its nearest in the other set, both ways."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from desp.distances.pairwise import check_same_batch, huber_pairs, huber_rows
from desp.errors import DataError


def chamfer(
    a: Float[Tensor, "b n d"],
    b: Float[Tensor, "b m d"],
    a_presence: Bool[Tensor, "b n"] | None = None,
    b_presence: Bool[Tensor, "b m"] | None = None,
) -> Float[Tensor, " b"]:
    """Mean distance from `a` to its nearest in `b`, plus the same from `b` to `a` (paper, L_C, as means).

    Without masks all rows take part, padding included. With masks only present elements do; sizes may differ.

    Raises:
        DataError: one of two sets is empty and the other is not (both empty: 0).
    """
    check_same_batch(a, b)
    if a_presence is None and b_presence is None and a.shape[1] and b.shape[1]:
        of_a, of_b = _nearest(a, b)
        return of_a.mean(dim=1) + of_b.mean(dim=1)
    return _masked(a, b, _full(a, a_presence), _full(b, b_presence))


def chamfer_of_equal_sizes(
    a: Float[Tensor, "b n d"],
    b: Float[Tensor, "b m d"],
    a_presence: Bool[Tensor, "b n"],
    b_presence: Bool[Tensor, "b m"],
) -> Float[Tensor, " b"]:
    """`chamfer` of the present elements of sets that are known to have as many elements as their partners.

    Nothing is checked, so nothing waits for the device: a loss can be captured as a CUDA graph. Two empty sets are
    at distance 0.
    """
    check_same_batch(a, b)
    return _nearest_present(a, b, a_presence, b_presence)


def _full(values: Tensor, presence: Tensor | None) -> Tensor:
    if presence is not None:
        return presence
    return torch.ones(values.shape[:2], dtype=torch.bool, device=values.device)


def _masked(a: Tensor, b: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    row_count, column_count = rows.sum(dim=1), columns.sum(dim=1)
    if bool(((row_count == 0) != (column_count == 0)).any()):
        raise DataError(
            "Chamfer distance between an empty and a non-empty set is not defined. "
            "Compare sizes first, or pad both sets with zero vectors."
        )
    return _nearest_present(a, b, rows, columns)


def _nearest_present(a: Tensor, b: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    row_count, column_count = rows.sum(dim=1), columns.sum(dim=1)
    if a.shape[1] == 0 or b.shape[1] == 0:
        return huber_pairs(a, b).new_zeros(a.shape[0])
    of_a, of_b = _nearest(a, b, ~(rows.unsqueeze(2) & columns.unsqueeze(1)))
    # Absent elements have no nearest one and may be at infinity, which has no gradient: replaced before the sum.
    nearest_a = torch.where(rows, of_a, 0.0).sum(dim=1) / row_count.clamp(min=1)
    nearest_b = torch.where(columns, of_b, 0.0).sum(dim=1) / column_count.clamp(min=1)
    return nearest_a + nearest_b


def _nearest(
    a: Float[Tensor, "b n d"], b: Float[Tensor, "b m d"], excluded: Bool[Tensor, "b n m"] | None = None
) -> tuple[Float[Tensor, "b n"], Float[Tensor, "b m"]]:
    """The distance of each element of either set to its nearest in the other one, among pairs not `excluded`.

    Of an element whose pairs are all excluded it is arbitrary.
    """
    if not _by_index(a, b):
        pairs = _without(huber_pairs(a, b), excluded)
        return pairs.amin(dim=2), pairs.amin(dim=1)
    with torch.no_grad():
        pairs = _without(huber_pairs(a, b), excluded)
        in_b, in_a = pairs.argmin(dim=2), pairs.argmin(dim=1)
    return huber_rows(a, _TakenRows.apply(b, in_b)), huber_rows(b, _TakenRows.apply(a, in_a))


def _by_index(a: Tensor, b: Tensor) -> bool:
    """Whether only the distances that count are computed with a gradient.

    A gradient through all pairs moves several times as much memory, which is what takes the time on a GPU. By
    index, sums are in another order and have other last bits, and of several elements that are equally near one
    gets the gradient, where otherwise they share it.
    """
    return a.is_cuda and torch.is_grad_enabled() and (a.requires_grad or b.requires_grad)


def _without(pairs: Tensor, excluded: Tensor | None) -> Tensor:
    return pairs if excluded is None else pairs.masked_fill(excluded, torch.inf)


class _TakenRows(torch.autograd.Function):
    """`values` (B, N, D) at `index` (B, M): the backward of `gather` adds atomically on a GPU, in any order, so
    that equal runs would have other bits."""

    generate_vmap_rule = True

    @staticmethod
    def forward(values: Float[Tensor, "b n d"], index: Int[Tensor, "b m"]) -> Float[Tensor, "b m d"]:
        """The rows."""
        return values.gather(1, index.unsqueeze(-1).expand(-1, -1, values.shape[-1]))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        """Keep where rows came from."""
        del output
        values, index = inputs
        ctx.save_for_backward(index)
        ctx.size = values.shape[1]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """The sum of the gradients of all that was taken from a row; feature by feature, to save memory."""
        (index,) = ctx.saved_tensors
        if gradient.shape[-1] == 0:
            return gradient.new_zeros(gradient.shape[0], ctx.size, 0), None
        taken = index.unsqueeze(1) == torch.arange(ctx.size, device=index.device).view(1, -1, 1)
        columns = [torch.where(taken, column.unsqueeze(1), 0.0).sum(dim=2) for column in gradient.unbind(-1)]
        return torch.stack(columns, dim=-1), None
