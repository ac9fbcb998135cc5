"""CLEVR: the boxes, or the states, of the objects in an image."""

import logging
import statistics
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from types import MappingProxyType

import torch
from accelerate import Accelerator
from jaxtyping import Bool, Float
from torch import Tensor

from desp.data.arrays import Example
from desp.data.base import Augmentation, Batch, BatchSource, DeviceSource, Draw
from desp.data.clevr import ClevrData, ImageTable, load_clevr
from desp.data.clevr_boxes import MAX_OBJECTS
from desp.data.clevr_cache import SIDE
from desp.data.clevr_generated import GeneratedTable, draw_images, draw_table
from desp.data.clevr_scene_file import RE_RENDERED
from desp.data.image_augmentation import BoxAugmentation
from desp.errors import DataError
from desp.metrics import Metric
from desp.metrics.average_precision import by_name, mean_over_ties
from desp.metrics.box_samples import CONFIDENCE_ECE, HIDDEN_RECALL, HIDDEN_RECALL_OF_5
from desp.metrics.sizes import RIGHT_SIZE, SIZE_RMSE, right_size, size_rmse
from desp.predictor import DataShape
from desp.predictor.box_fusion import majority_boxes
from desp.randomness import make_generator
from desp.settings import ClevrSettings, ClevrTarget, DescentSettings, MethodSettings, Scaled, TrainingSettings
from desp.settings.base import require_setting
from desp.tasks.base import ShownExample, Task, shown_example
from desp.tasks.clevr_targets import TARGETS
from desp.tasks.detections import MOSTLY_HIDDEN, Detections, Predictions, worth_of_samples
from desp.tasks.scoring import FULL, QUICK, Evaluation, EvaluationSetup, Protocol
from desp.training.device import default_device

logger = logging.getLogger(__name__)

# Images that are encoded and predicted together: codes may be whole feature maps.
ENCODED_AT_ONCE = 250
GENERATED_TESTS = 1000
LONGER_DESCENTS = (20, 30)
# Scenes that are rendered together: on a CPU and for tests, and for training on a GPU.
IMAGES_AT_ONCE, RENDERED_AT_ONCE = 16, 256


@lru_cache(maxsize=4)  # rendering some hundred images takes seconds
def _generated(count: int, part: str, target: ClevrTarget) -> GeneratedTable:
    """The same images for every run on the same kind of device: drawn and rendered on a GPU if there is one."""
    generator = make_generator("clevr", part, device=default_device("auto"))
    return draw_table(count, generator, target, IMAGES_AT_ONCE).to("cpu")


def _longer(method: MethodSettings) -> list[DescentSettings]:
    """Descents of more steps than the predictor's own, with which set-risk methods (DSPN) are scored as well."""
    sampler = method.prediction_sampler
    if not isinstance(sampler, DescentSettings):
        return []
    return [replace(sampler, steps=steps) for steps in LONGER_DESCENTS if steps > sampler.steps]


