"""Binary labels of given elements: the taggers, and the exact likelihood of all labellings."""

from dataclasses import replace
from itertools import permutations, product

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from desp.data.shape import DataShape
from desp.errors import DataError, SettingsError
from desp.methods import Method, build_method
from desp.methods.autoregressive_tagger import AutoregressiveTagger
from desp.methods.label_likelihood import LabelLikelihood
from desp.methods.tagger import Tagger
from desp.predictor import SetPredictor
from desp.randomness import make_generator
from desp.sets import SetRepresentation
from desp.settings import (
    AutoregressiveTaggerSettings,
    DataDescription,
    DeepSetsSettings,
    LabelLikelihoodSettings,
    LabelSamplerSettings,
    LangevinSettings,
    MethodSettings,
    RepresentationSettings,
    TaggerSettings,
    TrainingSettings,
)

ALIGNED = DataDescription(aligned=True)
SIZE = 4
SIZES = (0, 1, 3, 4)
TAGGER = TaggerSettings(hidden=8, layers=3, labels=(-0.5, 0.5))
LIKELIHOOD = LabelLikelihoodSettings(energy=DeepSetsSettings(hidden=8), labels=(-0.5, 0.5))
ONE_BY_ONE = AutoregressiveTaggerSettings(hidden=8, layers=3, labels=(-0.5, 0.5))
each_method = pytest.mark.parametrize(
    "settings", [TAGGER, ONE_BY_ONE, LIKELIHOOD], ids=["tagger", "autoregressive-tagger", "label-likelihood"]
)


def build(settings: MethodSettings, size: int = SIZE, features: int = 1, *, aligned: bool = True) -> Method:
    torch.manual_seed(0)
    description = DataDescription(input_kind="set", aligned=aligned)
    shape = DataShape((size, 3), features, size, input_kind="set", description=description)
    method = build_method(settings, shape, SetRepresentation(RepresentationSettings()), engine="eager").double()
    for weight in method.parameters():  # else all labellings are nearly as probable
        weight.data.mul_(2)
    return method.eval()


def batch() -> tuple[Tensor, Tensor, Tensor]:
    """Inputs and labelled sets of different cardinality, and which labels are the higher ones."""
    generator = make_generator(1)
    presence = (torch.arange(SIZE) < torch.tensor(SIZES).unsqueeze(1)).double().unsqueeze(-1)
    x = torch.rand(len(SIZES), SIZE, 2, generator=generator).double()
    high = torch.rand(len(SIZES), SIZE, generator=generator) < 0.5
    labels = torch.where(high, 0.5, -0.5).double().unsqueeze(-1)
    return torch.cat([x * presence, presence], dim=-1), torch.cat([labels * presence, presence], dim=-1), high


# -- the tagger ------------------------------------------------------------------------------------------


def test_logits_of_the_tagger_from_its_weights_alone() -> None:
    method, (x, _, _) = build(TAGGER), batch()
    assert isinstance(method, Tagger)
    code = method.encode(x)
    weights = {name: value for name, value in method.state_dict().items() if name.startswith("layers")}
    for row, count in enumerate(SIZES):
        values = code[row, :count]
        for layer in range(3):
            own, mean, bias = (
                weights[f"layers.{layer}.{name}"]
                for name in ("of_element.weight", "of_mean.weight", "of_element.bias")
            )
            values = values if layer == 0 else torch.where(values > 0, values, 0.01 * values)
            values = values @ own.T + bias + (values.mean(dim=0) @ mean.T if count else 0)
        found = method.logits(code, x[..., -1] > 0.5)[row, :count]
        torch.testing.assert_close(found, values[:, 0])


def test_the_loss_of_the_tagger_is_that_of_present_elements() -> None:
    method, (x, y, high) = build(TAGGER), batch()
    loss, numbers = method(x, y, make_generator(0))
    mask = x[..., -1] > 0.5
    logits = method.logits(method.encode(x), mask)[mask]
    wanted = high[mask].double()
    torch.testing.assert_close(loss, F.binary_cross_entropy(logits.sigmoid(), wanted))
    assert float(numbers["accuracy"]) == pytest.approx(float(((logits > 0) == (wanted > 0.5)).double().mean()))


