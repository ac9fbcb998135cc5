"""Checks of the arguments of a predictor, before anything is done with them."""

import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral
from pathlib import Path
from typing import Any, get_args

import numpy as np
from torch import Tensor, nn

from desp.data.base import as_input
from desp.data.frames import has_names, is_frame, read_named_inputs, read_named_sets
from desp.data.shape import DataShape
from desp.errors import CheckpointError, DataError, RunError, SettingsError
from desp.methods import Method
from desp.nn import InputScaling, SetScaling
from desp.nn.standardisation import FAR_STANDARD_DEVIATIONS
from desp.sets import SetBatch, presence_mask
from desp.settings import (
    DataDescription,
    Device,
    Engine,
    MatmulPrecision,
    MethodSettings,
    RepresentationSettings,
    SamplerSettings,
    Scaled,
    TrainingSettings,
    require_setting,
)
from desp.training import TrainingCallback

logger = logging.getLogger(__name__)

FAR_NAMED = 10
CALLED_WITH = {"augment": ("batch", "generator"), "validation": ("predictor",)}
"""The arguments with which `fit` calls the user's functions."""
MOST_SETS = 10_000_000
"""The most sets predicted in one call; memory would not hold more."""


def check_parts(method: Any, representation: Any, input_encoder: Any) -> None:
    """Check that the parts of a predictor are what they must be, and fit each other.

    Raises:
        SettingsError: they do not.
    """
    for given, expected in ((method, MethodSettings), (representation, RepresentationSettings)):
        if not isinstance(given, expected):
            raise SettingsError(f"Expected {expected.__name__}, got {type(given).__name__}.{_instance_of(given)}")
    padded = not method.needs_presence or representation.padding == "presence"
    wanted = f"presence for the method {method.kind} with these settings"
    require_setting(padded, "representation.padding", wanted, representation.padding)
    if input_encoder is not None and not isinstance(input_encoder, nn.Module):
        raise SettingsError(
            "input_encoder must be a torch.nn.Module, so that its weights are trained and moved with the others, "
            f"got {type(input_encoder).__name__}.{_instance_of(input_encoder) or ' Write a function as a module.'}"
        )


def check_scaled(scaled: bool | str) -> Scaled:
    """Check `scaled`: the text "none", a value of `RepresentationSettings.scaling`, would count as true.

    Raises:
        SettingsError: it is neither true or false nor ``standard``.
    """
    if isinstance(scaled, bool | np.bool_):
        return bool(scaled)
    if scaled == "standard":
        return "standard"
    raise SettingsError(f"scaled must be True, False or 'standard', got {scaled!r}.")


def check_execution_options(engine: Any, device: Any, matmul_precision: Any) -> None:
    """Check how and where a predictor runs.

    Raises:
        SettingsError: a value is unknown.
    """
    for name, value, known in (("engine", engine, Engine), ("device", device, Device)):
        require_setting(value in get_args(known), name, f"one of {get_args(known)}", value)
    precisions = (*get_args(MatmulPrecision), None)
    require_setting(matmul_precision in precisions, "matmul_precision", f"one of {precisions}", matmul_precision)


def _instance_of(given: Any) -> str:
    return f" Make one: {given.__name__}(...)." if isinstance(given, type) else ""


def check_fit(
    training: Any, description: Any, callback: Any, folder: Any, resume: Any, **functions: Any
) -> Path | None:
    """Check the arguments of `SetPredictor.fit` beside the dataset; returns the folder.

    Raises:
        SettingsError: one of them is of another type.
        RunError: the folder is a file.
    """
    for name, given, expected in (
        ("training", training, TrainingSettings),
        ("description", description, DataDescription),
        ("callback", callback, TrainingCallback),
    ):
        if given is not None and not isinstance(given, expected):
            raise SettingsError(
                f"{name} must be {expected.__name__}, got {type(given).__name__}.{_instance_of(given)}"
            )
    for name, given in functions.items():
        if given is not None and not callable(given):
            raise SettingsError(f"{name} must be a function, or None, got {type(given).__name__}.")
        if given is not None:
            _check_signature(name, given, CALLED_WITH[name])
    if not isinstance(resume, bool):
        raise SettingsError(f"resume must be True or False, got {resume!r}.")
    if folder is None:
        return None
    if not isinstance(folder, str | Path) or not str(folder):
        raise SettingsError(f"folder must be the path of a folder, or None, got {folder!r}.")
    if Path(folder).exists() and not Path(folder).is_dir():
        raise RunError(f"{folder} is a file. Choose a folder for checkpoints and the log.")
    return Path(folder)


