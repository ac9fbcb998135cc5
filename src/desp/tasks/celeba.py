"""Which of these items do not belong? Subset anomalies of faces (paper, section 5.5), or of simulated items."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

import torch
from accelerate import Accelerator
from jaxtyping import Bool, Float, Int
from torch import Tensor

from desp.data.arrays import Example
from desp.data.base import Augmentation, Batch, BatchSource, DeviceSource
from desp.data.celeba import WHOLE, CelebaData, load_celeba
from desp.data.simulated_items import simulated_pool
from desp.data.subsets import SET_SIZE, DrawnSets, ItemPool, candidate_subsets, draw_sets, valid_subsets
from desp.errors import DataError
from desp.features.settings import unusual_features
from desp.metrics import Metric
from desp.metrics.subsets import SUBSET_METRICS, subset_scores
from desp.predictor import DataShape
from desp.randomness import make_generator
from desp.scaling import FeatureScaling
from desp.sets import SetBatch
from desp.settings import (
    CelebaSettings,
    DataDescription,
    LabelSamplerSettings,
    MethodSettings,
    Scaled,
    TrainingSettings,
)
from desp.tasks.base import SHOWN, ShownExample, ShownItem, Task, shown_example
from desp.tasks.scoring import FULL, QUICK, Evaluation, EvaluationSetup, Protocol

PREDICTIONS = 10
# Simulated items of each part: 10,000 in all, split as faces are where the official split cannot be used.
SIMULATED = {"training": 7000, "validation": 1000, "test": 2000}
# Sets that are encoded and predicted together.
SETS_AT_ONCE = 4096


@dataclass(frozen=True)
class ScoredSets:
    """Sets with all their valid answers.

    Attributes:
        batch: inputs, each with the answer it was drawn for.
        valid: (B, S), which of `candidate_subsets` are valid.
        items: (B, N), indices of items in the pool.
    """

    batch: Batch
    valid: Bool[Tensor, "b s"]
    items: Int[Tensor, "b n"]


def labelled(pool: ItemPool, drawn: DrawnSets, generator: torch.Generator) -> Batch:
    """Inputs (B, 5, H + 1): features, and presence, which is 1; labels 1 for inliers, -1 for outliers."""
    features = pool.features_of(drawn.items, generator)
    x = torch.cat([features, torch.ones_like(features[..., :1])], dim=-1)
    labels = torch.where(drawn.inliers, 1.0, -1.0).unsqueeze(-1)
    return Batch(x, SetBatch(labels, torch.ones_like(drawn.inliers)))


def draw_labelled(count: int, generator: torch.Generator, pool: ItemPool) -> Batch:
    """Sets drawn from a pool, with the answer that they were drawn for."""
    return labelled(pool, draw_sets(pool, count, generator), generator)


@dataclass(frozen=True)
class FeatureNoise:
    """Adds noise to the features of training items; presence, the last one, stays.

    Attributes:
        deviation: (H,), of the noise.
    """

    deviation: Float[Tensor, " h"]

    def __call__(self, batch: Batch, generator: torch.Generator) -> Batch:
        """The batch with noisy inputs."""
        features, presence = batch.x[..., :-1], batch.x[..., -1:]
        noise = torch.randn(features.shape, generator=generator, device=features.device)
        return replace(batch, x=torch.cat([features + self.deviation * noise, presence], dim=-1))


def _sampled(method: MethodSettings) -> LabelSamplerSettings | None:
    """Settings for independent samples; methods that predict the most probable answers are scored with both."""
    sampler = method.prediction_sampler
    if not isinstance(sampler, LabelSamplerSettings) or sampler.min_probability is None:
        return None
    return replace(sampler, min_probability=None)


def scores_by_ambiguity(predicted: Bool[Tensor, "b k n"], valid: Bool[Tensor, "b s"]) -> dict[str, float]:
    """Scores of all sets and, with the prefix "ambiguous/", of sets with several valid answers."""
    candidates, ambiguous = candidate_subsets(SET_SIZE), valid.sum(dim=1) > 1
    scores = subset_scores(predicted, candidates, valid)
    if not ambiguous.any():
        return scores
    apart = subset_scores(predicted[ambiguous], candidates, valid[ambiguous])
    return scores | {f"ambiguous/{name}": value for name, value in apart.items()}


class CelebaTask(Task):
    """Score: F1 of ten predictions for each set. Precision: the share of predictions that are valid; recall: the
    share of valid answers that were predicted. A label is decided by its sign.

    Ambiguous sets, with several valid answers, are also scored apart.
    """

    name = "celeba"
    metrics = (Metric("score", 1.0, "higher", "F1 of the mean precision and the mean recall"), *SUBSET_METRICS)
    protocols = MappingProxyType(
        {
            "full": replace(FULL, test_examples=(19_200,), validation_examples=3200),
            "quick": replace(QUICK, test_examples=(1000,), validation_examples=200),
        }
    )

    def __init__(self, settings: CelebaSettings, seed: int = 0) -> None:
        del seed
        self.settings = settings
        self.axes = {"names": ["belongs"], "closed": False, "row_first": False}
        self._drawn: dict[str, DrawnSets] = {}

    @property
    def data_label(self) -> str:  # type: ignore[override]
        """Simulated items, or which faces."""
        return "simulated items" if self.settings.source == "simulated" else self.data.data_label

    @property
    def data_name(self) -> str | None:  # type: ignore[override]
        """Fewer faces, and features made with other settings than the default ones, have results of their own."""
        if self.settings.source == "simulated":
            return None
        names = [] if self.data_label == WHOLE else [self.data_label.removeprefix(f"{WHOLE}, ")]
        return " ".join([*names, *unusual_features(self.data.feature_settings)]) or None

    @cached_property
    def data(self) -> CelebaData:
        """All faces; read when first needed, so that predicting does not need them."""
        return load_celeba(self.settings.data_dir)

    def fingerprint(self) -> str | None:
        """The checksum of files and features."""
        return None if self.settings.source == "simulated" else self.data.checksum

    @cached_property
    def pools(self) -> dict[str, ItemPool]:
        """The items for training, validation and test; they share no item."""
        if self.settings.source == "files":
            return {part: getattr(self.data, part) for part in SIMULATED}
        noise = self.settings.simulated_noise
        return {part: simulated_pool(count, noise, part) for part, count in SIMULATED.items()}

    def shape(self, max_size: int | None, scaling: Scaled) -> tuple[DataShape, Tensor]:
        """Five elements with features, and a label for each: scaled to plus and minus one half, as in the paper's
        released code."""
        if max_size not in (None, SET_SIZE):
            raise DataError(
                f"Sets have {SET_SIZE} items, but representation.max_size is {max_size}. Leave it out."
            )
        mean, deviation = self._statistics()
        halved = FeatureScaling((0.0,), (2.0,)) if scaling else FeatureScaling.identity(1)
        described = DataDescription(aligned=True)
        shape = DataShape((SET_SIZE, len(mean) + 1), 1, SET_SIZE, halved, "set", described)
        return shape, torch.stack([torch.cat([mean, mean.new_zeros(1)]), torch.cat([deviation, mean.new_ones(1)])])

    def _statistics(self) -> tuple[Float[Tensor, " h"], Float[Tensor, " h"]]:
        """Mean and standard deviation of training features, over all views."""
        features = self.pools["training"].features.flatten(end_dim=-2)
        return features.mean(dim=0), features.std(dim=0, correction=0)

    def source(
        self, shape: DataShape, training: TrainingSettings, seed: int, accelerator: Accelerator
    ) -> BatchSource:
        """New sets of the training items for every batch, drawn on the training device."""
        pool = self.pools["training"].to(accelerator.device)
        return DeviceSource(
            partial(draw_labelled, pool=pool),
            training.batch_size_for(shape.max_size),
            seed,
            accelerator.device,
            accelerator.process_index,
            augment=self._augmentation(pool),
        )

    def _augmentation(self, pool: ItemPool) -> Augmentation | None:
        if self.settings.feature_noise == 0:
            return None
        return FeatureNoise(self.settings.feature_noise * self._statistics()[1].to(pool.features.device))

    def scored_sets(self, part: str, count: int) -> ScoredSets:
        """The first sets of a part, always the same, with all their valid answers."""
        pool, generator = self.pools[part], make_generator("celeba", part)
        if part not in self._drawn or len(self._drawn[part].items) < count:
            # As many as any protocol needs, as the sets that are drawn depend on their number.
            full = self.protocol("full")
            most = full.validation_examples if part == "validation" else full.test_examples[0] or 0
            self._drawn[part] = draw_sets(pool, max(count, most), generator)
        drawn = DrawnSets(self._drawn[part].items[:count], self._drawn[part].inliers[:count])
        valid = valid_subsets(pool.bits[drawn.items], pool.attributes.shape[1])
        return ScoredSets(labelled(pool, drawn, generator), valid, drawn.items)

    def scored_examples(self, seed: int, protocol: Protocol) -> Sequence[Example]:
        """Test sets with the labels of all valid answers."""
        del seed
        scored = self.scored_sets("test", protocol.test_examples[0] or 0)
        labels = torch.where(candidate_subsets(SET_SIZE), 1.0, -1.0).unsqueeze(-1)
        return [(x, tuple(labels[row])) for x, row in zip(scored.batch.x, scored.valid, strict=True)]

    def shown_examples(self, seed: int) -> list[ShownExample]:
        """Ambiguous test sets, and one with a single answer."""
        examples = self.scored_examples(seed, self.protocol("quick"))
        several = [number for number, item in enumerate(examples) if len(item[1]) > 1][: SHOWN - 1]
        single = [number for number, item in enumerate(examples) if len(item[1]) == 1][: SHOWN - len(several)]
        labels = [*("ambiguous set" for _ in several), *("set with one answer" for _ in single)]
        shown = enumerate(zip(labels, [*several, *single], strict=True), start=1)
        return [
            self._with_items(shown_example(f"{place}: {label}", examples[number]), number)
            for place, (label, number) in shown
        ]

    def _with_items(self, example: ShownExample, number: int) -> ShownExample:
        """The faces of a test set, by what they are, and what the inliers of each answer share."""
        pool, rows = self.pools["test"], self._drawn["test"].items[number].tolist()
        attributes = pool.attributes[rows]
        items = tuple(self._item(row, pool.words(pool.attributes[row])) for row in rows)
        shared = [attributes[(answer[:, 0] > 0).cpu()].all(dim=0) for answer in example.truth]
        return replace(example, items=items, reasons=tuple(", ".join(pool.words(mask)) for mask in shared))

    def _item(self, row: int, facts: tuple[str, ...]) -> ShownItem:
        if self.settings.source == "simulated":
            return ShownItem(f"item {row + 1}", facts)
        path = self.data.image_path("test", row)
        return ShownItem(path.name, facts, path if path.is_file() else None)

    def validation_batch(self, seed: int, count: int) -> Batch:
        """Sets of items that are neither trained nor tested on."""
        del seed
        return self.scored_sets("validation", count).batch

    def validation_score(self, setup: EvaluationSetup, examples: Batch) -> float:
        """One minus F1 of ten predictions, so that lower is better; `examples` are those of `validation_batch`,
        whose valid answers are all known."""
        scored = self.scored_sets("validation", len(examples.x))
        if not torch.equal(examples.x, scored.batch.x):
            raise DataError("Sets to validate on must come from validation_batch: of others no answers are known.")
        predicted, _ = self.predict(setup, scored.batch.x, "validation chains")
        return 1 - subset_scores(predicted, candidate_subsets(SET_SIZE), scored.valid)["f1"]

    def evaluate(self, setup: EvaluationSetup) -> Evaluation:
        """Precision, recall and F1 of all test sets, and of ambiguous ones alone."""
        scored = self.scored_sets("test", setup.protocol.test_examples[0] or 0)
        predicted, energy = self.predict(setup, scored.batch.x, "test chains")
        scores = scores_by_ambiguity(predicted, scored.valid)
        scores = {"score": scores["f1"], **scores}
        if (sampler := _sampled(setup.predictor.method_settings)) is not None:
            found, _ = self.predict(replace(setup, sampler=sampler), scored.batch.x, "test chains")
            scores |= {
                f"{name}_sampled": value for name, value in scores_by_ambiguity(found, scored.valid).items()
            }
        answers = scored.valid.sum(dim=1)
        several = answers[answers > 1]
        of_ambiguous = {"valid_answers_of_ambiguous": float(several.double().mean())} if len(several) else {}
        details = {
            "sets": len(answers),
            "samples": predicted.shape[1],
            "ambiguous_sets": len(several),
            "valid_answers": float(answers.double().mean()),
            **of_ambiguous,
            **self._facts(),
        }
        return Evaluation(
            raw=scores,
            returned=dict(scores),
            real_data=dict.fromkeys(scores, 1.0),
            details=details,
            energy=energy,
        )

    def _facts(self) -> dict[str, Any]:
        """How the features of the faces were made, as they are part of the data."""
        if self.settings.source == "simulated":
            return {}
        data = self.data
        return {
            "split": data.split,
            "features": data.feature_settings,
            "classifier": data.scores,
            "checksum": data.checksum,
        }

    def predict(self, setup: EvaluationSetup, x: Tensor, name: str) -> tuple[Bool[Tensor, "b k n"], float]:
        """Inliers of ten predictions, on the CPU, and the mean energy of the predictions."""
        predictor, found, energies = setup.predictor, [], []
        samples = setup.independent_samples(PREDICTIONS)
        for first in range(0, len(x), SETS_AT_ONCE):
            some = x[first : first + SETS_AT_ONCE]
            code, raw = setup.sample([some], samples, name, first)
            labels = predictor.shape.scaling.unscale(raw[..., :1]).squeeze(-1)
            found.append((labels > 0).unflatten(0, (len(some), samples)).cpu())
            energies.append(predictor.raw_energy(code, raw, samples).cpu())
        return torch.cat(found), float(torch.cat(energies).mean())