def test_the_tagger_gives_the_more_probable_labels() -> None:
    method, (x, _, _) = build(TAGGER), batch()
    code, mask = method.encode(x), x[..., -1] > 0.5
    sets, _ = method.sample(code, make_generator(0), presence=mask, samples=2)
    expected = torch.where(method.logits(code, mask) > 0, 0.5, -0.5).double() * mask
    assert torch.equal(sets[::2], torch.stack([expected, mask.double()], dim=-1))
    assert torch.equal(sets[1::2], sets[::2])


def test_samples_of_the_tagger_have_its_probabilities() -> None:
    method, (x, _, _) = build(TAGGER), batch()
    assert isinstance(method, Tagger)
    code, mask = method.encode(x), x[..., -1] > 0.5
    samples = 20_000
    sets, _ = method.sample(
        code[3:], make_generator(3), LabelSamplerSettings(), presence=mask[3:], samples=samples
    )
    shares = (sets[..., 0] > 0).double().mean(dim=0)
    expected = method.logits(code, mask)[3].sigmoid().detach()
    assert float(expected.max() - expected.min()) > 0.01
    torch.testing.assert_close(shares, expected, atol=0.015, rtol=0)
    usual, _ = method.sample(code[3:], make_generator(3), presence=mask[3:], samples=2)
    assert torch.equal(usual[0, :, 0] > 0, expected > 0.5)


# -- exact likelihood ------------------------------------------------------------------------------------


def all_energies(method: LabelLikelihood, code: Tensor, count: int) -> dict[tuple[bool, ...], Tensor]:
    """The energy of every labelling of the first `count` elements of one input."""
    found = {}
    for labels in product((False, True), repeat=count):
        y = torch.zeros(1, SIZE, 2, dtype=torch.float64)
        y[0, :count, 0] = torch.where(torch.tensor(labels, dtype=torch.bool), 0.5, -0.5).double()
        y[0, :count, 1] = 1
        found[labels] = method.energy(code, y)[0]
    return found


def test_the_loss_is_the_exact_likelihood() -> None:
    method, (x, y, high) = build(LIKELIHOOD), batch()
    assert isinstance(method, LabelLikelihood)
    loss, numbers = method(x, y, make_generator(0))
    code, expected = method.encode(x), []
    for row, count in enumerate(SIZES):
        energies = all_energies(method, code[row : row + 1], count)
        assert len(energies) == 2**count
        log_z = torch.stack([-value for value in energies.values()]).logsumexp(dim=0)
        expected.append(-energies[tuple(high[row, :count].tolist())] - log_z)
    torch.testing.assert_close(loss, -torch.stack(expected).mean())
    torch.testing.assert_close(numbers["log_prob"], torch.stack(expected).mean().detach())
    assert float(expected[0].detach()) == 0  # an empty set has one labelling


def test_samples_have_the_probabilities_of_the_energies() -> None:
    method, (x, _, _) = build(LIKELIHOOD), batch()
    code, mask = method.encode(x)[2:3], x[2:3, :, -1] > 0.5
    samples = 20_000
    sets, _ = method.sample(code, make_generator(3), presence=mask, samples=samples)
    energies = all_energies(method, code, SIZES[2])
    probabilities = torch.stack([-value for value in energies.values()]).softmax(dim=0).detach()
    drawn = [tuple(row) for row in (sets[:, : SIZES[2], 0] > 0).tolist()]
    shares = torch.tensor([drawn.count(labels) / samples for labels in energies]).double()
    assert float(probabilities.max() - probabilities.min()) > 0.05
    torch.testing.assert_close(shares, probabilities, atol=0.015, rtol=0)
    assert not sets[:, SIZES[2] :].any()


