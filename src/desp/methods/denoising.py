"""Denoising score matching: a noise-conditional energy, or a plain denoiser; no chains in training."""

from dataclasses import replace
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from desp.energies import SetEnergy, SetField
from desp.errors import SettingsError
from desp.methods.base import NO_DENSITY, Method, SetSpec, build_energy, true_presence
from desp.methods.contrastive import PredictionEngines
from desp.nn import SIGMA_FEATURES, AttentionNetwork, Cache, CardinalityHead, prefix_mask
from desp.samplers import (
    ChainInfo,
    EDMSampler,
    GradientFor,
    LogDensity,
    Preconditioning,
    Record,
    eager_gradient,
    log_density,
)
from desp.settings import (
    DenoiserSettings,
    DenoisingSettings,
    DiffusionSettings,
    EDMSettings,
    Engine,
    SamplerSettings,
)
from desp.settings.base import require_variant

# Sets whose densities are followed at once, as derivatives of the gradient keep a tape.
DENSITIES_AT_ONCE = 200


class Diffusion(Method):
    """What both denoising methods share: noise levels, the loss, p(n | x), the sampler.

    Levels are weighted such that the network's targets have unit variance (Karras et al. 2022).
    """

    field: SetField
    engines: PredictionEngines

    def __init__(
        self,
        settings: DiffusionSettings,
        encoder: nn.Module,
        code_shape: tuple[int, ...],
        sets: SetSpec,
        engine: Engine = "auto",
    ) -> None:
        super().__init__(settings, encoder, code_shape, sets, engine)
        self.settings: DiffusionSettings = settings
        self.preconditioning = Preconditioning(settings.sigma_data, settings.predicts_cardinality)

    def _add_cardinality(self, code_features: int) -> None:
        """p(n | x), made after the network, so that weights are drawn in that order."""
        settings, head = self.settings, None
        if settings.predicts_cardinality:
            head = CardinalityHead(code_features, self.sets.max_size, settings.width)
        self.cardinality = head

    # -- training --------------------------------------------------------------------------------------

    def forward(
        self, x: Float[Tensor, "b *input"], y: Float[Tensor, "b n c"], generator: torch.Generator
    ) -> tuple[Float[Tensor, ""], dict[str, Tensor]]:
        """Mean squared error of the network over all that carries noise, and -log p(n | x)."""
        edm, code, sigma = self.preconditioning, self.encode(x), self._sigmas(y, generator)
        mask, clean = edm.noise_mask(y), edm.to_symmetric(y)
        u = edm.add_noise(clean, mask, sigma, generator)
        _, network = edm.network(self._gradient_for(y.shape[1]), code, u, mask, sigma)
        c_skip, c_out = edm.c_skip_out(sigma)
        errors = (network - (clean - c_skip * u) / c_out).square() * mask
        loss = errors.sum() / mask.sum().clamp(min=1)
        statistics = {"denoising": loss.detach()}
        if self.cardinality is not None:
            cardinality_loss = self.cardinality.loss(code, true_presence(y).sum(dim=1))
            statistics["cardinality"] = cardinality_loss.detach()
            loss = loss + self.settings.cardinality_weight * cardinality_loss
        return loss, statistics

    def _gradient_for(self, size: int) -> GradientFor:
        return partial(eager_gradient, self.field, size=size)

    def _sigmas(self, y: Tensor, generator: torch.Generator) -> Tensor:
        """One log-normal sigma for each set, spread evenly over the batch's quantiles.

        Which set of the batch gets which quantile changes with each batch, as datasets may not shuffle.
        """
        first = torch.arange(len(y), device=y.device, dtype=y.dtype)
        shift, turn = torch.rand(2, len(y), generator=generator, device=y.device, dtype=y.dtype)
        quantiles = ((first + shift) / len(y) + turn[0]) % 1
        places = torch.special.ndtri(quantiles.clamp(1e-6, 1 - 1e-6))
        return (self.settings.p_mean + self.settings.p_std * places).exp()

    # -- prediction ------------------------------------------------------------------------------------

    def sample_part(
        self, code: Tensor, generator: torch.Generator, sampler: SamplerSettings | None, record: Record
    ) -> tuple[Tensor, ChainInfo]:
        """The cardinality, where it is predicted, then from noise to sets."""
        settings = require_variant(sampler or self.settings.sampler, EDMSettings, "sampler")
        engine = self.engines.suitable(len(code))
        start = self._start(code, generator, settings)
        sampled = engine.run(EDMSampler(settings, self.preconditioning), code, start, generator, record)
        self.engine_used = engine.used or "eager"
        return sampled

    def _start(self, code: Tensor, generator: torch.Generator, settings: EDMSettings) -> Tensor:
        """Zeros, with the presence of as many elements as were predicted."""
        size = self.sets.max_size
        start = torch.zeros(len(code), size, self.sets.channels, device=code.device, dtype=code.dtype)
        if self.cardinality is not None:
            mode = settings.cardinality == "mode"
            sizes = self.cardinality.mode(code) if mode else self.cardinality.sample(code, generator)
            start[..., -1] = prefix_mask(sizes, size)
        return start


