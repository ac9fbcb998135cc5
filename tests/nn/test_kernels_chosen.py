"""What goes to the kernels, told without a GPU: by tensors that claim to be on one and hold nothing."""

import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from desp.nn import MLP, ranks
from desp.nn.element_layers import MANY_ELEMENTS, SHARED_BYTES, element_layers, kernel_weights

PACKED = 5


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Within this there seems to be a GPU that has what the kernels need."""
    properties = SimpleNamespace(shared_memory_per_block_optin=SHARED_BYTES)
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda _: properties)
    monkeypatch.setattr("desp.nn.element_layers.KERNELS", True)
    monkeypatch.setattr("desp.nn.ranks.KERNELS", True)
    kernels = SimpleNamespace(pack=lambda weights: weights[0].new_empty(PACKED))
    monkeypatch.setitem(sys.modules, "desp.kernels.layers", kernels)  # Triton need not be there
    with FakeTensorMode():
        yield monkeypatch


def on_gpu(mlp: MLP, dtype: torch.dtype = torch.float32) -> MLP:
    for layer in mlp.linears:
        for name, weight in list(layer.named_parameters()):
            setattr(layer, name, nn.Parameter(torch.empty(weight.shape, dtype=dtype, device="cuda")))
    return mlp


def packed(mlp: MLP, rows: int = MANY_ELEMENTS, dtype: torch.dtype = torch.float32) -> int:
    with torch.no_grad():
        return kernel_weights(on_gpu(mlp, dtype), rows).numel()


@pytest.mark.usefixtures("claims")
def test_layers_that_suit_the_kernels_go_to_them() -> None:
    for widths in ([3, 256, 256, 64], [8, 32, 32, 128], [1, 64, 64, 32]):
        assert packed(MLP(widths)) == PACKED


@pytest.mark.usefixtures("claims")
def test_layers_that_do_not_suit_the_kernels_are_left_alone() -> None:
    assert packed(MLP([3, 256, 256, 64]), MANY_ELEMENTS - 1) == 0
    for widths in (
        [3, 100, 100, 64],  # not a power of two
        [3, 512, 512, 64],  # too wide
        [3, 64, 64, 256],
        [3, 64, 128, 64],
        [9, 64, 64, 64],  # too many inputs
        [3, 64, 64],
        [3, 64, 64, 64, 64],
    ):
        assert packed(MLP(widths)) == 0
    assert packed(MLP([3, 64, 64, 64]), dtype=torch.float64) == 0
    assert packed(MLP([3, 64, 64, 64], 0.2)) == 0  # another slope
    with torch.no_grad():
        assert kernel_weights(MLP([3, 64, 64, 64]), MANY_ELEMENTS).numel() == 0  # on the CPU
    assert kernel_weights(on_gpu(MLP([3, 64, 64, 64])), MANY_ELEMENTS).numel() == 0  # gradients may be wanted


def test_a_gpu_with_too_little_memory_on_the_chip_goes_without_kernels(claims: pytest.MonkeyPatch) -> None:
    small = SimpleNamespace(shared_memory_per_block_optin=SHARED_BYTES - 1)
    claims.setattr("torch.cuda.get_device_properties", lambda _: small)
    assert packed(MLP([3, 64, 64, 64])) == 0
    claims.setattr("torch.cuda.get_device_properties", lambda _: SimpleNamespace())
    assert packed(MLP([3, 64, 64, 64])) == 0


@pytest.mark.parametrize(
    ("size", "device", "triton", "expected"),
    [
        (1, "cuda", True, True),
        (ranks.COMPARED_ON_GPU, "cuda", True, True),
        (ranks.COMPARED_ON_GPU + 1, "cuda", True, False),
        (5, "cuda", False, False),
        (5, "cpu", True, False),
        (100, "cpu", True, False),
    ],
)
def test_ranks_are_counted_where_the_kernel_is_quicker(
    claims: pytest.MonkeyPatch, size: int, device: str, triton: bool, expected: bool
) -> None:
    counted: list[Tensor] = []
    plain = ranks.kernel_ranks

    def noted(values: Tensor) -> Tensor:
        counted.append(values)
        return plain(values)

    claims.setattr("desp.nn.ranks.kernel_ranks", noted)
    claims.setattr("desp.nn.ranks.KERNELS", triton)
    if device == "cpu":
        claims.setattr("desp.nn.ranks.packed_order", lambda values: values.transpose(1, 2).long())
    values = torch.empty(2, size, 3, device=device)
    found = ranks.rank_weights(values, torch.empty(size, 3, device=device))
    assert found.shape == values.shape
    assert found.device.type == device
    assert bool(counted) == expected


@pytest.mark.parametrize(("half", "launched"), [(False, 1), (True, 0)])
def test_layers_in_bfloat16_are_not_those_of_the_kernels(
    half: bool, launched: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    monkeypatch.setattr(
        "desp.nn.element_layers._by_kernels", lambda _, given, __: calls.append(1) or (given, Tensor.clone)
    )
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=half):
        element_layers(MLP([2, 4, 4]), torch.rand(1, 3, 2), torch.ones(1), fused=True)
    assert len(calls) == launched
