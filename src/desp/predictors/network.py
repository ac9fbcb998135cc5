"""The trained modules of an energy predictor, and how they draw sets in parts of one size."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from desp.energies import SetEnergy, code_shape, make_energy
from desp.errors import SettingsError
from desp.nn import LEVEL_FEATURES, SizeHead
from desp.predictors.shape import DataShape
from desp.samplers import (
    ChainEngine,
    ChainInfo,
    Diffusion,
    LangevinSampler,
    LogDensity,
    Record,
    Sampler,
    SolverSampler,
    UnrolledDescent,
    eager_gradient,
    log_density,
)
from desp.settings import (
    DenoisingSettings,
    Engine,
    LangevinSettings,
    PredictorSettings,
    SamplerSettings,
    SetEncoderSettings,
    SetRiskSettings,
    SolverSettings,
)

# Chains that run at once. A fixed number also means that a captured chain is used again and again.
CHAINS_AT_ONCE = 1000
# Sets whose densities are followed at once, as derivatives of the gradient keep a tape.
DENSITIES_AT_ONCE = 200


class EnergyNetwork(nn.Module):
    """What is trained and saved: the energy, for direct risk the learned start, for denoising p(size | x).

    Estimators hold the same modules under the same names, so that their weights can be exchanged.
    """

    def __init__(
        self,
        energy: SetEnergy,
        descent: UnrolledDescent | None = None,
        sizes: SizeHead | None = None,
        diffusion: Diffusion | None = None,
    ) -> None:
        super().__init__()
        self.energy, self.descent, self.sizes = energy, descent, sizes
        self.diffusion = diffusion

    def scores(self, x: Tensor, sets: Tensor) -> Tensor:
        """Energies (B,) of padded sets for inputs, in parts that fit into memory."""
        parts = zip(x.split(CHAINS_AT_ONCE), sets.split(CHAINS_AT_ONCE), strict=True)
        with evaluating(self):
            return torch.cat([self._score(inputs, some) for inputs, some in parts])

    def _score(self, x: Tensor, sets: Tensor) -> Tensor:
        if self.diffusion is None:
            return self.energy(x, sets)
        gradient = partial(eager_gradient, self.energy, size=sets.shape[1])
        return self.diffusion.negative_log_density(gradient, self.energy.encode(x), sets)

    def log_prob(
        self, x: Tensor, sets: Tensor, generator: torch.Generator, settings: SolverSettings, probes: int
    ) -> LogDensity:
        """log p of padded sets for inputs, in the units of padded sets, with p(size | x) where sizes come first.

        A set of n elements is n! ordered ones, all of the same density.

        Raises:
            SettingsError: the energy was not trained by denoising with sizes first.
        """
        if self.diffusion is None or self.sizes is None:
            raise SettingsError("A density over sets needs the estimator 'denoising' with sizes 'first'.")
        gradient = partial(eager_gradient, self.energy, size=sets.shape[1])
        values, errors = [], []
        with evaluating(self):
            for inputs, some in zip(x.split(DENSITIES_AT_ONCE), sets.split(DENSITIES_AT_ONCE), strict=True):
                code = self.energy.encode(inputs).detach()
                sizes = (some[..., -1] > 0.5).sum(dim=1)
                of_size = self.sizes(code).gather(1, sizes.unsqueeze(1)).squeeze(1).detach()
                density = log_density(
                    self.diffusion, gradient, code, some, generator, settings=settings, probes=probes
                )
                values.append(density.value + torch.lgamma(sizes.to(some.dtype) + 1) + of_size)
                errors.append(density.error)
        return LogDensity(torch.cat(values), torch.cat(errors))

    def sampler(self, settings: SamplerSettings) -> Sampler:
        """The sampler that `settings` name.

        Raises:
            SettingsError: it needs another kind of energy than this one.
        """
        if isinstance(settings, LangevinSettings) and self.diffusion is None:
            return LangevinSampler(settings)
        if not isinstance(settings, LangevinSettings) and self.diffusion is not None:
            return SolverSampler(settings, self.diffusion.settings)
        raise SettingsError(
            f"The sampler '{settings.kind}' does not suit this energy: one trained by denoising needs the solver, "
            "any other needs langevin."
        )


def make_network(
    settings: PredictorSettings, shape: DataShape, channels: int, encoder: nn.Module
) -> EnergyNetwork:
    """The energy that `settings` name, with what its estimator needs beside it.

    Args:
        settings: of the predictor.
        shape: of the data.
        channels: features of one row of a padded set.
        encoder: h(x).
    """
    inputs, estimator = shape.input_shape, settings.estimator
    if isinstance(settings.energy, SetEncoderSettings) and settings.energy.shared and inputs[0] != shape.max_size:
        raise SettingsError(
            f"energy.shared needs inputs padded as sets are, to {shape.max_size} rows; got {inputs[0]}."
        )
    levels = LEVEL_FEATURES if isinstance(estimator, DenoisingSettings) else 0
    energy = make_energy(settings.energy, channels, inputs, encoder, level_features=levels)
    if isinstance(estimator, SetRiskSettings):
        descent = UnrolledDescent(shape.max_size, channels, estimator.steps, estimator.step_size)
        return EnergyNetwork(energy, descent)
    if not isinstance(estimator, DenoisingSettings):
        return EnergyNetwork(energy)
    sizes = None
    if estimator.sizes == "first":
        sizes = SizeHead(code_shape(encoder, inputs)[-1], shape.max_size, settings.energy.hidden)
    return EnergyNetwork(energy, sizes=sizes, diffusion=Diffusion(estimator))


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Switch off dropout and the like for a while; an encoder of the user's own may have them."""
    training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(training)


