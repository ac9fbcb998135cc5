"""Maximum likelihood by contrast (equations 3 to 5): the paper's method."""

from dataclasses import replace
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor

from desp.energies import SetEnergy
from desp.methods.base import Method, MethodParts
from desp.methods.building import build_energy
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
from desp.settings.base import require_setting, require_variant


class Contrastive(Method):
    """Lowers the energy of real sets and raises that of the model's own samples.

    The gradient of log Z (equation 4) is estimated with one sample for each input, the end of a Langevin chain
    (equation 5) that starts at zero, or near the real set. Real sets carry noise, without which the density would
    be infinite on the data and flat elsewhere. With `mask_divergent`, divergent samples get no gradient.
    """

    energy: SetEnergy
    training_engine: ChainEngine

    def __init__(self, settings: ContrastiveSettings, parts: MethodParts) -> None:
        super().__init__(parts)
        self.settings = settings
        if self.shape.aligned:
            wanted = "None where outputs are aligned with inputs: other sets of a batch have other cardinalities"
            none = settings.infonce_temperature is None
            require_setting(none, "infonce_temperature", wanted, settings.infonce_temperature)
        self.energy = build_energy(settings.energy, parts)
        self.training_engine = ChainEngine(self.energy, parts.engine)
        self.prediction_engine = ChainEngine(self.energy, parts.engine, min_chains=CHAINS_AT_ONCE)

    # -- training --------------------------------------------------------------------------------------

    def forward(
        self, x: Float[Tensor, "b *input"], y: Float[Tensor, "b n c"], generator: torch.Generator
    ) -> tuple[Float[Tensor, ""], dict[str, Tensor]]:
        """Mean energy of noised data minus mean energy of samples, and what the settings add to it."""
        real = y + self.settings.data_noise * self._noise(y, generator)
        code = self.encode(x)
        start = self._training_start(code, y, generator)
        sampler = LangevinSampler(self.settings.training_sampler, self.shape.aligned)
        sampled, _ = self.training_engine.run(sampler, code.detach(), start, generator)
        energies = self.energy(torch.cat([code, code]), torch.cat([real, sampled]))
        of_real, of_sampled = energies.view(2, -1)
        statistics = {"energy_real": of_real.detach().mean(), "energy_sampled": of_sampled.detach().mean()}
        if self.settings.mask_divergent:
            divergent = self._divergent(code.detach(), sampled)
            statistics["divergent"] = divergent.to(of_real.dtype).mean()
            of_sampled = torch.where(divergent, of_sampled.detach(), of_sampled)
        loss = (1 + self.settings.real_energy_weight) * of_real.mean() - of_sampled.mean()
        temperature = self.settings.infonce_temperature
        if temperature is not None:
            contrast = self._infonce(code, real, temperature)
            statistics["infonce"] = contrast.detach()
            loss = loss + temperature * contrast
        return loss, statistics

    def _noise(self, y: Float[Tensor, "b n c"], generator: torch.Generator) -> Float[Tensor, "b n c"]:
        """Unit normal; where outputs are aligned, of the features of present elements alone."""
        noise = torch.randn(y.shape, generator=generator, device=y.device, dtype=y.dtype)
        return noise * present_feature_mask(y) if self.shape.aligned else noise

    def _training_start(
        self, code: Tensor, y: Float[Tensor, "b n c"], generator: torch.Generator
    ) -> Float[Tensor, "b n c"]:
        """Zeros, or the real sets, each with noise of its own standard deviation, drawn from `start_noise`."""
        if self.settings.start_noise is None:
            return self.start(code, presence_mask(y) if self.shape.aligned else None)
        low, high = self.settings.start_noise
        place = torch.rand((len(y), 1, 1), generator=generator, device=y.device, dtype=y.dtype)
        return y + low * (high / low) ** place * self._noise(y, generator)

    def _infonce(self, code: Tensor, real: Float[Tensor, "b n c"], temperature: float) -> Float[Tensor, ""]:
        """-log softmax of minus energies over the sets of the batch, at the input's own; mean over inputs."""
        logits = -self.energy.pairwise(code, real) / temperature
        return (logits.logsumexp(dim=1) - logits.diagonal()).mean()

    @torch.no_grad()
    def _divergent(self, code: Tensor, sampled: Tensor) -> Tensor:
        """Which samples (B,) have an element whose next step would be longer than
        `training_sampler.max_step_norm`."""
        chain = self.settings.training_sampler
        _, gradients = value_and_grad_of(self.energy, code, sampled.shape[1])(sampled)
        if self.shape.aligned:  # presence and absent elements do not move
            gradients = gradients * present_feature_mask(sampled)
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
        """Run a chain from zeros for each code, or several of which one set is made."""
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
            self.representation,
            aligned=self.shape.aligned,
        )
        self.engine_used = self.prediction_engine.used or "eager"
        return sampled
