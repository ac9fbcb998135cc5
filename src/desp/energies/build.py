"""From settings to an energy with the input encoder that suits the input."""

import torch
from torch import Tensor, nn

from desp.energies.base import SetEnergy
from desp.energies.deep_sets import DeepSetsEnergy
from desp.energies.set_encoder import SetEncoderEnergy
from desp.errors import DataError, SettingsError
from desp.nn import MLP, ImageEncoder, InputScaling, PresenceSetEncoder
from desp.settings import DeepSetsSettings, EnergySettings, InputKind


def default_input_encoder(kind: InputKind, input_shape: tuple[int, ...], settings: EnergySettings) -> nn.Module:
    """h(x) for users who bring none of their own.

    E_DS takes vectors as they are (standardised), as the paper does; E_SE needs them in its latent space.
    """
    if len(input_shape) != {"vector": 1, "set": 2, "image": 3}[kind]:
        raise DataError(
            f"Inputs of shape {input_shape} have no encoder of their own. Use vectors, or images (C, H, W), "
            "or pass input_encoder=..., any module from a batch of inputs to codes (B, H)."
        )
    out = settings.hidden if isinstance(settings, DeepSetsSettings) else settings.latent
    if kind == "set":
        scaling = InputScaling((input_shape[1],))
        return nn.Sequential(scaling, PresenceSetEncoder(input_shape[1] - 1, settings.hidden, out))
    if kind == "image":
        return ImageEncoder(input_shape[0], settings.hidden, out)
    if isinstance(settings, DeepSetsSettings):
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


def make_energy(
    settings: EnergySettings, channels: int, input_shape: tuple[int, ...], input_encoder: nn.Module
) -> SetEnergy:
    """Build the energy that `settings` name, for padded sets with `channels` features a row.

    Raises:
        SettingsError: the encoder's codes do not fit the energy.
    """
    code = _probe(input_encoder, input_shape)
    if isinstance(settings, DeepSetsSettings):
        return DeepSetsEnergy(channels, code.shape[-1], settings, input_encoder)
    if tuple(code.shape) != (1, settings.latent):
        raise SettingsError(
            f"The set-encoder energy needs codes of {settings.latent} numbers (energy.latent), but the input "
            f"encoder gives shape {tuple(code.shape[1:])} for one input."
        )
    return SetEncoderEnergy(channels, settings, input_encoder)
