"""A user's own data, with a part held out for scoring."""

import hashlib
import statistics
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor

from desp.data.base import Batch, BatchSource
from desp.data.files import DataFile, InputFormat, read_data_file
from desp.errors import DataError
from desp.metrics import size_rmse
from desp.predictor import DataShape, SetPredictor, inspect_dataset
from desp.predictor.shape import InputStatistics, dataset_source
from desp.randomness import make_generator
from desp.sets import SetBatch
from desp.settings import FilesSettings, SamplerSettings, TrainingSettings
from desp.tasks.base import Evaluation, Example, Task
from desp.tasks.judgement import CALIBRATED, FEWEST_CALIBRATED, calibration_scores, distance_between

VALIDATION_EXAMPLES = 200
SHOWN = 5
INPUTS_AT_ONCE = 1000
BYTES_AT_ONCE = 2**20


class FilesTask(Task):
    """Score: distance to the held-out sets, the nearest of its valid ones for each prediction, in scaled units.

    It is Chamfer's, padding and presence included; where outputs are aligned with inputs, that of each element to
    its own. With several valid sets of which a file holds one, a prediction may be right and still far from it, so
    the distance of the nearest of K predictions stands beside it.
    """

    name = "files"
    score_name = "Chamfer distance to held-out sets"

    def __init__(self, settings: FilesSettings, seed: int) -> None:
        if not settings.path:
            raise DataError(
                "No data file was given. Pass --data FILE (JSON lines, npz, or a folder of npy files)."
            )
        self.path, self.share, self.seed = Path(settings.path), settings.held_out, seed
        self.description, self.data_label = settings.description, self.path.name
        if self.description.aligned:
            self.score_name = "Huber distance of elements to those of held-out sets"

    @cached_property
    def whole(self) -> DataFile:
        """All examples; read when first needed, so that predicting does not need the training file."""
        data = read_data_file(self.path, self.description)
        if data.example_count < 2:
            raise DataError(f"{self.path} holds one example; at least two are needed, one of them held out.")
        return data

    @cached_property
    def parts(self) -> tuple[DataFile, DataFile, DataFile]:
        """Held out for scoring, held out for choosing the best weights, and the rest to train on.

        Scoring on what the weights were chosen by would flatter them. A handful of examples leaves nothing to
        choose by.
        """
        total = self.whole.example_count
        order = torch.randperm(total, generator=make_generator(self.seed, "held out")).tolist()
        scored = min(max(1, round(self.share * total)), total - 1)
        chosen_by = min(scored, (total - scored) // 5, VALIDATION_EXAMPLES)
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
        features = self.whole[0][1].shape[1]
        names = [f"feature {i + 1}" for i in range(features)]
        return {"names": names, "closed": False, "image_rows": False}

    def fingerprint(self) -> str:
        """A checksum of the data: scoring on others would mix training and held-out examples."""
        if not self.path.exists():
            raise DataError(f"There is no data file at {self.path}.")
        total = hashlib.blake2b(digest_size=16)
        for path in sorted(self.path.glob("*.npy")) if self.path.is_dir() else [self.path]:
            with path.open("rb") as file:
                while block := file.read(BYTES_AT_ONCE):
                    total.update(block)
        return total.hexdigest()

    def shape(self, max_size: int | None, scaling: bool) -> tuple[DataShape, InputStatistics]:
        """Sizes and ranges of the whole file, so that held-out sets fit; means of the training part."""
        described = replace(self.description, input_kind=self.whole.input_format.kind)
        shape, _ = inspect_dataset(self.whole, max_size=max_size, scaling=scaling, description=described)
        _, statistics = inspect_dataset(
            self.parts[2], max_size=shape.max_size, features=shape.features, description=described
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
        return [
            Example(
                label=f"held-out example {i + 1}",
                input=x.tolist() if x.numel() <= 64 else None,
                x=x,
                truth=list(answers),
            )
            for i, (x, answers) in enumerate(self.held_out.examples(last=SHOWN))
        ]

    def validation_batch(self, seed: int, count: int) -> Batch | None:
        """Examples kept apart for choices."""
        del seed
        some = self.parts[1].examples(last=count)
        if not some:
            return None
        sets = [answers[0] for _, answers in some]
        return Batch(torch.stack([x for x, _ in some]), SetBatch.from_ragged(sets, features=sets[0].shape[1]))

    def evaluate(
        self, predictor: SetPredictor, *, seed: int, samples: int, sampler: SamplerSettings | None = None
    ) -> Evaluation:
        """Distances and size errors on the held-out part."""
        answers = [answers for _, answers in self.held_out.examples()]
        code, presence = _encoded(predictor, self.held_out)
        code = code.repeat_interleave(samples, dim=0)
        given = None if presence is None else presence.repeat_interleave(samples, dim=0)
        generator = make_generator(seed, "held-out chains", device=predictor.device)
        raw, _ = predictor.sample(code, generator, sampler=sampler, presence=given)
        returned = predictor.decode_sets(raw)
        distances, nearest = _to_answers(predictor, returned.packed(), answers, samples)
        sizes = returned.sizes.cpu()
        true_sizes = torch.tensor(
            [len(valid[index]) for valid, row in zip(answers, nearest.tolist(), strict=True) for index in row]
        )
        ranks, rank_details = self._calibration(predictor, seed, sampler)
        return Evaluation(
            raw={},
            returned={
                "score": float(distances.mean()),
                "score_best_of_k": float(distances.amin(dim=1).mean()),
                "size_rmse": size_rmse(sizes, true_sizes),
                "right_size": float((sizes == true_sizes).double().mean()),
                **_answers_found(answers, nearest),
                **ranks,
            },
            real_data={},
            details={"held_out": len(answers), "samples": samples, **rank_details},
            energy=float(predictor.raw_energy(code, raw).mean()),
        )

    def _calibration(
        self, predictor: SetPredictor, seed: int, sampler: SamplerSettings | None
    ) -> tuple[dict[str, float], dict[str, Any]]:
        """Whether held-out sets could be predictions, where there are enough of them to say."""
        some = self.held_out.examples(last=CALIBRATED[predictor.device.type])
        if len(some) < FEWEST_CALIBRATED:
            return {}, {}
        chances = torch.rand(len(some), generator=make_generator(seed, "valid answers")).tolist()
        chosen = [answers[int(chance * len(answers))] for chance, (_, answers) in zip(chances, some, strict=True)]
        x, truth = (
            torch.stack([x for x, _ in some]),
            SetBatch.from_ragged(chosen, features=predictor.shape.features),
        )
        scores, details = calibration_scores(predictor, x, truth, seed=seed, sampler=sampler)
        return scores, {"calibration": details}


def _encoded(predictor: SetPredictor, data: DataFile) -> tuple[Tensor, Tensor | None]:
    """Codes of all inputs, and the presence that they give, with some inputs at a time in memory."""
    codes, presence = [], []
    for first in range(0, data.example_count, INPUTS_AT_ONCE):
        some = data.examples(first, first + INPUTS_AT_ONCE)
        x = torch.stack([x for x, _ in some]).to(predictor.device)
        codes.append(predictor.encode(x))
        presence.append(predictor.given_presence(x))
    known = [item for item in presence if item is not None]
    return torch.cat(codes), torch.cat(known) if known else None


def _to_answers(
    predictor: SetPredictor, returned: SetBatch, answers: Sequence[Sequence[Tensor]], samples: int
) -> tuple[Tensor, Tensor]:
    """(M, K) distances of predictions to the nearest valid set of each example, and which of them that is."""
    shape, between, each = predictor.shape, distance_between(predictor), []
    own = predictor.encode_sets(returned)
    for number in range(max(map(len, answers))):
        # Where there are fewer, the first one again: the nearest stays the same.
        valid = [item[number if number < len(item) else 0] for item in answers]
        truth = SetBatch.from_ragged(valid, shape.max_size, shape.features).to(predictor.device)
        target = predictor.encode_sets(truth).repeat_interleave(samples, dim=0)
        parts = zip(own.split(500), target.split(500), strict=True)
        each.append(torch.cat([between(a, b) for a, b in parts]).view(-1, samples).cpu())
    distances, nearest = torch.stack(each).min(dim=0)
    counts = torch.tensor([len(item) for item in answers]).unsqueeze(1)
    return distances, torch.where(nearest < counts, nearest, 0)


def _answers_found(answers: Sequence[Sequence[Tensor]], nearest: Tensor) -> dict[str, float]:
    """The share of valid sets that are nearest to one of K predictions, where examples have several."""
    if max(map(len, answers)) == 1:
        return {}
    shares = [len(set(row)) / len(valid) for valid, row in zip(answers, nearest.tolist(), strict=True)]
    return {"answers_found": statistics.fmean(shares)}
