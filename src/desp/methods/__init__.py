"""Methods: one file each, with the model, its loss, and how sets are sampled from it."""

from desp.methods.base import Method, MethodParts, SetSpec, build_method
from desp.methods.contrastive import Contrastive
from desp.methods.denoising import Denoiser, EnergyDenoising
from desp.methods.set_risk import SetRisk
from desp.methods.tspn import TSPN

__all__ = [
    "TSPN",
    "Contrastive",
    "Denoiser",
    "EnergyDenoising",
    "Method",
    "MethodParts",
    "SetRisk",
    "SetSpec",
    "build_method",
]
