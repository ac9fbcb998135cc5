"""Encoders: of sets into one vector, and of inputs."""

from itertools import pairwise
from pathlib import Path
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from desp.errors import DataError
from desp.nn.element_layers import element_layers, kernel_weights
from desp.nn.fourier import fourier_length, with_fourier_features
from desp.nn.mlp import MLP, Pullback, initialise
from desp.nn.pairs import ordered_pairs, pairs_with_pullback
from desp.nn.pooling import Cache, FSPool, make_pool
from desp.nn.resnet import ResNet34Encoder, check_image, load_trunk
from desp.nn.standardisation import InputScaling, SetScaling, StandardCodes
from desp.sets import presence_mask
from desp.settings import (
    ConvEncoderSettings,
    FSPoolSetEncoderSettings,
    LayeredEncoderSettings,
    MLPEncoderSettings,
    ResNet34EncoderSettings,
    ScalingEncoderSettings,
    SetEncoderEnergySettings,
    SumPooledSetEncoderSettings,
)


class SetEncoder(nn.Module):
    """g(Y): an MLP on every element, then a pooling (Zhang et al. 2019, used by E_SE).

    With `pairs` it is a relation network, as for DSPN on CLEVR: the MLP is applied to all ordered pairs of
    elements, which are then pooled together. Absent rows of padded sets take part like others.

    Args:
        settings: widths, depth, length of the code, pooling, pairs.
        features: features of one row of a padded set.
    """

    def __init__(self, settings: SetEncoderEnergySettings, features: int) -> None:
        super().__init__()
        self.pairs = settings.pairs
        joined = 2 * features if self.pairs else features
        widths = [joined, *[settings.hidden] * (settings.layers - 1), settings.latent]
        self.mlp = MLP(widths, settings.negative_slope)
        self.pool = make_pool(settings.pooling, settings.latent)
        self.divide_by_size = settings.divide_by_size
        initialise(self, settings.initialisation)

    def forward(self, sets: Float[Tensor, "b n d"]) -> Float[Tensor, "b o"]:
        """Encode (B, N, D) sets as (B, O) codes."""
        rows = ordered_pairs(sets) if self.pairs else sets
        return self.pool(self.mlp(rows)) / self.divisor(sets.shape[1])

    def pooled_rows(self, size: int) -> int:
        """How many rows of features a set of `size` elements has: one for each element, or each pair."""
        return size * size if self.pairs else size

    def divisor(self, size: int) -> int:
        """What pooled features of padded size N are divided by; for all poolings but softmax the same as dividing
        before pooling, as the released code does."""
        return max(self.pooled_rows(size), 1) if self.divide_by_size else 1

    def prepare(self, batch: int, size: int) -> Cache:
        """What `with_pullback` takes for `batch` sets of `size` elements, from the weights alone."""
        rows = self.pooled_rows(size)
        return (kernel_weights(self.mlp, batch * rows), *self.pool.cache(rows))

    def with_pullback(
        self, sets: Float[Tensor, "b n d"], prepared: Cache, *, fused: bool = False
    ) -> tuple[Float[Tensor, "b o"], Pullback]:
        """The code of padded sets, all rows taking part, and the pullback from gradients in it to gradients in
        `sets`."""
        packed, *cache = prepared
        rows, pull_rows = pairs_with_pullback(sets) if self.pairs else (sets, None)
        values, pull_values = element_layers(self.mlp, rows, packed, fused=fused)
        pooled, pull_pooled = self.pool.with_pullback(values, tuple(cache))
        divisor = self.divisor(sets.shape[1])

        def pull(gradient: Tensor) -> Tensor:
            of_rows = pull_values(pull_pooled(gradient / divisor))
            return of_rows if pull_rows is None else pull_rows(of_rows)

        return pooled / divisor, pull


class _MaskedSetEncoder(nn.Module):
    """h(x) for inputs that are sets themselves, given as (B, N, D + 1) with presence as last feature."""

    def __init__(self, settings: SetEncoderEnergySettings, features: int) -> None:
        super().__init__()
        self.encoder = SetEncoder(settings, features)

    def forward(self, x: Float[Tensor, "b n c"]) -> Float[Tensor, "b o"]:
        """Encode the present elements; absent ones do not count."""
        return cast(FSPool, self.encoder.pool).masked(self.encoder.mlp(x[..., :-1]), presence_mask(x))


