"""Where will they walk? The next positions of all people of a scene together, from their last ones."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import torch
from accelerate import Accelerator
from jaxtyping import Float
from torch import Tensor

from desp.data.arrays import Example
from desp.data.base import Batch, BatchSource, DeviceSource
from desp.data.pedestrian_elements import (
    HEADING,
    INPUTS,
    OUTPUTS,
    PLACE,
    VERSION,
    as_batch,
    futures,
    observed_input,
    pasts,
    turned,
)
from desp.data.pedestrian_windows import PREDICTED, augmented
from desp.data.pedestrians import (
    PedestrianData,
    WindowTable,
    load_pedestrians,
    simulated_pedestrians,
    some_of,
)
from desp.errors import DataError, RunError
from desp.metrics import Metric
from desp.metrics.joint_paths import ENERGY_SCORE, PATH_METRICS, path_scores
from desp.predictor import DataShape
from desp.predictor.representatives import representatives
from desp.randomness import make_generator
from desp.scaling import FeatureScaling
from desp.sets import presence_mask
from desp.settings import DataDescription, PedestriansSettings, Scaled, TrainingSettings
from desp.tasks.base import SHOWN, Paths, ShownExample, Task
from desp.tasks.scoring import FULL, QUICK, Evaluation, EvaluationSetup, Protocol

PREDICTIONS = 20
# Standard deviation by which columns are divided that encoders should not see.
UNSEEN = 1e9
# Standard deviation of each person's random turn in the baseline `constant-velocity-turned`, in degrees.
TURN = 25.0
# Displacements are scaled so that this many standard deviations on either side of 0 become [0, 1].
DEVIATIONS = 2.0
# With 20 or 160 samples each, a multiple of `CHAINS_AT_ONCE`, to which batches of chains are filled up.
WINDOWS_AT_ONCE = 50
# Scores that need independent samples.
OF_SAMPLES = ("score", ENERGY_SCORE.name)

Baseline = Literal["constant-velocity", "constant-velocity-turned"]
BASELINES: tuple[Baseline, ...] = ("constant-velocity", "constant-velocity-turned")


class PedestriansTask(Task):
    """Score: the energy score of twenty predictions of all people of a window together, in metres."""

    name = "pedestrians"
    metrics = (Metric("score", 1.0, "lower", f"energy score: {ENERGY_SCORE.text}"), *PATH_METRICS)
    shown_predictions = PREDICTIONS
    protocols = MappingProxyType(
        {
            "full": replace(FULL, validation_examples=400),
            "quick": replace(QUICK, test_examples=(100,), validation_examples=100),
        }
    )

    def __init__(self, settings: PedestriansSettings, seed: int = 0) -> None:
        del seed
        self.settings = settings
        self.axes = {"names": ["x (m)", "y (m)"], "closed": False, "row_first": False, "paths": True}

    @property
    def data_label(self) -> str:  # type: ignore[override]
        """Simulated walkers, or the recordings."""
        return self.data.data_label

    @cached_property
    def data(self) -> PedestrianData:
        """All windows; made when first needed, so that predicting does not need them."""
        settings = self.settings
        if settings.source == "simulated":
            return simulated_pedestrians(settings.scene, settings.validation_scene)
        return load_pedestrians(settings.scene, settings.data_dir, settings.validation_scene)

    def fingerprint(self) -> str | None:
        """The checksum of the recordings, and the version of what is made of them."""
        return f"{self.data.checksum or 'simulated'}, elements {VERSION}"

    def shape(self, max_size: int | None, scaling: Scaled) -> tuple[DataShape, Tensor]:
        """An element for each person, of input and set."""
        size = max_size or self.data.max_size
        if size != self.data.max_size:
            raise DataError(
                f"Windows have up to {self.data.max_size} people, but representation.max_size is {max_size}. "
                "Leave it out."
            )
        # Of all people, augmented as in training: noise spreads the first positions much wider.
        generator = make_generator("statistics of augmented windows")
        training = as_batch(
            augmented(self.data.training, generator, self.settings.largest_scale, self.settings.largest_noise)
        )
        present = training.sets.mask
        x, y = training.x[present], training.sets.elements[present]
        # The same for all, so that distances between elements keep their ratios.
        wide = max(DEVIATIONS * float(y.std(correction=0)), 1e-3)
        scaled = FeatureScaling((-wide,) * OUTPUTS, (2 * wide,) * OUTPUTS)
        shape = DataShape(
            (size, INPUTS + 1),
            OUTPUTS,
            size,
            scaled if scaling else FeatureScaling.identity(OUTPUTS),
            "set",
            DataDescription(aligned=True, position=((OUTPUTS - 2, OUTPUTS),)),
        )
        mean, deviation = x.mean(dim=0), x.std(dim=0, correction=0)
        mean[-1], deviation[-1] = 0.0, 1.0  # presence stays what it is
        # A place tells nothing about the way onward, and differs between scenes: `futures` alone needs it.
        deviation[PLACE], deviation[HEADING] = UNSEEN, UNSEEN
        return shape, torch.stack([mean, deviation])

    def source(
        self, shape: DataShape, training: TrainingSettings, seed: int, accelerator: Accelerator
    ) -> BatchSource:
        """Training windows at random, turned, mirrored, scaled and some with noise, on the training device."""
        settings = self.settings
        table = WindowTable(
            self.data.training, settings.largest_scale, settings.largest_noise, settings.people_in_training
        )
        return DeviceSource(
            table.to(accelerator.device).draw,
            training.batch_size_for(shape.max_size),
            seed,
            accelerator.device,
            accelerator.process_index,
        )

    def training_examples(self) -> int:
        """Windows of the other scenes."""
        return len(self.data.training)

    def scored_windows(self, protocol: Protocol) -> Batch:
        """Windows of the scene that is left out."""
        return some_of(self.data.test, protocol.test_examples[0])

    def scored_examples(self, seed: int, protocol: Protocol) -> Sequence[Example]:
        """Test windows with what came after them."""
        del seed
        windows = self.scored_windows(protocol)
        return [(x, (y,)) for x, y in zip(windows.x, windows.sets.to_ragged(), strict=True)]

    def shown_examples(self, seed: int) -> list[ShownExample]:
        """For each of a few parts of the recording the test window with the most people."""
        del seed
        windows, count = self.data.test, len(self.data.test.x)
        parts = torch.arange(count).tensor_split(min(SHOWN, count))
        chosen = [int(part[windows.sets.sizes[part].argmax()]) for part in parts]
        truth = windows.sets.to_ragged()
        return [
            ShownExample(f"{self.settings.scene}, window {number + 1}", None, windows.x[number], [truth[number]])
            for number in chosen
        ]

    def paths(self, x: Tensor, elements: Tensor) -> Paths:
        """Where people were, and where they go, in metres from the window's centre."""
        return Paths(pasts(x), futures(x, elements))

    def read_input(self, value: Any, where: str, folder: Path, shape: DataShape) -> Tensor:
        """Everybody's last eight positions, [[[x, y], ...], ...] in metres, 0.4 seconds apart.

        Raises:
            DataError: it is something else, or there are more people than the predictor knows.
            RunError: another version of desp, with other features of inputs, trained the predictor.
        """
        del folder
        if shape.input_shape[-1] != INPUTS + 1:
            raise RunError(
                f"The run was trained on people with {shape.input_shape[-1]} features, now they have "
                f"{INPUTS + 1}: another version of desp trained it. Train it again."
            )
        return observed_input(value, where, shape.max_size)

    def written_sets(self, value: Any, x: Tensor, sets: list[Tensor]) -> list[Tensor]:
        """Everybody's next twelve positions, x and y of each, in the coordinates of the input."""
        people, origin = x[presence_mask(x)], torch.tensor(value, dtype=torch.float32)[:, -1].mean(dim=0)
        return [(futures(people, item.cpu()) + origin).flatten(1) for item in sets]

    def validation_batch(self, seed: int, count: int) -> Batch:
        """Windows at the end of training recordings, or of the validation scene; neither is trained on."""
        del seed
        return some_of(self.data.validation, count)

    def validation_score(self, setup: EvaluationSetup, examples: Batch) -> float:
        """The energy score of twenty samples."""
        return self.scores_of_samples(setup, examples)["energy_score"]

    def scores_of_samples(self, setup: EvaluationSetup, windows: Batch) -> dict[str, float]:
        """All scores of twenty samples, with the random numbers of validation."""
        drawn, _ = self._draw(setup, windows.x, PREDICTIONS, "validation chains")
        return self._scores(drawn, windows)

    def evaluate(self, setup: EvaluationSetup) -> Evaluation:
        """Scores of all test windows: raw, of twenty samples; returned, of twenty cluster centres of all samples.
        `real_data` has only the collisions of true paths, as other scores compare with the truth.

        Both have the energy score of the samples. It is proper for independent predictions alone: centres of
        clusters, which keep away from each other, would be rewarded for that."""
        windows = self.scored_windows(setup.protocol)
        count = setup.independent_samples(self.settings.drawn)
        drawn, energy = self._draw(setup, windows.x, count, "test chains")
        kept = min(PREDICTIONS, count)
        setup.tell("scoring", len(windows.x), len(windows.x))
        standing = representatives(drawn.flatten(2), kept).unflatten(2, drawn.shape[2:])
        raw = self._scores(drawn[:, :kept], windows)
        truth = self._scores(futures(windows.x, windows.sets.elements).unsqueeze(1), windows)
        details = {
            "windows": len(windows.x),
            "people": int(windows.sets.sizes.sum()),
            "samples": kept,
            "drawn": count,
            "training_windows": len(self.data.training),
        }
        return Evaluation(
            raw=raw,
            returned={**self._scores(standing, windows), **{name: raw[name] for name in OF_SAMPLES}},
            real_data={"collisions": truth["collisions"]},
            details=details,
            energy=energy,
        )

    def baseline_scores(self, baseline: Baseline, windows: Batch) -> dict[str, float]:
        """Scores of walking on at the last velocity: as it is, or with a random turn for each person, K = 20."""
        x = windows.x.unsqueeze(1)
        if baseline == "constant-velocity-turned":
            x = x.expand(-1, PREDICTIONS, -1, -1)
            turns = torch.randn(x.shape[:3], generator=make_generator("turns", self.settings.scene))
            elements = turned(x, math.radians(TURN) * turns)
        else:
            elements = x.new_zeros(*x.shape[:3], OUTPUTS)
        return self._scores(futures(x, elements), windows)

    def _scores(self, predicted: Float[Tensor, "b k n 12 2"], windows: Batch) -> dict[str, float]:
        scores = path_scores(predicted, futures(windows.x, windows.sets.elements), windows.sets.mask)
        return {"score": scores["energy_score"], **scores}

    def _draw(
        self, setup: EvaluationSetup, x: Tensor, samples: int, name: str
    ) -> tuple[Float[Tensor, "b k n 12 2"], float]:
        """Positions of sampled predictions, on the CPU, zero in absent rows; and their mean energy.

        Windows of similar size are sampled together, without common absent rows: few windows are full."""
        predictor, x = setup.predictor, x.cpu()
        sizes = presence_mask(x).sum(dim=1)
        found, energies = torch.zeros(len(x), samples, x.shape[1], PREDICTED, 2), torch.zeros(len(x), samples)
        for number, chosen in enumerate(sizes.argsort(stable=True).split(WINDOWS_AT_ONCE)):
            size = int(sizes[chosen].max())
            some = x[chosen, :size]
            setup.tell("predicting", number * WINDOWS_AT_ONCE, len(x))
            code, raw = setup.sample([some], samples, name, number)
            elements = predictor.shape.scaling.unscale(raw[..., :OUTPUTS]).cpu()
            paths = futures(some.unsqueeze(1), elements.unflatten(0, (len(some), samples)))
            found[chosen, :, :size] = paths * presence_mask(some)[:, None, :, None, None]
            energies[chosen] = predictor.raw_energy(code, raw, samples).cpu().view(-1, samples)
        return found, float(energies.mean())
