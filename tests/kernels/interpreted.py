"""Run with TRITON_INTERPRET=1: the kernels on the CPU, against torch; prints what differs, by name.

Not a test file: Triton reads the variable when it is imported, and no kernel can have live shape checks.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext

import torch
import triton
import triton.language as tl
from torch import Tensor

torch.cuda.device = lambda _: nullcontext()  # type: ignore[misc,assignment]  # there is none to choose

from desp.kernels import layers, rank  # noqa: E402
from desp.nn import MLP  # noqa: E402
from desp.nn.element_layers import element_layers, kernel_layers, kernel_pullback  # noqa: E402
from desp.nn.ranks import kernel_ranks  # noqa: E402

Case = Callable[[], None]


@triton.jit
def saturated(count, value, scaled):  # type: ignore[no-untyped-def]
    """What the assembly of `_add_larger` does, which the interpreter cannot read; NaN saturates to zero."""
    difference = value.to(tl.float64) * 2.0**90 + scaled.to(tl.float64)
    larger = tl.where(difference > 0, tl.where(difference < 1, difference, 1.0), 0.0)
    return count + larger.to(tl.float32)


rank._add_larger = saturated
rank.LARGE = 2.0**90  # the interpreter does not take what compilers call a constant out of its wrapping


# -- ranks -----------------------------------------------------------------------------------------------

SHAPES = ((3, 0, 4), (1, 1, 1), (2, 6, 8), (2, 17, 5), (1, 16, 64), (1, 33, 66))


def stable(values: Tensor) -> Tensor:
    return values.argsort(dim=1, descending=True, stable=True).argsort(dim=1)


def check_ranks(values: Tensor) -> None:
    """Ranks are those of a stable sort, and so is the gradient of a pool that is made of them."""
    found = kernel_ranks(values)
    assert found.dtype == torch.int32
    assert torch.equal(found.long(), stable(values)), "ranks"
    table = torch.randn(values.shape[1:], dtype=values.dtype, generator=torch.Generator().manual_seed(1))
    leaf = values.clone().requires_grad_()
    pooled = (leaf.sort(dim=1, descending=True, stable=True).values * table).sum()
    expected = torch.autograd.grad(pooled, leaf)[0]
    assert torch.equal(table.expand_as(values).gather(1, found.long()), expected), "gradient"


def rank_cases() -> Iterator[tuple[str, Case]]:
    for shape in SHAPES:
        # All equal, many ties, hardly any; the other type, whose comparisons are plain.
        for levels, dtype in ((1, torch.float32), (3, torch.float32), (10**6, torch.float32), (3, torch.float64)):
            whole = torch.randint(levels, shape, generator=torch.Generator().manual_seed(0))
            values = (whole - levels / 2).to(dtype)
            yield f"ranks of {shape}, {levels} levels, {dtype}", lambda values=values: check_ranks(values)
    signed = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.0, -0.0]).repeat(4).view(1, 24, 1)
    yield "zeros of either sign are equal", lambda: check_ranks(signed)
    extremes = torch.tensor([2.0**36, 2.0**-60, -(2.0**36), 0.0, -(2.0**-60), 1.0 + 2**-23, 1.0]).repeat(3)
    yield "huge and tiny values", lambda: check_ranks(extremes.view(1, 21, 1))
    yield "what is drawn", lambda: check_ranks(torch.randn(1, 37, 5, generator=torch.Generator().manual_seed(2)))
    fake = (torch.rand(2, 5, 3),)
    yield "shapes of ranks told to compilers", lambda: check_fake(kernel_ranks, fake)


# -- layers ----------------------------------------------------------------------------------------------

# Inputs, hidden units and outputs; rows of a block are 128 and 64.
WIDTHS = ((3, 64, 32), (1, 32, 32), (5, 128, 64), (8, 64, 128))
SETS = ((1, 1), (3, 43), (2, 64), (1, 131))


def added(values: Tensor) -> Tensor:
    """Half of tf32's last place is added; the cutting off is the hardware's, and not the interpreter's."""
    return (values.float().contiguous().view(torch.int32) + 0x1000).view(torch.float32).double()


def packed_parts(mlp: MLP) -> list[Tensor]:
    return [item.detach() for layer in mlp.linears for item in (layer.weight, layer.bias)]