class SetDrawer:
    """Draws one padded set (B, N, C) for each input.

    Args:
        network: energy, and the descent if it predicts by one.
        row_shape: (N, C) of a padded set.
        engine: how chains run.
    """

    def __init__(self, network: EnergyNetwork, row_shape: tuple[int, int], engine: Engine) -> None:
        self.network, self.row_shape = network, row_shape
        self.many = ChainEngine(network.energy, engine)
        self.engine_used = "eager"
        # Few chains are run plainly, unless something else is asked for: compiling and capturing cost seconds.
        self.few = self.many if engine in ("compiled", "graph") else ChainEngine(network.energy, "eager")

    def draw(
        self, x: Tensor, generator: torch.Generator, settings: SamplerSettings, record: Record
    ) -> tuple[Tensor, ChainInfo]:
        """Draw in parts of `CHAINS_AT_ONCE`; the last part of many is filled up, so that all are alike."""
        sampler = self.network.sampler(settings)
        engine = self.many if len(x) >= CHAINS_AT_ONCE else self.few
        parts = []
        for part in x.split(CHAINS_AT_ONCE):
            missing = CHAINS_AT_ONCE - len(part) if len(x) > CHAINS_AT_ONCE else 0
            filled = torch.cat([part, part[:1].expand(missing, *part.shape[1:])]) if missing else part
            values, info = self._draw_part(engine, filled, generator, sampler, record)
            parts.append((values[: len(part)], _first(info, len(part))))
        self.engine_used = engine.used or "eager"
        return torch.cat([values for values, _ in parts]), _join([info for _, info in parts])

    def _draw_part(
        self,
        engine: ChainEngine,
        x: Tensor,
        generator: torch.Generator,
        sampler: Sampler,
        record: Record,
    ) -> tuple[Tensor, ChainInfo]:
        with evaluating(self.network):
            code = self.network.energy.encode(x)
        if self.network.descent is not None:
            return self.network.descent(self.network.energy, code, record)
        return engine.run(sampler, code, self._start(code, generator), generator, record)

    def _start(self, code: Tensor, generator: torch.Generator) -> Tensor:
        """Zeros; where sizes come first, with the presence of as many elements as were drawn."""
        start = torch.zeros(len(code), *self.row_shape, device=code.device, dtype=code.dtype)
        if self.network.sizes is not None:
            sizes = self.network.sizes.sample(code, generator)
            start[..., -1] = torch.arange(start.shape[1], device=code.device) < sizes.unsqueeze(1)
        return start


def _first(info: ChainInfo, count: int) -> ChainInfo:
    parts = (info.energies, info.gradient_norms, info.trajectory)
    return ChainInfo(*(None if part is None else part[:, :count] for part in parts))


def _join(infos: list[ChainInfo]) -> ChainInfo:
    if infos[0].energies is None:
        return ChainInfo()

    def joined(name: str) -> Tensor | None:
        parts = [getattr(info, name) for info in infos]
        return None if parts[0] is None else torch.cat(parts, dim=1)

    return ChainInfo(joined("energies"), joined("gradient_norms"), joined("trajectory"))
