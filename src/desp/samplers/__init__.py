"""Samplers: from an energy to sets."""

from desp.samplers.base import ChainInfo, Gradient, Record
from desp.samplers.descent import UnrolledDescent
from desp.samplers.engine import ChainEngine
from desp.samplers.langevin import LangevinSampler, langevin_step

__all__ = [
    "ChainEngine",
    "ChainInfo",
    "Gradient",
    "LangevinSampler",
    "Record",
    "UnrolledDescent",
    "langevin_step",
]
