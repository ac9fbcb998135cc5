"""Inputs and sets as arrays, lists and data frames; run folders; scores; parameters; model cards."""

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from small_predictors import SHORT, VARIANTS, Pairs, fitted_once, ragged_pairs
from torch import Tensor

from desp.data.base import dataset_items
from desp.data.frames import make_pairs
from desp.errors import DataError, SettingsError
from desp.predictor import SetPredictor, fitting
from desp.predictor.saving import load_predictor
from desp.sets import SetBatch
from desp.settings import (
    ContrastiveSettings,
    DataDescription,
    EDMSettings,
    EnergyDenoisingSettings,
    LangevinSettings,
    TrainingSettings,
)
from desp.training import TrainingCallback

pytestmark = pytest.mark.usefixtures("unchecked")
COLUMNS = ["a", "b", "c"]


def new() -> SetPredictor:
    return VARIANTS["default"].predictor(device="cpu")


def weights(predictor: SetPredictor) -> list[Tensor]:
    return list(predictor.method.state_dict().values())


def as_arrays(pairs: Pairs) -> tuple[Any, Any]:
    return np.stack([x.numpy() for x, _ in pairs]), [y.numpy() for _, y in pairs]


def as_lists(pairs: Pairs) -> tuple[Any, Any]:
    return [x.tolist() for x, _ in pairs], [y.tolist() for _, y in pairs]


def as_tensors(pairs: Pairs) -> tuple[Any, Any]:
    return torch.stack([x for x, _ in pairs]), SetBatch.from_ragged([y for _, y in pairs])


def as_frame(pairs: Pairs) -> tuple[Any, Any]:
    return pd.DataFrame(as_arrays(pairs)[0], columns=COLUMNS), [y for _, y in pairs]


def as_dicts(pairs: Pairs) -> tuple[Any, Any]:
    return [dict(zip(COLUMNS, x.tolist(), strict=True)) for x, _ in pairs], [y for _, y in pairs]


def as_frames(pairs: Pairs) -> tuple[Any, Any]:
    """Elements in a data frame of their own, which the index joins with that of the inputs."""
    names = [f"k{number}" for number in range(len(pairs))]
    inputs = as_frame(pairs)[0].set_axis(names)
    owners = [name for name, (_, y) in zip(names, pairs, strict=True) for _ in y]
    return inputs, pd.DataFrame(torch.cat([y for _, y in pairs]).numpy(), columns=["u", "v"], index=owners)


def as_frames_with_ids(pairs: Pairs) -> tuple[Any, Any]:
    inputs, sets = as_frames(pairs)
    return inputs.reset_index(names="id"), sets.reset_index(names="id").sort_values("id", kind="stable")


WAYS = [as_arrays, as_lists, as_tensors, as_frame, as_dicts, as_frames, as_frames_with_ids]


@pytest.mark.parametrize("way", WAYS)
def test_all_ways_to_pass_data_give_the_same_predictor(way: Callable[[Pairs], tuple[Any, Any]]) -> None:
    pairs, expected, found = ragged_pairs(), new(), new()
    expected.fit(pairs, SHORT)
    found.fit(*way(pairs), SHORT)
    assert all(torch.equal(one, other) for one, other in zip(weights(found), weights(expected), strict=True))
    again = new()
    again.fit(*way(pairs), training=SHORT, validation_data=way(pairs[:4]))
    assert again.facts["kept_step"] is not None


def test_columns_of_shuffled_frames_are_paired_by_position() -> None:
    frame = pd.DataFrame({"a": [0.0, 1.0, 2.0], "points": [[[0.0]], [[1.0]], [[2.0]]]}, index=[2, 0, 1])
    for inputs in (frame[["a"]], frame["a"]):
        pairs, _ = make_pairs(inputs, frame["points"])
        assert [(float(x), y) for x, y in pairs] == [(0.0, [[0.0]]), (1.0, [[1.0]]), (2.0, [[2.0]])]


