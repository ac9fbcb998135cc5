"""Sections on a user's own data: a verdict, baselines, errors of features, sizes."""

from collections.abc import Sequence
from html import escape
from typing import Any

from desp.comparison.features import Feature
from desp.comparison.words import SYSTEMS, VERDICT_WORDS, share, with_interval
from desp.report.figures.own_sets import layout_note, own_sets_picture
from desp.report.figures.plots import systems_picture
from desp.report.folder import RunRecord
from desp.report.numbers import MINUS, readable, short_number
from desp.report.tables import folded, picture, plain_table

# Elements of a set that are written out.
_MOST_LISTED = 12
# Features whose errors are shown at once; of more, on demand.
_MOST_FEATURES = 16


def comparison_of(record: RunRecord) -> dict[str, Any] | None:
    """How the run compares with baselines; None where that was not measured."""
    found = ((record.evaluation or {}).get("result") or {}).get("comparison")
    return found if isinstance(found, dict) else None


def verdict_of(record: RunRecord) -> dict[str, Any] | None:
    """The verdict on a run on own data, once it was scored."""
    found = ((record.evaluation or {}).get("result") or {}).get("verdict")
    return found if isinstance(found, dict) else None


# -- predictions -------------------------------------------------------------------------------------------


def shown_of(record: RunRecord) -> dict[str, Any] | None:
    """Examples to draw with all their features: the best, median and worst ones once they were scored, before that
    the first ones. None where features are not known, and for boxes and outputs aligned with inputs, which are
    drawn in other ways."""
    evaluation = record.evaluation or {}
    for found in (evaluation, record.samples or {}):
        axes, examples = found.get("axes") or {}, found.get("examples") or []
        if examples and "features" in axes and "boxes" not in axes and "elements" not in examples[0]:
            return found
    return None


def cases_of(record: RunRecord) -> dict[str, Any] | None:
    """The best, median and worst examples with their axes, once the run was scored."""
    evaluation = record.evaluation or {}
    return evaluation if evaluation.get("examples") and "axes" in evaluation else None


_CASES = (
    "Held-out examples, which the model was not trained on: those it predicted best, those in the middle, and the "
    "worst ones, by their energy score."
)


def cases_note(examples: Sequence[dict[str, Any]]) -> str:
    """Which examples are shown, where they were chosen by their scores."""
    return _CASES if examples and "group" in examples[0] else ""


def predictions(shown: dict[str, Any], *, trained_on: bool = False) -> str:
    """Pictures of examples, and the same as numbers; `trained_on` if none was held out."""
    features = [Feature.from_json(item) for item in shown["axes"]["features"]]
    examples = shown["examples"]
    first = "training examples" if trained_on else "held-out examples, which the model was not trained on"
    note = f"{cases_note(examples) or f'The first {first}.'} {layout_note(features)}"
    words = ", ".join(_title(item) for item in examples)
    described = f"True sets beside predicted sets for {len(examples)} inputs: {words}."
    tables = "".join(_numbers(item, features) for item in examples)
    drawn = picture(own_sets_picture(shown), described, kind="wide own")
    return f'<p class="note">{escape(note)}</p>{drawn}{folded("The same as numbers", tables) if tables else ""}'


def _title(example: dict[str, Any]) -> str:
    label, group = str(example.get("label", "")), example.get("group")
    return f"{group}: {label}" if group else label


def _numbers(example: dict[str, Any], features: Sequence[Feature]) -> str:
    """The first true and the first predicted set of an example; nothing of large sets."""
    truth, samples = example.get("truth") or [[]], example.get("samples") or [{"set": []}]
    sets = [("true", truth[0]), ("predicted", samples[0].get("set") or [])]
    if max(len(item) for _, item in sets) > _MOST_LISTED:
        return ""
    rows = [[name, *(_value(row, feature) for feature in features)] for name, item in sets for row in item]
    rows += [[name, *(["empty"] * len(features))] for name, item in sets if not item]
    table = plain_table(["", *(feature.label for feature in features)], rows)
    return f"<h3>{escape(_title(example))}</h3>{_input(example)}{table}"


def _input(example: dict[str, Any]) -> str:
    values = example.get("input")
    flat = isinstance(values, list) and all(isinstance(value, int | float) for value in values)
    return f'<p class="note">input: {escape(readable(values))}</p>' if flat else ""


def _value(row: Sequence[float], feature: Feature) -> str:
    values = row[slice(*feature.columns)]
    return feature.classes[values.index(max(values))] if feature.classes else short_number(values[0])


# -- baselines ---------------------------------------------------------------------------------------------


