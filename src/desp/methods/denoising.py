"""Denoising score matching: a noise-conditional energy, or a plain denoiser; no chains in training."""

from abc import abstractmethod
from dataclasses import replace
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from desp.energies import Prepared, SetEnergy, SetField
from desp.errors import SettingsError
from desp.methods.base import NO_DENSITY, Method, MethodParts
from desp.methods.building import build_energy, check_code_rows
from desp.nn import SIGMA_FEATURES, CardinalityHead, ElementNetwork, SetNetwork
from desp.samplers import (
    CHAINS_AT_ONCE,
    ChainEngine,
    ChainInfo,
    EDMSampler,
    LogDensity,
    ProbabilityFlow,
    Record,
    log_density,
    value_and_grad_of,
)
from desp.samplers.diffusion import add_noise, noise_mask, to_symmetric
from desp.sets import prefix_mask, presence_mask
from desp.settings import (
    DenoiserSettings,
    DiffusionSettings,
    EDMSettings,
    EnergyDenoisingSettings,
    SamplerSettings,
)
from desp.settings.base import require_variant

# Sets whose densities are followed at once, as second derivatives keep the autograd graph.
DENSITIES_AT_ONCE = 200
# If more of the first batch's sets than this have fewer than `training_rows` elements, all rows are used.
MAX_SMALL_SET_FRACTION = 0.1