def test_an_equals_sign_in_names_of_columns_of_a_frame_makes_no_category() -> None:
    inputs = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0]})
    elements = pd.DataFrame({"T=300K": [0.5, 1.5, 2.5, 3.5], "T=400K": [4.0, 3.0, 2.0, 1.0]})
    predictor = new()
    predictor.fit(inputs, elements, SHORT)
    description = predictor.shape.description
    assert (description.feature_columns, description.categories) == (("T=300K", "T=400K"), ())


def test_a_column_called_input_or_id_of_a_frame() -> None:
    """The first is like any other; the second names rows, and is no part of inputs."""
    sets, numbers = [[[1.0]]] * 4, [1.0, 2.0, 3.0, 4.0]
    frame = pd.DataFrame({"id": [7, 8, 9, 10], "input": numbers, "size": numbers})
    elements = pd.DataFrame({"u": numbers}, index=frame["id"])
    for names, given in ((("input", "size"), frame), (("input",), frame[["id", "input"]])):
        for way in (sets, elements, elements.reset_index()):
            predictor = new()
            predictor.fit(given, way, SHORT)
            assert predictor.shape.description.input_columns == names
            assert predictor.as_batch(given[:1]).tolist() == [[1.0] * len(names)]
    rows = given.to_dict("records")
    assert make_pairs(rows, sets)[1] == DataDescription(input_columns=("input",), input_kind="vector")
    predictor.fit(frame[["size"]], sets, SHORT)
    with pytest.raises(DataError, match="there is no column 'size'"):
        predictor.predict(frame[["input"]])


def test_no_rows_of_a_frame_give_no_predictions() -> None:
    frame, sets = as_frame(ragged_pairs())
    predictor = new()
    predictor.fit(frame, sets, SHORT)
    assert predictor.predict(frame[:0]) == []


class OwnFrame(pd.DataFrame):
    """As geopandas has."""


def test_own_kinds_of_frames() -> None:
    frame, sets = as_frame(ragged_pairs())
    _, description = make_pairs(OwnFrame(frame), sets)
    assert description is not None
    assert description.input_columns == tuple(COLUMNS)


def test_names_of_columns_are_kept(tmp_path: Path) -> None:
    frame, sets = as_frame(ragged_pairs())
    frame["kind"] = pd.Categorical(["new", "old"] * 6)
    predictor = new()
    predictor.fit(frame, sets, SHORT)
    assert predictor.shape.description.input_columns == ("a", "b", "c", "kind=new", "kind=old")
    predictor.save_pretrained(tmp_path)
    loaded = SetPredictor.from_pretrained(tmp_path, device="cpu")
    turned = frame[["kind", "c", "b", "a"]]
    expected = loaded.predict(torch.tensor([[*frame.iloc[1, :3], 0.0, 1.0]]), seed=3)[0]
    assert torch.equal(loaded.predict(turned[1:2], seed=3)[0].sets[0], expected.sets[0])
    row = {"kind": "old", "a": frame["a"][1], "b": frame["b"][1], "c": frame["c"][1]}
    assert torch.equal(loaded.predict_one(row, seed=3).sets[0], expected.sets[0])
    with pytest.raises(DataError, match=r"inputs, row 0: there is no column 'kind' \(found: a, b, c\)"):
        loaded.predict(frame[COLUMNS])
    with pytest.raises(DataError, match="the column 'kind' is 'odd', but its known values are: new, old"):
        loaded.predict_one({**row, "kind": "odd"})
    with pytest.raises(DataError, match="inputs, row 1: the column 'b' has no value"):
        loaded.predict(frame[:2].assign(b=[0.5, None]))