def check_validation(validation: Any, validation_data: Any, progress: Any) -> None:
    """Check that there is one way to validate, and that the progress bar is asked for or not.

    Raises:
        SettingsError: there are two, or progress is neither True nor False.
    """
    if validation is not None and validation_data is not None:
        raise SettingsError("Pass validation, a function, or validation_data, not both.")
    if not isinstance(progress, bool):
        raise SettingsError(f"progress must be True or False, got {progress!r}.")


def _check_signature(name: str, function: Any, arguments: tuple[str, ...]) -> None:
    """Check that a function can be called with so many arguments, where its signature is known."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some are written in C
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        wanted = ", ".join(arguments)
        raise SettingsError(f"{name} is called as {name}({wanted}), but its signature is {signature}.") from error


def check_whole(name: str, value: Any, least: int) -> int:
    """Check a whole number; returns it as `int`.

    Raises:
        SettingsError: it is of another type, or below `least`.
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise SettingsError(f"{name} must be a whole number, got {value!r} of type {type(value).__name__}.")
    require_setting(int(value) >= least, name, f"at least {least}", int(value))
    return int(value)


def check_samples(samples: Any, inputs: int) -> int:
    """Check the number of sets K for each input; returns it as `int`.

    Raises:
        SettingsError: it is no whole number, below 1, or more than memory could hold.
    """
    samples = check_whole("samples", samples, 1)
    most = MOST_SETS // max(inputs, 1)
    wanted = f"at most {most} for {inputs} inputs (for more, predict in several calls, each with its own seed)"
    require_setting(samples <= most, "samples", wanted, samples)
    return samples


def check_folder(name: Any) -> Path:
    """Check the folder that a predictor is saved in.

    Raises:
        CheckpointError: it is no path, or a file.
    """
    if not isinstance(name, str | Path) or not str(name):
        raise CheckpointError(f"Expected the path of a folder, got {name!r}.")
    if Path(name).exists() and not Path(name).is_dir():
        raise CheckpointError(f"{name} is a file. Choose a folder for the predictor.")
    return Path(name)


def check_sampler(sampler: Any, method: MethodSettings) -> None:
    """Check sampler settings that replace the method's own.

    Raises:
        SettingsError: they are no sampler settings, or of another kind than the method's.
    """
    if sampler is None:
        return
    if not isinstance(sampler, SamplerSettings):
        raise SettingsError(
            f"sampler must be sampler settings, such as EDMSettings(steps=40), got {type(sampler).__name__}."
            f"{_instance_of(sampler)}"
        )
    own = method.prediction_sampler
    if own is None:
        raise SettingsError(f"The method {method.kind} has no sampler to choose. Leave sampler out.")
    require_setting(sampler.kind == own.kind, "sampler", f"of kind '{own.kind}' for this method", sampler.kind)
    method.with_part("sampler", sampler)  # refuses what this method cannot do


def warn_of_far_inputs(method: Method, x: Tensor, name_of: Callable[[int], str] = str) -> None:
    """Warn of inputs (B, ...) that are far from the training inputs, where the encoder standardises inputs.

    `name_of` names an input by its number.
    """
    scalings = (part for part in method.encoder.modules() if isinstance(part, InputScaling))
    scaling = next(scalings, None)
    if scaling is None or isinstance(scaling, SetScaling):
        return
    far = scaling.far(x)
    if method.shape.input_kind == "set":
        far = far & presence_mask(x).unsqueeze(-1)
    places = far.flatten(1).any(dim=1).nonzero().flatten().tolist()
    if places:
        named = ", ".join(map(name_of, places[:FAR_NAMED])) + (", ..." if len(places) > FAR_NAMED else "")
        logger.warning(
            "%d of %d inputs lie more than %g standard deviations from those of training, so predictions for them "
            "may mean nothing. Check their units. %s: %s",
            len(places),
            len(x),
            FAR_STANDARD_DEVIATIONS,
            "Counted from 0" if name_of is str else "They are",
            named,
        )


def check_input_sets(x: Tensor, aligned: bool, first: int = 0) -> None:
    """Check that inputs (B, N, D + 1) are padded sets.

    Raises:
        DataError: presence is neither 0 nor 1; or padding is not last, where outputs are aligned with inputs.
    """
    presence = x[..., -1]
    if len(wrong := ((presence != 0) & (presence != 1)).nonzero()):
        row, element = wrong[0].tolist()
        raise DataError(
            f"Input {first + row}: the last feature of an input set is presence, 1 or 0, but that of element "
            f"{element} is {float(presence[row, element]):g}. Add a column with 1 for elements and 0 for padding."
        )
    if aligned and len(gaps := (presence.diff(dim=1) > 0).any(dim=1).nonzero()):
        raise DataError(
            f"Input {first + int(gaps[0])}: an element follows padding. Where outputs are aligned with inputs, "
            "padding is last."
        )


