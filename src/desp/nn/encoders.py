"""Encoders: of sets into one vector, and of inputs."""

from itertools import pairwise

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from desp.nn.element_layers import element_layers, kernel_weights
from desp.nn.fourier import fourier_length, with_fourier_features
from desp.nn.mlp import MLP, NEGATIVE_SLOPE, Pullback, initialise
from desp.nn.pooling import make_pool
from desp.sets import present
from desp.settings import (
    ConvEncoderSettings,
    ElementsEncoderSettings,
    FSPoolSetEncoderSettings,
    IdentityEncoderSettings,
    LayeredEncoderSettings,
    MLPEncoderSettings,
    PaddedSetEncoderSettings,
    Pooling,
    SumPooledSetEncoderSettings,
)


class SetEncoder(nn.Module):
    """g(Y): an MLP on every element, then a pooling (Zhang et al. 2019, used by E_SE).

    Args:
        features: features of one element.
        hidden: width of the hidden layers.
        out: length of the code.
        layers: linear layers.
        pooling: how elements are pooled.
        divide_by_size: divide pooled features by N.
        negative_slope: of the activations; 0 for ReLU.
    """

    def __init__(
        self,
        features: int,
        hidden: int,
        out: int,
        layers: int = 3,
        pooling: Pooling = "fspool",
        divide_by_size: bool = False,
        negative_slope: float = NEGATIVE_SLOPE,
    ) -> None:
        super().__init__()
        self.mlp = MLP([features, *[hidden] * (layers - 1), out], negative_slope)
        self.pool = make_pool(pooling, out)
        self.divide_by_size = divide_by_size

    def forward(
        self,
        sets: Float[Tensor, "b n d"],
        presence: Bool[Tensor, "b n"] | None = None,
        cache: tuple[Tensor, ...] | None = None,
    ) -> Float[Tensor, "b o"]:
        """Encode (B, N, D) sets as (B, O) codes; `presence` and `cache` go to the pooling."""
        return self.pool(self.mlp(sets), presence, cache) / self.divisor(sets.shape[1])

    def divisor(self, size: int) -> int:
        """What pooled features of `size` elements are divided by. All poolings are linear in a positive factor."""
        return max(size, 1) if self.divide_by_size else 1

    def prepare(self, batch: int, size: int) -> tuple[Tensor, ...]:
        """What `with_pullback` takes for `batch` sets of `size` elements, from the weights alone."""
        return (kernel_weights(self.mlp, batch * size), *self.pool.cache(size))

    def with_pullback(
        self, sets: Float[Tensor, "b n d"], prepared: tuple[Tensor, ...], *, fused: bool = False
    ) -> tuple[Float[Tensor, "b o"], Pullback]:
        """The code of full sets, and the pullback from gradients in it to gradients in `sets`."""
        packed, *cache = prepared
        values, pull_values = element_layers(self.mlp, sets, packed, fused=fused)
        pooled, pull_pooled = self.pool.with_pullback(values, tuple(cache))
        divisor = self.divisor(sets.shape[1])
        return pooled / divisor, lambda gradient: pull_values(pull_pooled(gradient / divisor))


class PresenceSetEncoder(nn.Module):
    """h(x) for inputs that are sets themselves, given as (B, N, D + 1) with presence as last feature."""

    def __init__(self, features: int, hidden: int, out: int) -> None:
        super().__init__()
        self.encoder = SetEncoder(features, hidden, out)

    def forward(self, x: Float[Tensor, "b n c"]) -> Float[Tensor, "b o"]:
        """Encode the present elements; absent ones do not count."""
        return self.encoder(x[..., :-1], present(x))


class PooledSetEncoder(nn.Module):
    """h(x) for inputs that are sets, with layers before and after a sum over the present elements.

    The sum alone is a linear map of the set's indicator function; what is learned of it comes after.

    Args:
        features: features of one element, without presence.
        hidden: width of all layers.
        out: length of the code.
        size: elements of a large set, roughly; sums are divided by it.
        frequencies: of the Fourier features of elements.
    """

    def __init__(self, features: int, hidden: int, out: int, size: int, frequencies: int) -> None:
        super().__init__()
        self.size, self.frequencies = max(size, 1), frequencies
        first = nn.Linear(fourier_length(features, frequencies), hidden)
        self.of_elements = nn.Sequential(first, nn.SiLU(), nn.Linear(hidden, hidden))
        self.of_set = nn.Sequential(
            nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, out)
        )

    def forward(self, x: Float[Tensor, "b n c"]) -> Float[Tensor, "b o"]:
        """Encode sets (B, N, D + 1) with presence as last feature; absent elements do not count."""
        elements, presence = x[..., :-1], present(x).unsqueeze(-1)
        values = self.of_elements(with_fourier_features(elements, self.frequencies))
        # By the same number for all sets: how many elements there are shall be seen.
        return self.of_set(torch.where(presence, values, 0.0).sum(dim=1) / self.size)


