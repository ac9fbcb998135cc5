"""Samplers: from an energy to sets."""

from desp.samplers.base import ChainInfo, Gradient, GradientFor, Record, Sampler, eager_gradient
from desp.samplers.density import LogDensity, log_density
from desp.samplers.descent import UnrolledDescent
from desp.samplers.diffusion import Diffusion
from desp.samplers.engine import ChainEngine, check_engine
from desp.samplers.langevin import LangevinSampler, langevin_step
from desp.samplers.matching import descend_to_zero
from desp.samplers.solver import SolverSampler, noise_levels
from desp.samplers.tries import combine_tries

__all__ = [
    "ChainEngine",
    "ChainInfo",
    "Diffusion",
    "Gradient",
    "GradientFor",
    "LangevinSampler",
    "LogDensity",
    "Record",
    "Sampler",
    "SolverSampler",
    "UnrolledDescent",
    "check_engine",
    "combine_tries",
    "descend_to_zero",
    "eager_gradient",
    "langevin_step",
    "log_density",
    "noise_levels",
]
