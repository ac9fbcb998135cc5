"""A user's own data, with a part held out for scoring."""

import hashlib
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor

from desp.categories import Groups
from desp.data.base import Batch, BatchSource
from desp.data.files import DataFile, InputFormat, read_data_file
from desp.distances import chamfer
from desp.errors import DataError
from desp.metrics import Metric, right_size, size_rmse
from desp.metrics.calibration import CALIBRATION
from desp.metrics.sizes import RIGHT_SIZE, SIZE_RMSE
from desp.predictor import DataShape, SetPredictor, inspect_dataset
from desp.predictor.shape import InputStatistics, dataset_source
from desp.randomness import make_generator
from desp.sets import SetBatch
from desp.settings import FilesSettings, SamplerSettings, TrainingSettings
from desp.tasks.base import Evaluation, Example, Task
from desp.tasks.calibration import FEWEST_CALIBRATED, calibration_scores
from desp.tasks.protocol import Protocol

SHOWN = 5


class FilesTask(Task):
    """Score: Chamfer distance to the held-out sets, in scaled units, padding and presence included.

    With several right answers one prediction may be right and still far from the one answer in the file, so
    the distance of the nearest of K predictions stands beside it.
    """

    name = "files"
    metrics = (
        Metric("score", 1.0, "lower", "Chamfer distance to held-out sets"),
        Metric("score_best_of_k", 1.0, "lower", "that distance, for the nearest of K predictions"),
        SIZE_RMSE,
        RIGHT_SIZE,
        CALIBRATION,
    )

    def __init__(self, settings: FilesSettings, seed: int) -> None:
        if not settings.path:
            raise DataError("No data file was given. Pass --data FILE (JSON lines or npz).")
        self.path, self.share, self.seed = Path(settings.path), settings.held_out, seed
        self.data_label = self.path.name

    @cached_property
    def whole(self) -> DataFile:
        """All examples; read when first needed, so that predicting does not need the training file."""
        data = read_data_file(self.path)
        if len(data) < 2:
            raise DataError(f"{self.path} holds one example; at least two are needed, one of them held out.")
        return data

    @cached_property
    def parts(self) -> tuple[DataFile, DataFile, DataFile]:
        """Held out for scoring, held out for choosing the best weights, and the rest to train on.

        Scoring on what the weights were chosen by would flatter them. A handful of examples leaves nothing to
        choose by.
        """
        total = len(self.whole)
        order = torch.randperm(total, generator=make_generator(self.seed, "held out")).tolist()
        scored = min(max(1, round(self.share * total)), total - 1)
        chosen_by = min(scored, (total - scored) // 5, self.protocol("full").validated)
        cuts = order[:scored], order[scored : scored + chosen_by], order[scored + chosen_by :]
        test, validation, training = (self.whole.part(indices) for indices in cuts)
        return test, validation, training

    @property
    def held_out(self) -> DataFile:
        """The examples for scoring."""
        return self.parts[0]

    @property
    def axes(self) -> dict[str, Any]:  # type: ignore[override]
        """Features by their number."""
        features = self.whole.sets[0].shape[1]
        names = [f"feature {i + 1}" for i in range(features)]
        return {"names": names, "closed": False, "image_rows": False}

    def fingerprint(self) -> str:
        """A checksum of the file: scoring on another one would mix training and held-out examples."""
        if not self.path.is_file():
            raise DataError(f"There is no data file at {self.path}.")
        return hashlib.blake2b(self.path.read_bytes(), digest_size=16).hexdigest()

    def shape(
        self, max_size: int | None, scaling: bool, categories: Groups = ()
    ) -> tuple[DataShape, InputStatistics]:
        """Sizes and ranges of the whole file, so that held-out sets fit; means of the training part."""
        kind = self.whole.input_format.kind
        shape, _ = inspect_dataset(
            self.whole, max_size=max_size, scaling=scaling, input_kind=kind, categories=categories
        )
        _, statistics = inspect_dataset(
            self.parts[2], max_size=shape.max_size, features=shape.features, input_kind=kind
        )
        return shape, statistics

    def source(
        self, shape: DataShape, training: TrainingSettings, seed: int, accelerator: Accelerator
    ) -> BatchSource:
        """The examples that are not held out."""
        return dataset_source(self.parts[2], shape, training, seed, accelerator)

    def read_input(self, value: Any, where: str, folder: Path, shape: DataShape) -> Tensor:
        """An input as in the data file."""
        return InputFormat(shape.input_kind, shape.input_shape).read(value, folder, where)

    def examples(self, seed: int) -> list[Example]:
        """The first held-out examples."""
        del seed
        some = self.held_out.part(range(min(SHOWN, len(self.held_out))))
        return [
            Example(
                label=f"held-out example {i + 1}",
                input=x.tolist() if x.numel() <= 64 else None,
                x=x,
                truth=[y],
            )
            for i, (x, y) in enumerate(zip(some.inputs, some.sets, strict=True))
        ]

    def validation_batch(self, seed: int, count: int) -> Batch | None:
        """Examples kept apart for choices."""
        del seed
        some = self.parts[1].part(range(min(count, len(self.parts[1]))))
        if len(some) == 0:
            return None
        features = self.whole.sets[0].shape[1]
        return Batch(some.inputs, SetBatch.from_ragged(some.sets, max(map(len, self.whole.sets)), features))

    def evaluate(
        self,
        predictor: SetPredictor,
        *,
        seed: int,
        samples: int,
        protocol: Protocol,
        sampler: SamplerSettings | None = None,
    ) -> Evaluation:
        """Distances and size errors on the held-out part."""
        distances, sizes, energy = _distances(predictor, self.held_out, samples, seed, sampler)
        true_sizes = torch.tensor([len(item) for item in self.held_out.sets]).repeat_interleave(samples)
        score = {"score": float(distances.mean()), "score_best_of_k": float(distances.amin(dim=1).mean())}
        ranks, rank_details = self._calibration(predictor, seed, protocol, sampler)
        return Evaluation(
            raw={},
            returned={
                **score,
                "size_rmse": size_rmse(sizes, true_sizes),
                "right_size": right_size(sizes, true_sizes),
                **ranks,
            },
            real_data={},
            details={"held_out": len(self.held_out), "samples": samples, **rank_details},
            energy=energy,
        )

    def _calibration(
        self, predictor: SetPredictor, seed: int, protocol: Protocol, sampler: SamplerSettings | None
    ) -> tuple[dict[str, float], dict[str, Any]]:
        """Whether held-out sets could be predictions, where there are enough of them to say."""
        some = self.held_out.part(range(min(len(self.held_out), protocol.calibrated)))
        if len(some) < FEWEST_CALIBRATED:
            return {}, {}
        truth = SetBatch.from_ragged(some.sets, predictor.shape.max_size, predictor.shape.features)
        scores, details = calibration_scores(predictor, some.inputs, truth, seed=seed, sampler=sampler)
        return scores, {"calibration": details}


def _distances(
    predictor: SetPredictor, data: DataFile, samples: int, seed: int, sampler: SamplerSettings | None
) -> tuple[Tensor, Tensor, float]:
    """(M, K) Chamfer distances of predictions to the held-out sets, their sizes, and their mean energy."""
    device = predictor.device
    code = predictor.encode(data.inputs.to(device)).repeat_interleave(samples, dim=0)
    raw, _ = predictor.sample(code, make_generator(seed, "held-out chains", device=device), sampler=sampler)
    returned = predictor.decode_sets(raw).packed()
    truth = SetBatch.from_ragged(data.sets, predictor.shape.max_size, predictor.shape.features).to(device)
    target = predictor.encode_sets(truth).repeat_interleave(samples, dim=0)
    parts = zip(predictor.encode_sets(returned).split(500), target.split(500), strict=True)
    distances = torch.cat([chamfer(a, b) for a, b in parts])
    energy = float(predictor.raw_energy(code, raw).mean())
    return distances.view(-1, samples).cpu(), returned.sizes.cpu(), energy
