"""CLEVR: the boxes, or the states, of the objects in an image."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from types import MappingProxyType

import torch
from accelerate import Accelerator
from jaxtyping import Bool, Float
from torch import Tensor

from desp.data.arrays import Example
from desp.data.base import Augmentation, Batch, BatchSource, DeviceSource
from desp.data.clevr import ClevrData, ImageTable, load_clevr
from desp.data.clevr_boxes import BOX_FEATURES, MAX_OBJECTS, STATE_CATEGORIES, STATE_FEATURES
from desp.data.clevr_cache import SIDE
from desp.data.clevr_generated import draw_images, draw_table
from desp.data.image_augmentation import BoxAugmentation
from desp.errors import DataError
from desp.metrics import Metric
from desp.metrics.average_precision import (
    AP_METRICS,
    STATE_METRICS,
    average_precision,
    by_name,
    mean_over_ties,
    state_average_precision,
)
from desp.metrics.sizes import RIGHT_SIZE, SIZE_RMSE, right_size, size_rmse
from desp.predictor import DataShape
from desp.predictor.pooling import best_of_batch, pool_batch
from desp.randomness import make_generator
from desp.scaling import FeatureScaling
from desp.settings import ClevrSettings, ClevrTarget, DataDescription, TrainingSettings
from desp.settings.base import require_setting
from desp.tasks.base import Task
from desp.tasks.scoring import FULL, QUICK, Evaluation, EvaluationSetup, Protocol

# Images that are encoded and predicted for together: codes may be whole feature maps.
IMAGES_AT_ONCE = 250
GENERATED_TESTS = 1000
BOXES = DataDescription(boxes=((0, 4),))
STATES = DataDescription(categories=STATE_CATEGORIES)
# Ranges of centre x, centre y, width and height, as shares of the image: those of all scenes by CLEVR's rules.
BOX_RANGE = (0.0, 0.0, 0.02, 0.02), (1.0, 1.0, 0.4, 0.5)
FEATURE_NAMES = {
    "boxes": ["left", "top", "right", "bottom"],
    "state": ["x / 3", "y / 3", "z / 3", *(f"attribute {number + 1}" for number in range(STATE_FEATURES - 3))],
}


@dataclass(frozen=True)
class _Detections:
    """What is scored of M images: N slots each.

    Attributes:
        elements: in the units of the data.
        confidence: by which all detections of all images are ranked.
        detected: which slots are detections.
    """

    elements: Float[Tensor, "m n d"]
    confidence: Float[Tensor, "m n"]
    detected: Bool[Tensor, "m n"]

    @classmethod
    def joined(cls, parts: Sequence["_Detections"]) -> "_Detections":
        """Those of all parts, one after the other."""
        slots = max(part.detected.shape[1] for part in parts)
        return cls(*(torch.cat([_padded(getattr(part, name), slots) for part in parts]) for name in _FIELDS))


_FIELDS = ("elements", "confidence", "detected")


def _padded(values: Tensor, slots: int) -> Tensor:
    missing = values.new_zeros((len(values), slots - values.shape[1], *values.shape[2:]))
    return torch.cat([values, missing], dim=1)


@lru_cache(maxsize=4)  # rendering some hundred images takes seconds
def _generated(count: int, part: str, target: ClevrTarget) -> tuple[ImageTable, Tensor]:
    """The same generated images for every run and device, with exact boxes."""
    return draw_table(count, make_generator("clevr", part), target)


class ClevrTask(Task):
    """Score: average precision, mean over thresholds (IoU .5 to .9; for states, distances from infinity to .125).

    All slots of a padded set are detections, ranked over all images by their presence. Where the cardinality is
    predicted first, presence is 1 or 0: those present are detections of equal confidence, and the score is the
    mean over random orders of them. The returned set pools the samples of one image (boxes), with the share of
    samples that agree as confidence.
    """

    one_answer = True
    protocols = MappingProxyType(
        {
            "full": replace(FULL, validation_examples=200),
            "quick": replace(QUICK, test_examples=(100,), validation_examples=50),
        }
    )

    def __init__(self, settings: ClevrSettings, seed: int = 0) -> None:
        del seed
        self.settings, self.of_boxes = settings, settings.predict == "boxes"
        self.name = f"clevr-{settings.predict}"
        self.named = AP_METRICS if self.of_boxes else STATE_METRICS
        score = Metric("score", 1.0, "higher", "average precision, mean over all thresholds")
        self.metrics = (score, *self.named, SIZE_RMSE, RIGHT_SIZE)
        self.axes = {"names": FEATURE_NAMES[settings.predict], "closed": False, "image_rows": self.of_boxes}

    @property
    def data_label(self) -> str:  # type: ignore[override]
        """Which data: generated scenes, CLEVR v1.0, or the re-rendered one."""
        return "generated scenes" if self.settings.source == "generated" else self.data.data_label

    @cached_property
    def data(self) -> ClevrData:
        """All images of the files; mapped when first needed, so that predicting does not need them."""
        return load_clevr(self.settings.data_dir)

    def fingerprint(self) -> str | None:
        """The checksum of the files."""
        return None if self.settings.source == "generated" else self.data.checksum

    def shape(self, max_size: int | None, scaling: bool) -> tuple[DataShape, None]:
        """Images of 128 x 128, and ten rows; boxes are scaled as centre, width and height."""
        if max_size not in (None, MAX_OBJECTS):
            raise DataError(
                f"Scenes have up to {MAX_OBJECTS} objects, but representation.max_size is {max_size}. "
                "Leave it out."
            )
        features = BOX_FEATURES if self.of_boxes else STATE_FEATURES
        description = BOXES if self.of_boxes else STATES
        scales = FeatureScaling.identity(features)
        if scaling and self.of_boxes:
            scales = FeatureScaling.from_range(*BOX_RANGE, boxes=BOXES.boxes)
        elif scaling:
            ends = [-1.0] * 3 + [0.0] * (features - 3), [1.0] * features
            scales = FeatureScaling.from_range(*ends)
        shape = DataShape((3, SIDE, SIDE), features, MAX_OBJECTS, scales, "image", description)
        return shape, None

    def source(
        self, shape: DataShape, training: TrainingSettings, seed: int, accelerator: Accelerator
    ) -> BatchSource:
        """The training images, which lie on the training device and are drawn from there; or ever new ones."""
        del shape
        target = self.settings.predict

        def fresh(batch_size: int, generator: torch.Generator) -> Batch:
            return draw_images(batch_size, generator, target)

        generated = self.settings.source == "generated"
        draw = fresh if generated else self.data.training.table(target).to(accelerator.device).draw
        return DeviceSource(
            draw,
            training.batch_size,
            seed,
            accelerator.device,
            accelerator.process_index,
            augment=self._augmentation(),
        )

    def _augmentation(self) -> Augmentation | None:
        """States say where objects are in the scene, so that only colours may change, and little."""
        if not self.settings.augment:
            return None
        if self.of_boxes:
            return BoxAugmentation()
        return BoxAugmentation(colour=0.3, moves_boxes=False)

    def _tests(self, protocol: Protocol) -> tuple[ImageTable, Tensor | None]:
        """The images to score, never trained on, and their exact boxes where they are known."""
        count = protocol.test_examples[0]
        if self.settings.source == "files":
            return self.data.test.table(self.settings.predict).at(slice(count)), None
        table, exact = _generated(count or GENERATED_TESTS, "test", self.settings.predict)
        return table, exact if self.of_boxes else None

    def scored_examples(self, seed: int, protocol: Protocol) -> Sequence[Example]:
        """The first images that are scored."""
        del seed
        table, _ = self._tests(protocol)
        return [table.example(index) for index in range(len(table))]

    def validation_batch(self, seed: int, count: int) -> Batch:
        """Images of the validation part; or generated ones, always the same."""
        del seed
        if self.settings.source == "generated":
            return _generated(count, "validation", self.settings.predict)[0].batch()
        return self.data.validation.table(self.settings.predict).at(slice(count)).batch()

    def validation_score(self, setup: EvaluationSetup, examples: Batch) -> float:
        """One minus the mean AP of one prediction, so that lower is better."""
        raw, _ = self._detections(replace(setup, samples=1), examples.x, "validation chains")
        sets = examples.sets
        return 1 - statistics.fmean(self._precisions(raw, sets.elements, sets.mask, setup.seed).values())

    def evaluate(self, setup: EvaluationSetup) -> Evaluation:
        """AP of the first sample's raw output, and of the set that a user gets from all samples."""
        table, exact = self._tests(setup.protocol)
        truth = table.batch().sets
        scores, sizes = [], truth.sizes
        for found in self._detections(setup, table.images, "test chains"):
            named = self._precisions(found, truth.elements, truth.mask, setup.seed)
            named = {"score": statistics.fmean(named.values()), **named}
            if exact is not None:
                beside = self._precisions(found, exact, truth.mask, setup.seed)
                named |= {f"{name}_exact": value for name, value in beside.items()}
            scores.append(named | self._sizes(found, sizes, setup.predictor.method.padding.threshold))
        raw, returned = scores
        return Evaluation(
            raw=raw,
            returned=returned,
            real_data={name: 0.0 if name == "size_rmse" else 1.0 for name in returned if "exact" not in name},
            details={"images": len(table), "samples": self._samples(setup), "confidence": self._confidence(setup)},
        )

    def _samples(self, setup: EvaluationSetup) -> int:
        return 1 if setup.predictor.method_settings.deterministic else setup.samples

    def _confidence(self, setup: EvaluationSetup) -> dict[str, str]:
        """What detections are ranked by, in words."""
        first = setup.predictor.method_settings.predicts_cardinality
        raw = "equal for all present, mean over random orders" if first else "presence"
        pooled = self.of_boxes and self._samples(setup) > 1
        return {"raw": raw, "returned": "share of samples that agree" if pooled else raw}

    def _sizes(self, found: _Detections, true: Tensor, threshold: float) -> dict[str, float]:
        sizes = (found.detected & (found.confidence > threshold)).sum(dim=1)
        return {"size_rmse": size_rmse(sizes, true), "right_size": right_size(sizes, true)}

    def _precisions(self, found: _Detections, truth: Tensor, mask: Tensor, seed: int) -> dict[str, float]:
        """AP at all thresholds, by name."""
        score = average_precision if self.of_boxes else state_average_precision
        arguments = found.elements, found.confidence, found.detected, truth, mask
        generator = make_generator(seed, "ties")
        values = mean_over_ties(lambda ties: score(*arguments, ties=ties), found.confidence, generator)
        return by_name(self.named, values)

    def _detections(self, setup: EvaluationSetup, images: Tensor, name: str) -> tuple[_Detections, _Detections]:
        """Raw and returned detections, on the CPU.

        Raises:
            SettingsError: sets have no presence, by which detections are ranked.
        """
        ranked = setup.predictor.method.padding.with_presence
        require_setting(ranked, "representation.padding", "presence for CLEVR", "zero")
        raw, returned = [], []
        for first in range(0, len(images), IMAGES_AT_ONCE):
            some = images[first : first + IMAGES_AT_ONCE]
            samples = self._samples(setup)
            _, values = setup.sample([some], samples, name, first)
            values = values.unflatten(0, (len(some), samples))
            raw.append(self._raw(setup, values[:, 0]))
            returned.append(self._returned(setup, values))
        return _Detections.joined(raw), _Detections.joined(returned)

    def _raw(self, setup: EvaluationSetup, values: Float[Tensor, "b n c"]) -> _Detections:
        """All slots; where the cardinality is predicted first, those present."""
        predictor = setup.predictor
        elements = predictor.shape.scaling.unscale(values[..., : predictor.shape.features]).cpu()
        presence = values[..., -1].cpu()
        least = 0.5 if predictor.method_settings.predicts_cardinality else -torch.inf
        return _Detections(elements, presence, presence > least)

    def _returned(self, setup: EvaluationSetup, values: Float[Tensor, "b k n c"]) -> _Detections:
        """The sets a user gets: of one sample, or of all of them pooled."""
        sets = setup.predictor.unpad_sets(values.flatten(0, 1))
        elements, mask = (item.unflatten(0, values.shape[:2]).cpu() for item in (sets.elements, sets.mask))
        if not self.of_boxes or values.shape[1] == 1:
            return _Detections(elements[:, 0], values[:, 0, :, -1].cpu(), mask[:, 0])
        pooled, confidence = pool_batch(elements, mask)
        kept = best_of_batch(pooled, confidence)  # the most confident come first
        first = slice(MAX_OBJECTS)
        return _Detections(kept.elements[:, first], confidence[:, first], kept.mask[:, first])
