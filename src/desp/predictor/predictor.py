"""SetPredictor: fit and predict with any method; energy and log_prob where it has them; saved and loaded."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from desp.capture import CapturedFunction
from desp.categories import argmax_one_hot
from desp.data.base import Augmentation, Batch, to_float
from desp.data.shape import DataShape
from desp.errors import RunError
from desp.methods import Method, build_method
from desp.methods.base import evaluating
from desp.precision import matmul_precision
from desp.predictor.box_fusion import best_prediction
from desp.predictor.checks import (
    batch_of_inputs,
    check_execution_options,
    check_fit,
    check_parts,
    check_sampler,
    check_samples,
    check_validation,
    one_input,
    warn_of_far_inputs,
)
from desp.predictor.dataset_summary import inspect_dataset
from desp.predictor.fitting import (
    as_dataset,
    fit_to_dataset,
    hold_out,
    training_for,
    validation_batch,
)
from desp.predictor.parameters import ParametersMixin
from desp.predictor.prediction import Prediction, split_predictions
from desp.predictor.saving import HubMixin
from desp.predictor.scoring_mixin import ScoringMixin
from desp.randomness import check_seed, make_generator, seeded_weights
from desp.samplers import CHAINS_AT_ONCE, ChainInfo, Record
from desp.sets import SetBatch, SetRepresentation, presence_mask
from desp.settings import (
    DataDescription,
    Device,
    Engine,
    MatmulPrecision,
    MethodSettings,
    RepresentationSettings,
    SamplerSettings,
    TrainingSettings,
    default_samples,
)
from desp.settings.own_data import default_representation, own_data_method
from desp.training import TrainingCallback, TrainingOutcome


class SetPredictor(HubMixin, ScoringMixin, ParametersMixin, library_name="desp", tags=["set-prediction"]):
    """Fits itself to (input, set) pairs and predicts K sets for new inputs.

    Args:
        method: settings of how the model is trained and sampled; by default those of the recipe `custom`. The
            module built from them is `predictor.method`.
        representation: how sets become tensors; by default as in `custom` if `method` is `own_data_method`
            with any sampler, else `RepresentationSettings()`.
        input_encoder: h(x), any module from a batch of inputs to codes (B, H), or (B, N, H) with a code for each
            element, which aligned outputs need. Needed again when loading.
        engine: how chains run; ``auto`` picks what suits the device.
        device: where to run.
        matmul_precision: as torch's; ``medium`` has some layers in bfloat16, see `RunSettings`; None: torch's own.
    """

    def __init__(
        self,
        method: MethodSettings | None = None,
        representation: RepresentationSettings | None = None,
        *,
        input_encoder: nn.Module | None = None,
        engine: Engine = "auto",
        device: Device = "auto",
        matmul_precision: MatmulPrecision | None = None,
    ) -> None:
        method = method or own_data_method()
        self._representation_given = representation
        representation = representation or default_representation(method)
        check_parts(method, representation, input_encoder)
        check_execution_options(engine, device, matmul_precision)
        self.method_settings, self.representation = method, representation
        self.engine, self.device_choice = engine, device
        self.matmul_precision: MatmulPrecision | None = matmul_precision
        self.input_encoder = input_encoder
        self._method: Method | None = None
        self.facts: dict[str, Any] = {}  # of its training, for the model card

    def __repr__(self) -> str:
        known = "not fitted"
        if self._method is not None:
            inputs = f"{self.shape.input_kind} inputs of shape {self.shape.input_shape}"
            known = f"fitted: {inputs}, at most {self.shape.max_size} elements of {self.shape.features} features"
        return f"{type(self).__name__}({self.method_settings.kind}, {known})"

    @property
    def shape(self) -> DataShape:
        """Shapes of inputs and sets, known once the predictor is fitted or loaded."""
        return self.method.shape

    @property
    def method(self) -> Method:
        """The module that is trained and saved."""
        if self._method is None:
            raise RunError("This predictor has not been fitted. Call fit(dataset) first, or from_pretrained.")
        return self._method

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.method.parameters()).device

    @property
    def _dtype(self) -> torch.dtype:
        return next(self.method.parameters()).dtype

    def build(self, shape: DataShape, *, seed: int = 0, input_statistics: Tensor | None = None) -> None:
        """Make the module for data of `shape`, with weights drawn from `seed`.

        `input_statistics` (2, ...) are mean and standard deviation of inputs, by which encoders standardise them.
        """
        with seeded_weights(seed, "weights"):
            parts = (
                self.method_settings,
                shape,
                SetRepresentation(self.representation),
                self.input_encoder,
                self.engine,
            )
            self._method = build_method(*parts, input_statistics)
        self._method.eval()
        captures = self._method.capturable and self.engine in ("auto", "graph")
        self._encode = CapturedFunction(self._method.encode, self._method, captures=captures)

    # -- units -------------------------------------------------------------------------------------------

    def prepare(self, batch: Batch, device: torch.device) -> tuple[Tensor, Tensor]:
        """From a batch in the user's units to the tensors (x, y) that methods take."""
        x = batch.x.reshape(len(batch.x), *self.shape.input_shape_for(tuple(batch.x.shape[1:]))).to(device)
        return to_float(x, self._dtype), self.sets_to_tensor(batch.sets.to(device))

    def given_presence(self, x: Tensor) -> Tensor | None:
        """Which elements (B, N) sets have, where inputs say it: outputs are aligned with them. Else None."""
        return presence_mask(x) if self.shape.aligned else None

    def sets_to_tensor(self, sets: SetBatch) -> Tensor:
        """Sets in the user's units as the padded tensor (B, N, C) that methods see, in the weights' precision."""
        scaled = self.shape.scaling.scale(sets.elements).to(self._dtype)  # numpy's numbers come as float64
        return self.method.representation.to_tensor(SetBatch(scaled, sets.mask))

    def sets_from_tensor(self, values: Tensor) -> SetBatch:
        """A padded tensor (B, N, C) as sets in the user's units; the inverse of `sets_to_tensor`."""
        sets = self.method.representation.from_tensor(values)
        elements = argmax_one_hot(self.shape.scaling.unscale(sets.elements), self.shape.description.categories)
        return SetBatch(elements * sets.mask.unsqueeze(-1), sets.mask)

    def as_batch(self, x: Any) -> Tensor:
        """Inputs as (B, ...), checked, on this predictor's device."""
        return to_float(batch_of_inputs(x, self.shape).to(self.device), self._dtype)

    # -- training --------------------------------------------------------------------------------------

    def fit(
        self,
        inputs: Any,
        sets: Any = None,
        training: TrainingSettings | None = None,
        *,
        validation_data: Any = None,
        progress: bool = False,
        description: DataDescription | None = None,
        augment: Augmentation | None = None,
        validation: Callable[["SetPredictor"], float | Tensor] | None = None,
        seed: int = 0,
        folder: str | Path | None = None,
        resume: bool = False,
        callback: TrainingCallback | None = None,
    ) -> TrainingOutcome:
        """Fit to ``(inputs, sets)``, or to one dataset of pairs. The next positional argument is `training`.

        Args:
            inputs: numbers, vectors, images, sets, or what `input_encoder` takes: an array (M, ...), a list, a
                data frame; or a torch dataset (map-style or iterable) or a list of (input, set) pairs.
            sets: M sets (n, D), as arrays or lists; or a data frame with one row per element, joined with that of
                the inputs by its index or a column `id`. None for a dataset.
            training: replaces all settings; None: see `default_training`.
            validation_data: (inputs, sets), or a dataset; its first 200 are scored every `training.validate_every`
                steps, or about ten times. None: with default method and training a tenth is held out, at most 200.
            progress: show a bar on standard error.
            description: what shapes do not tell. Inputs that are sets are padded, (N, D + 1), with presence last.
            augment: random data augmentation, from (batch in your units, generator) to a batch.
            validation: from this predictor to a score, or to a tensor of scores, always of the same examples.
            seed: of weights, noise and the order of data.
            folder: missing, empty, or of an earlier `fit`. `desp` commands can use it if `input_encoder` is None.
            resume: continue the run in `folder`; begin it if there is none.
            callback: a `TrainingCallback`, called at each event of training.

        Raises:
            DataError, RunError: the data, or the folder, cannot be used; the message says which item and why.
        """
        if isinstance(sets, TrainingSettings) and training is None:  # fit(dataset, settings)
            sets, training = None, sets
        path = check_fit(training, description, callback, folder, resume, augment=augment, validation=validation)
        seed = check_seed(seed)
        check_validation(validation, validation_data, progress)
        dataset = self._build_for(inputs, sets, description, seed)
        if training is None and validation is None and validation_data is None:
            dataset, validation_data = hold_out(self, dataset, seed)
        training = training_for(training, self.method_settings, validation, validation_data)
        return fit_to_dataset(
            self,
            dataset,
            training,
            augment=augment,
            held_out=validation_batch(validation_data, self.shape),
            validation=validation,
            seed=seed,
            folder=path,
            resume=resume,
            callback=callback,
            progress=progress,
        )

    def _build_for(self, inputs: Any, sets: Any, description: DataDescription | None, seed: int) -> Any:
        """Make the module for data, which are read once; returns them as a dataset."""
        dataset, description = as_dataset(inputs, sets, description)
        shape, input_statistics = inspect_dataset(
            dataset,
            max_size=self.representation.max_size,
            scaled=self.representation.scaled,
            description=description,
        )
        self.build(shape, seed=seed, input_statistics=input_statistics)
        return dataset

    # -- prediction ------------------------------------------------------------------------------------

    @torch.no_grad()
    def predict(
        self,
        x: Any,
        samples: int | None = None,
        *,
        best: bool = False,
        seed: int = 0,
        sampler: SamplerSettings | None = None,
        name_of: Callable[[int], str] = str,
    ) -> list[Prediction]:
        """`samples` sets for each input of a batch.

        Args:
            x: a batch of inputs (B, ...).
            samples: K. Default: 1; with best=True 40 (1 where all would be the same).
            best: keep one set for each input: of boxes the most confident ones, with the share of samples as
                their presence (see `best_boxes`); of other sets, and where outputs are aligned with inputs, the
                medoid (`Prediction.medoid`, not `lowest_energy`).
            seed: the same seed gives the same sets.
            sampler: sampler settings to use instead of the method's own.
            name_of: names an input by its number, in warnings.

        Raises:
            DataError: `x` does not look like a batch of the inputs the predictor was fitted to.
        """
        check_sampler(sampler, self.method_settings)
        batch, seed = self.as_batch(x), check_seed(seed)
        default = default_samples(best=best, deterministic=(sampler or self.method_settings).deterministic)
        samples = check_samples(default if samples is None else samples, len(batch))
        warn_of_far_inputs(self.method, batch, name_of)
        code, given = self.encode(batch), self.given_presence(batch)
        generator = make_generator(seed, "predict", device=self.device)
        values, _ = self.sample(code, generator, sampler=sampler, presence=given, samples=samples)
        returned = self.sets_from_tensor(values)
        energies = self.predicted_energy(code, returned, values, samples).cpu().view(-1, samples)
        sampled = values[..., -1].cpu() if self.method.representation.has_presence else None
        modal = self.method.modal_cardinality(code)
        found = split_predictions(returned.to("cpu"), sampled, energies, self.method_settings, self.shape, modal)
        if not best:
            return found
        return [best_prediction(item, self.shape.description, self.shape.max_size) for item in found]

    def predict_one(self, x: Any, samples: int | None = None, **options: Any) -> Prediction:
        """`samples` sets for one input; options are those of `predict`."""
        if isinstance(x, Mapping):  # numbers by the names of their columns
            return self.predict([x], samples, **options)[0]
        return self.predict(one_input(x, self.shape), samples, **options)[0]

    @contextmanager
    def predicting(self) -> Iterator[None]:
        """Eval mode, and this predictor's precision of matrix products."""
        with matmul_precision(self.matmul_precision), evaluating(self.method):
            yield

    # -- raw tensors -----------------------------------------------------------------------------------

    @torch.no_grad()
    def encode(self, x: Tensor) -> Tensor:
        """The codes h(x) (B, ...) of inputs on this predictor's device; computed once for all that uses them."""
        with self.predicting():
            return torch.cat([self._encode(to_float(part, self._dtype)) for part in x.split(CHAINS_AT_ONCE)])

    @torch.no_grad()
    def sample(
        self,
        code: Tensor,
        generator: torch.Generator,
        *,
        sampler: SamplerSettings | None = None,
        record: Record = "nothing",
        presence: Tensor | None = None,
        samples: int = 1,
    ) -> tuple[Tensor, ChainInfo]:
        """K raw padded sets for each code, (B K, N, C), with the chain's record.

        `predict` is the friendly form; scores of raw output need this one.

        Args:
            code: from `encode`.
            generator: of all noise.
            sampler: sampler settings to use instead of the method's own.
            record: what to keep of the chain: nothing, energies, or these and all sets.
            presence: (B, N), from `given_presence`, where outputs are aligned with inputs.
            samples: K.
        """
        with self.predicting():
            chosen = sampler or self.method_settings.prediction_sampler
            return self.method.sample(code, generator, chosen, record, presence, samples)

    @torch.no_grad()
    def raw_energy(self, code: Tensor, values: Tensor, samples: int = 1) -> Tensor:
        """The energy (B K,) of K raw padded sets (B K, N, C) for each code; NaN for a method that has none."""
        with self.predicting():
            return self.method.energies(code, values, samples)

    def predicted_energy(self, code: Tensor, sets: SetBatch, raw: Tensor, samples: int) -> Tensor:
        """The energies (B K,) that predictions have: of raw padded sets, or where there are categories of the sets
        made from them, as decided categories are other numbers than those that were sampled."""
        return self.raw_energy(
            code, self.sets_to_tensor(sets) if self.shape.description.categories else raw, samples
        )