class InputScaling(nn.Module):
    """Inputs brought to mean 0 and deviation 1, with the numbers saved among the weights."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("deviation", torch.ones(shape))

    def set_from(self, mean: Tensor, deviation: Tensor) -> None:
        """Take the statistics of the training inputs; a constant input keeps its unit."""
        self.mean.copy_(mean)
        self.deviation.copy_(torch.where(deviation > 1e-8, deviation, torch.ones_like(deviation)))

    def forward(self, x: Float[Tensor, "b *shape"]) -> Float[Tensor, "b *shape"]:
        """Standardise."""
        return (x - self.mean) / self.deviation


class PresentScaling(InputScaling):
    """Input sets (B, N, D + 1), presence last: present elements standardised, absent ones zero vectors."""

    def forward(self, x: Float[Tensor, "b n c"]) -> Float[Tensor, "b n c"]:
        """Standardise; presence, whose mean is taken as 0 and deviation as 1, stays what it is."""
        return super().forward(x) * x[..., -1:]


class SetScaling(InputScaling):
    """Input sets (B, N, D + 1), presence last, in the units and with the padding of the sets to predict."""

    def forward(self, x: Float[Tensor, "b n c"]) -> Float[Tensor, "b n c"]:
        """Scale elements; absent ones are zero vectors."""
        elements, presence = x[..., :-1], x[..., -1:]
        return torch.cat([super().forward(elements) * presence, presence], dim=-1)


class StandardCodes(nn.BatchNorm1d):
    """Codes (B, H) in which every number has mean 0 and deviation 1 over inputs.

    Over a batch in training, over all that were seen in prediction. What an encoder gives at first may be nearly
    the same for all inputs.

    Args:
        features: H.
    """

    def __init__(self, features: int) -> None:
        super().__init__(features, affine=False, eps=1e-10)  # codes may differ by thousandths

    def forward(self, input: Float[Tensor, "b h"]) -> Float[Tensor, "b h"]:
        """Standardise; a single code, which has no deviation, by what was seen before."""
        if len(input) > 1:
            return super().forward(input)
        return F.batch_norm(input, self.running_mean, self.running_var, eps=self.eps)


class ImageEncoder(nn.Module):
    """h(x) for small images: strided convolutions, then the mean over places.

    Args:
        channels: colours of the image.
        hidden: channels of the widest layer.
        out: length of the code.
    """

    def __init__(self, channels: int, hidden: int, out: int) -> None:
        super().__init__()
        widths = [channels, hidden // 4, hidden // 2, hidden, hidden]
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Conv2d(before, after, kernel_size=3, stride=2, padding=1), nn.LeakyReLU(0.01)]
        self.layers = nn.Sequential(*layers)
        self.out = nn.Linear(hidden, out)

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b o"]:
        """Encode images."""
        return self.out(self.layers(x).mean(dim=(2, 3)))


# -- from settings -----------------------------------------------------------------------------------------
# Each builds the encoder of one kind for inputs of a shape.


def build_identity(settings: IdentityEncoderSettings, input_shape: tuple[int, ...]) -> nn.Module:
    """Vectors, standardised."""
    del settings
    return nn.Sequential(InputScaling(input_shape))


def build_mlp(settings: MLPEncoderSettings, input_shape: tuple[int, ...]) -> nn.Module:
    """Vectors through an MLP."""
    widths = [input_shape[0], settings.hidden, settings.hidden, settings.out]
    encoder = nn.Sequential(InputScaling(input_shape), MLP(widths))
    return _finish(encoder, settings)


def build_conv(settings: ConvEncoderSettings, input_shape: tuple[int, ...]) -> nn.Module:
    """Images through convolutions."""
    return _finish(ImageEncoder(input_shape[0], settings.hidden, settings.out), settings)


def build_sum_pooled_set(settings: SumPooledSetEncoderSettings, input_shape: tuple[int, ...]) -> nn.Module:
    """Sets through a sum over present elements."""
    size, features = input_shape[0], input_shape[1] - 1
    encoder = PooledSetEncoder(features, settings.hidden, settings.out, size, settings.fourier_features)
    return nn.Sequential(InputScaling((features + 1,)), encoder)


def build_fspool_set(settings: FSPoolSetEncoderSettings, input_shape: tuple[int, ...]) -> nn.Module:
    """Sets through FSPool."""
    channels, hidden, out = input_shape[1], settings.hidden, settings.out
    if settings.presence_as_feature:
        encoder = SetEncoder(channels, hidden, out, divide_by_size=True)
        return _finish(nn.Sequential(PresentScaling((channels,)), encoder), settings)
    masked = PresenceSetEncoder(channels - 1, hidden, out)
    return _finish(nn.Sequential(InputScaling((channels,)), masked), settings)


def build_elements(settings: ElementsEncoderSettings, input_shape: tuple[int, ...]) -> nn.Module:
    """Sets, each element through an MLP."""
    channels = input_shape[1]
    layers = nn.Linear(channels, settings.hidden), nn.SiLU(), nn.Linear(settings.hidden, settings.out)
    return nn.Sequential(PresentScaling((channels,)), *layers)


def build_padded_set(settings: PaddedSetEncoderSettings, input_shape: tuple[int, ...]) -> nn.Module:
    """Sets as they are, for an energy that encodes them itself."""
    del settings
    return SetScaling((input_shape[1] - 1,))


def _finish(encoder: nn.Module, settings: LayeredEncoderSettings) -> nn.Module:
    initialise(encoder, settings.initialisation)
    if not settings.standardise:
        return encoder
    parts = encoder if isinstance(encoder, nn.Sequential) else (encoder,)
    return nn.Sequential(*parts, StandardCodes(settings.out))
