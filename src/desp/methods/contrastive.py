"""Maximum likelihood by contrast (equations 3 to 5): the paper's method."""

from dataclasses import replace
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor

from desp.energies import SetEnergy
from desp.methods.base import Method, MethodParts, build_energy
from desp.samplers import (
    CHAINS_AT_ONCE,
    ChainEngine,
    ChainInfo,
    LangevinSampler,
    Record,
    sample_restarts,
    value_and_grad_of,
)
from desp.sets import presence_mask, present_feature_mask
from desp.settings import ContrastiveSettings, LangevinSettings, SamplerSettings
from desp.settings.base import require_variant


class Contrastive(Method):
    """Lowers the energy of real sets and raises that of the model's own samples.

    The gradient of log Z (equation 4) is estimated with one sample for each input, the end of a Langevin chain
    (equation 5) that starts at zero. Real sets carry noise, without which the density would be infinite on the
    data and flat elsewhere. Divergent samples may get no gradient.
    """

    energy: SetEnergy
    training_engine: ChainEngine

    def __init__(self, settings: ContrastiveSettings, parts: MethodParts) -> None:
        super().__init__(parts)
        self.settings = settings
        self.energy = build_energy(settings.energy, parts)
        self.training_engine = ChainEngine(self.energy, parts.engine)
        self.prediction_engine = ChainEngine(self.energy, parts.engine, min_chains=CHAINS_AT_ONCE)

    # -- training --------------------------------------------------------------------------------------

    def forward(
        self, x: Float[Tensor, "b *input"], y: Float[Tensor, "b n c"], generator: torch.Generator
    ) -> tuple[Float[Tensor, ""], dict[str, Tensor]]:
        """Mean energy of noised data minus mean energy of samples."""
        aligned = self.shape.aligned
        noise = torch.randn(y.shape, generator=generator, device=y.device, dtype=y.dtype)
        if aligned:
            noise = noise * present_feature_mask(y)
        real = y + self.settings.data_noise * noise
        code = self.encode(x)
        start = self.start(code, presence_mask(y) if aligned else None)
        sampler = LangevinSampler(self.settings.training_sampler, aligned)
        sampled, _ = self.training_engine.run(sampler, code.detach(), start, generator)
        energies = self.energy(torch.cat([code, code]), torch.cat([real, sampled]))
        of_real, of_sampled = energies.view(2, -1)
        statistics = {"energy_real": of_real.detach().mean(), "energy_sampled": of_sampled.detach().mean()}
        if self.settings.mask_divergent:
            divergent = self._divergent(code.detach(), sampled)
            statistics["divergent"] = divergent.to(of_real.dtype).mean()
            of_sampled = torch.where(divergent, of_sampled.detach(), of_sampled)
        return of_real.mean() - of_sampled.mean(), statistics

    @torch.no_grad()
    def _divergent(self, code: Tensor, sampled: Tensor) -> Tensor:
        """Which samples (B,) have an element whose next step would be longer than
        `training_sampler.max_step_norm`."""
        chain = self.settings.training_sampler
        _, gradients = value_and_grad_of(self.energy, code, sampled.shape[1])(sampled)
        longest = (chain.step_size * gradients).norm(dim=2).amax(dim=1)
        return longest > cast(float, chain.max_step_norm)

    def set_training_steps(self, steps: int) -> None:
        """Count the gradients to come."""
        self.training_engine.expected_gradients = steps * self.settings.training_sampler.steps

    def divergence_reason(self, numbers: dict[str, float]) -> str | None:
        """Too many samples diverge: the energy is too steep for prediction, too, and masking does not mend it."""
        fraction = numbers.get("divergent", 0.0)
        if fraction <= self.settings.max_divergent_fraction:
            return None
        return (
            f"{fraction:.1%} of the samples diverge and are masked, more than method.max_divergent_fraction: the "
            "energy is too steep for the chains' steps. If method.training_sampler.max_step_norm is "
            "below method.data_noise, raise it."
        )

    # -- prediction ------------------------------------------------------------------------------------

    def sample_batch(
        self,
        code: Tensor,
        generator: torch.Generator,
        sampler: SamplerSettings | None,
        record: Record,
        presence: Tensor | None,
    ) -> tuple[Tensor, ChainInfo]:
        """Run a chain from zeros for each code, or several restarts to make one set of."""
        settings = require_variant(sampler or self.settings.sampler, LangevinSettings, "sampler")
        # Restarts of a chain without noise would all be the same.
        restarts = settings.restarts if settings.noise_at(0) > 0 else 1
        start = self.start(code, presence)
        chain = LangevinSampler(replace(settings, restarts=1), self.shape.aligned)
        sampled = sample_restarts(
            lambda: self.prediction_engine.run(chain, code, start, generator, record, len(code) * restarts),
            lambda sets: self.energy(code, sets),
            restarts,
            settings.aggregate,
            self.padding,
            aligned=self.shape.aligned,
        )
        self.engine_used = self.prediction_engine.used or "eager"
        return sampled