def check_aligned_sizes(x: Tensor, sets: SetBatch, first: int = 0) -> None:
    """Check that each input (B, N, D + 1) has as many elements as its set.

    Raises:
        DataError: one has not.
    """
    pairs = zip(presence_mask(x).sum(dim=1).tolist(), sets.sizes.tolist(), strict=True)
    for index, (given, size) in enumerate(pairs, first):
        if given != size:
            raise DataError(
                f"Example {index}: its set has {size} elements and its input {given}. Where outputs are aligned "
                "with inputs, each element of the input has its own in the set."
            )


def batch_of_inputs(x: Any, shape: DataShape) -> Tensor:
    """Inputs as a tensor (B, ...).

    Raises:
        DataError: they are not a batch of inputs of that shape.
    """
    x, wanted = read_named_inputs(x, shape) if has_names(x) else as_input(x), shape.input_shape
    if wanted == (1,) and x.dim() == 1:  # numbers
        return x.unsqueeze(1)
    if x.dim() and tuple(x.shape[1:]) == wanted:
        if shape.input_kind == "set":
            check_input_sets(x, shape.aligned)
        return x
    raise DataError(
        f"Expected a batch of inputs of shape (B, {', '.join(map(str, wanted))}), got shape {tuple(x.shape)}."
        f"{_shape_hint(tuple(x.shape), shape)}"
    )


def one_input(x: Any, shape: DataShape) -> Tensor:
    """One input as a batch (1, ...).

    Raises:
        DataError: it is no input of that shape.
    """
    x, wanted = as_input(x), shape.input_shape
    if (tuple(x.shape) or (1,)) == wanted:
        return x.reshape(1, *wanted)
    several = tuple(x.shape[1:]) == wanted or (x.dim() == 1 and wanted == (1,))
    hint = " For several inputs, use predict." if several else _shape_hint((1, *x.shape), shape)
    if (1, *x.shape) == wanted:
        hint = " Pass x.unsqueeze(0)."
    raise DataError(f"Expected one input of shape {wanted}, got {tuple(x.shape)}.{hint}")


def _shape_hint(got: tuple[int, ...], shape: DataShape) -> str:
    """Advice on inputs of another shape than the training inputs."""
    wanted = shape.input_shape
    if got in (wanted, ()):
        return " For one input, use predict_one."
    if shape.input_kind == "set":
        size = got[-2] if len(got) >= 2 else 0
        larger = f" At most {wanted[0]} elements were seen in training." if size > wanted[0] else ""
        return f" Input sets are padded with zeros, their last feature is presence, 1 or 0.{larger}"
    if shape.input_kind == "image" and len(got) == 4 and got[1:] == (*wanted[1:], wanted[0]):
        return " Channels come first: pass images.permute(0, 3, 1, 2)."
    if len(wanted) == 1 and len(got) == 2:
        return f" In training an input had {wanted[0]} numbers."
    return ""


def one_set_each(sets: Any, inputs: Any, x: Tensor, shape: DataShape) -> SetBatch:
    """One set for each input, padded to the size that energies were trained with.

    Args:
        sets: a list of them, or a data frame of elements.
        inputs: as the user passed them; a data frame of elements is joined with them.
        x: the same inputs as a batch (B, ...).
        shape: of the training data.

    Raises:
        DataError: there are more or fewer sets, or a data frame that cannot be joined; or a set has another size
            than its input, where outputs are aligned with inputs.
    """
    if is_frame(sets):
        sets = read_named_sets(inputs, sets, shape)
    # A batch may be padded to another size, which energies would notice.
    if not isinstance(sets, SetBatch | Iterable) or isinstance(sets, str | Mapping):
        raise DataError(f"Expected a list of sets, one for each input, got {type(sets).__name__}.")
    ragged = sets.to_ragged() if isinstance(sets, SetBatch) else list(sets)
    if len(ragged) != len(x):
        raise DataError(f"Expected one set for each of {len(x)} inputs, got {len(ragged)} sets.")
    batch = SetBatch.from_ragged(ragged, shape.max_size, shape.features)
    if shape.aligned:
        check_aligned_sizes(x, batch)
    return batch
