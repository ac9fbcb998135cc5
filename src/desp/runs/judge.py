"""A verdict on a run: its predictions beside baselines, in numbers and in words."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from desp.comparison.baseline_data import BaselineData, read_pairs, repeats_agree
from desp.comparison.baselines import NEIGHBOURS, nearest_neighbours, random_training_sets, same_sizes
from desp.comparison.elements import feature_errors, nearest_valid, size_confusion, sizes_right
from desp.comparison.examples import Examples
from desp.comparison.features import Feature, features_of
from desp.comparison.mlp import TrainingBudget, plain_mlp
from desp.comparison.scoring import Scores, SystemPredictions, mean_and_error, score
from desp.comparison.set_distance import StandardisedDistance
from desp.comparison.words import SYSTEMS, compared_words, sentence, sizes_words, spread_verdict, verdict
from desp.data.arrays import Example
from desp.predictor.box_fusion import best_prediction
from desp.predictor.prediction import split_predictions
from desp.randomness import make_generator
from desp.sets import SetBatch
from desp.tasks.scoring import EvaluationSetup, Predicted

# Paired differences over fewer tests say nothing.
FEWEST_TESTS = 5
# One answer is right where predictions differ by less than this share of how much training sets differ.
ONE_ANSWER = 1 / 3
# An MLP of two hidden layers has learned by then what it can; the seconds bound steps on wide inputs.
MLP_STEPS, MLP_SECONDS = 2000, 30.0


@dataclass(frozen=True)
class Comparison:
    """A model beside baselines on T tests.

    Attributes:
        values: as JSON values; see `docs/own-data.md`.
        ranking: the model's energy score of each test, and which of the held-out examples it is.
    """

    values: dict[str, Any]
    ranking: list[tuple[float, int]]


@dataclass(frozen=True)
class _Shared:
    """What the scores of all systems share.

    Attributes:
        set_distance: between true and predicted sets.
        features: of elements.
        data: what baselines may learn from.
        tests: inputs to predict for, with their true sets.
        indices: of the tests among the held-out examples.
        samples: K, predictions for each test.
        seed: of everything random.
    """

    set_distance: StandardisedDistance
    features: list[Feature]
    data: BaselineData
    tests: Examples
    indices: list[int]
    samples: int
    seed: int


def compare(
    setup: EvaluationSetup,
    predicted: Predicted,
    examples: Sequence[Example],
    pairs: tuple[Any, Any],
) -> Comparison | str:
    """A model's predictions beside baselines, or why they are not compared.

    Args:
        setup: what was scored; at most `calibration_examples` of its protocol are compared.
        predicted: the model's predictions for all examples.
        examples: the examples that were scored.
        pairs: what baselines may learn from, as `Task.baseline_data` gives it.
    """
    if setup.samples < 2:
        return "Baselines are compared by several predictions for each input. Use --samples 2 or more."
    some = examples[: setup.protocol.calibration_examples]
    setup.tell("reading what baselines learn from", 0, 1)
    shared = _prepare(setup, some, pairs)
    if len(shared.indices) < FEWEST_TESTS:
        return _too_few(shared, len(some))
    predictions = {"desp": _own(setup, predicted, shared)} | _baselines(shared, setup.tell)
    scores: dict[str, Scores] = {}
    for name, item in predictions.items():
        setup.tell(f"scoring {SYSTEMS[name]}", len(scores), len(predictions))
        scores[name] = score(shared.set_distance, shared.tests, item, shared.seed)
    one = _one_answer(shared, scores)
    if one:
        predictions["mlp"] = _mlp(shared, setup.tell)
        scores["mlp"] = score(shared.set_distance, shared.tests, predictions["mlp"], shared.seed)
    systems = {
        name: _row(shared, predictions[name], scores[name], scores["desp"], one_answer=name == "mlp")
        for name in scores
    }
    each = scores["desp"].energy_score.tolist()
    ranking = [(round(value, 6), index) for value, index in zip(each, shared.indices, strict=True)]
    return Comparison(_as_json(shared, systems, predictions["desp"], one), ranking)


def _too_few(shared: _Shared, scored: int) -> str:
    """Why there is no comparison, and what to do."""
    if shared.set_distance.aligned:
        return (
            f"Baselines are compared on at least {FEWEST_TESTS} held-out examples. Outputs are aligned, so an "
            f"example counts only if {NEIGHBOURS} examples that are not held out have as many elements: "
            f"{len(shared.indices)} of {scored} count."
        )
    return f"Baselines are compared on at least {FEWEST_TESTS} held-out examples; there are {scored}."


def _prepare(setup: EvaluationSetup, some: Sequence[Example], pairs: tuple[Any, Any]) -> _Shared:
    shape, seed = setup.predictor.shape, setup.seed
    data = BaselineData.read(*pairs, shape, seed)
    chances = torch.rand(len(some), generator=make_generator(seed, "valid answers")).tolist()
    chosen = [int(chance * len(answers)) for chance, (_, answers) in zip(chances, some, strict=True)]
    tests = read_pairs([(x, answers[place]) for place, (x, answers) in zip(chosen, some, strict=True)], shape)
    most = max((len(answers) for _, answers in some), default=1)
    if most > 1:  # where an example has fewer, its first one again: the nearest stays the same
        each = [
            SetBatch.from_ragged(
                [answers[number if number < len(answers) else 0] for _, answers in some],
                shape.max_size,
                shape.features,
            )
            for number in range(most)
        ]
        tests = Examples(tests.inputs, tests.sets, tuple(each))
    indices = list(range(len(some)))
    if shape.aligned:  # a set of another size can be no answer
        enough = same_sizes(data.all, tests).sum(dim=1) >= NEIGHBOURS
        indices = enough.nonzero().flatten().tolist()
        tests = tests.part(torch.tensor(indices, dtype=torch.long))
    set_distance = StandardisedDistance.of(data.all.sets, shape.description, shape.max_size)
    features = features_of(shape.description, shape.features)
    return _Shared(set_distance, features, data, tests, indices, setup.samples, seed)


def _own(setup: EvaluationSetup, predicted: Predicted, shared: _Shared) -> SystemPredictions:
    """The model's predictions for the tests, and the one that `best_prediction` picks from them."""
    predictor, samples, indices = setup.predictor, setup.samples, torch.tensor(shared.indices)
    rows = (indices.unsqueeze(1) * samples + torch.arange(samples)).flatten()
    on_device = rows.to(predicted.raw.device)
    sets = SetBatch(predicted.returned.elements[on_device], predicted.returned.mask[on_device])
    code = predicted.code[indices.to(predicted.code.device)]
    energies = predictor.predicted_energy(code, sets, predicted.raw[on_device], samples).cpu().view(-1, samples)
    sets, shape = sets.to("cpu"), predictor.shape
    modal = predictor.method.modal_cardinality(code)
    each = split_predictions(sets, None, energies, predictor.method_settings, shape, modal)
    single = [best_prediction(item, shape.description, shape.max_size).sets[0] for item in each]
    return SystemPredictions(_float(sets), _float(SetBatch.from_ragged(single, shape.max_size, shape.features)))


