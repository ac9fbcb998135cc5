"""Building blocks: MLPs, poolings, set and input encoders."""

from desp.nn.attention import SelfAttention, squares_apart
from desp.nn.encoders import (
    ImageEncoder,
    InputScaling,
    PooledSetEncoder,
    PresenceSetEncoder,
    PresentScaling,
    SetEncoder,
    SetScaling,
    StandardCodes,
)
from desp.nn.levels import LEVEL_FEATURES
from desp.nn.mlp import MLP, Pullback, from_few, initialise, to_few
from desp.nn.pooling import FSPool, MaxPool, MeanPool, Pool, SumPool, make_pool
from desp.nn.sizes import SizeHead, first_rows
from desp.nn.transformer import TransformerDecoder
from desp.nn.waves import wave_features, with_waves

__all__ = [
    "LEVEL_FEATURES",
    "MLP",
    "FSPool",
    "ImageEncoder",
    "InputScaling",
    "MaxPool",
    "MeanPool",
    "Pool",
    "PooledSetEncoder",
    "PresenceSetEncoder",
    "PresentScaling",
    "Pullback",
    "SelfAttention",
    "SetEncoder",
    "SetScaling",
    "SizeHead",
    "StandardCodes",
    "SumPool",
    "TransformerDecoder",
    "first_rows",
    "from_few",
    "initialise",
    "make_pool",
    "squares_apart",
    "to_few",
    "wave_features",
    "with_waves",
]
