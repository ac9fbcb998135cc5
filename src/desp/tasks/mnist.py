"""set-MNIST: reconstruct a digit, given as a set of points, from its code."""

import logging
import math
import os
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor

from desp.data.base import Batch, BatchSource, DeviceSource
from desp.data.inputs import read_input
from desp.data.mnist import PIXELS, MnistData, load_mnist, translate_points
from desp.distances import chamfer, hungarian
from desp.errors import DataError
from desp.metrics import Metric
from desp.metrics.reconstruction import RECONSTRUCTION_METRICS, SetDistance, distance_each, reconstruction_scores
from desp.predictor import DataShape, SetPredictor
from desp.randomness import make_generator
from desp.samplers import CHAINS_AT_ONCE
from desp.sets import SetBatch
from desp.settings import MnistSettings, SamplerSettings, Scaled, TrainingSettings
from desp.tasks.base import ShownExample, Task
from desp.tasks.scoring import FULL, QUICK, Evaluation, EvaluationSetup

logger = logging.getLogger(__name__)

# The paper's released code scores the first 1,000 test digits; names without a number mean these.
PUBLISHED_TESTS = 1000
SHOWN = 4
CASES = 5
# Sets that are NaN have a distance that is NaN, which training looks at.
VALIDATION_DISTANCES: dict[str, SetDistance] = {
    "chamfer": chamfer,
    "hungarian": partial(hungarian, nan_is_error=False),
}


