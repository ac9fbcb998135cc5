"""Any module as h(x): with dropout, with running statistics, with shapes that do not fit."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from desp.errors import CheckpointError, SettingsError
from desp.predictor import DataShape, Prediction, SetPredictor
from desp.sets import SetBatch
from desp.settings import (
    ContrastiveSettings,
    DeepSetsSettings,
    DenoiserSettings,
    LangevinSettings,
    MethodSettings,
    RepresentationSettings,
    TrainingSettings,
)

CHAIN = LangevinSettings(steps=3, stochastic_steps=3)
SETTINGS = ContrastiveSettings(
    energy=DeepSetsSettings(hidden=8),
    training_sampler=CHAIN,
    sampler=LangevinSettings(steps=3, stochastic_steps=2),
)
SHORT = TrainingSettings(steps=3, batch_size=4)


def pairs() -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    return [
        (torch.randn(3, generator=generator), torch.rand(size, 2, generator=generator))
        for size in (1, 2, 3, 2, 1, 3)
    ]


SPECIAL: dict[str, Callable[[], nn.Module]] = {
    "dropout": lambda: nn.Dropout(0.5),
    "batch norm": lambda: nn.BatchNorm1d(6),
}
every_special = pytest.mark.parametrize("special", SPECIAL.values(), ids=SPECIAL)


def with_encoder(special: Callable[[], nn.Module]) -> SetPredictor:
    """A predictor whose encoder acts differently while it is trained."""
    return SetPredictor(SETTINGS, input_encoder=nn.Sequential(nn.Linear(3, 6), special()), device="cpu")


def modes(predictor: SetPredictor) -> set[bool]:
    return {part.training for part in predictor.method.modules()}


def answers(predictor: SetPredictor, x: Tensor) -> Prediction:
    return predictor.predict_one(x, samples=2)


def assert_evaluates(predictor: SetPredictor) -> None:
    """Nothing is left to chance but the sampler's own noise, and the batch around an input does not matter."""
    x = torch.ones(3)
    before = torch.random.get_rng_state()
    first, second = answers(predictor, x), answers(predictor, x)
    assert torch.equal(first.energies, second.energies)
    points = torch.rand(2, 2, generator=torch.Generator().manual_seed(1))
    together = predictor.energy(torch.stack([x, -x]), [points, points])
    assert torch.allclose(together[0], predictor.energy(x[None], [points])[0])
    assert torch.equal(torch.random.get_rng_state(), before)


@every_special
def test_predictions_are_made_in_evaluation_mode(special: Callable[[], nn.Module]) -> None:
    predictor = with_encoder(special)
    predictor.fit(pairs(), SHORT)
    assert modes(predictor) == {False}
    assert_evaluates(predictor)
    predictor.method.train()  # a user may have looked at something else in between
    assert_evaluates(predictor)
    assert modes(predictor) == {True}


@every_special
def test_a_loaded_predictor_is_in_evaluation_mode(special: Callable[[], nn.Module], tmp_path: Path) -> None:
    predictor = with_encoder(special)
    predictor.fit(pairs(), SHORT)
    predictor.save_pretrained(tmp_path)
    encoder = nn.Sequential(nn.Linear(3, 6), special())
    loaded = SetPredictor.from_pretrained(tmp_path, input_encoder=encoder, device="cpu")
    assert modes(loaded) == {False}
    assert not any(part.training for part in encoder.modules())
    assert_evaluates(loaded)
    ours, theirs = answers(predictor, torch.ones(3)), answers(loaded, torch.ones(3))
    assert torch.equal(ours.energies, theirs.energies)
    assert all(torch.equal(one, other) for one, other in zip(ours.sets, theirs.sets, strict=True))


@every_special
def test_a_predictor_that_is_only_built_is_in_evaluation_mode(special: Callable[[], nn.Module]) -> None:
    predictor = with_encoder(special)
    predictor.build(DataShape((3,), features=2, max_size=3))
    assert modes(predictor) == {False}
    assert_evaluates(predictor)


class Noting(nn.Linear):
    """An encoder that remembers in which mode it was asked."""

    def __init__(self) -> None:
        super().__init__(3, 6)
        self.seen: list[bool] = []

    def forward(self, input: Tensor) -> Tensor:
        self.seen.append(self.training)
        return super().forward(input)


def test_training_is_done_in_training_mode() -> None:
    encoder = Noting()
    SetPredictor(SETTINGS, input_encoder=encoder).fit(pairs(), SHORT)
    assert encoder.seen == [False, True, True, True]  # the first only asks for the shape of a code


def test_validation_is_done_in_evaluation_mode_and_training_goes_on_in_its_own() -> None:
    encoder = Noting()

    def validation(predictor: SetPredictor) -> float:
        predictor.predict_one(torch.ones(3))  # encodes once, samples, and scores what was sampled
        return 0.0

    predictor = SetPredictor(SETTINGS, input_encoder=encoder)
    each = replace(SHORT, validate_every=1)
    step = [True, False]
    for _ in range(2):  # and when it is fitted again
        encoder.seen.clear()
        predictor.fit(pairs(), each, validation=validation)
        assert encoder.seen == [False, *step, *step, *step]
        assert modes(predictor) == {False}


def test_a_part_keeps_the_mode_that_a_user_gave_it() -> None:
    """Predicting in between does not thaw what was frozen."""
    predictor = with_encoder(SPECIAL["batch norm"])
    predictor.fit(pairs(), SHORT)
    predictor.method.train()
    frozen = [part for part in predictor.method.modules() if isinstance(part, nn.BatchNorm1d)]
    frozen[0].eval()
    predictor.predict_one(torch.ones(3))
    assert (predictor.method.training, frozen[0].training) == (True, False)


