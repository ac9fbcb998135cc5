"""Predictors that know the answer, or none; small problems of every task."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from desp.data.digits import DIGITS, draw_styles
from desp.data.polygons import polygon
from desp.predictor import DataShape, SetPredictor
from desp.samplers import ChainInfo
from desp.sets import SetBatch
from desp.settings import (
    CelebaSettings,
    ClevrSettings,
    ContrastiveSettings,
    DigitsSettings,
    FilesSettings,
    LangevinSettings,
    MnistSettings,
    PedestriansSettings,
    PolygonsSettings,
    RepresentationSettings,
    SamplerSettings,
)
from desp.tasks import Protocol, Task, make_task
from desp.tasks.celeba import CelebaTask
from desp.tasks.clevr import ClevrTask
from desp.tasks.digits import DigitsTask
from desp.tasks.mnist import SetMnistTask
from desp.tasks.pedestrians import PedestriansTask
from desp.tasks.polygons import PolygonsTask
from tiny_clevr import write_tiny_clevr

Draw = Callable[[Tensor, torch.Generator], Tensor]


class Asked(NamedTuple):
    """What a predictor was asked to sample."""

    x: Tensor
    seed: int
    """Of the generator, when it was made."""
    sampler: SamplerSettings | None


# A number that does not survive rounding.
PRECISE = 1 / 3


class KnowingPredictor(SetPredictor):
    """Gives what `draw` says in place of a chain's end; another sampler adds noise, and coarse codes round it.

    A code is the number of its input among all that were encoded, so that a rounded one stands for the same.

    Attributes:
        inputs: every input that was encoded, in order.
        asked: every call, in order.
        level: energy of all sets; None gives every pair of input and set an energy of its own.
    """

    def __init__(self, draw: Draw, shape: DataShape, representation: RepresentationSettings) -> None:
        super().__init__(ContrastiveSettings(), representation)
        self.draw = draw
        self.inputs = torch.zeros(0, *shape.input_shape)
        self.asked: list[Asked] = []
        self.level: float | None = 1.0
        self.build(shape)

    def encode(self, x: Tensor) -> Tensor:
        first = len(self.inputs)
        missing = self.inputs.shape[1] - x.shape[1]  # aligned inputs may come without their padding
        self.inputs = torch.cat([self.inputs, F.pad(x, (0, 0, 0, missing)) if x.dim() > 2 else x])
        numbers = torch.arange(first, len(self.inputs), dtype=torch.float32)
        return torch.stack([numbers, torch.full_like(numbers, PRECISE)], dim=1)

    def inputs_of(self, code: Tensor) -> Tensor:
        """What was encoded as `code`."""
        return self.inputs[code[:, 0].long()]

    def sample(
        self,
        code: Tensor,
        generator: torch.Generator,
        *,
        sampler: SamplerSettings | None = None,
        samples: int = 1,
        presence: Tensor | None = None,
        **_: Any,
    ) -> tuple[Tensor, ChainInfo]:
        code = code.repeat_interleave(samples, dim=0)
        x = self.inputs_of(code)
        self.asked.append(Asked(x, generator.initial_seed(), sampler))
        values = self.draw(x, generator)
        if presence is not None:
            values = values[:, : presence.shape[1]]
        if isinstance(sampler, LangevinSettings):
            values = values + sampler.noise_scale * torch.randn(values.shape, generator=generator)
        coarse = bool((code[:, 1] != torch.tensor(PRECISE)).any())
        return values.to(torch.bfloat16).float() if coarse else values, ChainInfo()

    def raw_energy(self, code: Tensor, values: Tensor, samples: int = 1) -> Tensor:
        if self.level is not None:
            return torch.full((len(values),), self.level)
        code = code.repeat_interleave(samples, dim=0)
        rows = torch.linspace(1, 2, values.shape[1]).unsqueeze(-1)  # unlike a true one, it sees the order
        return (rows * values.square()).flatten(1).sum(dim=1) + self.inputs_of(code).flatten(1).sum(dim=1)


ZERO = RepresentationSettings(padding="zero", threshold=0.015, scaling="none")
PRESENCE = RepresentationSettings(padding="presence")


def draw_true_polygons(x: Tensor, generator: torch.Generator) -> Tensor:
    """A fresh polygon with the right number of corners for every row."""
    corners = x.argmax(dim=1) + 4
    return polygon(corners, 2 * math.pi * torch.rand(len(x), generator=generator), 8)


def draw_true_digits(x: Tensor, generator: torch.Generator) -> Tensor:
    """A fresh digit in either style for every row."""
    variants = torch.stack([draw_styles(digit, len(x), generator) for digit in DIGITS])
    style = torch.randint(2, (len(x),), generator=generator)
    return variants[x.argmax(dim=1), style, torch.arange(len(x))]


@pytest.fixture
def polygon_predictor() -> Callable[..., KnowingPredictor]:
    """Makes predictors of polygons; true ones if not told otherwise."""
    shape = DataShape((5,), features=2, max_size=8)
    return lambda draw=draw_true_polygons: KnowingPredictor(draw, shape, ZERO)


@pytest.fixture
def digit_predictor() -> Callable[..., KnowingPredictor]:
    """Makes predictors of digits; true ones if not told otherwise."""
    shape = DataShape((2,), features=2, max_size=64)
    return lambda draw=draw_true_digits: KnowingPredictor(draw, shape, ZERO)


@pytest.fixture
def knowing() -> type[KnowingPredictor]:
    """The class itself."""
    return KnowingPredictor


# -- a small problem of every task -----------------------------------------------------------------------


class Problem(NamedTuple):
    """A task, and a predictor whose answers are near the truth, with some elements lost."""

    task: Task
    predictor: KnowingPredictor


@pytest.fixture
def few_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks score on few sets."""
    few = Protocol(sets_per_collection=12, sets_per_collection_hungarian=8, calibration_examples=55)
    for kind, protocol in (
        (PolygonsTask, replace(few, test_examples=(40,), predictions_per_input=30)),
        (DigitsTask, replace(few, test_examples=(44,), predictions_per_input=14)),
        (SetMnistTask, replace(few, test_examples=(7, 20), calibration_examples=6, validation_examples=6)),
        (ClevrTask, replace(few, test_examples=(5,), validation_examples=4)),
        (CelebaTask, replace(few, test_examples=(30,), validation_examples=9)),
        (PedestriansTask, replace(few, test_examples=(6,), validation_examples=5)),
        (Task, few),
    ):
        monkeypatch.setattr(kind, "protocols", {"full": protocol, "quick": protocol})


