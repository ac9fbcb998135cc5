"""Methods: one file each, with the model, its loss, and how sets are sampled from it."""

from desp.methods.base import CHAINS_AT_ONCE, Method, SetSpec, build_method
from desp.methods.contrastive import Contrastive
from desp.methods.denoising import Denoiser, EnergyDenoising
from desp.methods.set_risk import SetRisk
from desp.methods.tspn import TSPN

__all__ = [
    "CHAINS_AT_ONCE",
    "TSPN",
    "Contrastive",
    "Denoiser",
    "EnergyDenoising",
    "Method",
    "SetRisk",
    "SetSpec",
    "build_method",
]
