"""Building blocks: MLPs, poolings, set networks, encoders."""

from desp.nn.attention import SelfAttention, squared_distances
from desp.nn.attention_network import AttentionNetwork
from desp.nn.cardinality import CardinalityHead, prefix_mask
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
from desp.nn.fourier import fourier_length, with_fourier_features
from desp.nn.mlp import MLP, Pullback, from_few, initialise, to_few
from desp.nn.pooled_network import PooledNetwork
from desp.nn.pooling import FSPool, MaxPool, MeanPool, Pool, SumPool, make_pool
from desp.nn.set_network import Cache, SetNetwork
from desp.nn.sigma import SIGMA_FEATURES, with_sigma
from desp.nn.transformer import TransformerDecoder

__all__ = [
    "MLP",
    "SIGMA_FEATURES",
    "AttentionNetwork",
    "Cache",
    "CardinalityHead",
    "FSPool",
    "ImageEncoder",
    "InputScaling",
    "MaxPool",
    "MeanPool",
    "Pool",
    "PooledNetwork",
    "PooledSetEncoder",
    "PresenceSetEncoder",
    "PresentScaling",
    "Pullback",
    "SelfAttention",
    "SetEncoder",
    "SetNetwork",
    "SetScaling",
    "StandardCodes",
    "SumPool",
    "TransformerDecoder",
    "fourier_length",
    "from_few",
    "initialise",
    "make_pool",
    "prefix_mask",
    "squared_distances",
    "to_few",
    "with_fourier_features",
    "with_sigma",
]
