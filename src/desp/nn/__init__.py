"""Building blocks: MLPs, poolings, set and input encoders."""

from desp.nn.encoders import ImageEncoder, InputScaling, PresenceSetEncoder, SetEncoder
from desp.nn.mlp import MLP, Pullback, from_few, to_few
from desp.nn.pooling import FSPool, MaxPool, MeanPool, Pool, SumPool, make_pool

__all__ = [
    "MLP",
    "FSPool",
    "ImageEncoder",
    "InputScaling",
    "MaxPool",
    "MeanPool",
    "Pool",
    "PresenceSetEncoder",
    "Pullback",
    "SetEncoder",
    "SumPool",
    "from_few",
    "make_pool",
    "to_few",
]