class Diffusion(Method):
    """What all denoising methods share: noise levels, the loss, p(n | x), the sampler.

    Preconditioning gives the network's targets unit variance at every sigma. The loss is weighted by 1 / c_out^2,
    so that the errors of the network F count equally at all of them (Karras et al. 2022).
    """

    field: SetField
    prediction_engine: ChainEngine

    def __init__(self, settings: DiffusionSettings, parts: MethodParts) -> None:
        super().__init__(parts)
        self.settings: DiffusionSettings = settings
        self.known_presence = settings.predicts_cardinality or parts.shape.aligned
        features = parts.code_shape[-1]
        self._make_field(replace(parts, code_shape=(*parts.code_shape[:-1], features + SIGMA_FEATURES)))
        self.prediction_engine = ChainEngine(self.field, parts.engine, min_chains=CHAINS_AT_ONCE)
        if settings.predicts_cardinality and not parts.shape.aligned:  # aligned outputs need none
            self.cardinality = CardinalityHead(features, parts.shape.max_size, settings.width)

    @abstractmethod
    def _make_field(self, parts: MethodParts) -> None:
        """Make the network, for codes to which a noise level is appended."""

    # -- training --------------------------------------------------------------------------------------

    def forward(
        self, x: Float[Tensor, "b *input"], y: Float[Tensor, "b n c"], generator: torch.Generator
    ) -> tuple[Float[Tensor, ""], dict[str, Tensor]]:
        """Mean squared error of the network over all that carries noise, the weighted -log p(n | x), and
        `auxiliary_losses`."""
        code = self.encode(x)
        loss = self._denoising_loss(code, y, generator)
        statistics = {"denoising_loss": loss.detach()}
        if self.cardinality is not None:
            cardinality_loss = self.cardinality.loss(code, presence_mask(y).sum(dim=1))
            statistics["cardinality_loss"] = cardinality_loss.detach()
            loss = loss + self.settings.cardinality_weight * cardinality_loss
        for name, value in self.auxiliary_losses(code, y).items():
            statistics[name], loss = value.detach(), loss + value
        return loss, statistics

    def auxiliary_losses(self, code: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Further losses of the encoder's codes, weighted, by their names in the log; none, unless overridden."""
        del code, y
        return {}

    def _denoising_loss(self, code: Tensor, y: Tensor, generator: torch.Generator) -> Float[Tensor, ""]:
        """Mean squared error of denoised sets, weighted by 1 / c_out^2, which is the error of the network F,
        unweighted; over several noisy copies of each set."""
        if self.settings.noise_draws > 1:
            code, y = (item.repeat_interleave(self.settings.noise_draws, dim=0) for item in (code, y))
        sigma, clean = self._sigmas(y, generator), to_symmetric(y)
        flow = self._flow(code, y)
        mask, u = flow.mask, add_noise(clean, flow.mask, sigma, generator)
        _, network = flow.network(u, sigma)
        c_skip, c_out = flow.c_skip_out(sigma)
        errors = (network - (clean - c_skip * u) / c_out).square() * mask
        return errors.sum() / mask.sum().clamp(min=1)

    def _flow(self, code: Tensor, y: Tensor) -> ProbabilityFlow:
        """The probability flow of sets with the presence of `y`."""
        value_and_grad_for = partial(value_and_grad_of, self.field, size=y.shape[1])
        return ProbabilityFlow(
            value_and_grad_for, code, noise_mask(y, self.known_presence), self.settings.sigma_data
        )

    def _sigmas(self, y: Tensor, generator: torch.Generator) -> Tensor:
        """One log-normal sigma for each set, stratified over the batch.

        Which set of the batch gets which quantile changes with each batch, as datasets may not shuffle.
        """
        first = torch.arange(len(y), device=y.device, dtype=y.dtype)
        shift, turn = torch.rand(2, len(y), generator=generator, device=y.device, dtype=y.dtype)
        quantiles = ((first + shift) / len(y) + turn[0]) % 1
        places = torch.special.ndtri(quantiles.clamp(1e-6, 1 - 1e-6))
        return (self.settings.p_mean + self.settings.p_std * places).exp()

    def calibrate_cardinality(self, code: Float[Tensor, "b *code"], sizes: Int[Tensor, " b"]) -> float | None:
        """By `CardinalityHead.calibrate`, where the cardinality is predicted."""
        return None if self.cardinality is None else self.cardinality.calibrate(code, sizes)

    # -- prediction ------------------------------------------------------------------------------------

    def sample_batch(
        self,
        code: Tensor,
        generator: torch.Generator,
        sampler: SamplerSettings | None,
        record: Record,
        presence: Tensor | None,
    ) -> tuple[Tensor, ChainInfo]:
        """The cardinality, where it is predicted, then from noise to sets."""
        settings = require_variant(sampler or self.settings.sampler, EDMSettings, "sampler")
        if presence is None:
            presence = self._cardinality_mask(code, generator, settings)
        start = self.start(code, presence)
        chain = EDMSampler(settings, self.settings.sigma_data, self.known_presence)
        sampled = self.prediction_engine.run(chain, code, start, generator, record)
        self.engine_used = self.prediction_engine.used or "eager"
        return sampled

    def _cardinality_mask(self, code: Tensor, generator: torch.Generator, settings: EDMSettings) -> Tensor | None:
        """The presence (B, N) of as many elements as are predicted; None where they are denoised."""
        if self.cardinality is None:
            return None
        mode = settings.cardinality == "mode"
        sizes = self.cardinality.mode(code) if mode else self.cardinality.sample(code, generator)
        return prefix_mask(sizes, self.shape.max_size)


class EnergyDenoising(Diffusion):
    """The gradient of a noise-conditional energy learns to remove noise of every level from real sets.

    At each sigma, -log p of the noised data follows from it (Vincent 2011), see
    `ProbabilityFlow.negative_log_density`, with no partition function to estimate.
    """

    settings: EnergyDenoisingSettings
    energy: SetEnergy
    sets_are_large: bool = True
    """Whether nearly all sets of the first batch have at least `training_rows` elements; see `inspect_sets`."""

    def inspect_sets(self, y: Float[Tensor, "b n c"]) -> None:
        """Decide whether the loss may be taken on some rows: small sets would lose most of their elements."""
        most = self.settings.training_rows
        if most is not None and self.representation.has_presence:
            sizes = presence_mask(y).sum(dim=1)
            self.sets_are_large = bool((sizes < most).float().mean() <= MAX_SMALL_SET_FRACTION)

    def _make_field(self, parts: MethodParts) -> None:
        settings = self.settings.energy
        options = {"known_presence": True} if self.known_presence and settings.masks_absent else {}
        self.energy = build_energy(settings, parts, **options)

    def _denoising_loss(self, code: Tensor, y: Tensor, generator: torch.Generator) -> Float[Tensor, ""]:
        """The loss on `training_rows` random rows, the same rows for every set of the batch, if nearly all sets
        have that many elements; else on all rows."""
        rows, most = y.shape[1], self.settings.training_rows
        if most is not None and rows > most and self.sets_are_large and self.settings.energy.supports_row_subsets:
            places = torch.rand(rows, generator=generator, device=y.device).argsort()[:most]
            code, y = (code[:, places] if code.dim() == 3 else code), y[:, places]
        return super()._denoising_loss(code, y, generator)

    @property
    def field(self) -> SetEnergy:  # type: ignore[override]
        """The energy."""
        return self.energy

    def energy_batch(self, code: Tensor, y: Tensor) -> Tensor:
        """-log p at `energy_sigma`, up to a constant for each input and cardinality."""
        return self._flow(code, y).negative_log_density(to_symmetric(y), self.settings.energy_sigma)

    def log_prob(
        self, code: Tensor, y: Float[Tensor, "b n c"], generator: torch.Generator, steps: int, probes: int
    ) -> LogDensity:
        """log p of padded sets for codes, in the units of padded sets, p(n | x) included.

        A set of n elements is n! ordered ones, all of the same density.

        Raises:
            SettingsError: the energy is not smooth, or the cardinality is not predicted.
        """
        if not self.settings.has_density:
            raise SettingsError(NO_DENSITY)
        settings = replace(self.settings.sampler, steps=steps)
        values, errors = [], []
        for codes, some in zip(code.split(DENSITIES_AT_ONCE), y.split(DENSITIES_AT_ONCE), strict=True):
            flow = self._flow(codes, some)
            density = log_density(flow, some, generator, settings=settings, probes=probes)
            values.append(density.value + self._log_cardinality(codes, some))
            errors.append(density.error)
        return LogDensity(torch.cat(values), torch.cat(errors))

    def _log_cardinality(self, code: Tensor, y: Tensor) -> Tensor | float:
        """log p(n | x) n!; aligned outputs have one cardinality and one order."""
        if self.cardinality is None:
            return 0.0
        sizes = presence_mask(y).sum(dim=1)
        of_size = self.cardinality(code).gather(1, sizes.unsqueeze(1)).squeeze(1).detach()
        return torch.lgamma(sizes.to(y.dtype) + 1) + of_size


class Denoiser(Diffusion):
    """A network's output takes the place of an energy's gradient: F is minus it, and need be no gradient.

    A gradient costs a backward pass, and in training a pass through that one; the output costs neither.
    """

    settings: DenoiserSettings

    def _make_field(self, parts: MethodParts) -> None:
        settings, channels = self.settings.network, parts.set_shape[1]
        check_code_rows(parts)
        network = SetNetwork(
            settings, channels, parts.code_shape, known_presence=self.known_presence, outputs=channels
        )
        self.field = NetworkField(network)


class NetworkField(SetField):
    """A network's output in the place of an energy's gradient.

    Args:
        network: as many outputs for each element as a row has features.
    """

    conservative = False

    def __init__(self, network: ElementNetwork) -> None:
        super().__init__()
        self.network = network

    def prepare(self, code: Float[Tensor, "b *code"], size: int) -> Prepared:
        """The code, and what the network derives from its weights."""
        return (code, *self.network.cache(size))

    def value_and_gradient(
        self, y: Float[Tensor, "b n c"], prepared: Prepared, *, fused: bool = False
    ) -> tuple[Float[Tensor, " b"], Float[Tensor, "b n c"]]:
        """NaN for each set, as there is no energy, and the output."""
        del fused
        code, *cache = prepared
        values = torch.full((len(y),), torch.nan, device=y.device, dtype=y.dtype)
        return values, self.network(code, y, tuple(cache))