def imperfect(draw: Draw) -> Draw:
    """Elements a little off, absent ones not quite zero; every fifth set lacks its first element."""

    def drawn(x: Tensor, generator: torch.Generator) -> Tensor:
        values = draw(x, generator)
        present = (values != 0).any(dim=-1, keepdim=True)
        values = torch.where(present, values + 0.03 * torch.randn(values.shape, generator=generator), 0.004)
        values[::5, 0] = 0
        return values

    return drawn


def write_examples(path: Path, count: int = 240) -> Path:
    """Sets of one to three points, each for an input of its own; enough of them for calibration."""
    sets = ([[10 * i / count, j - i % 5] for j in range(i % 3 + 1)] for i in range(count))
    lines = (json.dumps({"input": [i, i % 7], "set": elements}) for i, elements in enumerate(sets))
    path.write_text("\n".join(lines) + "\n")
    return path


def remembering(path: Path) -> Problem:
    """Files, with a predictor that remembers them."""
    task = make_task(FilesSettings(path=str(path), held_out=0.25), seed=1)
    rows = [json.loads(line) for line in path.read_text().splitlines()]

    def draw(x: Tensor, _: torch.Generator) -> Tensor:
        sets = [rows[int(index)]["set"] for index in x[:, 0]]
        return predictor.sets_to_tensor(SetBatch.from_ragged(sets, 3, 2))

    predictor = KnowingPredictor(imperfect(draw), task.shape(None, True)[0], PRESENCE)
    return Problem(task, predictor)


def seen_before(folder: Path) -> Problem:
    """Images with boxes, and a predictor that knows those that are not trained on."""
    task = make_task(ClevrSettings(data_dir=str(folder)))
    assert isinstance(task, ClevrTask)
    parts = [part.table("boxes").batch() for part in (task.data.validation, task.data.test)]
    known = torch.cat([part.x for part in parts])

    def draw(x: Tensor, _: torch.Generator) -> Tensor:
        sets = torch.cat([predictor.sets_to_tensor(part.sets) for part in parts])
        return sets[(x.unsqueeze(1) == known).flatten(2).all(dim=2).float().argmax(dim=1)]

    predictor = KnowingPredictor(imperfect(draw), task.shape(None, True)[0], PRESENCE)
    return Problem(task, predictor)


def all_belong() -> Problem:
    """Sets of simulated items, and a predictor to which nearly all of them belong."""
    task = make_task(CelebaSettings(source="simulated"))
    inside = imperfect(lambda x, _: torch.tensor([0.5, 1.0]).expand(len(x), 5, 2).clone())
    return Problem(task, KnowingPredictor(inside, task.shape(None, True)[0], PRESENCE))


def walks_on() -> Problem:
    """Simulated walkers, and a predictor by which they walk on about as they did."""
    task = make_task(PedestriansSettings(source="simulated", drawn=24))

    def draw(x: Tensor, generator: torch.Generator) -> Tensor:
        around = 0.5 + 0.05 * torch.randn(*x.shape[:2], 24, generator=generator)
        return torch.cat([around, x[..., -1:]], dim=-1)

    return Problem(task, KnowingPredictor(draw, task.shape(None, True)[0], PRESENCE))


@pytest.fixture
def problem(request: pytest.FixtureRequest, few_tests: None, tmp_path: Path) -> Problem:
    """The problem that is asked for by name."""
    made = make_problem(request, tmp_path)
    made.predictor.level = None
    return made


def make_problem(request: pytest.FixtureRequest, tmp_path: Path) -> Problem:
    if request.param == "polygons":
        true = request.getfixturevalue("polygon_predictor")
        return Problem(make_task(PolygonsSettings()), true(imperfect(draw_true_polygons)))
    if request.param == "digits":
        true = request.getfixturevalue("digit_predictor")
        return Problem(make_task(DigitsSettings()), true(imperfect(draw_true_digits)))
    if request.param == "files":
        return remembering(write_examples(tmp_path / "data.jsonl"))
    if request.param == "celeba":
        return all_belong()
    if request.param == "pedestrians":
        return walks_on()
    if request.param == "clevr":
        return seen_before(write_tiny_clevr(tmp_path / "clevr", training=60))  # three of them for validation
    task = make_task(MnistSettings(data_dir=str(request.getfixturevalue("tiny_mnist"))))
    same = imperfect(lambda x, _: x)
    return Problem(task, KnowingPredictor(same, task.shape(None, True)[0], PRESENCE))
