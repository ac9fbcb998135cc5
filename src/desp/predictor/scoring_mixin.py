"""Energies and densities of given sets, and a score of predictions."""

import math
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from desp.data.base import Batch
from desp.errors import SettingsError
from desp.methods.base import NO_ENERGY
from desp.predictor.checks import batch_of_inputs, check_whole, one_set_each
from desp.predictor.energy_score import energy_scores
from desp.randomness import check_seed, make_generator
from desp.samplers import LogDensity
from desp.sets import SetBatch

if TYPE_CHECKING:
    from desp.predictor.predictor import SetPredictor


class ScoringMixin:
    """Methods of `SetPredictor` that score given sets."""

    @torch.no_grad()
    def energy(self, x: Any, sets: Any) -> Tensor:
        """The energy (B,) of one set for each input of a batch; lower is more plausible among sets of one
        input, where the cardinality is predicted among those of one cardinality.

        Args:
            x: a batch of inputs.
            sets: as many, as in `fit`; where outputs are aligned with inputs, each as large as its input.

        Raises:
            SettingsError: the method has no energy.
            DataError: not one set for each input, or an aligned one of another size.
        """
        predictor, batch, given = self._pairs(x, sets)
        return predictor.raw_energy(predictor.encode(batch), predictor.sets_to_tensor(given)).cpu()

    def log_prob(self, x: Any, sets: Any, *, steps: int = 100, probes: int = 16, seed: int = 0) -> LogDensity:
        """log p(set | x), p(n | x) included, of one set for each input of a batch.

        It is the density, in the units of the data, of sets with noise of the sampler's sigma_min added. Where
        padded sets have more than 64 numbers, presence included, the divergence is estimated with random probes.
        Categories count as the numbers 0 and 1.

        Args:
            x: a batch of inputs.
            sets: as many, as in `fit`; where outputs are aligned with inputs, each as large as its input.
            steps: of the probability-flow ODE from data to noise; `LogDensity.error` shows if they are enough.
            probes: random directions for large sets.
            seed: of these.

        Raises:
            SettingsError: the method has no normalised density.
            DataError: not one set for each input, or an aligned one of another size.
        """
        steps, probes = check_whole("steps", steps, 2), check_whole("probes", probes, 2)
        predictor, batch, given = self._pairs(x, sets)
        generator = make_generator(check_seed(seed), "probes", device=predictor.device)
        code, padded = predictor.encode(batch), predictor.sets_to_tensor(given)
        with predictor.predicting():
            density = predictor.method.log_prob(code, padded, generator, steps, probes)
        scale = given.sizes * sum(math.log(span) for span in predictor.shape.scaling.span)
        return LogDensity((density.value - scale).cpu(), density.error.cpu())

    @torch.no_grad()
    def score(self, inputs: Any, sets: Any, *, samples: int = 10, seed: int = 0) -> float:
        """How good predictions are, higher is better, as scikit-learn expects: minus the mean energy score.

        The energy score (not the model's energy) is how far predictions are from the true set, less half of how
        far they are from each other, by the root of the Chamfer distance of padded sets in scaled units, padding
        and presence included (where outputs are aligned with inputs, of the distance between elements i); see
        `energy_scores_from_distances`.

        Args:
            inputs: a batch of inputs.
            sets: the true set of each; as in `fit`.
            samples: predictions for each input, at least 2.
            seed: of the predictions.
        """
        predictor = cast("SetPredictor", self)
        x = batch_of_inputs(inputs, predictor.shape)
        examples = Batch(x, one_set_each(sets, inputs, x, predictor.shape))
        samples, seed = check_whole("samples", samples, 2), check_seed(seed)
        return -float(energy_scores(predictor, examples, samples, seed).mean())

    def _pairs(self, x: Any, sets: Any) -> "tuple[SetPredictor, Tensor, SetBatch]":
        """Inputs with one set each, on the device of the predictor, which must have an energy."""
        predictor = cast("SetPredictor", self)
        if not predictor.method_settings.has_energy:
            raise SettingsError(NO_ENERGY)
        batch = predictor.as_batch(x)
        return predictor, batch, one_set_each(sets, x, batch, predictor.shape).to(predictor.device)
