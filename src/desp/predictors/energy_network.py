"""The trained modules of an energy predictor, and how chains or descents draw sets from them."""

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from desp.energies import CodeMatchingEnergy, SetEnergy, code_shape, make_energy
from desp.errors import SettingsError
from desp.estimators import ContrastiveEstimator, DenoisingEstimator, Estimator, SetRiskEstimator
from desp.nn import LEVEL_FEATURES, SizeHead, first_rows
from desp.predictors.network import CHAINS_AT_ONCE, SetDrawer, SetNetwork, evaluating, rounded
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
    combine_tries,
    descend_to_zero,
    eager_gradient,
    log_density,
)
from desp.sets import Padding
from desp.settings import (
    ContrastiveSettings,
    DenoisingSettings,
    EnergySettings,
    Engine,
    EstimatorSettings,
    FromTries,
    LangevinSettings,
    PredictorSettings,
    SamplerSettings,
    SetEncoderSettings,
    SetRiskSettings,
    SolverSettings,
)

# Sets whose densities are followed at once, as derivatives of the gradient keep a tape.
DENSITIES_AT_ONCE = 200
NO_MATCHING = (
    "sampler.matching needs inputs that are sets like those to predict, with as many rows and presence padding. "
    "Set it to 0."
)


class EnergyNetwork(SetNetwork):
    """The energy, for direct risk the learned start, where sizes come first p(size | x)."""

    def __init__(
        self,
        energy: SetEnergy,
        descent: UnrolledDescent | None = None,
        sizes: SizeHead | None = None,
        diffusion: Diffusion | None = None,
        matching: CodeMatchingEnergy | None = None,
    ) -> None:
        super().__init__()
        self.energy, self.descent, self.sizes = energy, descent, sizes
        self.diffusion = diffusion
        self.scores_sets = energy.scores_sets
        # In a tuple, as it is no module of its own: its weights are the input encoder's.
        self._matching = (matching,)

    def make_estimator(self, settings: EstimatorSettings, engine: Engine, steps: int) -> Estimator:
        """Contrast, denoising or direct risk."""
        if isinstance(settings, ContrastiveSettings):
            return ContrastiveEstimator(self.energy, settings, engine, steps=steps)
        if isinstance(settings, DenoisingSettings):
            return DenoisingEstimator(self.energy, self.sizes, settings)
        if not isinstance(settings, SetRiskSettings) or self.descent is None:
            raise SettingsError(
                f"The estimator '{settings.kind}' does not suit this network: build one with its settings."
            )
        return SetRiskEstimator(self.energy, self.descent, settings, self.sizes)

    def make_drawer(self, row_shape: tuple[int, int], padding: Padding, engine: Engine) -> "ChainDrawer":
        """By chains, or by the descent that was trained."""
        return ChainDrawer(self, row_shape, padding, engine)

    def scores(self, x: Tensor, sets: Tensor) -> Tensor:
        """Energies (B,) of padded sets for inputs, in parts that fit into memory."""
        parts = zip(x.split(CHAINS_AT_ONCE), sets.split(CHAINS_AT_ONCE), strict=True)
        with evaluating(self):
            return torch.cat([self._score(inputs, some) for inputs, some in parts])

    def _score(self, x: Tensor, sets: Tensor) -> Tensor:
        if self.diffusion is None or not self.scores_sets:
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

    def matched(self, code: Tensor, sets: Tensor, steps: int) -> Tensor:
        """Sets (B, N, C) moved in `steps` steps such that their own code comes nearer to the given one.

        Raises:
            SettingsError: inputs are no sets like those to predict.
        """
        (matching,) = self._matching
        if matching is None:
            raise SettingsError(NO_MATCHING)
        with evaluating(self):
            return descend_to_zero(eager_gradient(matching, code, sets.shape[1]), sets, steps)

    def sampler(self, settings: SamplerSettings) -> Sampler:
        """The sampler that `settings` name.

        Raises:
            SettingsError: it needs another kind of energy than this one.
        """
        if isinstance(settings, LangevinSettings) and self.diffusion is None:
            return LangevinSampler(replace(settings, tries=1))  # chains are tried again from outside
        if not isinstance(settings, LangevinSettings) and self.diffusion is not None:
            return SolverSampler(settings, self.diffusion.settings)
        raise SettingsError(
            f"The sampler '{settings.kind}' does not suit this energy: one trained by denoising needs the solver, "
            "any other needs langevin."
        )