def test_asking_for_the_shape_leaves_running_statistics_alone() -> None:
    norm = nn.BatchNorm1d(3)
    predictor = SetPredictor(SETTINGS, input_encoder=norm)
    predictor.fit(pairs(), SHORT)
    assert int(norm.num_batches_tracked) == 3
    assert predictor.method.encoder is norm


def test_an_encoder_can_be_used_again() -> None:
    """What a fit leaves behind in it is its weights: another fit goes on from there as it would from a copy."""
    encoder = nn.Linear(3, 6)
    SetPredictor(SETTINGS, input_encoder=encoder).fit(pairs(), SHORT)
    copied = nn.Linear(3, 6)
    copied.load_state_dict(encoder.state_dict())
    before = encoder.weight.detach().clone()
    for one in (encoder, copied):
        SetPredictor(SETTINGS, input_encoder=one).fit(pairs(), SHORT)
    assert not torch.equal(encoder.weight, before)
    assert torch.equal(encoder.weight, copied.weight)
    assert torch.equal(encoder.bias, copied.bias)


def test_an_encoder_that_does_not_fit() -> None:
    with pytest.raises(SettingsError, match=r"cannot take a batch of inputs of shape \(1, 3\)"):
        SetPredictor(SETTINGS, input_encoder=nn.Linear(4, 6)).fit(pairs(), SHORT)


@pytest.mark.parametrize("kind", ["zero", "presence"])
def test_either_padding_gives_true_sets_back_by_default(kind: str) -> None:
    settings = ContrastiveSettings(energy=DeepSetsSettings(hidden=8))
    predictor = SetPredictor(settings, RepresentationSettings(padding=kind, scaling="none"))
    data = [(x, 0.1 + 0.8 * y) for x, y in pairs()]
    predictor.fit(data, SHORT)
    sets = SetBatch.from_ragged([y for _, y in data], predictor.shape.max_size, predictor.shape.features)
    again = predictor.sets_from_tensor(predictor.sets_to_tensor(sets))
    assert torch.equal(again.mask, sets.mask)
    assert torch.allclose(again.elements, sets.elements, atol=1e-6)


class Gives(nn.Module):
    """An encoder that gives what a function makes of its input."""

    def __init__(self, of: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.of = of

    def forward(self, x: Tensor) -> Any:
        return self.of(x)


@pytest.mark.parametrize(
    ("of", "message"),
    [
        (lambda x: (x, x), "must give a tensor of codes, got tuple. Wrap it"),
        (lambda x: x[:, 0], r"it gives shape \(1,\). Flatten or pool it"),
        (lambda x: x[:, :, None, None].expand(-1, -1, 2, 2), r"it gives shape \(1, 3, 2, 2\). Flatten or pool it"),
        (lambda x: x[:, None].expand(-1, 5, -1), "gives 5 codes for one input, but padded sets have 3 rows"),
    ],
    ids=["a tuple", "numbers", "feature maps", "codes of places"],
)
@pytest.mark.parametrize("method", [SETTINGS, DenoiserSettings()], ids=["with an energy", "without"])
def test_an_encoder_that_gives_no_codes_is_refused(
    of: Callable[[Tensor], Any], message: str, method: MethodSettings
) -> None:
    with pytest.raises(SettingsError, match=message):
        SetPredictor(method, input_encoder=Gives(of), device="cpu").fit(pairs(), TrainingSettings(steps=1))


@pytest.mark.parametrize("score", [None, torch.zeros(0), "low"])
def test_a_validation_that_returns_no_score_is_refused(score: Any) -> None:
    training = TrainingSettings(steps=2, validate_every=1)
    with pytest.raises(SettingsError, match="validation must return a number, or a tensor with a score"):
        SetPredictor(SETTINGS, device="cpu").fit(pairs(), training, validation=lambda _: score)


def test_a_validation_of_other_examples_each_time_is_refused() -> None:
    lengths = iter(range(2, 99))
    training = TrainingSettings(steps=4, validate_every=1, keep="last")
    with pytest.raises(SettingsError, match=r"there were \d scores before, and \d now"):
        SetPredictor(SETTINGS, device="cpu").fit(pairs(), training, validation=lambda _: torch.rand(next(lengths)))


def test_another_encoder_than_the_one_that_was_saved_is_named(tmp_path: Path) -> None:
    predictor = SetPredictor(SETTINGS, input_encoder=nn.Linear(3, 6), device="cpu")
    predictor.fit(pairs(), SHORT)
    predictor.save_pretrained(tmp_path)
    with pytest.raises(
        CheckpointError, match=r"(?s)do not fit the input encoder that was passed.*Pass a module like"
    ):
        SetPredictor.from_pretrained(tmp_path, input_encoder=nn.Linear(3, 7), device="cpu")


def test_a_saved_setting_that_is_not_known_is_no_damage(tmp_path: Path) -> None:
    predictor = SetPredictor(SETTINGS, device="cpu")
    predictor.fit(pairs(), SHORT)
    predictor.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["desp"]["method"]["kind"] = "my-method"
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=r"cannot be used: kind must be one of .*Is the package installed"):
        SetPredictor.from_pretrained(tmp_path, device="cpu")


def test_validations_that_are_all_nan_do_not_end_training_as_converged() -> None:
    training = TrainingSettings(steps=None, lr_schedule="wsd", validate_every=1, patience=2)
    with pytest.raises(SettingsError, match="None of 2 validations gave finite scores of all examples"):
        SetPredictor(SETTINGS, device="cpu").fit(pairs(), training, validation=lambda _: float("nan"))
