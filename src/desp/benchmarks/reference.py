"""What we are compared with: the computations of the released code, written down plainly.

Nothing is computed once for a whole chain and no gradient is derived by hand: codes are joined to elements, knots
are interpolated for every set, and autograd gives the gradient, in every step. Bookkeeping of the released sampler
(energies, gradient norms) is left out. Weights are read from our own modules, so both compute the same thing.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from desp.energies import DeepSetsEnergy, SetEncoderEnergy, SetEnergy
from desp.errors import SettingsError
from desp.nn import FSPool, Pool
from desp.settings import ContrastiveSettings


def reference_energy(
    energy: SetEnergy, code: Float[Tensor, "b *code"], y: Float[Tensor, "b n c"]
) -> Float[Tensor, " b"]:
    """The energy of padded sets for encoded inputs.

    Raises:
        SettingsError: an energy or a pooling that the released code does not have.
    """
    if isinstance(energy, DeepSetsEnergy):
        return _deep_sets(energy, code, y)
    if isinstance(energy, SetEncoderEnergy):
        return _set_encoder(energy, code, y)
    raise SettingsError(f"The reference has no energy {type(energy).__name__}; use E_DS or E_SE.")


def _deep_sets(energy: DeepSetsEnergy, code: Tensor, y: Tensor) -> Tensor:
    if code.dim() == 2:
        code = code.unsqueeze(1).expand(-1, y.shape[1], -1)
    values = energy.element_mlp.layers(torch.cat([code, y], dim=2))
    if energy.divide_by_size:
        values = values / y.shape[1]
    features = energy.set_mlp.layers(_fspool(energy.pool, values))
    return ((features @ energy.lower.tril()) ** 2).sum(dim=1)


def _set_encoder(energy: SetEncoderEnergy, code: Tensor, y: Tensor) -> Tensor:
    encoder = energy.set_encoder
    values = encoder.mlp.layers(_pairs(y) if encoder.pairs else y)
    if encoder.divide_by_size:
        values = values / values.shape[1]
    return F.smooth_l1_loss(_fspool(encoder.pool, values), code, reduction="none").mean(dim=1)


def _pairs(y: Float[Tensor, "b n c"]) -> Float[Tensor, "b pairs joined"]:
    """Every element joined with every element."""
    size = y.shape[1]
    return torch.cat([y.repeat_interleave(size, dim=1), y.repeat(1, size, 1)], dim=2)


def _fspool(pool: Pool, values: Float[Tensor, "b n h"]) -> Float[Tensor, "b h"]:
    """Each value times the weight of its rank, summed over elements; equal values rank by index."""
    if not isinstance(pool, FSPool):
        raise SettingsError(f"The reference has no pooling {type(pool).__name__}; use FSPool.")
    ranks = torch.arange(values.shape[1], device=values.device, dtype=values.dtype)
    place = (pool.pieces * ranks / max(values.shape[1] - 1, 1)).view(1, -1, 1).expand_as(values)
    left, fraction = place.long(), place.frac()
    knots = pool.knots.T.expand(values.shape[0], -1, -1)
    lower, upper = knots.gather(1, left), knots.gather(1, (left + 1).clamp(max=pool.pieces))
    by_rank = (1 - fraction) * lower + fraction * upper
    order = values.argsort(dim=1, descending=True, stable=True)
    return (values * by_rank.scatter(1, order, by_rank)).sum(dim=1)


def reference_gradient(
    energy: SetEnergy, code: Float[Tensor, "b *code"], y: Float[Tensor, "b n c"]
) -> Float[Tensor, "b n c"]:
    """The gradient of every set's energy in that set, by autograd."""
    with torch.enable_grad():
        leaf = y.detach().requires_grad_()
        (slope,) = torch.autograd.grad(reference_energy(energy, code, leaf).sum(), leaf)
    return slope


def reference_chain(
    energy: SetEnergy,
    code: Float[Tensor, "b *code"],
    start: Float[Tensor, "b n c"],
    generator: torch.Generator,
    *,
    steps: int,
    noise_scale: float,
) -> Float[Tensor, "b n c"]:
    """The training-time chain: in every step noise, then a gradient step of size 1."""
    y = start
    for _ in range(steps):
        noise = torch.randn(y.shape, generator=generator, device=y.device, dtype=y.dtype)
        y = y + noise_scale * noise
        y = y - reference_gradient(energy, code, y)
    return y


def reference_training_step(
    energy: SetEnergy,
    optimizer: torch.optim.Optimizer,
    x: Float[Tensor, "b *input"],
    y: Float[Tensor, "b n c"],
    settings: ContrastiveSettings,
    generator: torch.Generator,
) -> Float[Tensor, ""]:
    """One whole step of contrastive training; returns the loss."""
    code, chain = energy.encode(x), settings.training_sampler
    sampled = reference_chain(
        energy, code.detach(), torch.zeros_like(y), generator, steps=chain.steps, noise_scale=chain.noise_scale
    )
    noise = torch.randn(y.shape, generator=generator, device=y.device, dtype=y.dtype)
    real = reference_energy(energy, code, y + settings.data_noise * noise).mean()
    loss = real - reference_energy(energy, code, sampled).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()