class ChainDrawer(SetDrawer):
    """Draws sets along the gradients of an energy.

    Args:
        network: energy, and the descent if it predicts by one.
        row_shape: (N, C) of a padded set.
        padding: how absence is written in it.
        engine: how chains run.
    """

    def __init__(
        self, network: EnergyNetwork, row_shape: tuple[int, int], padding: Padding, engine: Engine
    ) -> None:
        super().__init__()
        self.network, self.row_shape, self.padding = network, row_shape, padding
        self.many = ChainEngine(network.energy, engine)
        # Few chains are run plainly, unless something else is asked for: compiling and capturing cost seconds.
        self.few = self.many if engine in ("compiled", "graph") else ChainEngine(network.energy, "eager")

    def draw_part(
        self,
        x: Tensor,
        generator: torch.Generator,
        settings: SamplerSettings,
        record: Record,
        code_type: torch.dtype | None = None,
    ) -> tuple[Tensor, ChainInfo]:
        """Run a chain, or several to make one set of, or descend, for each input."""
        network = self.network
        with evaluating(network):
            code = rounded(network.energy.encode(x), code_type)
        if network.descent is not None:
            self.engine_used = "eager"
            return network.descent(network.energy, code, record, self._most_probable(code))
        tries, kept = _tries(settings)
        engine = self.many if len(x) * tries >= CHAINS_AT_ONCE else self.few
        start, sampler = self._start(code, generator, settings), network.sampler(settings)
        drawn = combine_tries(
            lambda: engine.run(sampler, code, start, generator, record),
            partial(self._energies, code),
            tries,
            kept,
            self.padding,
        )
        self.engine_used = engine.used or "eager"
        if isinstance(settings, SolverSettings) and settings.matching > 0:
            return network.matched(code, drawn[0], settings.matching), drawn[1]
        return drawn

    def _energies(self, code: Tensor, sets: Tensor) -> Tensor:
        """Of raw sets."""
        with evaluating(self.network):
            return self.network.energy.score(code, sets)

    def _most_probable(self, code: Tensor) -> Tensor | None:
        """The presence of as many elements as are most probable, where sizes come first."""
        sizes = self.network.sizes
        return None if sizes is None else first_rows(sizes.most_probable(code), self.row_shape[0])

    def _start(self, code: Tensor, generator: torch.Generator, settings: SamplerSettings) -> Tensor:
        """Zeros; where sizes come first, with the presence of as many elements as were drawn or are likeliest."""
        start = torch.zeros(len(code), *self.row_shape, device=code.device, dtype=code.dtype)
        if isinstance(settings, SolverSettings) and settings.sizes == "likeliest":
            presence = self._most_probable(code)
        else:
            presence = self._drawn(code, generator)
        if presence is not None:
            start[..., -1] = presence
        return start

    def _drawn(self, code: Tensor, generator: torch.Generator) -> Tensor | None:
        """The presence of as many elements as were drawn, where sizes come first."""
        sizes = self.network.sizes
        return None if sizes is None else first_rows(sizes.sample(code, generator), self.row_shape[0])


def _tries(settings: SamplerSettings) -> tuple[int, FromTries]:
    """How often sets are drawn, once where no noise makes tries differ, and what is made of them."""
    if isinstance(settings, LangevinSettings) and settings.noise_at(0) > 0:
        return settings.tries, settings.from_tries
    return 1, "lowest"


def make_energy_network(
    settings: PredictorSettings, kind: EnergySettings, shape: DataShape, channels: int, encoder: nn.Module
) -> EnergyNetwork:
    """The energy of `kind`, with what its estimator needs beside it.

    Args:
        settings: of the predictor.
        kind: its energy.
        shape: of the data.
        channels: features of one row of a padded set.
        encoder: h(x).
    """
    inputs, estimator = shape.input_shape, settings.estimator
    if isinstance(kind, SetEncoderSettings) and kind.shared:
        rows = code_shape(encoder, inputs)[0]
        if rows != shape.max_size:
            raise SettingsError(
                f"energy.shared needs inputs padded as sets are, to {shape.max_size} rows; got {rows}."
            )
    levels = LEVEL_FEATURES if isinstance(estimator, DenoisingSettings) else 0
    known = isinstance(estimator, DenoisingSettings) and estimator.sizes == "first"
    energy = make_energy(kind, channels, inputs, encoder, level_features=levels, knows_presence=known)
    if isinstance(estimator, SetRiskSettings):
        steps, step_size = estimator.steps, estimator.step_size
        descent, sizes = UnrolledDescent(shape.max_size, channels, steps, step_size, estimator.sizes), None
        if estimator.sizes == "first":
            # A shared encoder is the set encoder itself, and h(x) alone gives no code then.
            features = kind.latent if isinstance(kind, SetEncoderSettings) else code_shape(encoder, inputs)[-1]
            sizes = SizeHead(features, shape.max_size, estimator.size_hidden, layers=2)
        return EnergyNetwork(energy, descent, sizes)
    if not isinstance(estimator, DenoisingSettings):
        return EnergyNetwork(energy)
    sizes = None
    if estimator.sizes == "first":
        ordered = estimator.size_head == "ordered"
        sizes = SizeHead(code_shape(encoder, inputs)[-1], shape.max_size, kind.hidden, ordered=ordered)
    matching = None
    if shape.input_kind == "set" and inputs == (shape.max_size, shape.features + 1) == (shape.max_size, channels):
        matching = CodeMatchingEnergy(encoder, shape.scaling.unscale)
    elif isinstance(settings.sampler, SolverSettings) and settings.sampler.matching > 0:
        raise SettingsError(NO_MATCHING)
    return EnergyNetwork(energy, sizes=sizes, diffusion=Diffusion(estimator), matching=matching)
