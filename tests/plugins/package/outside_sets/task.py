"""A task of two points."""

import torch

from desp.data.base import Batch
from desp.distances import chamfer
from desp.errors import DataError
from desp.metrics import Metric
from desp.predictor import DataShape
from desp.randomness import make_generator
from desp.sets import SetBatch
from desp.tasks import Evaluation, Example
from desp.tasks.base import GeneratedTask
from outside_sets.parts import random_turns


class SegmentsTask(GeneratedTask):
    """Score: Chamfer distance to one true segment."""

    name = "segments"
    metrics = (Metric("score", 1.0, "lower", "Chamfer distance"),)

    def __init__(self, settings, seed=0):
        self.longest = settings.longest
        self.axes = {"names": ["x", "y"], "closed": False, "image_rows": False}

    def draw(self, batch_size, generator):
        length = self.longest * torch.rand(batch_size, generator=generator, device=generator.device)
        turn = random_turns(batch_size, generator)
        half = 0.5 * length.unsqueeze(1) * torch.stack([turn.cos(), turn.sin()], dim=1)
        points = torch.stack([0.5 + half, 0.5 - half], dim=1)
        return Batch(length.unsqueeze(1), SetBatch(points, torch.ones(points.shape[:2], dtype=torch.bool)))

    def shape(self, max_size, scaling):
        return DataShape((1,), features=2, max_size=2), None

    def read_input(self, value, where, folder, shape):
        if not isinstance(value, float):
            raise DataError(f"{where}: expected a length, got {value!r}.")
        return torch.tensor([value])

    def evaluate(self, predictor, *, seed, samples, protocol, sampler=None):
        batch = self.draw(20, make_generator(seed, "test"))
        code = predictor.encode(batch.x.to(predictor.device))
        raw, _ = predictor.sample(
            code, make_generator(seed, "test chains", device=predictor.device), sampler=sampler
        )
        true = predictor.encode_sets(batch.sets.to(predictor.device))
        score = {"score": float(chamfer(raw, true).mean())}
        return Evaluation(raw=score, returned=score, real_data={"score": 0.0})

    def examples(self, seed):
        batch = self.draw(2, make_generator(seed, "examples"))
        pairs = zip(batch.x, batch.sets.to_ragged(), strict=True)
        return [Example(f"length {float(x):.2f}", x.tolist(), x, [y]) for x, y in pairs]
