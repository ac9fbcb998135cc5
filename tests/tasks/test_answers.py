"""A user's data with several valid answers, and with outputs that are aligned with inputs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import desp.tasks.scoring
from desp.data.base import Batch
from desp.data.files import read_data_file
from desp.errors import DataError
from desp.predictor import DataShape, SetPredictor
from desp.sets import SetBatch
from desp.settings import (
    ConvEncoderSettings,
    DataDescription,
    DeepSetsSettings,
    DescentSettings,
    FilesSettings,
    RepresentationSettings,
    SetRiskSettings,
)
from desp.tasks.files import FilesTask
from desp.tasks.scoring import QUICK, EvaluationSetup, score_examples

PRESENCE = RepresentationSettings(padding="presence")
ALIGNED = DataDescription(aligned=True)


def write(path: Path, *records: Any) -> Path:
    path.write_text("\n".join(map(json.dumps, records)) + "\n")
    return path


@pytest.fixture
def two_answers(tmp_path: Path) -> FilesTask:
    """A point at the input or at its double; the third example has one answer."""
    answers = [[[[float(k)]], [[2.0 * k], [2.0 * k]]][: 1 if k == 3 else 2] for k in range(1, 21)]
    records = [{"input": k + 1, "answers": answers[k]} for k in range(20)]
    return FilesTask(FilesSettings(path=str(write(tmp_path / "data.jsonl", *records)), held_out=0.5), 0)


def test_all_valid_sets_are_trained_on_and_belong_to_what_is_scored(two_answers: FilesTask) -> None:
    data = two_answers.whole
    assert (len(data.examples), len(data)) == (20, 39)
    assert [item.tolist() for item in data.examples[1][1]] == [[[2.0]], [[4.0], [4.0]]]
    assert [data[index][1].tolist() for index in (2, 3, 4)] == [[[2.0]], [[4.0], [4.0]], [[3.0]]]
    for part in two_answers.parts:
        pairs = [(x.tolist(), y.tolist()) for x, y in (part[index] for index in range(len(part)))]
        assert pairs == [(x.tolist(), y.tolist()) for x, answers in part.examples for y in answers]
    test, _, training = two_answers.parts
    assert {float(x) for x, _ in test.examples}.isdisjoint({float(x) for x, _ in training.examples})
    assert [len(example.truth) for example in two_answers.shown_examples(0)] == [
        len(answers) for _, answers in test.examples[:5]
    ]


@pytest.mark.parametrize(("found", "share"), [("first", 0.5), ("both", 1.0)])
def test_any_valid_set_is_right(
    two_answers: FilesTask, knowing: Callable[..., SetPredictor], found: str, share: float
) -> None:
    shape, _ = two_answers.shape(None, True)

    def draw(x: Tensor, generator: torch.Generator) -> Tensor:
        second = torch.arange(len(x)) % 2 == 1 if found == "both" else torch.zeros(len(x), dtype=torch.bool)
        sets = [
            torch.full((2, 1), 2.0 * float(row)) if other and float(row) != 3 else torch.full((1, 1), float(row))
            for row, other in zip(x[:, 0], second, strict=True)
        ]
        return made.sets_to_tensor(SetBatch.from_ragged(sets, 2, 1))

    made = knowing(draw, shape, PRESENCE)
    scores = two_answers.evaluate(EvaluationSetup(made, seed=0, samples=2, protocol=QUICK)).returned
    assert scores["score"] == pytest.approx(0, abs=1e-9)
    assert scores["right_size"] == 1
    single = [len(answers) == 1 for _, answers in two_answers.parts[0].examples]
    assert scores["valid_set_recall"] == pytest.approx(
        (share * single.count(False) + single.count(True)) / len(single)
    )


def test_which_valid_set_is_ranked_follows_the_seed(
    two_answers: FilesTask, knowing: Callable[..., SetPredictor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Always the first, or always the same choice, would rank one kind of answer in all runs."""
    ranked: list[list[int]] = []

    def noted(_: EvaluationSetup, examples: Batch) -> Tensor:
        for row, item in zip(examples.x, examples.sets.to_ragged(), strict=True):
            assert {float(value) / float(row) for value in item.flatten()} <= {1.0, 2.0}
        ranked.append(examples.sets.sizes.tolist())
        return torch.zeros(len(examples.x), 10, 10)

    monkeypatch.setattr(EvaluationSetup, "distances", noted)
    monkeypatch.setattr(desp.tasks.scoring, "MIN_CALIBRATION_EXAMPLES", 5)
    predictor = knowing(lambda x, _: torch.ones(len(x), 2, 2), two_answers.shape(None, True)[0], PRESENCE)
    for seed in (3, 3, 4, 5):
        two_answers.evaluate(EvaluationSetup(predictor, seed=seed, samples=1, protocol=QUICK))
    first, again, *others = ranked
    assert first == again
    assert first not in others
    assert {1, 2} == set(first)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"input": 1, "answers": []}, "line 1: 'answers' must be a list of at least one set"),
        ({"input": 1, "answers": [[[1.0]]], "set": [[1.0]]}, "line 1: has 'set' and 'answers'"),
        ({"input": 1, "answers": [[[1.0]], [["a"]]]}, "line 1, answer 1"),
        ({"input": 1}, "the field 'set' is missing"),
    ],
)
def test_bad_answers(tmp_path: Path, record: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_data_file(write(tmp_path / "data.jsonl", record))


def test_aligned_sets_are_compared_element_by_element(
    tmp_path: Path, knowing: Callable[..., SetPredictor]
) -> None:
    """The same elements in another order are as wrong as others."""
    inputs = [[[float(k), float(i)] for i in range(2 + k % 2)] for k in range(12)]
    records = [{"input": x, "set": [[element[1]] for element in x]} for x in inputs]
    settings = FilesSettings(path=str(write(tmp_path / "data.jsonl", *records)), description=ALIGNED, held_out=0.5)
    task = FilesTask(settings, 0)
    shape, _ = task.shape(None, True)
    assert (shape.max_size, shape.input_shape, shape.description.aligned) == (3, (3, 3), True)

    def score(order: slice) -> dict[str, float]:
        def draw(x: Tensor, generator: torch.Generator) -> Tensor:
            sets = [row[row[:, -1] > 0.5][order.start :: order.step][:, 1:2] for row in x]
            return made.sets_to_tensor(
                SetBatch.from_ragged([item.flip(0) if flipped else item for item in sets], 3, 1)
            )

        flipped = order.stop == 1
        made = knowing(draw, shape, PRESENCE)
        return task.evaluate(EvaluationSetup(made, seed=0, samples=1, protocol=QUICK)).returned

    assert score(slice(0, 0, 1))["score"] == pytest.approx(0, abs=1e-9)
    assert score(slice(0, 1, 1))["score"] > 0.01


def test_all_predictions_for_an_input_have_its_elements() -> None:
    shape = DataShape((3, 3), features=1, max_size=3, input_kind="set", description=ALIGNED)
    method = SetRiskSettings(energy=DeepSetsSettings(hidden=8), descent=DescentSettings(steps=2))
    predictor = SetPredictor(method, device="cpu")
    predictor.build(shape, seed=0)
    x = SetBatch.from_ragged([torch.ones(count, 2) for count in (1, 3, 2)], 3, 2).with_presence()
    _, raw = EvaluationSetup(predictor, seed=0, samples=2, protocol=QUICK).sample([x[:1], x[1:]], 2, "chains")
    assert predictor.sets_from_tensor(raw).sizes.tolist() == [1, 1, 3, 3, 2, 2]


def test_images_are_scored_as_they_are_trained_on() -> None:
    """As bytes, which an encoder reads as intensities: as numbers up to 255 they would be other images."""
    method = SetRiskSettings(
        encoder=ConvEncoderSettings(hidden=8, out=4),
        energy=DeepSetsSettings(hidden=8),
        descent=DescentSettings(steps=2),
    )
    predictor = SetPredictor(method, device="cpu")
    predictor.build(DataShape((3, 8, 8), features=1, max_size=2, input_kind="image"), seed=0)
    images = torch.randint(256, (4, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    setup = EvaluationSetup(predictor, seed=0, samples=1, protocol=QUICK)
    as_bytes, as_intensities = (
        score_examples(setup, [(x, (torch.ones(1, 1),)) for x in inputs]) for inputs in (images, images / 255)
    )
    assert as_bytes.energy == as_intensities.energy
    assert as_bytes.returned == as_intensities.returned


def test_lines_that_are_not_aligned(tmp_path: Path) -> None:
    path = write(tmp_path / "data.jsonl", {"input": [[1.0], [2.0]], "set": [[1.0]]})
    with pytest.raises(DataError, match="line 1: the set has 1 elements and the input 2"):
        read_data_file(path, ALIGNED)
