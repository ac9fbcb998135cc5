"""Building blocks: MLPs, poolings, set networks, encoders."""

from desp.nn.cardinality import CardinalityHead as CardinalityHead
from desp.nn.encoders import SetEncoder as SetEncoder
from desp.nn.encoders import check_channels_first as check_channels_first
from desp.nn.fourier import SIGMA_FEATURES as SIGMA_FEATURES
from desp.nn.fourier import with_sigma as with_sigma
from desp.nn.mlp import MLP as MLP
from desp.nn.mlp import Pullback as Pullback
from desp.nn.mlp import narrow_linear as narrow_linear
from desp.nn.mlp import narrow_linear_pullback as narrow_linear_pullback
from desp.nn.pooling import FSPool as FSPool
from desp.nn.pooling import Pool as Pool
from desp.nn.pooling import make_pool as make_pool
from desp.nn.set_network import ElementNetwork as ElementNetwork
from desp.nn.set_network import SetNetwork as SetNetwork
from desp.nn.standardisation import InputScaling as InputScaling
from desp.nn.standardisation import SetScaling as SetScaling
from desp.nn.transformer import TransformerDecoder as TransformerDecoder
