"""A network on elements with its pullback, as one kernel where there are many elements on a GPU."""

from importlib.util import find_spec

import torch
from jaxtyping import Float
from torch import Tensor

from desp.nn.mlp import FEW, MLP, NEGATIVE_SLOPE, Pullback, from_few

KERNELS = find_spec("triton") is not None and torch.version.hip is None
# The third layer's weights and a block of activations lie on the chip together.
SHARED_BYTES = 200_000
# Fewer do not fill a GPU with one program for every 64 of them.
MANY_ELEMENTS = 16_384


def element_layers(
    mlp: MLP, elements: Float[Tensor, "b n c"], *, fused: bool
) -> tuple[Float[Tensor, "b n o"], Pullback]:
    """The network's output, and the pullback from gradients in it to gradients in its first layer's output.

    Args:
        mlp: the network.
        elements: what it is applied to.
        fused: see `SetEnergy.value_and_gradient`.
    """
    first = mlp.linears[0]
    if fused and _suits_kernel(mlp, elements):
        return _by_kernel(mlp, elements)
    return mlp.after_first(from_few(elements, first.weight) + first.bias if fused else first(elements))


def _suits_kernel(mlp: MLP, elements: Tensor) -> bool:
    linears, rows = mlp.linears, elements.shape[0] * elements.shape[1]
    if not (KERNELS and elements.is_cuda and elements.dtype == torch.float32 and rows >= MANY_ELEMENTS):
        return False
    # Nothing can be differentiated through the kernel, and it has no bfloat16.
    if torch.is_grad_enabled() or torch.is_autocast_enabled("cuda") or len(linears) != 3:
        return False
    properties = torch.cuda.get_device_properties(elements.device)
    if getattr(properties, "shared_memory_per_block_optin", 0) < SHARED_BYTES:
        return False
    hidden, out = linears[1].out_features, linears[2].out_features
    powers = all(width in (32, 64, 128, 256) for width in (hidden, out)) and out <= 128
    return powers and linears[0].out_features == hidden and 0 < elements.shape[2] <= FEW


def _by_kernel(mlp: MLP, elements: Tensor) -> tuple[Tensor, Pullback]:
    first, second, third = mlp.linears
    weights = [item.contiguous() for layer in mlp.linears for item in (layer.weight, layer.bias)]
    values, positive = kernel_layers(elements.contiguous(), weights)

    def pull(gradient: Tensor) -> Tensor:
        gradient = _leaky(gradient @ third.weight, positive > 0) @ second.weight
        return _leaky(gradient, from_few(elements, first.weight) + first.bias > 0)

    return values, pull


def _leaky(gradient: Tensor, positive: Tensor) -> Tensor:
    return torch.where(positive, gradient, NEGATIVE_SLOPE * gradient)


# An operator of its own is what compilers cannot look into: a kernel that is imported only when it is launched.
@torch.library.custom_op("desp::kernel_layers", mutates_args=())
def kernel_layers(elements: Tensor, weights: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Three layers on elements (B, N, C); also whether each unit of the second is positive, int8."""
    from desp.kernels.layers import three_layers  # needs Triton

    return three_layers(elements, weights)


@kernel_layers.register_fake
def _(elements: Tensor, weights: list[Tensor]) -> tuple[Tensor, Tensor]:
    batch, size, _ = elements.shape
    values = elements.new_empty(batch, size, weights[4].shape[0])
    return values, elements.new_empty(batch, size, weights[2].shape[0], dtype=torch.int8)