class ClevrTask(Task):
    """Score: average precision, mean over thresholds (IoU .5 to .9; for states, distances from infinity to .125).

    All slots of a padded set are detections, ranked over all images by their presence. Where the cardinality is
    predicted first, presence is 1 or 0: those present are detections of equal confidence, and the score is the
    mean over random orders of them. The returned set pools the samples of one image by their boxes, with the
    share of samples that agree as confidence; states without boxes are those of the first sample.
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
        self.settings, self.target = settings, TARGETS[settings.predict]
        self.name, self.of_boxes = self.target.task, settings.predict == "boxes"
        score = Metric("score", 0.01, "higher", "average precision, mean over all thresholds")
        knows_hidden = self.of_boxes and settings.source == "generated"
        spread = (HIDDEN_RECALL, HIDDEN_RECALL_OF_5, CONFIDENCE_ECE) if knows_hidden else ()
        self.metrics = (score, *self.target.metrics, SIZE_RMSE, RIGHT_SIZE, *spread)
        self.axes = {"names": list(self.target.names), "closed": False, "row_first": False}

    @property
    def data_label(self) -> str:  # type: ignore[override]
        """Which data: generated scenes, CLEVR v1.0, or the re-rendered one."""
        return "generated scenes" if self.settings.source == "generated" else self.data.data_label

    @property
    def data_name(self) -> str | None:  # type: ignore[override]
        """Files of the official layout may be CLEVR v1.0, which recipes are for, or the re-rendered one."""
        return "re-rendered" if self.data_label == RE_RENDERED else None

    @cached_property
    def data(self) -> ClevrData:
        """All images of the files; mapped when first needed, so that predicting does not need them."""
        return load_clevr(self.settings.data_dir)

    def fingerprint(self) -> str | None:
        """The checksum of the files."""
        return None if self.settings.source == "generated" else self.data.checksum

    def shape(self, max_size: int | None, scaling: Scaled) -> tuple[DataShape, None]:
        """Images of 128 x 128, and ten rows; boxes are scaled as centre, width and height."""
        if max_size not in (None, MAX_OBJECTS):
            raise DataError(
                f"Scenes have up to {MAX_OBJECTS} objects, but representation.max_size is {max_size}. "
                "Leave it out."
            )
        target = self.target
        images, scales = (3, SIDE, SIDE), target.scaling(scaling)
        return DataShape(images, target.features, MAX_OBJECTS, scales, "image", target.description), None

    def source(
        self, shape: DataShape, training: TrainingSettings, seed: int, accelerator: Accelerator
    ) -> BatchSource:
        """Draws from images that lie on the training device; or, with `scenes` 0, new ones for each batch."""
        return DeviceSource(
            self._draw(seed, accelerator),
            training.batch_size_for(shape.max_size),
            seed,
            accelerator.device,
            accelerator.process_index,
            augment=self._augmentation(),
        )

    def training_examples(self) -> int | None:
        """The training images, where they are read."""
        return len(self.data.training) if self.settings.source == "files" else None

    def _draw(self, seed: int, accelerator: Accelerator) -> Draw:
        """What draws training batches."""
        target, scenes = self.settings.predict, self.settings.scenes
        if self.settings.source == "files":
            return self.data.training.table(target).to(accelerator.device).draw
        if scenes == 0:
            return partial(draw_images, target=target)
        if accelerator.device.type == "cpu":
            logger.warning(
                "rendering %s scenes on a CPU takes long: take fewer, or --task.scenes 0 (new ones each batch)",
                f"{scenes:,}",
            )
        generator = make_generator(seed, "scenes", accelerator.process_index, device=accelerator.device)
        at_once = IMAGES_AT_ONCE if accelerator.device.type == "cpu" else RENDERED_AT_ONCE
        return draw_table(scenes, generator, target, at_once).table.draw

    def _augmentation(self) -> Augmentation | None:
        """States say where objects are in the scene, so that only colours may change, and little."""
        if not self.settings.augment:
            return None
        if self.of_boxes:
            return BoxAugmentation()
        return BoxAugmentation(colour=0.3, moves_boxes=False)

    def _tests(self, protocol: Protocol) -> tuple[ImageTable, GeneratedTable | None]:
        """The images to score, never trained on, and what else is known of generated ones."""
        count = protocol.test_examples[0]
        if self.settings.source == "files":
            return self.data.test.table(self.settings.predict).at(slice(count)), None
        generated = _generated(count or GENERATED_TESTS, "test", self.settings.predict)
        return generated.table, generated

    def scored_examples(self, seed: int, protocol: Protocol) -> Sequence[Example]:
        """All images that the protocol scores, each with its set."""
        del seed
        table, _ = self._tests(protocol)
        return [table.example(index) for index in range(len(table))]

    def shown_examples(self, seed: int) -> list[ShownExample]:
        """The first images; of generated ones one with a mostly hidden object, whose box can only be guessed."""
        shown = super().shown_examples(seed)
        table, generated = self._tests(self.protocol("quick"))
        hidden = None if generated is None else generated.first_hidden(MOSTLY_HIDDEN)
        if hidden is not None:
            label = f"held-out example {hidden + 1}: an object is mostly hidden"
            shown[min(hidden, len(shown) - 1)] = shown_example(label, table.example(hidden))
        return shown

    def validation_batch(self, seed: int, count: int) -> Batch:
        """Images of the validation part; or generated ones, always the same."""
        del seed
        if self.settings.source == "generated":
            return _generated(count, "validation", self.settings.predict).table.batch()
        return self.data.validation.table(self.settings.predict).at(slice(count)).batch()

    def validation_score(self, setup: EvaluationSetup, examples: Batch) -> float:
        """One minus the mean AP of one prediction, so that lower is better."""
        found = self._predict(replace(setup, samples=1), examples.x, "validation chains")
        sets = examples.sets
        return 1 - statistics.fmean(self._precisions(found.raw, sets.elements, sets.mask, setup.seed).values())

    def evaluate(self, setup: EvaluationSetup) -> Evaluation:
        """AP of the first sample's raw output, and of the boxes that more than half of the samples agree on."""
        table, generated = self._tests(setup.protocol)
        truth, scores = table.batch().sets, []
        found = self._predict(setup, table.images, "test chains")
        for detections in (found.raw, found.returned):
            named = self._precisions(detections, truth.elements, truth.mask, setup.seed)
            named = {"score": statistics.fmean(named.values()), **named}
            if generated is not None and self.of_boxes:
                beside = self._precisions(detections, generated.exact_boxes, truth.mask, setup.seed)
                named |= {f"{name}_exact": value for name, value in beside.items()}
            raw_only = (setup.predictor.method.representation.threshold,) if detections is found.raw else ()
            scores.append(named | self._sizes(detections, truth.sizes, *raw_only))
        raw, returned = scores
        for sampler in _longer(setup.predictor.method_settings):
            longer = self._predict(replace(setup, samples=1, sampler=sampler), table.images, "test chains").raw
            named = self._precisions(longer, truth.elements, truth.mask, setup.seed)
            raw |= {f"{name}_{sampler.steps}_steps": value for name, value in named.items()}
        real = {name: 0.0 if name == "size_rmse" else 1.0 for name in returned if "exact" not in name}
        samples = setup.independent_samples(setup.samples)
        details = {"images": len(table), "samples": samples, "confidence": self._confidence(setup, samples)}
        if generated is not None:
            details["scenes_rendered_on"] = default_device("auto").type
        if generated is not None and found.samples is not None:
            spread, bins = worth_of_samples(*found.samples, truth, generated.visible)
            returned, details = returned | spread, details | {"confidence_bins": bins}
        return Evaluation(raw=raw, returned=returned, real_data=real, details=details)

    def _confidence(self, setup: EvaluationSetup, samples: int) -> dict[str, str]:
        """What detections are ranked by, in words."""
        first = setup.predictor.method_settings.predicts_cardinality
        raw = "equal for all present, mean over random orders" if first else "presence"
        pooled = bool(self.target.boxes) and samples > 1
        return {"raw": raw, "returned": "share of samples that agree" if pooled else raw}

    def _sizes(self, found: Detections, true: Tensor, threshold: float = -torch.inf) -> dict[str, float]:
        """Errors of the cardinality. A raw slot counts if its presence is above the threshold; every returned
        detection counts, whatever its confidence."""
        sizes = (found.detected & (found.confidence > threshold)).sum(dim=1)
        return {"size_rmse": size_rmse(sizes, true), "right_size": right_size(sizes, true)}

    def _precisions(self, found: Detections, truth: Tensor, mask: Tensor, seed: int) -> dict[str, float]:
        """AP at all thresholds, by name."""
        score, scored = self.target.average_precision, slice(self.target.first_scored, None)
        arguments = found.elements[..., scored], found.confidence, found.detected, truth[..., scored], mask
        generator = make_generator(seed, "ties")
        values = mean_over_ties(lambda ties: score(*arguments, ties=ties), found.confidence, generator)
        return by_name(self.target.metrics, values)

    def _predict(self, setup: EvaluationSetup, images: Tensor, name: str) -> Predictions:
        """What is predicted for images, on the CPU.

        Raises:
            SettingsError: sets have no presence, by which detections are ranked.
        """
        ranked = setup.predictor.method.representation.has_presence
        require_setting(ranked, "representation.padding", "presence for CLEVR", "zero")
        raw, returned, pooled, samples = [], [], [], setup.independent_samples(setup.samples)
        for first in range(0, len(images), ENCODED_AT_ONCE):
            some = images[first : first + ENCODED_AT_ONCE]
            _, values = setup.sample([some], samples, name, first)
            values = values.unflatten(0, (len(some), samples))
            sets = setup.predictor.sets_from_tensor(values.flatten(0, 1))
            elements, mask = (item.unflatten(0, values.shape[:2]).cpu() for item in (sets.elements, sets.mask))
            raw.append(self._raw(setup, values[:, 0]))
            returned.append(self._returned(values, elements, mask))
            pooled.append((elements, mask))
        several = self.of_boxes and samples > 1
        elements, mask = (torch.cat(column) for column in zip(*pooled, strict=True))
        return Predictions(
            Detections.joined(raw), Detections.joined(returned), (elements, mask) if several else None
        )

    def _raw(self, setup: EvaluationSetup, values: Float[Tensor, "b n c"]) -> Detections:
        """All slots; where the cardinality is predicted first, those present."""
        predictor = setup.predictor
        elements = predictor.shape.scaling.unscale(values[..., : predictor.shape.features]).cpu()
        presence = values[..., -1].cpu()
        least = 0.5 if predictor.method_settings.predicts_cardinality else -torch.inf
        return Detections(elements, presence, presence > least)

    def _returned(
        self, values: Float[Tensor, "b k n c"], elements: Float[Tensor, "b k n d"], mask: Bool[Tensor, "b k n"]
    ) -> Detections:
        """The set itself where there is one sample; else the pooled boxes that most samples agree on."""
        if not self.target.boxes or values.shape[1] == 1:
            return Detections(elements[:, 0], values[:, 0, :, -1].cpu(), mask[:, 0])
        sets, confidence = majority_boxes(elements, mask, self.target.description, MAX_OBJECTS)
        return Detections(sets.elements, confidence, sets.mask)