def _float(sets: SetBatch) -> SetBatch:
    return SetBatch(sets.elements.float(), sets.mask)


def _baselines(shared: _Shared, tell: Callable[[str, int, int], None]) -> dict[str, SystemPredictions]:
    data, rest = shared.data, (shared.tests, shared.samples, shared.seed)
    tell("looking for nearest neighbours", 0, 2)
    neighbours = nearest_neighbours(shared.set_distance, data.kind, data.all, *rest)
    tell("drawing random training sets", 1, 2)
    return {"knn": neighbours, "random": random_training_sets(shared.set_distance, data.all, *rest)}


def _mlp(shared: _Shared, tell: Callable[[str, int, int], None]) -> SystemPredictions:
    data = shared.data
    budget = TrainingBudget(MLP_SECONDS, MLP_STEPS, lambda step: tell("training an MLP", step, MLP_STEPS))
    tell("training an MLP", 0, MLP_STEPS)
    rest = shared.tests, shared.samples, shared.seed
    return plain_mlp(shared.set_distance, data.kind, data.training, data.validation, *rest, budget)


def _one_answer(shared: _Shared, scores: dict[str, Scores]) -> bool:
    """Whether one answer is right for an input: not if the file names several; else by sets of repeated inputs;
    else by how much predictions differ."""
    if shared.tests.valid_sets:
        return False
    apart = float(scores["random"].spread.mean())
    by_repeats = repeats_agree(shared.set_distance, shared.data, ONE_ANSWER * apart)
    return float(scores["desp"].spread.mean()) < ONE_ANSWER * apart if by_repeats is None else by_repeats


