"""Three layers as one kernel, against the layers."""

import pytest
import torch

from desp.nn import MLP
from desp.nn.element_layers import MANY_ELEMENTS, element_layers

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


@pytest.mark.parametrize("widths", [(3, 256, 256, 64), (1, 64, 64, 32), (5, 128, 128, 128)])
def test_output_and_pullback_are_those_of_the_layers(
    widths: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    mlp = MLP(widths).cuda().requires_grad_(False)
    elements = torch.rand(3, MANY_ELEMENTS // 2 + 7, widths[0], device="cuda")
    gradient = torch.randn(*elements.shape[:2], widths[-1], device="cuda")
    with torch.no_grad():
        exact, exact_pull = mlp.double().after_first(mlp.linears[0](elements.double()))
        expected = exact_pull(gradient.double())
        values, pull = element_layers(mlp.float(), elements, fused=True)
        pulled = pull(gradient)
    assert (values - exact).norm() < 2e-3 * exact.norm()  # tf32 keeps ten bits
    # Signs near zero may flip, each of which moves a gradient by a little.
    assert (pulled - expected).norm() < 1e-2 * expected.norm()


def test_what_the_kernel_cannot_do_is_left_to_the_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:
        raise AssertionError("the kernel was called")

    monkeypatch.setattr("desp.nn.element_layers.kernel_layers", forbidden)
    many = torch.rand(1, MANY_ELEMENTS, 3, device="cuda")
    with torch.no_grad():
        element_layers(MLP([3, 256, 256, 64]).cuda(), many[:, :100], fused=True)  # few elements
        element_layers(MLP([3, 100, 100, 64]).cuda(), many, fused=True)  # not a power of two
        element_layers(MLP([3, 64, 64]).cuda(), many, fused=True)  # two layers
        element_layers(MLP([3, 64, 64, 64]).double().cuda(), many.double(), fused=True)
        element_layers(MLP([3, 64, 64, 64]).cuda(), many, fused=False)
    element_layers(MLP([3, 64, 64, 64]).cuda(), many, fused=True)  # gradients may be wanted
