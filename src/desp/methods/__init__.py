"""Methods: one file each, but for energy-denoising and denoiser, which share one.

Each has the model, its loss, and how sets are sampled from it.
"""

from desp.methods.base import Method as Method
from desp.methods.base import MethodParts as MethodParts
from desp.methods.building import build_method as build_method
from desp.methods.contrastive import Contrastive as Contrastive
from desp.methods.denoising import Denoiser as Denoiser
from desp.methods.denoising import EnergyDenoising as EnergyDenoising
from desp.methods.set_risk import SetRisk as SetRisk
from desp.methods.tspn import TSPN as TSPN
