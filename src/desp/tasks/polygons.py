"""Polygons: predict the corners of a regular polygon with a given number of corners."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from desp.data.base import Batch
from desp.data.polygons import draw_polygons
from desp.errors import DataError
from desp.metrics import kuiper, polygon_score, polygon_turn, size_rmse
from desp.predictor import DataShape, SetPredictor
from desp.randomness import make_generator
from desp.sets import SetBatch
from desp.settings import PolygonsSettings, SamplerSettings
from desp.tasks.base import Evaluation, Example, GeneratedTask
from desp.tasks.judgement import CALIBRATED, calibration_scores, compared_sets, distribution_scores

TESTS = 4000
ANGLES = 1000


class PolygonsTask(GeneratedTask):
    """Score: the smallest Hungarian distance to 256 rotated true polygons, mean over 4,000 tests."""

    name = "polygons"
    compares_collections = True
    score_name = "Hungarian distance to the nearest true polygon"

    def __init__(self, settings: PolygonsSettings, seed: int = 0) -> None:
        del seed
        self.corners: Sequence[int] = settings.corners
        self.axes = {"names": ["x", "y"], "closed": True, "image_rows": False}

    def draw(self, batch_size: int, generator: torch.Generator) -> Batch:
        """Polygons at random rotations."""
        return draw_polygons(batch_size, generator, self.corners)

    def shape(self, max_size: int | None, scaling: bool) -> tuple[DataShape, None]:
        """As many rows as the largest polygon has corners."""
        del max_size, scaling
        return DataShape((len(self.corners),), features=2, max_size=max(self.corners)), None

    def read_input(self, value: Any, where: str, folder: Path, shape: DataShape) -> Tensor:
        """The number of corners."""
        del folder, shape
        if isinstance(value, bool) or value not in self.corners:
            known = ", ".join(map(str, self.corners))
            raise DataError(f"{where}: expected a number of corners among {known}, got {value!r}.")
        return self._one_hot([self.corners.index(value)])[0]

    def examples(self, seed: int) -> list[Example]:
        """Every number of corners, with three true polygons each."""
        truth = self.draw(60 * len(self.corners), make_generator(seed, "examples"))
        kinds = truth.x.argmax(dim=1)
        sets = truth.sets.to_ragged()
        return [
            Example(
                label=f"{count} corners",
                input=count,
                x=self._one_hot([kind])[0],
                truth=[sets[i] for i in (kinds == kind).nonzero().flatten()[:3].tolist()],
            )
            for kind, count in enumerate(self.corners)
        ]

    def evaluate(
        self, predictor: SetPredictor, *, seed: int, samples: int, sampler: SamplerSettings | None = None
    ) -> Evaluation:
        """Score, set sizes, and whether all rotations appear."""
        del samples
        kinds = torch.arange(TESTS, device=predictor.device) % len(self.corners)
        true_sizes = torch.tensor(self.corners, device=predictor.device)[kinds]
        x = self._one_hot(kinds)
        generator = make_generator(seed, "test chains", device=predictor.device)
        code = predictor.encode(x)
        raw, _ = predictor.sample(code, generator, sampler=sampler)
        sets = predictor.decode_sets(raw)
        sizes = {"size_rmse": size_rmse(sets.sizes, true_sizes), "right_size": _share(sets.sizes, true_sizes)}
        returned = polygon_score(sets.packed().elements, true_sizes)
        drawn = {count: self._drawn(predictor, count, seed, sampler) for count in self.corners}
        angles = {str(count): _turns(sets, count) for count, sets in drawn.items()}
        known = [value for value in angles.values() if value is not None]
        worst = {"kuiper": max(known) if len(known) == len(angles) else float("nan")}
        spread, spread_details = self._spread(predictor, drawn)
        ranks, rank_details = self._calibration(predictor, seed, sampler)
        real = self.draw(TESTS, make_generator("real polygons"))
        return Evaluation(
            raw={"score": float(polygon_score(raw[..., :2], true_sizes).mean())},
            returned={
                "score": float(returned.mean()),
                "score_median": float(returned.median()),
                **sizes,
                **worst,
                **spread,
                **ranks,
            },
            real_data={"score": float(polygon_score(real.sets.elements, real.sets.sizes).mean())},
            details={"kuiper": angles, "distribution": spread_details, "calibration": rank_details},
            energy=float(predictor.raw_energy(code, raw).mean()),
        )

    def _drawn(self, predictor: SetPredictor, count: int, seed: int, sampler: SamplerSettings | None) -> SetBatch:
        """Predictions for one number of corners, enough to find 1,000 with that many."""
        tried = max(ANGLES + ANGLES // 2, compared_sets(predictor))
        code = predictor.encode(self._one_hot([self.corners.index(count)]).to(predictor.device)).expand(tried, -1)
        generator = make_generator(seed, "angles", count, device=predictor.device)
        return predictor.decode_sets(predictor.sample(code, generator, sampler=sampler)[0]).packed()

    def _spread(
        self, predictor: SetPredictor, drawn: dict[int, SetBatch]
    ) -> tuple[dict[str, float], dict[str, Any]]:
        """Predicted against fresh true polygons, for each number of corners."""
        wanted = compared_sets(predictor, self.compared_by)
        real = {}
        for count in drawn:
            polygons = draw_polygons(wanted, make_generator("compared polygons", count), (count,)).sets
            real[str(count)] = polygons.to(predictor.device)
        predicted = {str(count): sets.first(wanted) for count, sets in drawn.items()}
        return distribution_scores(real, predicted, self.compared_by)

    def _calibration(
        self, predictor: SetPredictor, seed: int, sampler: SamplerSettings | None
    ) -> tuple[dict[str, float], dict[str, Any]]:
        truth = self.draw(CALIBRATED[predictor.device.type], make_generator(seed, "calibration polygons"))
        return calibration_scores(predictor, truth.x, truth.sets, seed=seed, sampler=sampler)

    def _one_hot(self, kinds: Tensor | list[int]) -> Tensor:
        return F.one_hot(torch.as_tensor(kinds), len(self.corners)).float()


def _turns(sets: SetBatch, count: int) -> float | None:
    """Kuiper's statistic of the rotations of 1,000 predictions with the right count; None if there are fewer.

    The statistic depends on how many there are, so fewer would not compare.
    """
    right = sets.elements[sets.sizes == count][:ANGLES, :count]
    return kuiper(polygon_turn(right)) if len(right) >= ANGLES else None


def _share(predicted: Tensor, true: Tensor) -> float:
    return float((predicted == true).double().mean())