def compared(comparison: dict[str, Any]) -> str:
    """All systems with their scores and intervals, as a picture and a table."""
    systems = comparison["systems"]
    note = (
        f"On {comparison['tests']} held-out examples, with {comparison['samples']} predictions for each. The "
        "energy score is the distance of predictions to the truth, less half of their distance to each other, in "
        "standardised units; lower is better. Nearest neighbours are the sets of the ten most similar inputs "
        f"among {comparison['known']:,} examples: all that are not held out for scoring, or a part of them. "
        "The single answer is the one set that a system gives if only one is asked for, for the "
        "model the one that desp predict --best picks, here from these predictions, there from 40. Intervals are "
        "two standard errors over examples. Differences are "
        "paired, example by example, so they can be clear where intervals overlap."
    )
    if comparison["one_answer"]:
        note += " One answer seems to be right for each input, so an MLP trained by the best assignment "
        note += (
            "(of large sets by nearest elements) is compared too, by the distance of its single answer, as it has "
        )
        note += "no spread."
    heads = ["", "energy score", "model minus it", "the model is", "distance of the single answer", "sizes right"]
    rows = [
        [
            name_of(name),
            interval(row["energy_score"], row["energy_score_se"]),
            interval(row["difference"], row["difference_se"]) if "difference" in row else "",
            VERDICT_WORDS[row["verdict"]] if "verdict" in row else "",
            interval(row["single_error"], row["single_error_se"]),
            share(row["right_size"]),
        ]
        for name, row in systems.items()
    ]
    values = [(name_of(name), row["energy_score"], row["energy_score_se"]) for name, row in systems.items()]
    described = "Energy scores: " + ", ".join(f"{name} {short_number(value)}" for name, value, _ in values) + "."
    drawn = picture(systems_picture(values, "energy score, lower is better"), described, kind="narrow")
    return f'<p class="note">{escape(note)}</p>{drawn}{plain_table(heads, rows)}'


def name_of(system: str) -> str:
    """The name of a system on a page."""
    return "this model" if system == "desp" else SYSTEMS[system]


def interval(value: float, error: float | None) -> str:
    """A number ± two standard errors, if the error is known."""
    return short_number(value) if error is None else with_interval(value, error).replace("-", MINUS)


# -- features and sizes ------------------------------------------------------------------------------------


def feature_errors(comparison: dict[str, Any]) -> str:
    """The error of each feature in the user's own units, beside baselines."""
    features = [Feature.from_json(item) for item in comparison["features"]]
    systems = comparison["systems"]
    note = (
        "Of the single answer of each system, matched element by element with the true set: the mean absolute "
        "error in the unit of the feature, or how often a category is wrong. Unmatched elements are not counted. "
        "Where several answers are right, a large error need not be a mistake."
    )
    rows = [
        [feature.label, *(_error(row["feature_errors"][place], feature) for row in systems.values())]
        for place, feature in enumerate(features)
    ]
    table = plain_table(["feature", *(name_of(name) for name in systems)], rows)
    table = table if len(rows) <= _MOST_FEATURES else folded(f"All {len(rows)} features", table)
    ends = _best_and_worst(features, systems)
    return f'<p class="plain">{escape(ends)}</p><p class="note">{escape(note)}</p>{table}'


def _error(error: dict[str, Any], feature: Feature) -> str:
    if error["mean"] is None:
        return ""
    if feature.classes:
        return f"{share(error['mean'])} wrong"
    return interval(error["mean"], error["se"])


def _best_and_worst(features: Sequence[Feature], systems: dict[str, Any]) -> str:
    """Which feature is predicted best and which worst, beside random training sets."""
    shares = {}
    for place, feature in enumerate(features):
        own, random = (systems[name]["feature_errors"][place]["mean"] for name in ("desp", "random"))
        if own is not None and random:
            shares[feature.name] = own / random
    if not shares:
        return ""
    ordered = sorted(shares, key=lambda name: shares[name])
    first, last = ordered[0], ordered[-1]
    text = f"The error of {first} is {share(shares[first])} of the error of random training sets"
    return f"{text}." if first == last else f"{text}, the error of {last} {share(shares[last])}."


def sizes(comparison: dict[str, Any]) -> str:
    """How often each cardinality was predicted for each true one; nothing where sizes do not vary."""
    found = comparison.get("sizes")
    if not found:
        return ""
    right = share(comparison["systems"]["desp"]["right_size"])
    few, many = share(found["too_few"]), share(found["too_many"])
    text = f"The size is right in {right}, too small in {few}, too large in {many}."
    note = "A row for each true size, a column for each predicted one: the share of the predictions in its row."
    labels = [str(first) if first == last else f"{first} to {last}" for first, last in found["sizes"]]
    head = "".join(f'<th scope="col" class="number">{label}</th>' for label in labels)
    body = "".join(
        f'<tr><th scope="row" class="number">{label}</th>'
        f"{''.join(_share_cell(count, sum(row)) for count in row)}</tr>"
        for label, row in zip(labels, found["counts"], strict=True)
    )
    table = (
        '<div class="table sizes"><table><thead><tr><th scope="col">true size ↓ predicted →</th>'
        f"{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
    return f'<p class="plain">{escape(text)}</p><p class="note">{escape(note)}</p>{table}'


def _share_cell(count: int, total: int) -> str:
    if not total:
        return '<td class="number"></td>'
    percent = 100 * count / total
    shade = f"color-mix(in srgb, var(--prediction) {round(0.6 * percent)}%, transparent)"
    text = "" if count == 0 else share(count / total)
    return f'<td class="number" style="background: {shade}" title="{count} of {total}">{text}</td>'
