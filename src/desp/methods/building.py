"""A method from its settings and the shape of data: its encoder, and an energy for the codes that it gives."""

from typing import Any

import torch
from torch import Tensor, nn

from desp.data.shape import DataShape
from desp.energies import SetEnergy
from desp.errors import DataError, SettingsError
from desp.methods.base import Method, MethodParts, evaluating
from desp.nn import InputScaling, SetScaling, check_channels_first
from desp.sets import SetRepresentation
from desp.settings import EnergySettings, Engine, MethodSettings, require_setting

ALIGNING_METHODS = (
    "energy-denoising, denoiser, engression, contrastive or set-risk, or for binary labels tagger, "
    "autoregressive-tagger or label-likelihood, where outputs are aligned with inputs"
)


def build_method(
    settings: MethodSettings,
    shape: DataShape,
    representation: SetRepresentation,
    encoder: nn.Module | None = None,
    engine: Engine = "auto",
    input_statistics: Tensor | None = None,
) -> Method:
    """The module that `settings` name, weights drawn from torch's global generator: encoder first.

    Args:
        settings: all parts.
        shape: of the data.
        representation: how sets are written as tensors.
        encoder: the user's own h(x), in place of the settings'.
        engine: how chains run.
        input_statistics: (2, ...), mean and standard deviation of inputs, by which the settings' encoder scales.

    Raises:
        SettingsError: parts do not fit each other or the data.
    """
    if shape.aligned:
        require_setting(settings.can_align, "method", ALIGNING_METHODS, settings.kind)
        wanted = "presence where outputs are aligned with inputs"
        require_setting(representation.has_presence, "representation.padding", wanted, "zero")
    used = build_encoder(settings, shape) if encoder is None else encoder
    code = code_shape(used, shape.input_shape)
    if shape.aligned and (len(code) != 2 or code[0] != shape.max_size):
        raise SettingsError(
            "Outputs that are aligned with inputs need an encoder that gives a code for each element, "
            f"({shape.max_size}, H); this one gives shape {code} for one input. Use the encoder 'mlp'."
        )
    module: Method = settings.load()(settings, MethodParts(used, code, shape, representation, engine))
    if encoder is None:
        _set_scales(used, shape, input_statistics)
    return module


def build_encoder(settings: MethodSettings, shape: DataShape) -> nn.Module:
    """h(x) for inputs of this shape; where outputs are aligned with them, a code for each element.

    Raises:
        DataError: no encoder takes such inputs.
        SettingsError: the one that was chosen does not.
    """
    kind = shape.input_kind
    if len(shape.input_shape) != {"vector": 1, "set": 2, "image": 3}[kind]:
        raise DataError(
            f"Inputs of shape {shape.input_shape} have no encoder of their own. Use vectors, images (C, H, W), or "
            "padded sets (N, D + 1) with input_kind='set'; or pass input_encoder=..., any module from a batch of "
            "inputs to codes (B, H), or (B, N, H) with a code for each element."
        )
    if kind == "image":
        check_channels_first(shape.input_shape)
    chosen = settings.encoder
    if chosen is None:
        chosen = settings.aligned_encoder() if shape.aligned else settings.default_encoder(kind)
    require_setting(kind in chosen.input_kinds, "encoder", f"one for inputs of kind '{kind}'", chosen.kind)
    encoder: nn.Module = chosen.load()(chosen, shape.input_shape)
    return encoder


def _set_scales(encoder: nn.Module, shape: DataShape, input_statistics: Tensor | None) -> None:
    """Tell an encoder how inputs are scaled: by their statistics, or as the sets they are encoded with."""
    for part in encoder.modules():
        if isinstance(part, SetScaling):
            scaling = shape.scaling
            part.set_from(torch.tensor(scaling.offset), torch.tensor(scaling.span))
            part.boxes = scaling.boxes
            part.limits = (scaling.lowest, scaling.highest) if scaling.lowest else None
        elif isinstance(part, InputScaling) and input_statistics is not None:
            part.set_from(*input_statistics)


def build_energy(settings: EnergySettings, parts: MethodParts, **options: Any) -> SetEnergy:
    """The energy that `settings` name, for an encoder that gives `parts.code_shape` for one input.

    Raises:
        SettingsError: it cannot use such codes.
    """
    settings.check_code(parts.code_shape, parts.set_shape)
    check_code_rows(parts)
    energy: SetEnergy = settings.load()(settings, parts.set_shape[1], parts.code_shape, **options)
    return energy


def check_code_rows(parts: MethodParts) -> None:
    """Check that codes of elements are as many as the rows of a padded set, whose elements they join.

    Raises:
        SettingsError: there are more or fewer.
    """
    rows = parts.set_shape[0]
    if len(parts.code_shape) == 2 and parts.code_shape[0] != rows:
        raise SettingsError(
            f"The encoder gives {parts.code_shape[0]} codes for one input, but padded sets have {rows} rows. Give "
            "one code for each row, or pool them to one for the input."
        )


def code_shape(encoder: nn.Module, input_shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of what an encoder gives for one input, found by a forward pass of zeros.

    Raises:
        SettingsError: it cannot take such an input, or gives no codes.
    """
    like, shape = next(encoder.parameters(), torch.zeros(())), (1, *input_shape)
    try:
        with evaluating(encoder), torch.no_grad():  # leaves running statistics alone
            probe = torch.zeros(shape, device=like.device, dtype=like.dtype)
            codes = encoder(probe)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise SettingsError(f"The encoder cannot take a batch of inputs of shape {shape}: {error}") from error
    if not isinstance(codes, Tensor):
        raise SettingsError(
            f"The encoder must give a tensor of codes, got {type(codes).__name__}. Wrap it in a module that "
            "returns the codes alone."
        )
    if codes.dim() not in (2, 3):
        raise SettingsError(
            "The encoder must give codes (B, H), or (B, N, H) with a code for each element; for a batch of inputs "
            f"of shape {shape} it gives shape {tuple(codes.shape)}. Flatten or pool it."
        )
    return tuple(codes.shape[1:])