class SetMnistTask(Task):
    """Score: Chamfer distance to the input itself, presence and padding included, on the first 1,000 test digits.

    There is one right answer, the input; so the data themselves would score 0, and predictions need no spread.
    """

    name = "set-mnist"
    metrics = (Metric("score", 1e-5, "lower", "Chamfer distance to the input"), *RECONSTRUCTION_METRICS)
    protocols = MappingProxyType(
        {
            "full": replace(FULL, test_examples=(PUBLISHED_TESTS, None), validation_examples=500),
            "quick": replace(QUICK, test_examples=(100, 200), calibration_examples=50, validation_examples=50),
        }
    )
    one_answer = True

    def __init__(self, settings: MnistSettings, seed: int = 0) -> None:
        del seed
        self.settings = settings
        self.data_label = {"mnist": "MNIST", "fashion": "Fashion-MNIST"}[settings.dataset]
        self.axes = {"names": ["row", "column"], "closed": False, "row_first": True}

    @cached_property
    def data(self) -> MnistData:
        """All sets; read when first needed, so that predicting does not need them.

        A run from another machine may name a folder that does not exist here; then DESP_DATA is used if it is set.
        """
        where = self.settings.data_dir
        elsewhere = bool(where) and not Path(where).expanduser().is_dir() and bool(os.environ.get("DESP_DATA"))
        if elsewhere:
            logger.warning("there is no folder %s here; data are read from DESP_DATA", where)
        return load_mnist(self.settings.dataset, "" if elsewhere else where)

    def fingerprint(self) -> str:
        """The checksum of the files."""
        return self.data.checksum

    def shape(self, max_size: int | None, scaling: Scaled) -> tuple[DataShape, None]:
        """Sets have as many rows as the largest one has points, 342 for MNIST; inputs are sets with presence."""
        del scaling
        size = self.data.test.points.shape[1]
        if max_size not in (None, size):
            raise DataError(
                f"The largest set has {size} points, but representation.max_size is {max_size}. Leave it out."
            )
        return DataShape((size, 3), features=2, max_size=size, input_kind="set"), None

    def source(
        self, shape: DataShape, training: TrainingSettings, seed: int, accelerator: Accelerator
    ) -> BatchSource:
        """The training part, which lies on the training device and is drawn from there, with replacement."""
        table = self.data.training.to(accelerator.device)
        fraction = self.settings.translate_fraction
        return DeviceSource(
            table.draw,
            training.batch_size_for(shape.max_size),
            seed,
            accelerator.device,
            accelerator.process_index,
            # None where it is 0: no random numbers are drawn then, so batches stay as in older versions.
            augment=translate_points(fraction, PIXELS) if fraction > 0 else None,
        )

    def read_input(self, value: Any, where: str, folder: Path, shape: DataShape) -> Tensor:
        """A set of points [[row, column], ...] in [0, 1]."""
        x = read_input(value, "set", shape.input_shape, folder, where)
        if bool(((x < 0) | (x > 1)).any()):
            raise DataError(f"{where}: expected rows and columns between 0 and 1, as pixel numbers divided by 27.")
        return x

    def shown_examples(self, seed: int) -> list[ShownExample]:
        """The first test digits."""
        del seed
        word = "digit" if self.settings.dataset == "mnist" else "image"
        batch = self.data.test.at(slice(SHOWN)).batch()
        return [
            ShownExample(label=f"test {word} {i}: {self.data.labels[i]}", input=None, x=x, truth=[y])
            for i, (x, y) in enumerate(zip(batch.x, batch.sets.to_ragged(), strict=True))
        ]

    def validation_batch(self, seed: int, count: int) -> Batch:
        """Digits of the validation part."""
        del seed
        return self.data.validation.at(slice(count)).batch()

    def validation_score(self, setup: EvaluationSetup, examples: Batch) -> float:
        """Distance of the sampler's raw output: where one answer is right, nothing is gained by spread."""
        x = examples.x.to(setup.predictor.device)
        _, raw = setup.sample([x], 1, "validation chains")
        distance = VALIDATION_DISTANCES[self.settings.validation_distance]
        return setup.mean_score(distance_each(distance, with_presence(setup.predictor, raw), x).double())

    def evaluate(self, setup: EvaluationSetup) -> Evaluation:
        """Distances and size errors; the protocol `full` scores the first 1,000 test digits, and all of them.

        Where a sampler other than the predictor's own is tried, only the smaller number is scored.
        """
        predictor, total = setup.predictor, len(self.data.test)
        counts = sorted({min(count or total, total) for count in setup.protocol.test_examples})
        counts = counts if setup.sampler is None else counts[:1]
        x = self.data.test.at(slice(counts[-1])).to(predictor.device).batch().x
        code, raw = setup.sample([x], 1, "test chains")
        sets = predictor.sets_from_tensor(raw).packed()
        of_raw, _ = reconstruction_scores(with_presence(predictor, raw), x, counts)
        of_returned, distances = reconstruction_scores(sets.with_presence(), x, counts)
        raw_scores, returned_scores = (
            {"score": scores[counts[0]]["chamfer"], **self._named(scores)} for scores in (of_raw, of_returned)
        )
        again_raw, again_returned = self._sampled_again(setup, code, x[: counts[0]])
        cases = ordered_cases(distances[: counts[0]], CASES)
        scored = f"{self.data_label}, first {' and '.join(map(str, counts))} test images"
        return Evaluation(
            raw=raw_scores | again_raw,
            returned=returned_scores | again_returned,
            # There is one right answer: a size is right, and nothing is far.
            real_data={name: float(name.startswith("right_size")) for name in returned_scores},
            details={
                "test_sets": counts,
                "returned_chamfer_quantiles": _quantiles(distances),
                "returned_chamfer_by_label": self._by_label(distances),
                "cases": cases,
            },
            energy=float(predictor.raw_energy(code, raw).mean()),
            data=None if counts[0] == PUBLISHED_TESTS else scored,
            cases=self._shown_cases(cases, sets, distances),
        )

    def _named(self, scores: dict[int, dict[str, float]], mark: str = "") -> dict[str, float]:
        """Scores by the names of metrics, with `mark`, and a suffix unless the first 1,000 are scored."""
        suffixes = {PUBLISHED_TESTS: "", len(self.data.test): "_all"}
        return {
            f"{name}{mark}{suffixes.get(count, f'_first{count}')}": value
            for count, metrics in scores.items()
            for name, value in metrics.items()
        }

    def _sampled_again(
        self, setup: EvaluationSetup, code: Tensor, x: Tensor
    ) -> tuple[dict[str, float], dict[str, float]]:
        """Metrics of raw and of returned sets, from codes rounded to bfloat16, which tell whether scores depend on
        the last bits; and from single chains, where a prediction is made of several. Empty where another sampler
        is tried.

        Whole batches of `CHAINS_AT_ONCE` are sampled again, so that the first `count` sets get the same noise.
        """
        predictor, count = setup.predictor, len(x)
        of_raw, of_returned = dict[str, float](), dict[str, float]()
        if setup.sampler is not None:
            return of_raw, of_returned
        code = code[: math.ceil(count / CHAINS_AT_ONCE) * CHAINS_AT_ONCE]
        own = predictor.method_settings.prediction_sampler
        ways: list[tuple[str, Tensor, SamplerSettings | None]] = [
            ("_bfloat16_code", code.to(torch.bfloat16).to(code.dtype), None)
        ]
        if own is not None and own.single_chain is not None:
            ways.append(("_single_chain", code, own.single_chain))
        for mark, codes, sampler in ways:
            generator = make_generator(setup.seed, "test chains", device=predictor.device)
            raw = predictor.sample(codes, generator, sampler=sampler)[0][:count]
            returned = predictor.sets_from_tensor(raw).packed().with_presence()
            of_raw |= self._named(reconstruction_scores(with_presence(predictor, raw), x, [count])[0], mark)
            of_returned |= self._named(reconstruction_scores(returned, x, [count])[0], mark)
        return of_raw, of_returned

    def _by_label(self, distances: Tensor) -> dict[str, float]:
        labels = torch.from_numpy(np.array(self.data.labels[: len(distances)]))
        return {str(label): float(distances[labels == label].mean()) for label in labels.unique().tolist()}

    def _shown_cases(self, cases: dict[str, list[int]], sets: SetBatch, distances: Tensor) -> list[dict[str, Any]]:
        """The sets of the best, median and worst cases, for pictures."""
        truth = self.data.test.batch().sets
        return [
            {
                "group": group,
                "index": index,
                "label": str(self.data.labels[index]),
                "score": float(distances[index]),
                "truth": _rounded(truth.elements[index][truth.mask[index]]),
                "prediction": _rounded(sets.elements[index][sets.mask[index]].cpu()),
            }
            for group, indices in cases.items()
            for index in indices
        ]


