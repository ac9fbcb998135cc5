"""Set energies: (code, y) -> (B,), lower is more plausible, invariant to permutations of the elements (with a code
for each element, to permutations of both together)."""

from desp.energies.base import Prepared, SetEnergy, SetField
from desp.energies.deep_sets import DeepSetsEnergy
from desp.energies.network import NetworkEnergy
from desp.energies.set_encoder import SetEncoderEnergy

__all__ = ["DeepSetsEnergy", "NetworkEnergy", "Prepared", "SetEncoderEnergy", "SetEnergy", "SetField"]