class _PooledSetEncoder(nn.Module):
    """h(x) for inputs that are sets, with layers before and after a sum over the present elements.

    The sum alone is linear in the set's indicator function; the layers after it are not. A maximum may stand
    beside it, which is 0 for an empty set.
    """

    def __init__(self, settings: SumPooledSetEncoderSettings, input_shape: tuple[int, ...]) -> None:
        super().__init__()
        hidden, self.size, self.frequencies = settings.hidden, max(input_shape[0], 1), settings.fourier_frequencies
        first = nn.Linear(fourier_length(input_shape[1] - 1, self.frequencies), hidden)
        self.of_elements = nn.Sequential(first, nn.SiLU(), nn.Linear(hidden, hidden))
        self.with_maximum = settings.with_maximum
        pooled = 2 * hidden if self.with_maximum else hidden
        layers = nn.Linear(pooled, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU()
        self.of_set = nn.Sequential(*layers, nn.Linear(hidden, settings.out))

    def forward(self, x: Float[Tensor, "b n c"]) -> Float[Tensor, "b o"]:
        """Encode sets (B, N, D + 1) with presence as last feature; absent elements do not count."""
        elements, presence = x[..., :-1], presence_mask(x).unsqueeze(-1)
        values = self.of_elements(with_fourier_features(elements, self.frequencies))
        # Divided by the constant N, not by each set's size, so that the code keeps the cardinality.
        pooled = torch.where(presence, values, 0.0).sum(dim=1) / self.size
        if self.with_maximum:
            present = values.masked_fill(~presence, -torch.inf)
            largest = F.pad(present, (0, 0, 0, 1), value=-torch.inf).amax(dim=1)  # there may be no rows at all
            pooled = torch.cat([pooled, torch.where(presence.any(dim=1), largest, 0.0)], dim=1)
        return self.of_set(pooled)


class _ElementCodes(nn.Sequential):
    """An encoder of each element of input sets (B, N, D + 1), presence last, that ends with `StandardCodes`."""

    def forward(self, x: Float[Tensor, "b n c"]) -> Float[Tensor, "b n h"]:
        """Encode; padding does not count."""
        *parts, standardise = self
        codes = x
        for part in parts:
            codes = part(codes)
        return standardise(codes, presence_mask(x))


class _ImageEncoder(nn.Module):
    """h(x) for small images: strided convolutions, then the mean over positions."""

    def __init__(self, settings: ConvEncoderSettings, channels: int) -> None:
        super().__init__()
        hidden = settings.hidden
        layers: list[nn.Module] = []
        for before, after in pairwise([channels, hidden // 4, hidden // 2, hidden, hidden]):
            layers += [nn.Conv2d(before, after, kernel_size=3, stride=2, padding=1), nn.LeakyReLU(0.01)]
        self.layers = nn.Sequential(*layers)
        self.out = nn.Linear(hidden, settings.out)

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b o"]:
        """Encode images."""
        return self.out(self.layers(x).mean(dim=(2, 3)))


def check_channels_first(input_shape: tuple[int, ...]) -> None:
    """Check that images are (C, H, W).

    Raises:
        DataError: they look like (H, W, C): the last number, not the first, is 1 or 3.
    """
    first, second, last = input_shape
    if last in (1, 3) and first > 4 and second > last:
        raise DataError(
            f"Images must have their channels first, (channels, height, width); shape {input_shape} looks like "
            "(height, width, channels). Turn them: tensor.permute(2, 0, 1), or numpy.moveaxis(image, -1, 0)."
        )


# -- from settings -----------------------------------------------------------------------------------------
# Each builds the encoder of one kind for inputs of a shape.


def build_scaling(settings: ScalingEncoderSettings, input_shape: tuple[int, ...]) -> nn.Module:
    """Vectors, standardised, or sets in the units of those to predict."""
    del settings  # it has none
    return SetScaling(input_shape) if len(input_shape) > 1 else nn.Sequential(InputScaling(input_shape))


def build_mlp(settings: MLPEncoderSettings, input_shape: tuple[int, ...]) -> nn.Module:
    """Vectors, or each element of a set, through an MLP."""
    features = input_shape[-1]
    widths = [features, *[settings.hidden] * (settings.layers - 1), settings.out]
    end = [nn.Sigmoid()] if settings.sigmoid else []
    of_elements = len(input_shape) > 1
    scaling = InputScaling((features,), masked=of_elements)
    return _finished(settings, scaling, MLP(widths), *end, of_elements=of_elements)


def build_conv(settings: ConvEncoderSettings, input_shape: tuple[int, ...]) -> nn.Module:
    """Images through convolutions."""
    return _finished(settings, _ImageEncoder(settings, input_shape[0]))


def build_resnet34(settings: ResNet34EncoderSettings, input_shape: tuple[int, ...]) -> nn.Module:
    """Images through ResNet-34; its weights may come from a file."""
    check_image(input_shape)
    encoder = ResNet34Encoder(settings.out, input_shape[0])
    finished = _finished(settings, encoder)
    if settings.weights:  # after initial weights are drawn, which they take the place of
        load_trunk(encoder.trunk, Path(settings.weights))
    return finished


def build_sum_pooled_set(settings: SumPooledSetEncoderSettings, input_shape: tuple[int, ...]) -> nn.Module:
    """Sets through a sum over present elements."""
    return _finished(settings, InputScaling(input_shape[1:]), _PooledSetEncoder(settings, input_shape))


def build_fspool_set(settings: FSPoolSetEncoderSettings, input_shape: tuple[int, ...]) -> nn.Module:
    """Sets through FSPool."""
    channels, as_feature = input_shape[1], settings.presence_as_feature
    of_sets = SetEncoderEnergySettings(hidden=settings.hidden, latent=settings.out, divide_by_size=as_feature)
    encoder = SetEncoder(of_sets, channels) if as_feature else _MaskedSetEncoder(of_sets, channels - 1)
    return _finished(settings, InputScaling((channels,), masked=as_feature), encoder)


def _finished(
    settings: LayeredEncoderSettings | ResNet34EncoderSettings, *parts: nn.Module, of_elements: bool = False
) -> nn.Module:
    """The parts in sequence, initialised, followed by standardisation of codes where settings ask for it.

    With `of_elements` the encoder gives a code for each element, so padding is left out of the statistics.
    """
    for part in parts:
        initialise(part, settings.initialisation)
    if settings.standardise_codes:
        together = _ElementCodes if of_elements else nn.Sequential
        return together(*parts, StandardCodes(settings.out))
    return nn.Sequential(*parts) if len(parts) > 1 else parts[0]
