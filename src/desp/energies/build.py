"""From settings to an energy with the input encoder that suits the input."""

import torch
from torch import Tensor, nn

from desp.energies.attention import AttentionEnergy, AttentionField
from desp.energies.base import SetEnergy
from desp.energies.deep_sets import DeepSetsEnergy
from desp.energies.pooled_layers import PooledLayersEnergy
from desp.energies.set_encoder import SetEncoderEnergy
from desp.errors import DataError, SettingsError
from desp.nn import (
    MLP,
    ImageEncoder,
    InputScaling,
    PooledSetEncoder,
    PresenceSetEncoder,
    PresentScaling,
    SetEncoder,
    SetScaling,
    StandardCodes,
    initialise,
)
from desp.settings import (
    AttentionSettings,
    DeepSetsSettings,
    EnergySettings,
    InputKind,
    NetworkSettings,
    PooledLayersSettings,
    SetEncoderSettings,
    TransformerSettings,
)

# By which elements of input sets are described, where the energy has no waves of its own.
ENCODER_WAVES = 8


def default_input_encoder(
    kind: InputKind, input_shape: tuple[int, ...], settings: NetworkSettings, code: int | None = None
) -> nn.Module:
    """h(x) for users who bring none of their own.

    E_SE needs vectors in its latent space, and the transformer codes of that length; others take them as they are
    (standardised), as the paper's E_DS does.

    Args:
        kind: what inputs are.
        input_shape: of one of them.
        settings: of the network that gets the codes.
        code: numbers of a code; None: as many as the network is wide, and vectors as they are.
    """
    encoder = _input_encoder(kind, input_shape, settings, code)
    if isinstance(settings, SetEncoderSettings):
        initialise(encoder, settings.initialisation)
    if isinstance(settings, TransformerSettings):
        # Its decoder sees codes beside random points, and would not notice what hardly differs.
        parts = encoder if isinstance(encoder, nn.Sequential) else (encoder,)
        return nn.Sequential(*parts, StandardCodes(settings.latent))
    return encoder


def _input_encoder(
    kind: InputKind, input_shape: tuple[int, ...], settings: NetworkSettings, code: int | None
) -> nn.Module:
    if len(input_shape) != {"vector": 1, "set": 2, "image": 3}[kind]:
        raise DataError(
            f"Inputs of shape {input_shape} have no encoder of their own. Use vectors, images (C, H, W), or "
            "padded sets (N, D + 1) with input_kind='set'; or pass input_encoder=..., any module from a batch of "
            "inputs to codes (B, H)."
        )
    if isinstance(settings, SetEncoderSettings) and settings.shared:
        if kind != "set":
            raise DataError(f"energy.shared needs inputs that are sets like those to predict, got a {kind}.")
        return SetScaling((input_shape[1] - 1,))
    latent = settings.latent if isinstance(settings, SetEncoderSettings | TransformerSettings) else None
    out = latent or code or settings.hidden
    if kind == "set" and isinstance(settings, TransformerSettings):
        # As DSPN encodes sets, with which it is compared: presence is a feature, features are divided by N.
        encoder = SetEncoder(input_shape[1], settings.hidden, out, divide_by_size=True)
        return nn.Sequential(PresentScaling((input_shape[1],)), encoder)
    if kind == "set":
        size, features = input_shape[0], input_shape[1] - 1
        scaling = InputScaling((features + 1,))
        # Where codes of inputs and sets are compared, both come from the same kind of network.
        if latent is not None:
            return nn.Sequential(scaling, PresenceSetEncoder(features, settings.hidden, out))
        waves = settings.waves if isinstance(settings, AttentionSettings) else ENCODER_WAVES
        return nn.Sequential(scaling, PooledSetEncoder(features, settings.hidden, out, size, waves))
    if kind == "image":
        return ImageEncoder(input_shape[0], settings.hidden, out)
    if latent is None and code is None:
        return nn.Sequential(InputScaling(input_shape))
    return nn.Sequential(InputScaling(input_shape), MLP([input_shape[0], settings.hidden, settings.hidden, out]))


def _probe(encoder: nn.Module, input_shape: tuple[int, ...]) -> Tensor:
    """The code of one zero input: what an encoder gives is known best by asking it.

    Raises:
        SettingsError: it cannot take such an input.
    """
    like = next(encoder.parameters(), torch.zeros(()))
    training = encoder.training
    encoder.eval()  # leaves running statistics alone
    try:
        with torch.no_grad():
            return encoder(torch.zeros(1, *input_shape, device=like.device, dtype=like.dtype))
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise SettingsError(
            f"The input encoder cannot take a batch of inputs of shape {(1, *input_shape)}: {error}"
        ) from error
    finally:
        encoder.train(training)


def code_shape(input_encoder: nn.Module, input_shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the code that an encoder gives for one input."""
    return tuple(_probe(input_encoder, input_shape).shape[1:])


def make_energy(
    settings: EnergySettings,
    channels: int,
    input_shape: tuple[int, ...],
    input_encoder: nn.Module,
    *,
    level_features: int = 0,
    knows_presence: bool = False,
) -> SetEnergy:
    """Build the energy that `settings` name, for padded sets with `channels` features a row.

    Args:
        settings: kind and widths.
        channels: features of one row of a padded set.
        input_shape: of one input.
        input_encoder: h(x).
        knows_presence: the last feature says 1 for present elements and -1 for absent ones, and does not move.
        level_features: numbers behind the encoder's code that tell the noise level; 0: there is none.

    Raises:
        SettingsError: the encoder's codes do not fit the energy.
    """
    code = _probe(input_encoder, input_shape)
    if isinstance(settings, DeepSetsSettings):
        return DeepSetsEnergy(channels, code.shape[-1] + level_features, settings, input_encoder)
    if isinstance(settings, PooledLayersSettings):
        return PooledLayersEnergy(channels, code.shape[-1] + level_features, settings, input_encoder)
    if isinstance(settings, AttentionSettings):
        kind = AttentionField if settings.field else AttentionEnergy
        width = code.shape[-1] + level_features
        return kind(channels, width, settings, input_encoder, knows_presence=knows_presence)
    if settings.shared:
        if code.dim() != 3 or code.shape[2] != channels:
            raise SettingsError(
                f"energy.shared needs inputs that are sets of {channels} features a row, presence included, like "
                f"those to predict; got shape {tuple(code.shape[1:])} for one input."
            )
    elif tuple(code.shape) != (1, settings.latent):
        raise SettingsError(
            f"The set-encoder energy needs codes of {settings.latent} numbers (energy.latent), but the input "
            f"encoder gives shape {tuple(code.shape[1:])} for one input."
        )
    return SetEncoderEnergy(channels, settings, input_encoder)