def reference(mlp: MLP, elements: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Values, signs and pullback in double precision, rounded where the kernels round."""
    first, first_bias, second, second_bias, third, third_bias = (item.double() for item in packed_parts(mlp))
    second, third = layers._rounded(second.float()).double(), layers._rounded(third.float()).double()
    leaky = torch.nn.functional.leaky_relu
    before = elements.double() @ first.T + first_bias
    sums = added(leaky(before, 0.01)) @ second.T + second_bias
    values = added(leaky(sums, 0.01)) @ third.T + third_bias
    slope = added(gradient) @ third
    slope = added(torch.where(sums > 0, slope, 0.01 * slope)) @ second
    return values, sums > 0, torch.where(before > 0, slope, 0.01 * slope) @ first


def check_layers(widths: tuple[int, int, int], shape: tuple[int, int]) -> None:
    """Against the same rounding closely, and against plain layers and autograd as near as tf32 is."""
    torch.manual_seed(0)
    channels, hidden, out = widths
    mlp = MLP([channels, hidden, hidden, out]).requires_grad_(False)
    # Every second number of a wider tensor: what is not contiguous must be made so.
    elements, gradient = torch.randn(*shape, 2 * channels)[..., ::2], torch.randn(*shape, 2 * out)[..., ::2]
    packed = layers.pack(packed_parts(mlp))
    with torch.no_grad():
        values, pull = element_layers(mlp, elements, packed, fused=True)
        pulled = pull(gradient)
    _, signs = kernel_layers(elements.contiguous(), packed, hidden, out)
    expected, positive, back = reference(mlp, elements, gradient)
    torch.testing.assert_close(values.double(), expected, rtol=1e-4, atol=1e-5)
    assert torch.equal(signs.bool(), positive), "signs"
    torch.testing.assert_close(pulled.double(), back, rtol=1e-4, atol=1e-5)
    leaf = elements.double().requires_grad_()
    plain = mlp.double()(leaf)
    slope = torch.autograd.grad(plain, leaf, gradient.double())[0]
    assert (values - plain).norm() < 2e-3 * plain.norm(), "far from the layers"
    assert (pulled - slope).norm() < 5e-2 * slope.norm(), "far from autograd"


@triton.jit
def round_all(values, rounded, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
    place = tl.arange(0, SIZE)
    tl.store(rounded + place, layers._to_tf32(tl.load(values + place)))


def check_rounding() -> None:
    """Added half and then cut off, a number is the nearest that tf32 has; NaN stays NaN, also one of all bits."""
    values = torch.randn(64, generator=torch.Generator().manual_seed(0))
    values[:3] = torch.tensor([0.0, float("nan"), 1.0 + 2**-11])
    values[3:4] = torch.tensor([0x7FFFFFFF], dtype=torch.int32).view(torch.float32)
    found = torch.empty_like(values)
    round_all[(1,)](values, found, SIZE=64)
    cut = (found.view(torch.int32) & ~0x1FFF).view(torch.float32)
    grid = 2.0 ** (values.abs().clamp(min=1e-30).log2().floor() - 10)
    nearest = (values / grid + 0.5 * values.sign()).trunc() * grid  # a half goes away from zero
    assert found[[1, 3]].isnan().all()
    number = ~values.isnan()
    assert torch.equal(cut[number], nearest[number])
    assert torch.equal(layers._rounded(values)[number], nearest[number])
    assert layers._rounded(values)[[1, 3]].isnan().all()


def check_fake(operator: torch.library.CustomOpDef, inputs: tuple[object, ...]) -> None:
    torch.library.opcheck(operator, inputs, test_utils=("test_schema", "test_faketensor"))


def layer_cases() -> Iterator[tuple[str, Case]]:
    for widths in WIDTHS:
        for shape in SETS if widths == WIDTHS[0] else SETS[1:2]:
            yield f"layers {widths} on {shape}", lambda w=widths, s=shape: check_layers(w, s)
    yield "rounding to tf32", check_rounding
    packed = layers.pack(packed_parts(MLP([3, 32, 32, 64])))
    elements = torch.rand(2, 5, 3)
    yield "shapes of layers told to compilers", lambda: check_fake(kernel_layers, (elements, packed, 32, 64))
    signs, slope = torch.ones(2, 5, 32, dtype=torch.int8), torch.rand(2, 5, 64)
    yield "shapes of the pullback", lambda: check_fake(kernel_pullback, (elements, packed, signs, slope))


def main() -> None:
    """Check everything; a difference does not keep the others from being found."""
    cases = [*rank_cases(), *layer_cases()]
    for name, check in cases:
        try:
            check()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            print(f"{name}: {type(error).__name__} {str(error).strip()}"[:300])  # noqa: T201
    print(f"{len(cases)} checked")  # noqa: T201


if __name__ == "__main__":
    main()