# -- as JSON values ------------------------------------------------------------------------------------------


def _row(
    shared: _Shared, predicted: SystemPredictions, scores: Scores, own: Scores, *, one_answer: bool = False
) -> dict[str, Any]:
    """Scores of a system with standard errors, and the model's difference from it: of energy scores, or of errors
    of single answers if the system gives one answer."""
    row: dict[str, Any] = {
        **mean_and_error("energy_score", scores.energy_score),
        **mean_and_error("single_error", scores.single),
        **mean_and_error("right_size", sizes_right(shared.tests, predicted)),
    }
    valid = nearest_valid(shared.set_distance, shared.tests, predicted.single)
    errors = feature_errors(shared.set_distance, shared.features, predicted.single, valid)
    row["feature_errors"] = [_known_mean(column) for column in errors.T]
    if scores is not own:
        # An MLP has one answer: it is no worse for having no spread, where one answer is right.
        apart = own.single - scores.single if one_answer else own.energy_score - scores.energy_score
        difference = mean_and_error("score", apart)
        row["difference"], row["difference_se"] = difference["score"], difference["score_se"]
        row["verdict"] = verdict(row["difference"], row["difference_se"])
    return row | ({"steps": predicted.facts["steps"]} if predicted.facts and "steps" in predicted.facts else {})


def _known_mean(values: Float[Tensor, " t"]) -> dict[str, float | None]:
    """The mean over tests that had elements to match, and its standard error."""
    known = values[values.isfinite()]
    if len(known) < 2:
        return {"mean": float(known.mean()) if len(known) else None, "se": None}
    found = mean_and_error("mean", known)
    return {"mean": found["mean"], "se": found["mean_se"]}


def _as_json(
    shared: _Shared, systems: dict[str, dict[str, Any]], own: SystemPredictions, one_answer: bool
) -> dict[str, Any]:
    true = shared.tests.sets.sizes
    vary = bool((shared.data.all.sets.sizes != true[0]).any()) and not shared.set_distance.aligned
    repeated = _valid_sizes(shared, own)
    return {
        "tests": len(shared.tests),
        "known": len(shared.data.all),
        "samples": shared.samples,
        "distance": shared.set_distance.distance_name,
        "one_answer": one_answer,
        "features": [feature.as_json() for feature in shared.features],
        "systems": systems,
        "sizes": size_confusion(repeated, own.samples.sizes) if vary else None,
    }


def _valid_sizes(shared: _Shared, own: SystemPredictions) -> Int[Tensor, " t_k"]:
    """The true size for each prediction: its own where a valid set has that size, else the size of the true
    set."""
    predicted, true = own.samples.sizes, shared.tests.sets.sizes.repeat_interleave(shared.samples)
    for valid in shared.tests.valid_sets:
        same = valid.sizes.repeat_interleave(shared.samples) == predicted
        true = torch.where(same, predicted, true)
    return true


def verdict_of(comparison: Comparison | str, ranks: dict[str, Any] | None, training: str) -> dict[str, Any]:
    """The verdict in one sentence, and its parts.

    Args:
        comparison: from `compare`.
        ranks: of true sets among predictions, as evaluations have them; None where examples are too few.
        training: how it ended, in words, see `training_words`.
    """
    parts = {"compared": "", "spread": "", "sizes": "", "training": training}
    if isinstance(comparison, Comparison):
        parts["compared"] = compared_words(comparison.values["systems"])
        if comparison.values["sizes"]:
            parts["sizes"] = sizes_words(comparison.values["systems"])
    if ranks:
        spread = spread_verdict(ranks["histogram"], ranks["inputs"], ranks.get("p_value"))
        parts["spread"] = spread.words
    return {"sentence": sentence(list(parts.values())), **parts}
