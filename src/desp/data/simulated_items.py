"""Simulated items with attributes and features, in place of faces: for trials and tests without the dataset."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from desp.data.celeba_lists import USED
from desp.data.subsets import ItemPool
from desp.randomness import make_generator

# For each of the attributes USED, in their order, roughly as among the faces: its frequency, and the weight of two
# common causes, being male and being old.
_FREQUENCY = (0.02, 0.15, 0.15, 0.05, 0.07, 0.06, 0.04, 0.42, 0.83, 0.05, 0.07)
_MALE = (1.5, -0.8, -1.2, 0.8, 0.7, 2.0, 0.8, 3.0, -2.0, 0.8, 1.5)
_OLD = (1.2, -0.5, -0.3, 1.2, 0.8, 0.0, 2.0, 0.4, 0.3, -0.3, 0.8)
FEATURES = 48


def simulated_pool(count: int, noise: float, part: str) -> ItemPool:
    """Items of one part of the data, always the same.

    Args:
        count: M.
        noise: standard deviation of the noise on features.
        part: the name of the part.
    """
    generator = make_generator("simulated items", part)
    attributes = _attributes(count, generator)
    return ItemPool.of(_features(attributes, noise, generator), attributes, USED)


def _attributes(count: int, generator: torch.Generator) -> Bool[Tensor, "m a"]:
    """Thresholds of Gaussian scores with two common causes, so that each attribute has its frequency."""
    loadings = torch.tensor([_MALE, _OLD])
    scores = torch.randn(count, 2, generator=generator) @ loadings
    scores = scores + torch.randn(scores.shape, generator=generator)
    normal = torch.distributions.Normal(0.0, (loadings.square().sum(dim=0) + 1).sqrt())
    return scores > normal.icdf(1 - torch.tensor(_FREQUENCY))


def _features(attributes: Bool[Tensor, "m a"], noise: float, generator: torch.Generator) -> Float[Tensor, "m h"]:
    """Plus or minus one for each attribute, spread over the features by orthonormal directions, and noise."""
    directions = torch.randn(FEATURES, attributes.shape[1], generator=make_generator("directions of attributes"))
    basis = torch.linalg.qr(directions).Q
    plain = (2 * attributes.float() - 1) @ basis.T
    return plain + noise * torch.randn(plain.shape, generator=generator)
