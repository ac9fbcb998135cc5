"""Few predictions in place of many: centres of clusters of aligned predictions."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

ITERATIONS = 15


def representatives(drawn: Float[Tensor, "b m f"], count: int) -> Tensor:
    """The centres (B, K, F) of K clusters of M predictions for each of B inputs, by Lloyd's k-means.

    Independent samples leave gaps and repeat each other; centres are spread as the samples are, and the nearest of
    K centres is on average closer to the truth than the nearest of K samples. They are means, so predictions must
    be aligned: number i means the same in each.

    Args:
        drawn: samples, in random order; the first K are the initial centres.
        count: K, at most M; where it is M, the samples are returned as they are.
    """
    centres = drawn[:, :count].clone()
    if count == drawn.shape[1]:
        return centres
    for _ in range(ITERATIONS):
        members = F.one_hot(torch.cdist(drawn, centres).argmin(dim=2), count).to(drawn.dtype)  # (B, M, K)
        sizes = members.sum(dim=1).unsqueeze(-1)
        means = members.transpose(1, 2) @ drawn / sizes.clamp(min=1)
        centres = torch.where(sizes > 0, means, centres)
    return centres