def with_presence(predictor: SetPredictor, raw: Tensor) -> Tensor:
    """A sampler's raw output (B, N, C) in the data's units as (B, N, 3), with presence as last column.

    Where absence is written as zero vectors, presence is what `sets_from_tensor` reads from them.
    """
    features = predictor.shape.features
    elements = predictor.shape.scaling.unscale(raw[..., :features])
    if raw.shape[-1] > features:
        return torch.cat([elements, raw[..., features:]], dim=-1)
    presence = predictor.sets_from_tensor(raw).mask.unsqueeze(-1)
    return torch.cat([elements, presence.to(elements.dtype)], dim=-1)


def ordered_cases(distances: Tensor, count: int) -> dict[str, list[int]]:
    """Indices of the `count` smallest, middle and largest distances (M,), each from small to large."""
    order = torch.argsort(distances, stable=True).tolist()
    count = min(count, len(order))
    middle = (len(order) - count) // 2
    return {"best": order[:count], "median": order[middle : middle + count], "worst": order[len(order) - count :]}


def _quantiles(distances: Tensor) -> dict[str, float]:
    shares = (0.05, 0.25, 0.5, 0.75, 0.95)
    values = torch.quantile(distances.double(), torch.tensor(shares, dtype=torch.float64))
    return {str(share): float(value) for share, value in zip(shares, values, strict=True)}


def _rounded(points: Tensor) -> list[list[float]]:
    return [[round(number, 4) for number in row] for row in points.tolist()]