def test_the_most_probable_labellings_are_those_of_lowest_energy() -> None:
    method, (x, _, _) = build(LIKELIHOOD), batch()
    code, mask = method.encode(x)[2:3], x[2:3, :, -1] > 0.5
    sampler = LabelSamplerSettings(min_probability=1e-9)
    sets, _ = method.sample(code, make_generator(3), sampler, presence=mask, samples=2 ** SIZES[2] + 1)
    energies = all_energies(method, code, SIZES[2])
    found = [tuple(row) for row in (sets[:, : SIZES[2], 0] > 0).tolist()]
    ranked = sorted(energies, key=lambda labels: float(energies[labels].detach()))
    assert found == [*ranked, ranked[0]]
    with pytest.raises(SettingsError, match="sampler"):
        method.sample(code, make_generator(3), LangevinSettings(), presence=mask)


def test_energies_are_those_of_the_energy() -> None:
    method, (x, y, _) = build(LIKELIHOOD), batch()
    code = method.encode(x)
    torch.testing.assert_close(method.energies(code, y), method.energy(code, y))


# -- one label after the other -----------------------------------------------------------------------------


def probabilities_by_order(
    method: AutoregressiveTagger, code: Tensor, mask: Tensor, order: tuple[int, ...]
) -> dict[tuple[bool, ...], Tensor]:
    """p of every labelling of the elements in `order`, those of the set's first places, by the chain rule."""
    found = {}
    for labels in product((False, True), repeat=len(order)):
        known, total = torch.zeros(1, SIZE, dtype=torch.bool), torch.ones((), dtype=torch.float64)
        high = torch.zeros(1, SIZE, dtype=torch.bool)
        for place in order:
            logit = method.logits(code, high, known, mask)[0, place]
            total = total * (logit if labels[place] else -logit).sigmoid()
            high[0, place], known[0, place] = labels[place], True
        found[labels] = total
    return found


def mean_over_orders(method: AutoregressiveTagger, x: Tensor, row: int) -> dict[tuple[bool, ...], list[Tensor]]:
    code, mask = method.encode(x)[row : row + 1], x[row : row + 1, :, -1] > 0.5
    by_order = [probabilities_by_order(method, code, mask, order) for order in permutations(range(SIZES[row]))]
    return {labels: [each[labels] for each in by_order] for labels in by_order[0]}


def test_the_loss_of_labels_one_by_one_is_minus_log_p_over_orders() -> None:
    method, (x, y, high) = build(ONE_BY_ONE), batch()
    assert isinstance(method, AutoregressiveTagger)
    losses = torch.stack([method(x, y, make_generator(seed))[0].detach() for seed in range(1000)])
    expected = []
    for row, count in enumerate(SIZES):
        chances = torch.stack(mean_over_orders(method, x, row)[tuple(high[row, :count].tolist())])
        expected.append(-chances.log().mean().detach())
    error = losses.std() / 1000**0.5
    assert abs(losses.mean() - torch.stack(expected).mean()) < 4 * error


def test_labels_one_by_one_have_their_probabilities() -> None:
    method, (x, _, _) = build(ONE_BY_ONE), batch()
    assert isinstance(method, AutoregressiveTagger)
    samples, count = 20_000, SIZES[2]
    code, mask = method.encode(x)[2:3], x[2:3, :, -1] > 0.5
    sets, _ = method.sample(code, make_generator(3), presence=mask, samples=samples)
    chances = {labels: torch.stack(values).mean() for labels, values in mean_over_orders(method, x, 2).items()}
    drawn = [tuple(row) for row in (sets[:, :count, 0] > 0).tolist()]
    shares = torch.tensor([drawn.count(labels) / samples for labels in chances]).double()
    wanted = torch.stack(list(chances.values())).detach()
    assert float(wanted.sum()) == pytest.approx(1)
    assert float(wanted.max() - wanted.min()) > 0.02
    torch.testing.assert_close(shares, wanted, atol=0.015, rtol=0)
    assert not sets[:, count:].any()


