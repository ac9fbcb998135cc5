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
from desp.predictors import DataShape, EnergyPredictor
from desp.randomness import make_generator
from desp.sets import SetBatch
from desp.settings import PolygonsSettings, SamplerSettings
from desp.tasks.base import Evaluation, Example, GeneratedTask

TESTS = 4000
ANGLES = 1000


class PolygonsTask(GeneratedTask):
    """Score: the smallest Hungarian distance to 256 rotated true polygons, mean over 4,000 tests."""

    name = "polygons"
    score_name = "Hungarian distance to the nearest true polygon"

    def __init__(self, settings: PolygonsSettings) -> None:
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
        self, predictor: EnergyPredictor, *, seed: int, samples: int, sampler: SamplerSettings | None = None
    ) -> Evaluation:
        """Score, set sizes, and whether all rotations appear."""
        del samples
        kinds = torch.arange(TESTS, device=predictor.device) % len(self.corners)
        true_sizes = torch.tensor(self.corners, device=predictor.device)[kinds]
        x = self._one_hot(kinds)
        generator = make_generator(seed, "test chains", device=predictor.device)
        raw, _ = predictor.sample(x, generator, sampler=sampler)
        sets = predictor.decode_sets(raw)
        sizes = {"size_rmse": size_rmse(sets.sizes, true_sizes), "right_size": _share(sets.sizes, true_sizes)}
        returned = polygon_score(sets.packed().elements, true_sizes)
        angles = self._angles(predictor, seed, sampler)
        known = [value for value in angles.values() if value is not None]
        worst = {"kuiper": max(known) if len(known) == len(angles) else float("nan")}
        real = self.draw(TESTS, make_generator("real polygons"))
        return Evaluation(
            raw={"score": float(polygon_score(raw[..., :2], true_sizes).mean())},
            returned={
                "score": float(returned.mean()),
                "score_median": float(returned.median()),
                **sizes,
                **worst,
            },
            real_data={"score": float(polygon_score(real.sets.elements, real.sets.sizes).mean())},
            details={"kuiper": angles},
            energy=float(predictor.raw_energy(x, raw).mean()),
        )

    def _angles(self, predictor: EnergyPredictor, seed: int, sampler: SamplerSettings | None) -> dict[str, Any]:
        """Kuiper's statistic of the rotations of 1,000 predictions with the right count, for each n."""
        statistics: dict[str, float | None] = {}
        tried = ANGLES + ANGLES // 2
        for kind, count in enumerate(self.corners):
            x = self._one_hot([kind]).to(predictor.device).expand(tried, -1)
            generator = make_generator(seed, "angles", count, device=predictor.device)
            sets = predictor.decode_sets(predictor.sample(x, generator, sampler=sampler)[0]).packed()
            right = SetBatch(
                sets.elements[sets.sizes == count][:ANGLES], sets.presence[sets.sizes == count][:ANGLES]
            )
            # The statistic depends on how many there are, so fewer would not compare.
            enough = len(right) >= ANGLES
            statistics[str(count)] = kuiper(polygon_turn(right.elements[:, :count])) if enough else None
        return statistics

    def _one_hot(self, kinds: Tensor | list[int]) -> Tensor:
        return F.one_hot(torch.as_tensor(kinds), len(self.corners)).float()


def _share(predicted: Tensor, true: Tensor) -> float:
    return float((predicted == true).double().mean())