class EnergyDenoising(Diffusion):
    """The gradient of a noise-conditional energy learns to remove noise of every level from real sets.

    At each sigma the gradient then is that of -log p of the noised data (Vincent 2011), with no partition function
    to estimate.
    """

    settings: DenoisingSettings

    def __init__(
        self,
        settings: DenoisingSettings,
        encoder: nn.Module,
        code_shape: tuple[int, ...],
        sets: SetSpec,
        engine: Engine = "auto",
    ) -> None:
        super().__init__(settings, encoder, code_shape, sets, engine)
        conditioned = (*code_shape[:-1], code_shape[-1] + SIGMA_FEATURES)
        options = (
            {"known_presence": True} if settings.predicts_cardinality and settings.energy.masks_absent else {}
        )
        self.energy = build_energy(settings.energy, sets, conditioned, **options)
        self._add_cardinality(code_shape[-1])
        self.engines = PredictionEngines(self.energy, engine)

    @property
    def field(self) -> SetEnergy:  # type: ignore[override]
        """The energy."""
        return self.energy

    def energies_part(self, code: Tensor, y: Tensor) -> Tensor:
        """-log p at `energy_sigma`, up to a constant for each input and cardinality."""
        gradient = self._gradient_for(y.shape[1])
        return self.preconditioning.negative_log_density(gradient, code, y, self.settings.energy_sigma)

    def log_prob(
        self, code: Tensor, y: Float[Tensor, "b n c"], generator: torch.Generator, steps: int, probes: int
    ) -> LogDensity:
        """log p of padded sets for codes, in the units of padded sets, p(n | x) included.

        A set of n elements is n! ordered ones, all of the same density.

        Raises:
            SettingsError: the energy is not smooth, or the cardinality is not predicted.
        """
        if not self.settings.has_density or self.cardinality is None:
            raise SettingsError(NO_DENSITY)
        gradient, settings = self._gradient_for(y.shape[1]), replace(self.settings.sampler, steps=steps)
        values, errors = [], []
        for codes, some in zip(code.split(DENSITIES_AT_ONCE), y.split(DENSITIES_AT_ONCE), strict=True):
            sizes = true_presence(some).sum(dim=1)
            of_size = self.cardinality(codes).gather(1, sizes.unsqueeze(1)).squeeze(1).detach()
            density = log_density(
                self.preconditioning, gradient, codes, some, generator, settings=settings, probes=probes
            )
            values.append(density.value + torch.lgamma(sizes.to(some.dtype) + 1) + of_size)
            errors.append(density.error)
        return LogDensity(torch.cat(values), torch.cat(errors))


class Denoiser(Diffusion):
    """A network outputs F of every element itself, which need not be the gradient of anything.

    A gradient costs a backward pass, and in training a pass through that one; here it is the network's output.
    """

    settings: DenoiserSettings

    def __init__(
        self,
        settings: DenoiserSettings,
        encoder: nn.Module,
        code_shape: tuple[int, ...],
        sets: SetSpec,
        engine: Engine = "auto",
    ) -> None:
        super().__init__(settings, encoder, code_shape, sets, engine)
        conditioned = (*code_shape[:-1], code_shape[-1] + SIGMA_FEATURES)
        network = AttentionNetwork(
            settings.network,
            sets.channels,
            conditioned,
            known_presence=settings.predicts_cardinality,
            outputs=sets.channels,
        )
        self.field = NetworkField(network)
        self._add_cardinality(code_shape[-1])
        self.engines = PredictionEngines(self.field, engine)


class NetworkField(SetField):
    """A network's output in the place of an energy's gradient.

    Args:
        network: as many outputs for each element as a row has features.
    """

    conservative = False

    def __init__(self, network: AttentionNetwork) -> None:
        super().__init__()
        self.network = network

    def prepare(self, code: Float[Tensor, "b *code"], size: int) -> Cache:
        """The code, and what the network derives from its weights."""
        return (code, *self.network.cache(size))

    def value_and_gradient(
        self, y: Float[Tensor, "b n c"], prepared: Cache, *, fused: bool = False
    ) -> tuple[Float[Tensor, " b"], Float[Tensor, "b n c"]]:
        """NaN for each set, as there is no energy, and the output."""
        del fused
        code, *cache = prepared
        values = torch.full((len(y),), torch.nan, device=y.device, dtype=y.dtype)
        return values, self.network(code, y, tuple(cache))
