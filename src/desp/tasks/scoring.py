"""Protocols, which say how much is scored, and the default scores of a predictor on held-out examples.

`score_examples` is the default of `Task.evaluate`.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from desp.data.arrays import Example
from desp.data.base import Batch
from desp.errors import RunError
from desp.metrics import Metric
from desp.metrics.calibration import CALIBRATION_ERROR
from desp.metrics.sizes import RIGHT_SIZE, SIZE_RMSE, right_size, size_rmse
from desp.predictor import SetPredictor
from desp.predictor.energy_score import VALIDATION_EXAMPLES, distance_function, pairwise_distances_with_truth
from desp.randomness import make_generator
from desp.sets import SetBatch
from desp.settings import Distance, SamplerSettings
from desp.tasks.calibration import CALIBRATION_SAMPLES, MIN_CALIBRATION_EXAMPLES, calibration_scores

_RECALLED = "fraction of valid sets that are the nearest valid set"
METRICS = (
    Metric("score", 1.0, "lower", "Chamfer distance to held-out sets"),
    Metric("score_best_of_k", 1.0, "lower", "distance to the held-out set, of the nearest of K predictions"),
    Metric("valid_set_recall", 1.0, "higher", f"recall: {_RECALLED} of at least one of K predictions"),
    SIZE_RMSE,
    RIGHT_SIZE,
    CALIBRATION_ERROR,
)

INPUTS_AT_ONCE = 1000
SETS_AT_ONCE = 500


def metrics_of(aligned: bool) -> tuple[Metric, ...]:
    """The metrics of `score_examples`; `aligned`: outputs are aligned with inputs."""
    text = "Huber distance of elements to those of held-out sets"
    return (replace(METRICS[0], text=text), *METRICS[1:]) if aligned else METRICS


@dataclass(frozen=True)
class Protocol:
    """Counts, under a name, that decide what a task scores: a number means the same on every device.

    Scores of different counts do not compare.

    Attributes:
        test_examples: how many are scored, the first ones, of pedestrians evenly spaced ones; None: all of a
            dataset, and 1,000 of tests that are drawn (class-conditional tasks, which are Polygons and Digits, and
            CelebA need a number). Several numbers give scores of each on set-MNIST; others use the first.
        predictions_per_input: predictions for each input by which rotations and styles are measured, not those of
            ``--samples``; None for tasks that measure neither.
        sets_per_collection: true and predicted sets of one input that are compared as collections.
        sets_per_collection_hungarian: the same for the Hungarian distance, which takes longer.
        calibration_examples: inputs with a true set that is ranked among predictions; ``desp tune`` compares
            samplers on so many too, of which own data have at most 200.
        validation_examples: examples of a validation, by which the best weights are kept.
    """

    test_examples: tuple[int | None, ...] = (None,)
    predictions_per_input: int | None = None
    sets_per_collection: int = 1000
    sets_per_collection_hungarian: int = 200
    calibration_examples: int = 500
    validation_examples: int = VALIDATION_EXAMPLES


# `full` is what results are recorded with; `quick` takes minutes on a CPU.
FULL, QUICK = Protocol(), Protocol(sets_per_collection=200, calibration_examples=200)


@dataclass(frozen=True)
class Evaluation:
    """Scores of a predictor.

    Attributes:
        raw: metrics of the sampler's raw output, as the paper scores it.
        returned: metrics of sets made from it: absent elements removed, zero-padded again. CLEVR pools all samples
            of an image into one set; pedestrians have the centres of clusters of samples.
        real_data: metrics of true sets, fresh ones on Polygons and Digits; empty from `score_examples`.
        details: further numbers, such as statistics for each input.
        energy: mean energy of the predictions.
        data: the data that were scored on, where `Task.data_label` does not tell.
        cases: single predictions beside their truth, for pictures.
    """

    raw: dict[str, float]
    returned: dict[str, float]
    real_data: dict[str, float]
    details: dict[str, Any] = field(default_factory=dict)
    energy: float | None = None
    data: str | None = None
    cases: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class Predicted:
    """What was predicted for the M examples that `score_examples` scores, in their order.

    Attributes:
        code: (M, ...) of the inputs.
        raw: (M K, N, C) the sampler's output, K rows for the first example, K for the second, and so on.
        returned: (M K, N, D) the same as sets in the user's units.
    """

    code: Tensor
    raw: Tensor
    returned: SetBatch


@dataclass(frozen=True)
class EvaluationSetup:
    """What is scored, and on how much fresh test data.

    Attributes:
        predictor: the predictor to score.
        seed: of test data and chains.
        samples: K, predictions for each input, for metrics that use several.
        protocol: one of the task's protocols.
        sampler: used in place of the predictor's own sampler.
        distance: set distance for collections of true and predicted sets, where the task compares these.
        progress: called with the part that is scored now, the number of parts done, and of all parts.
        keep: called with the predictions that `score_examples` scores, for later comparisons.
        keep_each: called with the score of each example, where `Task.validation_score` is their mean.
    """

    predictor: SetPredictor
    seed: int
    samples: int
    protocol: Protocol
    sampler: SamplerSettings | None = None
    distance: Distance = "chamfer"
    progress: Callable[[str, int, int], None] | None = None
    keep: Callable[[Predicted], None] | None = None
    keep_each: Callable[[Tensor], None] | None = None

    def tell(self, what: str, done: int, of: int) -> None:
        """Report progress: the part that begins, the number of parts done, and of all parts."""
        if self.progress:
            self.progress(what, done, of)

    def mean_score(self, each: Tensor) -> float:
        """The mean of the scores (T,) of T examples, which are kept if that is asked for."""
        if self.keep_each:
            self.keep_each(each)
        return float(each.mean())

    def independent_samples(self, wanted: int) -> int:
        """How many of `wanted` predictions for one input can differ: 1 where sampling is deterministic."""
        return 1 if (self.sampler or self.predictor.method_settings).deterministic else wanted

    @property
    def collection_size(self) -> int:
        """The number of sets in a collection."""
        by_assignment = self.distance == "hungarian"
        return self.protocol.sets_per_collection_hungarian if by_assignment else self.protocol.sets_per_collection

    def sample(self, inputs: Iterable[Tensor], samples: int, *name: str | int) -> tuple[Tensor, Tensor]:
        """K predictions for each of B inputs, which are encoded some (b, ...) at a time.

        Args:
            inputs: all of them, in parts; where outputs are aligned, they may have fewer rows than N.
            samples: K.
            name: of the generator.

        Returns:
            Their codes (B, ...), and the sampler's raw output (B K, N, C).

        Raises:
            RunError: inputs of this task have another shape than the predictor's training inputs.
        """
        predictor, codes, given = self.predictor, [], []
        for some in inputs:
            wanted = predictor.shape.input_shape_for(tuple(some.shape[1:]))
            if some.shape[1:].numel() != math.prod(wanted):
                raise RunError(
                    f"The run was trained on inputs of shape {wanted}, but those of its task have "
                    f"{tuple(some.shape[1:])} now: another version of desp trained it. Train it again."
                )
            x = some.reshape(len(some), *wanted).to(predictor.device)
            codes.append(predictor.encode(x))
            given.append(predictor.given_presence(x))
        code, known = torch.cat(codes), [item for item in given if item is not None]
        presence = torch.cat(known) if known else None
        generator = make_generator(self.seed, *name, device=predictor.device)
        raw, _ = predictor.sample(code, generator, sampler=self.sampler, presence=presence, samples=samples)
        return code, raw

    def distances(self, examples: Batch, samples: int = CALIBRATION_SAMPLES) -> Tensor:
        """Distances (T, K + 1, K + 1) among the true set, first, and K predictions of each of T inputs."""
        _, raw = self.sample([examples.x], samples, "calibration")
        return pairwise_distances_with_truth(self.predictor, raw, examples.sets, samples)

    def calibration(self, truth: Batch) -> tuple[dict[str, float], dict[str, Any]]:
        """As `calibration_scores`, for inputs with a true set."""
        return calibration_scores(self.distances(truth), self.seed)


def score_examples(setup: EvaluationSetup, examples: Sequence[Example]) -> Evaluation:
    """Distances to the nearest valid set, errors of the cardinality, and calibration.

    The distance is Chamfer's in scaled units, padding and presence included; where outputs are aligned with
    inputs, it is between predicted element i and true element i. If several sets are valid and the data hold one
    of them, a right prediction may be far from it; so the distance of the nearest of K predictions is scored too.
    """
    predictor, samples, answers = setup.predictor, setup.samples, list[tuple[Tensor, ...]]()

    def inputs() -> Iterator[Tensor]:
        """Some at a time, as all may not fit into memory; their valid sets are kept."""
        for first in range(0, len(examples), INPUTS_AT_ONCE):
            some = examples[first : first + INPUTS_AT_ONCE]
            answers.extend(valid for _, valid in some)
            yield torch.stack([x for x, _ in some])

    code, raw = setup.sample(inputs(), samples, "held-out chains")
    returned = predictor.sets_from_tensor(raw).packed()
    if setup.keep:
        setup.keep(Predicted(code, raw, returned))
    distances, nearest = _to_answers(predictor, returned, answers, samples)
    sizes = returned.sizes.cpu()
    true_sizes = torch.tensor(
        [len(valid[index]) for valid, row in zip(answers, nearest.tolist(), strict=True) for index in row]
    )
    ranks, rank_details = _calibration(setup, examples[: setup.protocol.calibration_examples])
    return Evaluation(
        raw={},
        returned={
            "score": float(distances.mean()),
            "score_best_of_k": float(distances.amin(dim=1).mean()),
            "size_rmse": size_rmse(sizes, true_sizes),
            "right_size": right_size(sizes, true_sizes),
            **_valid_set_recall(answers, nearest),
            **ranks,
        },
        real_data={},
        details={"held_out": len(answers), "samples": samples, **rank_details},
        energy=float(predictor.raw_energy(code, raw, samples).mean()),
    )


def _to_answers(
    predictor: SetPredictor, returned: SetBatch, answers: Sequence[Sequence[Tensor]], samples: int
) -> tuple[Tensor, Tensor]:
    """Distances (M, K) of predictions to the nearest valid set of each example, and the number of that set."""
    shape, between, each = predictor.shape, distance_function(predictor), []
    own = predictor.sets_to_tensor(returned)
    for number in range(max(map(len, answers))):
        # Where there are fewer, the first one again: the nearest stays the same.
        valid = [item[number if number < len(item) else 0] for item in answers]
        truth = SetBatch.from_ragged(valid, shape.max_size, shape.features).to(predictor.device)
        target = predictor.sets_to_tensor(truth).repeat_interleave(samples, dim=0)
        parts = zip(own.split(SETS_AT_ONCE), target.split(SETS_AT_ONCE), strict=True)
        each.append(torch.cat([between(a, b) for a, b in parts]).view(-1, samples).cpu())
    distances, nearest = torch.stack(each).min(dim=0)
    counts = torch.tensor([len(item) for item in answers]).unsqueeze(1)
    return distances, torch.where(nearest < counts, nearest, 0)


def _valid_set_recall(answers: Sequence[Sequence[Tensor]], nearest: Tensor) -> dict[str, float]:
    """The fraction of valid sets that are the nearest valid set of one of K predictions, if there are several."""
    if max(map(len, answers)) == 1:
        return {}
    shares = [len(set(row)) / len(valid) for valid, row in zip(answers, nearest.tolist(), strict=True)]
    return {"valid_set_recall": statistics.fmean(shares)}


def _calibration(setup: EvaluationSetup, some: Sequence[Example]) -> tuple[dict[str, float], dict[str, Any]]:
    """Calibration scores, with a random valid set of each example as the truth; empty for too few examples."""
    if len(some) < MIN_CALIBRATION_EXAMPLES:
        return {}, {}
    chances = torch.rand(len(some), generator=make_generator(setup.seed, "valid answers")).tolist()
    chosen = [answers[int(chance * len(answers))] for chance, (_, answers) in zip(chances, some, strict=True)]
    truth = SetBatch.from_ragged(chosen, features=setup.predictor.shape.features)
    scores, details = setup.calibration(Batch(torch.stack([x for x, _ in some]), truth))
    return scores, {"calibration": details}
