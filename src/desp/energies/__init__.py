"""Set energies: energy(x, y) -> (B,), lower is better, blind to the order of elements."""

from desp.energies.attention import AttentionEnergy
from desp.energies.base import SetEnergy, Tables
from desp.energies.build import code_shape, default_input_encoder, make_energy
from desp.energies.deep_sets import DeepSetsEnergy
from desp.energies.matching import CodeMatchingEnergy
from desp.energies.pooled_layers import PooledLayersEnergy
from desp.energies.set_encoder import SetEncoderEnergy

__all__ = [
    "AttentionEnergy",
    "CodeMatchingEnergy",
    "DeepSetsEnergy",
    "PooledLayersEnergy",
    "SetEncoderEnergy",
    "SetEnergy",
    "Tables",
    "code_shape",
    "default_input_encoder",
    "make_energy",
]