def test_labels_one_by_one_learn_the_exact_distribution() -> None:
    """On sets so small that all labellings can be scored: the same as the exact likelihood."""
    data, training = either_half(400), TrainingSettings(steps=800, batch_size=64, learning_rate=5e-3)
    x = torch.tensor([[0.0, 0.3, 1], [1, 0.6, 1], [0, 0.2, 1], [1, 0.9, 1]])
    shares = []
    energy = DeepSetsSettings(hidden=16)
    for settings in (AutoregressiveTaggerSettings(hidden=32), LabelLikelihoodSettings(energy=energy)):
        predictor = SetPredictor(settings, device="cpu")
        predictor.fit(data, training, description=ALIGNED, seed=1)
        drawn = torch.stack(list(predictor.predict_one(x, samples=400).sets))[..., 0] > 0.5
        numbers = (drawn * torch.tensor([1, 2, 4, 8])).sum(dim=1)
        shares.append(torch.bincount(numbers, minlength=16) / 400)
    assert float((shares[0] - shares[1]).abs().sum()) / 2 < 0.2  # total variation
    assert float(shares[0][[5, 10]].sum()) > 0.9


def test_labels_one_by_one_of_large_sets() -> None:
    """More elements than can be scored exactly: every sample is one of two answers, and both are found."""
    generator = make_generator(6)
    kinds = [torch.rand(14, generator=generator) < 0.5 for _ in range(200)]
    inputs = [torch.stack([kind.float(), torch.ones(14)], dim=1) for kind in kinds]
    chosen = torch.rand(200, generator=generator) < 0.5
    pairs = [
        (x, (kind == choice).float().unsqueeze(1)) for x, kind, choice in zip(inputs, kinds, chosen, strict=True)
    ]
    predictor = SetPredictor(AutoregressiveTaggerSettings(hidden=32), device="cpu")
    training = TrainingSettings(steps=300, batch_size=64, learning_rate=5e-3)
    predictor.fit(pairs, training, description=ALIGNED, seed=1)
    drawn = [item.flatten() > 0.5 for item in predictor.predict_one(inputs[0], samples=40).sets]
    found = [sum(torch.equal(item, kinds[0] == choice) for item in drawn) for choice in (False, True)]
    assert min(found) >= 8
    assert sum(found) >= 36


# -- all of them -------------------------------------------------------------------------------------------


@each_method
def test_absent_elements_do_not_count(settings: MethodSettings) -> None:
    """What stands in rows of absent elements, in input and set, changes nothing."""
    method, (x, y, _) = build(settings), batch()
    changed = torch.where(x[..., -1:] > 0.5, x, torch.tensor([7.0, -3.0, 0.0]).double())
    loss, _ = method(x, y, make_generator(0))
    torch.testing.assert_close(method(changed, y, make_generator(0))[0], loss)


@pytest.mark.parametrize("settings", [TAGGER, LIKELIHOOD], ids=lambda settings: settings.kind)
def test_the_order_of_elements_does_not_matter(settings: MethodSettings) -> None:
    method, (x, y, _) = build(settings), batch()
    order = [2, 0, 1, 3]
    moved = method(x[3:, order], y[3:, order], make_generator(0))[0]
    torch.testing.assert_close(moved, method(x[3:], y[3:], make_generator(0))[0])


def test_logits_given_some_labels_do_not_depend_on_the_order_of_elements() -> None:
    method, (x, _, high) = build(ONE_BY_ONE), batch()
    assert isinstance(method, AutoregressiveTagger)
    known, mask, order = torch.tensor([[True, False, True, False]]), torch.ones(1, SIZE) > 0, [2, 0, 1, 3]
    code, labels = method.encode(x[3:]), high[3:]
    moved = method.logits(code[:, order], labels[:, order], known[:, order], mask)
    torch.testing.assert_close(moved, method.logits(code, labels, known, mask)[:, order])
    unknown = method.logits(code, ~known & labels, torch.zeros_like(known), mask)
    torch.testing.assert_close(unknown, method.logits(code, known | labels, torch.zeros_like(known), mask))


def either_half(count: int) -> list[tuple[Tensor, Tensor]]:
    """Four elements: two alike, two others alike; the label of either pair is 1, that of the other 0."""
    generator = make_generator(5)
    pairs = []
    for _ in range(count):
        kind = torch.tensor([0.0, 0.0, 1.0, 1.0])[torch.randperm(4, generator=generator)]
        chosen = float(torch.randint(2, (1,), generator=generator))
        x = torch.stack([kind, torch.rand(4, generator=generator), torch.ones(4)], dim=1)
        pairs.append((x, (kind == chosen).float().unsqueeze(1)))
    return pairs


