"""Three layers as one kernel, against the layers."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from desp.nn import MLP, narrow_linear
from desp.nn.element_layers import MANY_ELEMENTS, element_layers, kernel_weights
from desp.nn.mlp import Pullback, narrow_linear_pullback

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.fixture
def _tf32() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("widths", [(3, 256, 256, 64), (1, 64, 64, 32), (5, 128, 128, 128)])
@pytest.mark.usefixtures("_tf32")
def test_output_and_pullback_are_as_good_as_those_of_the_layers(widths: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    mlp = MLP(widths).cuda().requires_grad_(False)
    first = mlp.linears[0]
    elements = torch.rand(3, MANY_ELEMENTS // 2 + 7, widths[0], device="cuda")
    gradient = torch.randn(*elements.shape[:2], widths[-1], device="cuda")

    def errors(values: Tensor, pull: Pullback) -> tuple[Tensor, Tensor]:
        return (values - exact).norm() / exact.norm(), (pull(gradient) - expected).norm() / expected.norm()

    with torch.no_grad():
        exact, exact_pull = mlp.double().after_first(first(elements.double()))
        expected = exact_pull(gradient.double()) @ first.weight
        mlp.float()
        # Both round to tf32, after which some units near zero have another sign than they should.
        values, pull = mlp.after_first(narrow_linear(elements, first.weight) + first.bias)
        plain = errors(values, lambda slope: narrow_linear_pullback(pull(slope), first.weight, fused=True))
        packed = kernel_weights(mlp, elements.shape[0] * elements.shape[1])
        assert packed.numel() > 0
        kernel = errors(*element_layers(mlp, elements, packed, fused=True))
    assert kernel[0] < 1.5 * plain[0] < 1e-3
    assert kernel[1] < 1.5 * plain[1] < 5e-2


def test_what_the_kernels_cannot_do_is_left_to_the_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    with torch.no_grad():
        assert kernel_weights(MLP([3, 256, 256, 64]).cuda(), 100).numel() == 0  # few elements
        assert kernel_weights(MLP([3, 100, 100, 64]).cuda(), MANY_ELEMENTS).numel() == 0  # not a power of two
        assert kernel_weights(MLP([3, 64, 64]).cuda(), MANY_ELEMENTS).numel() == 0  # two layers
        assert kernel_weights(MLP([3, 64, 64, 64]).double().cuda(), MANY_ELEMENTS).numel() == 0
    mlp = MLP([3, 64, 64, 64]).cuda()
    assert kernel_weights(mlp, MANY_ELEMENTS).numel() == 0  # gradients may be wanted
    with torch.no_grad():
        packed = kernel_weights(mlp, MANY_ELEMENTS)
    called: list[object] = []
    monkeypatch.setattr("desp.nn.element_layers._by_kernels", lambda mlp, *_: called.append(mlp))
    many = torch.rand(1, MANY_ELEMENTS, 3, device="cuda")
    with torch.no_grad():
        element_layers(mlp, many, packed, fused=False)
    element_layers(mlp, many, packed, fused=True)  # gradients may be wanted
    assert called == []
    with torch.no_grad():
        element_layers(mlp, many, packed, fused=True)
    assert called == [mlp]
