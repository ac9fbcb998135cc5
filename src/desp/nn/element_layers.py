"""A network on elements with its pullback, as two kernels where there are many elements on a GPU."""

import torch
from jaxtyping import Float
from torch import Tensor

from desp.nn.mlp import FEW, MLP, NEGATIVE_SLOPE, Pullback, narrow_linear, narrow_linear_pullback
from desp.nn.ranks import KERNELS

# A block of activations lies on the chip together with the weights it is multiplied with.
SHARED_BYTES = 200_000
# Fewer do not fill a GPU with one program for every 128 of them.
MANY_ELEMENTS = 16_384


def kernel_weights(mlp: MLP, rows: int) -> Float[Tensor, " w"]:
    """The network's weights as the kernels take them; empty where the kernels are not used: for this network, this
    number of elements (`rows`), this device, or where autograd is on.

    They are computed once for a chain, outside of what is repeated.
    """
    # Nothing can be differentiated through the kernels.
    if torch.is_grad_enabled() or not _suits_kernels(mlp, rows):
        return mlp.linears[0].weight.new_empty(0)
    from desp.kernels.layers import pack  # needs Triton

    return pack([item for layer in mlp.linears for item in (layer.weight, layer.bias)])


def element_layers(
    mlp: MLP, elements: Float[Tensor, "b n c"], packed: Float[Tensor, " w"], *, fused: bool
) -> tuple[Float[Tensor, "b n o"], Pullback]:
    """The network's output, and the pullback from gradients in it to gradients in `elements`.

    Args:
        mlp: the network.
        elements: what it is applied to.
        packed: from `kernel_weights`.
        fused: see `SetField.value_and_gradient`.
    """
    plain = torch.is_grad_enabled() or torch.is_autocast_enabled(elements.device.type)  # they have no bfloat16
    if fused and not plain and packed.numel() > 0:
        return _by_kernels(mlp, elements.contiguous(), packed)
    first = mlp.linears[0]
    hidden = narrow_linear(elements, first.weight) + first.bias if fused else first(elements)
    values, pull = mlp.after_first(hidden)
    return values, lambda gradient: narrow_linear_pullback(pull(gradient), first.weight, fused=fused)


def _suits_kernels(mlp: MLP, rows: int) -> bool:
    linears, weight = mlp.linears, mlp.linears[0].weight
    if not (KERNELS and weight.is_cuda and weight.dtype == torch.float32 and rows >= MANY_ELEMENTS):
        return False
    if mlp.negative_slope != NEGATIVE_SLOPE:  # the kernels know this one alone
        return False
    properties = torch.cuda.get_device_properties(weight.device)
    if len(linears) != 3 or getattr(properties, "shared_memory_per_block_optin", 0) < SHARED_BYTES:
        return False
    hidden, out = linears[1].out_features, linears[2].out_features
    powers = all(width in (32, 64, 128, 256) for width in (hidden, out)) and out <= 128
    return powers and linears[0].out_features == hidden and 0 < linears[0].in_features <= FEW


def _by_kernels(mlp: MLP, elements: Tensor, packed: Tensor) -> tuple[Tensor, Pullback]:
    _, second, third = mlp.linears
    values, signs = kernel_layers(elements, packed, second.out_features, third.out_features)
    return values, lambda gradient: kernel_pullback(elements, packed, signs, gradient.contiguous())


# Custom operators, which torch.compile treats as opaque: kernels that are imported only when launched.
@torch.library.custom_op("desp::kernel_layers", mutates_args=())
def kernel_layers(elements: Tensor, packed: Tensor, hidden: int, out: int) -> tuple[Tensor, Tensor]:
    """Three layers on elements (B, N, C); also whether each unit of the second is positive, int8."""
    from desp.kernels.layers import three_layers  # needs Triton

    return three_layers(elements, packed, hidden, out)


@kernel_layers.register_fake
def _(elements: Tensor, packed: Tensor, hidden: int, out: int) -> tuple[Tensor, Tensor]:
    del packed
    batch, size, _ = elements.shape
    return elements.new_empty(batch, size, out), elements.new_empty(batch, size, hidden, dtype=torch.int8)


@torch.library.custom_op("desp::kernel_pullback", mutates_args=())
def kernel_pullback(elements: Tensor, packed: Tensor, signs: Tensor, gradient: Tensor) -> Tensor:
    """From gradients in the output of `kernel_layers` to gradients in its elements."""
    from desp.kernels.layers import three_layers_pullback  # needs Triton

    return three_layers_pullback(elements, packed, signs, gradient)


@kernel_pullback.register_fake
def _(elements: Tensor, packed: Tensor, signs: Tensor, gradient: Tensor) -> Tensor:
    del packed, signs, gradient
    return torch.empty_like(elements)
