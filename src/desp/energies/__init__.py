"""Set energies: energy(x, y) -> (B,), lower is better, blind to the order of elements."""

from desp.energies.base import SetEnergy, Tables
from desp.energies.build import default_input_encoder, make_energy
from desp.energies.deep_sets import DeepSetsEnergy
from desp.energies.set_encoder import SetEncoderEnergy

__all__ = [
    "DeepSetsEnergy",
    "SetEncoderEnergy",
    "SetEnergy",
    "Tables",
    "default_input_encoder",
    "make_energy",
]