def test_the_likelihood_finds_both_answers_where_the_tagger_finds_neither() -> None:
    data, training = either_half(200), TrainingSettings(steps=150, batch_size=64, learning_rate=1e-2)
    x = torch.tensor([[0.0, 0.3, 1], [1, 0.6, 1], [0, 0.2, 1], [1, 0.9, 1]])
    found = {}
    for name, settings in (("tagger", TaggerSettings(hidden=16)), ("exact", LabelLikelihoodSettings())):
        predictor = SetPredictor(settings, device="cpu")
        predictor.fit(data, training, description=ALIGNED, seed=1)
        answers = [tuple(item.flatten().tolist()) for item in predictor.predict_one(x, samples=40).sets]
        found[name] = {answer: answers.count(answer) / 40 for answer in answers}
    valid = {(1.0, 0.0, 1.0, 0.0), (0.0, 1.0, 0.0, 1.0)}
    assert len(found["tagger"]) == 1
    assert set(found["exact"]) >= valid
    assert sum(found["exact"][answer] for answer in valid) > 0.9
    assert min(found["exact"][answer] for answer in valid) > 0.2


# -- what cannot be ----------------------------------------------------------------------------------------


@each_method
def test_only_single_labels_of_given_elements(settings: MethodSettings) -> None:
    with pytest.raises(SettingsError, match=f"outputs must be aligned with inputs for the method {settings.kind}"):
        build(settings, aligned=False)
    with pytest.raises(
        SettingsError, match=f"features must be 1 for the method {settings.kind}: the label, got 2"
    ):
        build(settings, features=2)


def test_large_sets_have_too_many_labellings() -> None:
    assert build(LIKELIHOOD, size=10).labellings[-1] == (1,) * 10
    with pytest.raises(SettingsError, match=r"largest set must be at most 10 .* all 2\^N labellings.*, got 11"):
        build(LIKELIHOOD, size=11)


@each_method
def test_other_labels_than_the_settings_say_are_refused_before_training(settings: MethodSettings) -> None:
    """Else all labels would be the lower one, and every answer wrong."""
    data = [(x, 0.6 * y) for x, y in either_half(8)]
    predictor = SetPredictor(type(settings)(), device="cpu")
    message = rf"{settings.kind} expects labels 0 and 1 in scaled units.*, got 0\.6.*--method\.labels 0 0\.6"
    with pytest.raises(DataError, match=message):
        predictor.fit(data, TrainingSettings(steps=1, batch_size=8), description=ALIGNED)
    right = SetPredictor(replace(type(settings)(), labels=(0.0, 0.6)), device="cpu")
    right.fit(data, TrainingSettings(steps=1, batch_size=8), description=ALIGNED)
    found = right.predict_one(data[0][0]).sets[0].flatten()
    assert torch.isclose(found.unsqueeze(1), torch.tensor([0.0, 0.6])).any(dim=1).all()


@each_method
def test_absent_elements_have_no_label_to_check(settings: MethodSettings) -> None:
    method, (_, y, _) = build(settings), batch()
    method.inspect_sets(y)
    y[0] = 7.0 * (1 - y[0])  # all of them absent
    y[0, :, -1] = 0
    method.inspect_sets(y)
    y[0, :, -1] = 1  # now they are there, with what is no label
    with pytest.raises(DataError):
        method.inspect_sets(y)


@pytest.mark.parametrize("labels", [(1.0, 1.0), (1.0, 0.0), (0.0, float("inf"))])
@pytest.mark.parametrize("kind", [TaggerSettings, LabelLikelihoodSettings])
def test_labels_are_two_values(kind: type, labels: tuple[float, ...]) -> None:
    with pytest.raises(SettingsError, match=r"labels must be (\(low, high\), finite, with low < high|a finite)"):
        kind(labels=labels)
