"""Samplers: from an energy to sets."""

from desp.samplers.base import ChainInfo, Gradient, GradientFor, Record, Sampler, eager_gradient
from desp.samplers.density import LogDensity, log_density
from desp.samplers.descent import UnrolledDescent
from desp.samplers.diffusion import Preconditioning, ProbabilityFlow
from desp.samplers.edm import EDMSampler, sigma_schedule
from desp.samplers.engine import CHAINS_AT_ONCE, ChainEngine, PredictionEngines, check_engine
from desp.samplers.langevin import LangevinSampler, langevin_step
from desp.samplers.restarts import sample_restarts

__all__ = [
    "CHAINS_AT_ONCE",
    "ChainEngine",
    "ChainInfo",
    "EDMSampler",
    "Gradient",
    "GradientFor",
    "LangevinSampler",
    "LogDensity",
    "Preconditioning",
    "PredictionEngines",
    "ProbabilityFlow",
    "Record",
    "Sampler",
    "UnrolledDescent",
    "check_engine",
    "eager_gradient",
    "langevin_step",
    "log_density",
    "sample_restarts",
    "sigma_schedule",
]
