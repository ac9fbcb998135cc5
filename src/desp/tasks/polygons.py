"""Polygons: predict the corners of a regular polygon with a given number of corners."""

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from desp.data.base import Batch
from desp.data.polygons import draw_polygons
from desp.metrics.polygons import KUIPER, POLYGON_MEDIAN, POLYGON_SCORE, kuiper, polygon_rotation, polygon_score
from desp.metrics.sizes import RIGHT_SIZE, SIZE_RMSE, right_size, size_rmse
from desp.predictor import SetPredictor
from desp.randomness import make_generator
from desp.sets import SetBatch
from desp.settings import PolygonsSettings
from desp.tasks.class_conditional import SPREAD_METRICS, ClassConditionalTask, Collections
from desp.tasks.scoring import EvaluationSetup, Protocol


class PolygonsTask(ClassConditionalTask):
    """Score: the smallest Hungarian distance to 256 rotated true polygons, mean over tests."""

    name = "polygons"
    protocols = MappingProxyType(
        {
            **ClassConditionalTask.protocols,
            # What `desp demo` scores, on a CPU that may be busy.
            "demo": Protocol((500,), 100, sets_per_collection=50, calibration_examples=50),
        }
    )
    metrics = (POLYGON_SCORE, POLYGON_MEDIAN, SIZE_RMSE, RIGHT_SIZE, KUIPER, *SPREAD_METRICS)

    def __init__(self, settings: PolygonsSettings, seed: int = 0) -> None:
        del seed
        self.inputs = self.corners = settings.corners
        self.labels = [f"{count} corners" for count in self.corners]
        self.max_size = max(self.corners)
        self.shown = (60 * len(self.corners), 3)
        self.axes = {"names": ["x", "y"], "closed": True, "row_first": False}

    def draw(self, batch_size: int, generator: torch.Generator) -> Batch:
        """Polygons at random rotations."""
        return draw_polygons(batch_size, generator, self.corners)

    def scorer(self, predictor: SetPredictor) -> Callable[[Tensor, Tensor], Tensor]:
        """The distance to the nearest polygon with the right number of corners."""
        del predictor
        return lambda sets, classes: polygon_score(sets, self._sizes(classes))

    def collections(self, setup: EvaluationSetup, real: Batch, predicted: Batch) -> Collections:
        """New ones: enough of each class to see whether all rotations appear."""
        del real, predicted
        predictor, per_input = setup.predictor, setup.protocol.predictions_per_input or 0
        tried = max(per_input + per_input // 2, setup.protocol.sets_per_collection)
        true, found = {}, {}
        for kind, corners in enumerate(self.corners):
            own = make_generator("compared polygons", corners)
            true[str(corners)] = draw_polygons(setup.collection_size, own, (corners,)).sets.to(predictor.device)
            _, raw = setup.sample([self.one_hot([kind])], tried, "angles", corners)
            found[str(corners)] = predictor.sets_from_tensor(raw).packed()
        return true, found

    def measure(
        self, setup: EvaluationSetup, predicted: Batch, scores: Tensor, collections: Collections
    ) -> tuple[dict[str, float], dict[str, Any]]:
        """The median score, set sizes, and whether all rotations appear among enough predictions of each number
        of corners."""
        wanted, found = self._sizes(predicted.x.argmax(dim=1)), predicted.sets.sizes
        count = setup.protocol.predictions_per_input or 0
        angles = {name: _rotation_kuiper(sets, int(name), count) for name, sets in collections[1].items()}
        known = [value for value in angles.values() if value is not None]
        own_scores = {
            "score_median": float(scores.median()),
            "size_rmse": size_rmse(found, wanted),
            "right_size": right_size(found, wanted),
            "kuiper": max(known) if len(known) == len(angles) else float("nan"),
        }
        return own_scores, {"kuiper": angles}

    def _sizes(self, classes: Tensor) -> Tensor:
        return torch.tensor(self.corners, device=classes.device)[classes]


def _rotation_kuiper(sets: SetBatch, corners: int, wanted: int) -> float | None:
    """Kuiper's statistic of the rotations of `wanted` predictions with the right size; None if there are fewer.

    The statistic depends on their number, so that a value for fewer would not compare.
    """
    right = sets.elements[sets.sizes == corners][:wanted, :corners]
    return None if len(right) < wanted else kuiper(polygon_rotation(right))
