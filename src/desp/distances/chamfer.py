"""Chamfer distance: every element to its nearest in the other set, both ways."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from desp.distances.pairwise import check_same_batch, huber_pairs
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
    pairs = huber_pairs(a, b)
    if a_presence is None and b_presence is None and a.shape[1] and b.shape[1]:
        return pairs.amin(dim=2).mean(dim=1) + pairs.amin(dim=1).mean(dim=1)
    return _masked(pairs, _full(a, a_presence), _full(b, b_presence))


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
    return _nearest_present(huber_pairs(a, b), a_presence, b_presence)


def _full(values: Tensor, presence: Tensor | None) -> Tensor:
    if presence is not None:
        return presence
    return torch.ones(values.shape[:2], dtype=torch.bool, device=values.device)


def _masked(pairs: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    row_count, column_count = rows.sum(dim=1), columns.sum(dim=1)
    if bool(((row_count == 0) != (column_count == 0)).any()):
        raise DataError(
            "Chamfer distance between an empty and a non-empty set is not defined. "
            "Compare sizes first, or pad both sets with zero vectors."
        )
    return _nearest_present(pairs, rows, columns)


def _nearest_present(pairs: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    row_count, column_count = rows.sum(dim=1), columns.sum(dim=1)
    if pairs.shape[1] == 0 or pairs.shape[2] == 0:
        return pairs.new_zeros(pairs.shape[0])
    infinite = pairs.masked_fill(~(rows.unsqueeze(2) & columns.unsqueeze(1)), torch.inf)
    # Rows of absent elements are all infinite: replaced before the sum, as infinity has no gradient.
    nearest_a = torch.where(rows, infinite.amin(dim=2), 0.0).sum(dim=1) / row_count.clamp(min=1)
    nearest_b = torch.where(columns, infinite.amin(dim=1), 0.0).sum(dim=1) / column_count.clamp(min=1)
    return nearest_a + nearest_b