@pytest.mark.parametrize(
    ("inputs", "sets", "message"),
    [
        (np.zeros((3, 2)), [[[1.0]]] * 2, "Expected one set for each of 3 inputs, got 2 sets"),
        (5, [[[1.0]]], "inputs must be an array, a tensor or a list with one item an example, got int"),
        (np.zeros((1, 2)), "abc", "sets must be an array, a tensor or a list"),
        (np.zeros((1, 2)), {0: [[1.0]]}, "sets must be .* got dict"),
        (np.zeros((1, 2)), pd.DataFrame({"u": [1.0]}), "Pass both as data frames, or sets as a list"),
        (pd.DataFrame({"a": [1.0, None]}), [[[1.0]]] * 2, "inputs, row 1: the column 'a' has no value"),
        (
            pd.DataFrame({"a": [1.0]}),
            pd.DataFrame({"u": [1.0]}, index=[7]),
            "sets, row 0: .* the id '7' in inputs",
        ),
        (
            pd.DataFrame({"a": pd.to_datetime(["2020-01-01"])}),
            [[[1.0]]],
            "row 0: expected a number or text in the",
        ),
        ([{"a": 1.0}, [1.0]], [[[1.0]]] * 2, "inputs, row 1: expected a dict, like the first, got list"),
        ([[1.0], {"a": 1.0}], [[[1.0]]] * 2, "Input 1: expected a number"),
        ([{"a": 1.0}, {"a": 1.0, "b": 2.0}], [[[1.0]]] * 2, "row 1: all inputs must have the same names, but 'b'"),
        ([{"a": [1.0]}, {"a": [1.0], "b": 2.0}], [[[1.0]]] * 2, "row 1: all inputs must have the same names"),
        (pd.DataFrame({"a": ["x", " "]}), [[[1.0]]] * 2, "inputs, row 1: the column 'a' has no value"),
        (pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]), [[[1.0]]], "inputs has two columns 'a'"),
    ],
)
def test_inputs_and_sets_that_do_not_fit(inputs: Any, sets: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        new().fit(inputs, sets, SHORT)


def test_frames_need_names_in_training() -> None:
    predictor = new()
    predictor.fit(ragged_pairs(), SHORT)
    with pytest.raises(DataError, match=r"fitted to inputs without names of columns.*frame.to_numpy\(\)"):
        predictor.predict(as_frame(ragged_pairs())[0])


@pytest.mark.parametrize(("changes", "noise"), [({}, False), ({"keep": "last"}, True)], ids=["mean", "each"])
def test_validation_data_give_each_score_where_the_noise_is_looked_at(
    changes: dict[str, Any], noise: bool
) -> None:
    training = TrainingSettings(steps=2, batch_size=4, **changes)
    outcome = new().fit(ragged_pairs(), training, validation_data=ragged_pairs()[:6])
    assert (outcome.score_standard_error is not None) == noise


def test_validation_data_keep_the_best_weights() -> None:
    pairs, steps = ragged_pairs(), TrainingSettings(steps=20, batch_size=4)
    predictor = new()
    outcome = predictor.fit(*as_arrays(pairs), steps, validation_data=pairs[:6])
    assert outcome.score_step is not None
    assert outcome.score_step % 2 == 0  # ten times
    assert predictor.fit(pairs, steps).score is None


@pytest.mark.parametrize("every", [0, 5])
def test_on_validation_data_lower_scores_are_better_whatever_settings_say(every: int) -> None:
    training = TrainingSettings(validate_every=every, validation_mode="max")
    method = EnergyDenoisingSettings()
    assert fitting.training_for(training, method, None, ragged_pairs()).validation_mode == "min"
    assert fitting.training_for(training, method, float, None).validation_mode == "max"


class Noted(TrainingCallback):
    """Counts steps."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    def on_step(self, step: int) -> None:
        self.steps.append(step)


def test_progress_is_shown_beside_the_own_callback(capsys: pytest.CaptureFixture[str]) -> None:
    noted = Noted()
    new().fit(ragged_pairs(), SHORT, progress=True, callback=noted)
    shown = capsys.readouterr()
    assert noted.steps == [1, 2, 3]
    assert "training" in shown.err
    assert shown.out == ""
    new().fit(ragged_pairs(), SHORT)
    assert capsys.readouterr().err == ""


def test_the_best_of_several_samples(fitted_variant: SetPredictor) -> None:
    x = torch.stack([x for x, _ in ragged_pairs()[:3]])
    several, best = fitted_variant.predict(x, 40, seed=5), fitted_variant.predict(x, best=True, seed=5)
    if fitted_variant.method_settings.deterministic:
        several = fitted_variant.predict(x, 1, seed=5)
    for one, all_ in zip(best, several, strict=True):
        assert len(one) == 1
        assert torch.equal(one.lowest_energy, all_.medoid)
        assert len(one.energies) == 1


def test_scores_are_higher_for_the_truth(fitted: SetPredictor, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.stack([x for x, _ in ragged_pairs()])
    sets = [item.lowest_energy for item in fitted.predict(x, seed=2)]
    right, wrong = fitted.score(x, sets), fitted.score(x, [item + 5 for item in sets])
    assert wrong < right
    assert fitted.score(x, sets) == right
    with pytest.raises(SettingsError, match="samples must be at least 2"):
        fitted.score(x, sets, samples=1)
    with pytest.raises(DataError, match="one set for each of 12 inputs"):
        fitted.score(x, sets[:3])
    elements = pd.DataFrame({str(index): [0.5] for index in range(len(x))})  # as many columns as inputs
    for call in (fitted.score, fitted.energy):
        with pytest.raises(DataError, match=r"fitted to sets without names .* Pass a list of sets \(n, D\)"):
            call(x, elements)


def test_a_predictor_says_what_it_is(fitted: SetPredictor) -> None:
    method = fitted.method_settings.kind
    assert repr(SetPredictor(fitted.method_settings)) == f"SetPredictor({method}, not fitted)"
    shapes = "vector inputs of shape (3,), at most 4 elements of 2 features"
    assert repr(fitted) == f"SetPredictor({method}, fitted: {shapes})"


def test_parameters_are_read_and_set() -> None:
    predictor = new()
    assert set(predictor.get_params(deep=False)) == {
        "method",
        "representation",
        "input_encoder",
        "engine",
        "device",
        "matmul_precision",
    }
    assert predictor.get_params()["method__sampler__steps"] == 3
    assert SetPredictor(**predictor.get_params(deep=False)).get_params() == predictor.get_params()
    changed = predictor.set_params(method__sampler__steps=5, engine="eager", representation__max_size=9)
    assert changed is predictor
    assert predictor.method_settings.prediction_sampler == EDMSettings(steps=5)
    assert (predictor.engine, predictor.representation.max_size) == ("eager", 9)
    for wrong in ("methods", "method__sampler__step", "engine__fast"):
        with pytest.raises(SettingsError, match=f"There is no parameter '{wrong}'"):
            predictor.set_params(**{wrong: 1})


def test_a_representation_that_was_not_given_is_that_of_the_method() -> None:
    predictor = SetPredictor()
    assert predictor.get_params(deep=False)["representation"] is None
    assert predictor.get_params()["representation__scaling"] == predictor.representation.scaling == "standard"
    predictor.set_params(method=ContrastiveSettings())
    assert predictor.representation == SetPredictor(ContrastiveSettings()).representation
    predictor.set_params(representation__max_size=7)
    assert predictor.representation == replace(SetPredictor(ContrastiveSettings()).representation, max_size=7)
    predictor.set_params(method=EnergyDenoisingSettings())
    assert predictor.representation.max_size == 7  # given now


def test_unknown_options_of_from_pretrained(fitted: SetPredictor, tmp_path: Path) -> None:
    fitted.save_pretrained(tmp_path)
    with pytest.raises(SettingsError, match=r"no option 'devise'. Known are: input_encoder, engine, device"):
        SetPredictor.from_pretrained(tmp_path, devise="cpu")


def test_the_model_card_is_filled(tmp_path: Path) -> None:
    predictor = new()
    frames = as_frames(ragged_pairs())
    predictor.fit(*frames, SHORT, validation_data=ragged_pairs()[:4], seed=7)
    predictor.save_pretrained(tmp_path / "first")
    card = (tmp_path / "first" / "README.md").read_text()
    for text in (
        "library_name: desp",
        "| input | vector of shape (3,) |",
        "| columns of the input | a, b, c |",
        "| elements | at most 4, of 2 features |",
        "| features | u, v |",
        "| method | energy-denoising",
        "| examples | 12 |",
        "| steps | 3 |",
        "| seed | 7 |",
        "| validation score of these weights | ",
        "never larger than 4 elements",
    ):
        assert text in card
    assert "{" not in card
    loaded = SetPredictor.from_pretrained(tmp_path / "first", device="cpu")
    loaded.save_pretrained(tmp_path / "second")
    assert (tmp_path / "second" / "README.md").read_text() == card
    assert str(loaded.generate_model_card()) == card


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("default", "approximately in\nthe proportions of the training data"),
        ("independent", "How elements depend on each other is not learned"),
        ("dspn-chamfer", "deterministic"),
        ("tspn", "need not be"),
    ],
)
def test_the_model_card_promises_what_the_method_gives(name: str, told: str) -> None:
    assert told in str(fitted_once(name).generate_model_card())


@pytest.mark.parametrize("sampler", [EDMSettings(cardinality="mode"), EDMSettings(temperature=0.5)])
def test_the_model_card_promises_no_proportions_where_the_sampler_changes_them(sampler: EDMSettings) -> None:
    predictor = deepcopy(fitted_once("default"))
    predictor.method_settings = predictor.method_settings.with_part("sampler", sampler)
    card = str(predictor.generate_model_card())
    assert "proportions" not in card
    assert "need not be as different as those of the training data" in card


def test_the_model_card_is_written_anew_unless_it_was_edited(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    for steps in (3, 4):
        predictor = new()
        predictor.fit(ragged_pairs(), TrainingSettings(**{**SHORT.__dict__, "steps": steps}))
        predictor.save_pretrained(tmp_path)
        assert f"| steps | {steps} |" in path.read_text()
    for own in (path.read_text().replace("# A set", "# My set"), path.read_text() + "More.\n", "Mine.\n", ""):
        path.write_text(own)
        predictor.save_pretrained(tmp_path)
        assert path.read_text() == own


def test_far_inputs_are_named(caplog: pytest.LogCaptureFixture) -> None:
    predictor = VARIANTS["default"].predictor(device="cpu")
    predictor.fit(ragged_pairs(), SHORT)
    x = torch.stack([x for x, _ in ragged_pairs()[:4]])
    x[2] = 1e6
    predictor.predict(x, name_of=lambda number: f"new.jsonl, line {number + 1}")
    assert [record.getMessage().partition("They are: ")[2] for record in caplog.records] == ["new.jsonl, line 3"]


# -- run folders -----------------------------------------------------------------------------------------


def test_a_folder_is_a_run_folder(tmp_path: Path) -> None:
    from desp.runs.evaluate import evaluate_run, sample_run
    from desp.runs.folder import RunFolder
    from desp.runs.predict import predict_file

    pairs = ragged_pairs()
    predictor = new()
    predictor.fit(*as_frames(pairs), SHORT, validation_data=pairs[:5], folder=tmp_path / "run", seed=3)
    moved = (tmp_path / "run").rename(tmp_path / "moved")  # it holds all that is needed
    folder = RunFolder(moved)
    result, _ = evaluate_run(folder, samples=2)
    assert result["details"]["held_out"] == 5
    assert result["data"] == "validation data"
    assert (result["seed"], result["training"]["steps"]) == (3, 3)
    sample_run(folder)
    shown = json.loads(folder.samples_file.read_text())
    assert shown["axes"]["names"] == ["u", "v"]
    assert len(shown["examples"]) == 5
    truth = shown["examples"][1]["truth"][0]
    assert truth == pytest.approx(np.array(pairs[1][1].tolist()), abs=1e-4)
    (tmp_path / "new.csv").write_text("c,a,b\n0.5,0.25,1\n")
    assert predict_file(folder, tmp_path / "new.csv", tmp_path / "out.jsonl", 2).inputs == 1
    line = json.loads((tmp_path / "out.jsonl").read_text())
    assert line["input"] == {"a": 0.25, "b": 1, "c": 0.5}


def test_without_validation_data_there_is_nothing_to_score_on(tmp_path: Path) -> None:
    from desp.runs.evaluate import evaluate_run, sample_run
    from desp.runs.folder import RunFolder
    from desp.runs.train import train_run

    new().fit(ragged_pairs(), SHORT, folder=tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(DataError, match="fitted without validation data, so there is nothing to score on"):
        evaluate_run(folder)
    sample_run(folder)
    assert json.loads(folder.samples_file.read_text())["examples"][0]["label"] == "training example 1"
    settings, seed = folder.load_settings()
    with pytest.raises(Exception, match=r"was fitted by a program.*resume=True"):
        train_run(settings, seed, folder, resume=True)


@pytest.mark.parametrize("held_out", [False, True])
def test_the_examples_of_a_run_may_all_have_empty_sets(tmp_path: Path, held_out: bool) -> None:
    """They are few, and others had elements to learn from."""
    from desp.runs.evaluate import evaluate_run, sample_run
    from desp.runs.folder import RunFolder

    pairs = ragged_pairs()
    empty = [(x, y[:0]) for x, y in pairs[:5]]
    given = {"validation_data": empty} if held_out else {}
    new().fit([*empty, *pairs], SHORT, folder=tmp_path / "run", **given)
    folder = RunFolder(tmp_path / "run")
    sample_run(folder)
    shown = json.loads(folder.samples_file.read_text())["examples"]
    assert [example["truth"] for example in shown] == [[[]]] * 5
    if held_out:
        assert evaluate_run(folder, samples=2)[0]["details"]["held_out"] == 5


@pytest.mark.parametrize(
    ("aligned", "told"),
    [
        (False, "Chamfer distance to held-out sets"),
        (True, "Huber distance of elements to those of held-out sets"),
    ],
)
def test_the_score_of_a_run_is_called_what_it_is(tmp_path: Path, aligned: bool, told: str) -> None:
    from desp.runs.evaluate import evaluate_run
    from desp.runs.folder import RunFolder

    x = torch.rand(12, 2, 3)
    x[..., -1] = 1  # presence
    pairs = [(item, item[:, :1]) for item in x]
    described = DataDescription(input_kind="set", aligned=aligned)
    new().fit(pairs, SHORT, description=described, validation_data=pairs[:5], folder=tmp_path / "run")
    result, _ = evaluate_run(RunFolder(tmp_path / "run"), samples=2)
    assert result["metrics"]["score"]["text"] == told


def test_a_run_is_resumed_by_the_program(tmp_path: Path) -> None:
    pairs, folder = ragged_pairs(), tmp_path / "run"
    new().fit(pairs, SHORT, folder=folder)
    with pytest.raises(Exception, match="already holds a run, at step 3"):
        new().fit(pairs, SHORT, folder=folder)
    longer = TrainingSettings(**{**SHORT.__dict__, "steps": 5})
    assert new().fit(pairs, longer, folder=folder, resume=True).steps == 5
    assert json.loads((folder / "summary.json").read_text())["steps"] == 5
    assert json.loads((folder / "settings.json").read_text())["settings"]["training"]["steps"] == 5


def test_the_summary_of_a_fit_has_the_names_of_other_runs(tmp_path: Path) -> None:
    pairs = ragged_pairs()
    outcome = new().fit(
        pairs, replace(SHORT, validate_every=3), validation_data=pairs[:4], folder=tmp_path / "run"
    )
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["kept_score"], summary["kept_step"]) == (outcome.score, 3)
    assert summary["kept_score_se"] == outcome.score_standard_error
    assert not {"score", "score_step", "score_standard_error"} & set(summary)


def test_a_sampler_that_is_given_decides_how_many_samples_there_are(fitted_variant: SetPredictor) -> None:
    if not isinstance(own := fitted_variant.method_settings.prediction_sampler, LangevinSettings):
        pytest.skip("no chains")
    x = torch.stack([x for x, _ in ragged_pairs()[:1]])
    still = replace(own, stochastic_steps=0)
    (best,) = fitted_variant.predict(x, best=True, sampler=still)
    (one,) = fitted_variant.predict(x, 1, sampler=still)
    assert torch.equal(best.sets[0], one.sets[0])
    fitted_variant.method_settings = fitted_variant.method_settings.with_part("sampler", still)
    try:
        (best,) = fitted_variant.predict(x, best=True, sampler=own, seed=3)
        (all_,) = fitted_variant.predict(x, 40, sampler=own, seed=3)
        assert torch.equal(best.sets[0], all_.medoid)
    finally:
        fitted_variant.method_settings = fitted_variant.method_settings.with_part("sampler", own)


def test_half_precision_and_gradients_are_kept_as_numbers(tmp_path: Path) -> None:
    from desp.runs.folder import RunFolder

    x, y = torch.rand(3, 2).bfloat16(), torch.rand(3, 1, 1).bfloat16()
    for name, inputs, sets in (("bfloat16", x, y), ("gradients", x.float().requires_grad_(), y)):
        new().fit(inputs, sets, SHORT, folder=tmp_path / name)
        kept: Any = RunFolder(tmp_path / name).load_task()
        assert torch.equal(torch.stack([item for item, _ in kept.kept.examples]), x.float())


def test_input_sets_are_kept_with_their_presence(tmp_path: Path) -> None:
    from desp.runs.folder import RunFolder

    x = SetBatch.from_ragged([torch.rand(size, 2) for size in (1, 3, 2)]).with_presence()
    described = DataDescription(input_kind="set")
    new().fit(x, [torch.rand(2, 1)] * 3, SHORT, description=described, folder=tmp_path / "run")
    kept: Any = RunFolder(tmp_path / "run").load_task()
    assert torch.equal(torch.stack([item for item, _ in kept.kept.examples]), x)


def test_a_predictor_is_loaded_with_its_facts(tmp_path: Path) -> None:
    predictor = new()
    predictor.fit(ragged_pairs(), SHORT, seed=4)
    predictor.save_pretrained(tmp_path)
    assert load_predictor(SetPredictor, tmp_path, device="cpu").facts == predictor.facts
    assert predictor.facts["seed"] == 4


def test_facts_of_an_older_version(tmp_path: Path) -> None:
    predictor = new()
    predictor.fit(ragged_pairs(), SHORT)
    predictor.save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    file.write_text(file.read_text().replace('"kept_step"', '"best_step"'))
    assert "best_step" in file.read_text()
    assert load_predictor(SetPredictor, tmp_path, device="cpu").facts == predictor.facts


def test_the_default_training_holds_out_a_tenth_to_validate_on(monkeypatch: pytest.MonkeyPatch) -> None:
    short = TrainingSettings(steps=None, lr_schedule="wsd", validate_every=8, patience=1, keep="last")
    monkeypatch.setattr(fitting, "own_data_training", lambda: short)
    pairs = [(torch.tensor([float(index // 2)]), torch.rand(2, 2)) for index in range(40)]
    predictor = SetPredictor(device="cpu")
    outcome = predictor.fit(pairs)
    assert outcome.score is not None
    assert predictor.facts["examples"] == 36
    training, held_out = fitting.hold_out(predictor, pairs, seed=0)
    assert held_out is not None
    sides = [{float(x) for x, _ in dataset_items(part)} for part in (training, held_out)]
    assert sides[0] | sides[1] == set(map(float, range(20)))
    assert not sides[0] & sides[1]  # of equal inputs
    assert fitting.hold_out(predictor, pairs[:9], seed=0) == (pairs[:9], None)
    assert fitting.hold_out(SetPredictor(EnergyDenoisingSettings()), pairs, seed=0) == (pairs, None)


def test_labels_are_all_trained_on() -> None:
    """With few different inputs, whole groups would leave classes out of training."""
    pairs = [(torch.tensor([float(index % 10)]), torch.rand(2, 2)) for index in range(200)]
    predictor = SetPredictor(device="cpu")
    predictor.fit(pairs, SHORT)
    training, held_out = fitting.hold_out(predictor, pairs, seed=0)
    assert held_out is not None
    trained = [float(x) for x, _ in dataset_items(training)]
    assert len(trained) == 180
    assert set(trained) == set(range(10))
