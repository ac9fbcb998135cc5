"""What a user may hand to a predictor by mistake ends with a typed error that says what to do."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_predictors import Pairs
from torch import nn
from torch.utils.data import DataLoader

from desp.errors import CheckpointError, DataError, RunError, SettingsError
from desp.predictor import SetPredictor
from desp.settings import DataDescription, EDMSettings, LangevinSettings, TrainingSettings

pytestmark = pytest.mark.usefixtures("unchecked")
SHORT = TrainingSettings(steps=1, batch_size=2)
ONE = torch.zeros(1, 3)


@pytest.mark.parametrize(
    ("dataset", "text"),
    [
        (None, "got NoneType. Pass a list of pairs"),
        ((pair for pair in ()), r"got generator. It can be read once only: pass list\(...\)"),
        (DataLoader([(1.0, [[1.0]])], batch_size=None), "got DataLoader. Pass its dataset, loader.dataset"),
        ("data.jsonl", "got str. To read a file"),
        (Path("data.jsonl"), "To read a file"),
        ({0: (1.0, [[1.0]])}, "got dict. Pass a list of pairs"),
        (torch.rand(4, 2), r"got Tensor alone. Pass the sets as second argument: fit\(inputs, sets\)"),
        (np.zeros((4, 2)), "got ndarray alone. Pass the sets as second argument"),
        (list, "got type. Pass a list of pairs"),
        (5, "got int. Pass a list of pairs"),
        ([], "The dataset is empty"),
        (["ab", "cd"], r"Item 0 is not an \(input, set\) pair but str"),
        ([(1.0, [[1.0]], 2)], r"Item 0 is not an \(input, set\) pair but tuple of 3"),
        ([(1.0, None)], "set 0: expected a list of equally long lists of numbers.* got null"),
        ([(1.0, 3.0)], r"expected two dimensions \(elements, features\)"),
        ([(1.0, [[1.0]]), (1.0, [[1.0], [1.0, 2.0]])], "set 1: element 1 has 2 features, the first has 1"),
        ([(1.0, [[10**30]])], "set 0: element 0, feature 0 is a whole number of more than 64 bits"),
        ([(10**30, [[1.0]])], "Input 0: expected a number, .*, got a whole number of more than 64 bits"),
        ([(1.0, np.array([[1e300]]))], r"set 0: element 0, feature 0 holds NaN or infinity \(beyond 3.4e\+38\)"),
        ([(1.0, [[1.0]]), (np.array(1e300), [[1.0]])], "Input 1 holds NaN or infinity"),
        ([([1.0, float("nan")], [[1.0]])], r"Input 0 holds NaN .*, at \[1\]"),
        ([(np.array([None]), [[1.0]])], r"Input 0 holds null \(None\), at \[0\]"),
        ([(1j, [[1.0]])], "Input 0 holds complex numbers"),
        ([(torch.rand(2, device="meta"), [[1.0]])], "on the device 'meta'"),
        (
            [([torch.rand(2), torch.rand(3)], [[1.0]])],
            r"Input 0 holds lists of different lengths, 2 at \[0\] and 3 at \[1\]",
        ),
    ],
)
def test_what_is_no_dataset(dataset: Any, text: str) -> None:
    with pytest.raises(DataError, match=text):
        SetPredictor().fit(dataset, SHORT)


def test_the_number_of_an_example_counts_from_the_first_of_the_dataset() -> None:
    items: list[Any] = [(1.0, [[1.0]])] * 1500
    with pytest.raises(DataError, match="set 1500: element 0, feature 0 holds NaN"):
        SetPredictor().fit([*items, (1.0, [[float("nan")]])], SHORT)
    with pytest.raises(DataError, match="set 1500 has 2 features"):
        SetPredictor().fit([*items, (1.0, [[1.0, 2.0]])], SHORT)


@pytest.mark.parametrize(
    "dataset",
    [
        [(torch.rand(2, requires_grad=True), torch.rand(2, 2, requires_grad=True))] * 3,
        [(torch.tensor([1.0, 0.0]).to_sparse(), [[1.0]]), (torch.tensor([0.0, 2.0]), [[2.0]])],
        [(1.0, [torch.rand(2), torch.rand(2)]), (2.0, [torch.rand(2)])],
    ],
    ids=["with gradient", "sparse", "lists of tensors"],
)
def test_unusual_tensors_are_read(dataset: Any) -> None:
    assert SetPredictor().fit(dataset, TrainingSettings(steps=2, batch_size=2)).steps == 2


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"training": 5}, SettingsError, "training must be TrainingSettings, got int"),
        ({"training": TrainingSettings}, SettingsError, r"got type. Make one: TrainingSettings\(...\)"),
        ({"description": "set"}, SettingsError, "description must be DataDescription, got str"),
        ({"callback": 5}, SettingsError, "callback must be TrainingCallback, got int"),
        ({"augment": 5}, SettingsError, "augment must be a function, or None, got int"),
        (
            {"augment": lambda batch: batch},
            SettingsError,
            r"called as augment\(batch, generator\), but .* \(batch\)",
        ),
        (
            {"validation": lambda: 0.5},
            SettingsError,
            r"called as validation\(predictor\), but its signature is \(\)",
        ),
        ({"augment": lambda *_: None}, DataError, "augment must return a Batch, got NoneType"),
        ({"validation": 0.5}, SettingsError, "validation must be a function"),
        ({"validation": len, "validation_data": []}, SettingsError, "validation_data, not both"),
        ({"validation_data": []}, DataError, "The dataset is empty"),
        (
            {"validation_data": ([[1.0]], [[[1.0, 2.0]]])},
            DataError,
            r"Expected a batch of inputs of shape \(B, 3\)",
        ),
        ({"validation_data": 5}, DataError, "^validation_data: Expected a dataset of .* got int"),
        (
            {"validation_data": np.zeros((2, 3))},
            DataError,
            r"^validation_data: expected \(inputs, sets\), .* got ndarray alone. .*=\(inputs, sets\)",
        ),
        ({"validation_data": [[1.0, 2.0, 3.0]]}, DataError, "^validation_data: Item 0 is not .* pass both"),
        (
            {"validation_data": ([[1.0] * 3], [[[1.0, None]]])},
            DataError,
            "^validation_data: set 0: element 0, feature 1",
        ),
        ({"progress": 1}, SettingsError, "progress must be True or False, got 1"),
        ({"resume": "yes"}, SettingsError, "resume must be True or False"),
        ({"folder": 5}, SettingsError, "folder must be the path of a folder"),
        ({"folder": ""}, SettingsError, "folder must be the path of a folder"),
        ({"folder": __file__}, RunError, "is a file. Choose a folder"),
        ({"seed": -1}, SettingsError, "The seed must be at least 0, got -1"),
        ({"seed": 1.5}, SettingsError, "The seed must be a whole number, got 1.5 of type float"),
        ({"seed": True}, SettingsError, "The seed must be a whole number"),
    ],
)
def test_arguments_of_fit(pairs: Pairs, arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    given = {"training": SHORT} | arguments
    with pytest.raises(error, match=text):
        SetPredictor().fit(pairs, **given)


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (None, "An input: expected a number, a tensor, or nested lists of numbers, got null"),
        ((row for row in ()), "got a value of type generator"),
        (DataLoader([1]), "got a value of type DataLoader"),
        ("abc", "got text, 'abc'"),
        ({}, "got a value of type dict"),
        ([[1.0, 2.0, 3.0], [1.0]], r"An input holds lists of different lengths, 3 at \[0\] and 1 at \[1\]"),
        (np.array([[1, 2, None]]), r"An input holds null \(None\), at \[0, 2\]"),
        ([[10**30, 1, 2]], r"whole number of more than 64 bits, 10+, at \[0, 0\]"),
        (torch.ones(1, 3) * 1j, "complex"),
        ([[float("inf"), 1.0, 2.0]], r"holds NaN or infinity .*, at \[0, 0\]"),
        (np.array([[1e300, 1.0, 2.0]]), r"holds NaN or infinity \(beyond"),
        (torch.rand(2, 4), r"shape \(B, 3\), got shape \(2, 4\). In training an input had 3 numbers"),
        (torch.rand(3), "For one input, use predict_one"),
    ],
)
def test_what_is_no_batch_of_inputs(fitted: SetPredictor, x: Any, text: str) -> None:
    with pytest.raises(DataError, match=text):
        fitted.predict(x)


@pytest.mark.parametrize(
    ("samples", "text"),
    [
        (0, "samples must be at least 1, got 0"),
        (-3, "samples must be at least 1, got -3"),
        (1.5, "samples must be a whole number, got 1.5 of type float"),
        ("2", "samples must be a whole number, got '2'"),
        (True, "samples must be a whole number"),
        (10**9, r"samples must be at most 10000000 for 1 inputs .*several calls.*, got 1000000000"),
    ],
)
def test_wrong_numbers_of_samples(fitted: SetPredictor, samples: Any, text: str) -> None:
    with pytest.raises(SettingsError, match=text):
        fitted.predict(ONE, samples)


@pytest.mark.parametrize("seed", [-1, 0.5, "0", None, False])
def test_wrong_seeds(fitted: SetPredictor, seed: Any) -> None:
    with pytest.raises(SettingsError, match="The seed must be"):
        fitted.predict(ONE, seed=seed)
    with pytest.raises(SettingsError, match="The seed must be"):
        fitted.predict_one(ONE[0], seed=seed)


def test_whole_numbers_of_numpy_are_as_good(fitted: SetPredictor) -> None:
    ours, theirs = fitted.predict(ONE, 2, seed=3), fitted.predict(ONE, np.int64(2), seed=np.int64(3))  # type: ignore[arg-type]
    assert [item.tolist() for item in ours[0].sets] == [item.tolist() for item in theirs[0].sets]


def test_a_seed_of_numpy_holds_out_the_same_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[Any, ...]] = []

    def fit(predictor: SetPredictor, dataset: Any, training: Any, *, seed: int, held_out: Any, **_: Any) -> None:
        given.append((seed, type(seed), held_out.x.tolist()))

    monkeypatch.setattr("desp.predictor.predictor.fit_to_dataset", fit)
    pairs = [(torch.tensor([float(number)]), [[0.1 * number]]) for number in range(60)]
    for seed in (3, np.int64(3)):
        SetPredictor(device="cpu").fit(pairs, seed=seed)  # type: ignore[arg-type]
    assert given[0] == given[1]


@pytest.mark.parametrize(
    ("sampler", "text"),
    [
        ("langevin", "sampler must be sampler settings, such as .* got str"),
        (LangevinSettings, r"got type. Make one: LangevinSettings\(...\)"),
        (EDMSettings(), "sampler must be of kind 'langevin' for this method, got 'edm'"),
    ],
)
def test_wrong_samplers(fitted: SetPredictor, sampler: Any, text: str) -> None:
    with pytest.raises(SettingsError, match=text):
        fitted.predict(ONE, sampler=sampler)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"input_encoder": lambda x: x}, "must be a torch.nn.Module.* got function. Write a function as a module"),
        ({"input_encoder": nn.Linear}, r"got type. Make one: Linear\(...\)"),
        ({"input_encoder": "mlp"}, "got str"),
        ({"engine": "fast"}, "engine must be one of .*, got 'fast'"),
        ({"device": "gpu"}, "device must be one of .*, got 'gpu'"),
        ({"matmul_precision": "low"}, "matmul_precision must be one of"),
        ({"method": "contrastive"}, "Expected MethodSettings, got str"),
    ],
)
def test_wrong_parts_of_a_predictor(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(SettingsError, match=text):
        SetPredictor(**arguments)


@pytest.mark.parametrize(
    ("sets", "text"),
    [(None, "got NoneType"), (5, "got int"), ("ab", "got str"), ({0: [[1.0]]}, "got dict")],
)
def test_what_is_no_list_of_sets(fitted: SetPredictor, sets: Any, text: str) -> None:
    with pytest.raises(DataError, match=f"Expected a list of sets, one for each input, {text}"):
        fitted.energy(ONE, sets)


@pytest.mark.parametrize("steps", [1, "a", None, 2.5])
def test_wrong_numbers_of_steps(fitted: SetPredictor, steps: Any) -> None:
    with pytest.raises(SettingsError, match="steps must be"):
        fitted.log_prob(ONE, [[[1.0, 1.0]]], steps=steps)


def test_paths_that_are_no_folders(fitted: SetPredictor, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for wrong, text in ((file, "is a file"), (5, "got 5"), (None, "got None"), ("", "got ''")):
        with pytest.raises(CheckpointError, match=text):
            fitted.save_pretrained(wrong)  # type: ignore[arg-type]
        with pytest.raises(CheckpointError, match=text):
            SetPredictor.from_pretrained(wrong)  # type: ignore[arg-type]
    with pytest.raises(CheckpointError, match="no name of a folder"):
        SetPredictor.from_pretrained("x" * 300)
    with pytest.raises(RunError, match="has not been fitted"):
        SetPredictor().save_pretrained(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def aligned_input(*presence: float) -> torch.Tensor:
    return torch.tensor([[0.1 * place, value] for place, value in enumerate(presence)])


def test_input_sets_are_padded_in_prediction_as_in_training() -> None:
    data = [(aligned_input(1, 1, 0), torch.rand(2, 1)), (aligned_input(1, 1, 1), torch.rand(3, 1))]
    description = DataDescription(aligned=True)
    predictor = SetPredictor()
    predictor.fit(data, SHORT, description=description)
    for wrong, text in (
        (aligned_input(1, 0.7, 0), "that of element 1 is 0.7"),
        (aligned_input(1, 0, 1), "Input 0: an element follows padding"),
        (aligned_input(1, 1, 1, 1), "At most 3 elements were seen in training"),
    ):
        with pytest.raises(DataError, match=text):
            predictor.predict_one(wrong)
    with pytest.raises(DataError, match="Input 1: the last feature of an input set is presence, 1 or 0"):
        SetPredictor().fit([data[0], (aligned_input(1, 1, 5), torch.rand(3, 1))], SHORT, description=description)


@pytest.mark.parametrize("empty", [None, "big"])
@pytest.mark.parametrize("as_pairs", [False, True])
def test_the_bad_value_of_an_array_of_objects_is_named(empty: Any, as_pairs: bool) -> None:
    inputs, sets = np.ones((5, 2), dtype=object), np.ones((5, 3, 2), dtype=object)
    inputs[3, 1] = empty
    what = r"null \(None\)" if empty is None else "text, 'big'"
    given = (list(zip(inputs, sets, strict=True)),) if as_pairs else (inputs, sets)
    with pytest.raises(DataError, match=rf"^Input 3 holds {what}, at \[1\]\. Expected"):
        SetPredictor().fit(*given, training=SHORT)
    sets[2, 1, 0] = empty
    inputs[3, 1] = 1.0
    with pytest.raises(DataError, match=rf"^set 2: element 1, feature 0 is {what}\. Expected"):
        SetPredictor().fit(inputs, sets, SHORT)


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (
            torch.rand(2, 3),
            r"^Expected one input of shape \(3,\), got \(2, 3\). For several inputs, use predict.$",
        ),
        (torch.rand(1, 3), "For several inputs, use predict"),
        (torch.rand(2), r"^Expected one input of shape \(3,\), got \(2,\). In training"),
        (1.0, r"^Expected one input of shape \(3,\), got \(\).$"),
        ([1.0, "a", 2.0], r"^An input holds text, 'a', at \[1\]"),
    ],
)
def test_what_is_no_single_input(fitted: SetPredictor, x: Any, text: str) -> None:
    with pytest.raises(DataError, match=text):
        fitted.predict_one(x)


def test_several_numbers_are_no_single_number() -> None:
    predictor = SetPredictor()
    predictor.fit([1.0, 2.0], [[[1.0]], [[2.0]]], SHORT)
    assert len(predictor.predict_one(1.0)) == len(predictor.predict_one([1.0])) == 1
    with pytest.raises(DataError, match=r"of shape \(1,\), got \(2,\). For several inputs, use predict"):
        predictor.predict_one([1.0, 2.0])


def test_a_set_within_a_list_is_refused_without_a_warning(fitted: SetPredictor) -> None:
    torch.set_warn_always(True)
    try:
        with pytest.raises(DataError, match=r"set 0: expected two dimensions .* got shape \(1, 2, 2\)"):
            fitted.energy(torch.rand(2, 3), [[np.ones((2, 2))], [np.ones((2, 2))]])
    finally:
        torch.set_warn_always(False)
