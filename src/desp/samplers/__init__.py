"""Samplers: from an energy, or another field, to sets."""

from desp.samplers.base import ChainInfo as ChainInfo
from desp.samplers.base import Record as Record
from desp.samplers.base import Sampler as Sampler
from desp.samplers.base import ValueAndGrad as ValueAndGrad
from desp.samplers.base import value_and_grad_of as value_and_grad_of
from desp.samplers.density import LogDensity as LogDensity
from desp.samplers.density import log_density as log_density
from desp.samplers.descent import UnrolledDescent as UnrolledDescent
from desp.samplers.diffusion import ProbabilityFlow as ProbabilityFlow
from desp.samplers.edm import EDMSampler as EDMSampler
from desp.samplers.engine import CHAINS_AT_ONCE as CHAINS_AT_ONCE
from desp.samplers.engine import ChainEngine as ChainEngine
from desp.samplers.engine import check_engine as check_engine
from desp.samplers.langevin import LangevinSampler as LangevinSampler
from desp.samplers.langevin import langevin_step as langevin_step
from desp.samplers.restarts import sample_restarts as sample_restarts
