"""The kernel that counts ranks, against a stable sort."""

import pytest
import torch

from desp.nn.ranks import kernel_ranks, rank_weights

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.mark.parametrize(
    "shape",
    [(3, 0, 4), (2, 6, 8), (3, 17, 5), (2, 64, 256), (5, 342, 64), (1, 1000, 70), (2, 33, 1), (1, 2100, 3)],
)
@pytest.mark.parametrize("levels", [1, 3, 10**6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ranks_are_those_of_a_stable_sort(shape: tuple[int, int, int], levels: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    values = (torch.randint(levels, shape, generator=generator) - levels / 2).to(dtype).cuda()
    expected = values.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
    assert torch.equal(kernel_ranks(values).long(), expected)
    table = torch.randn(shape[1:], generator=generator, dtype=dtype).cuda()
    assert torch.equal(rank_weights(values, table), rank_weights(values.cpu(), table.cpu()).cuda())
