"""The sections of the page below the headline, as HTML."""

from dataclasses import dataclass
from html import escape
from typing import Any

from desp.comparison.rows import is_compared
from desp.comparison.words import sentence, spread_verdict
from desp.report import own_data
from desp.report.aligned import aligned_tables
from desp.report.figures.grid import case_grid, prediction_grid
from desp.report.figures.paths import path_grid
from desp.report.figures.plots import ablation_picture, calibration_picture, learning_curves
from desp.report.figures.points import Axes2D
from desp.report.folder import RunRecord
from desp.report.numbers import duration, is_number, readable
from desp.report.own_data import comparison_of
from desp.report.subsets import subset_tables
from desp.report.tables import flatten, folded, names_table, picture, rows_table, settings_tables
from desp.results import ablation_headings
from desp.runs.folder import WRITTEN_BY
from desp.settings import LangevinSettings


@dataclass(frozen=True)
class _Section:
    """One part of the page.

    Attributes:
        anchor: its name in links.
        title: its heading.
        content: its HTML.
    """

    anchor: str
    title: str
    content: str

    @property
    def html(self) -> str:
        """With its heading."""
        heading = f"{self.anchor}-title"
        return (
            f'<section id="{self.anchor}" aria-labelledby="{heading}">'
            f'<h2 id="{heading}">{escape(self.title)}</h2>{self.content}</section>'
        )


def all_sections(record: RunRecord, chains: dict[str, Any] | None) -> list[_Section]:
    """Every section in reading order; instead of what a run has not written yet, the command that writes it.

    Args:
        record: the run.
        chains: what the animation shows; None without an animation.
    """
    varies = record.method is None or record.stochastic_steps is not None
    if comparison_of(record) is not None and record.ablation is None:
        varies = False  # own data have the paper's ablation only where it was asked for
    ablation = [_Section("ablation", "Ablation of S/T", _ablation(record))] if varies else []
    return [
        _Section("predictions", "Predictions", _predictions(record)),
        *_own_data(record),
        _Section("chain", "From start to prediction", _chain(record, chains)),
        _Section("learning", "Learning curves", _learning(record)),
        *ablation,
        *_cases(record),
        *([] if comparison_of(record) else _spread(record)),
        _Section("evaluation", "Evaluation", _evaluation(record)),
        _Section("settings", "Settings", settings_tables(record.settings)),
        _Section("provenance", "Provenance", _provenance(record)),
    ]


def _own_data(record: RunRecord) -> list[_Section]:
    """Sections of own data alone: baselines, errors of features, sizes; and calibration beside them."""
    comparison = comparison_of(record)
    if comparison is None:
        return []
    confused = own_data.sizes(comparison)
    return [
        _Section("compared", "Compared with baselines", own_data.compared(comparison)),
        _Section("features", "Error of each feature", own_data.feature_errors(comparison)),
        *([_Section("sizes", "Sizes", confused)] if confused else []),
        *_spread(record),
    ]


def _missing(what: str, file: str) -> str:
    return f'<p class="missing">{escape(what)} Created by <code>{escape(WRITTEN_BY[file])}</code>.</p>'


_ONE_ANSWER = "One row for each input. One answer is right: the true set on the left."
_MANY_ANSWERS = (
    "One row for each input. More than one answer can be right: the true sets on the left are draws from the data."
)
_SAME = "The method is deterministic: it gives one answer."
_DRAWS = {
    True: "Predictions are sampled independently; all should look like it.",
    False: (
        "Predictions, on the right, are sampled independently. They should look like the true sets as a group, "
        "not one by one."
    ),
}
"""A note on predictions, by whether one answer is right."""
_ENERGIES = " E is the energy of a prediction; among sets of one size the model prefers low ones."


def _has_energy(record: RunRecord) -> bool:
    """Whether the method scores the sets it samples."""
    return record.method is None or record.method.has_energy


def _predictions(record: RunRecord) -> str:
    if (shown := own_data.shown_of(record)) is not None:
        # After a `fit` without validation data, nothing is held out.
        trained_on = _setting(record, "task", "kind") == "given" and not _setting(record, "task", "held_out")
        return own_data.predictions(shown, trained_on=trained_on)
    samples = own_data.cases_of(record) or record.samples or {}
    examples = samples.get("examples") or []
    if not examples:
        return _missing("There are no predictions yet: they need a trained model.", "samples.json")
    labels = ", ".join(str(item.get("label", "")) for item in examples)
    one_answer = bool(samples.get("one_answer"))
    same = record.method is not None and record.method.deterministic
    if all("items" in item for item in examples):
        return subset_tables(examples, same)
    if all("paths" in item for item in examples):
        return _paths(examples)
    if all("elements" in item for item in examples):
        sampler = None if record.method is None else record.method.prediction_sampler
        chosen = sampler is not None and not sampler.has_steps and not sampler.follows_distribution
        return aligned_tables(examples, same, own_data.cases_note(examples), most_probable=chosen)
    description = f"True sets beside predicted sets for {len(examples)} inputs: {labels}."
    cases = own_data.cases_note(examples)
    note = f"{_ONE_ANSWER if one_answer else _MANY_ANSWERS} {_SAME if same else _DRAWS[one_answer]}"
    note += f"{' ' + cases if cases else ''}{_ENERGIES if _has_energy(record) else ''}"
    return f"<p class='note'>{note}</p>" + picture(
        prediction_grid(samples), description, _scale_note(samples), "wide"
    )


def _paths(examples: list[dict[str, Any]]) -> str:
    """A panel for each input, with the paths of all its elements."""
    note = (
        "<p class='note'>One panel for each input: where everybody was, up to the dot, then where they went, and "
        "thin lines for where they were predicted to go. Each prediction is of all people together.</p>"
    )
    count = len(examples[0]["paths"]["samples"])
    description = f"Observed, true and {count} predicted paths of all people for {len(examples)} inputs."
    caption = "Observed paths are dark, true futures blue, predictions orange; in metres."
    return note + picture(path_grid(examples), description, caption, "wide")


def _scale_note(samples: dict[str, Any]) -> str:
    axes = Axes2D.from_samples(samples)
    if axes.boxes is not None:
        over = "Boxes are drawn over the input" if axes.extent else "Each rectangle is the box of an element"
        return f"{over}; x grows to the right and y downwards."
    if axes.row_first:
        return f"All panels share one scale; {axes.name(0)} grows downwards and {axes.name(1)} to the right."
    if len(axes.names) == 1:
        return f"All panels share one scale; each tick is one element, at its {axes.name(0)}."
    colour = f", colour shows {axes.name(2)}" if len(axes.names) >= 3 else ""
    return f"All panels share one scale: {axes.name(0)} to the right, {axes.name(1)} upwards{colour}."


# How a chain begins and moves, by the kind of sampler.
_CHAIN_NOTES = {
    "langevin": "A prediction starts at zero; steps descend the energy, the first S of them with noise.",
    "edm": "A prediction begins as noise, far outside of the picture, and each step removes some of it.",
    "descent": "A prediction begins at a learned set, the same for all inputs, and moves down the energy.",
}


def _chain(record: RunRecord, chains: dict[str, Any] | None) -> str:
    sampler = None if record.method is None else record.method.prediction_sampler
    if record.method is not None and (sampler is None or not sampler.has_steps):
        return "<p class='note'>This method has no sampling chain, so there are no steps to show.</p>"
    if chains is None:
        return _missing("There are no recorded chains yet: they need a trained model.", "samples.json")
    note = _CHAIN_NOTES.get("" if sampler is None else sampler.kind, "A prediction is made step by step.")
    if _has_energy(record):
        note += " The curve below each panel is the energy of the set at each step, computed as for a prediction."
    if isinstance(sampler, LangevinSettings) and 0 < sampler.stochastic_steps < sampler.steps:
        note += " The tinted part of it is without noise."
    note += " All rows of the padded set are drawn, also those that are no element"
    if _setting(record, "representation", "padding") == "zero":
        note += ": they come to rest at the origin."
    else:
        note += "; fainter rows are less likely to be one." if chains["fades"] else "."
    return f"""<p class="note">{escape(note)}</p>
<div class="controls">
<button type="button" id="chain-play">Play</button>
<label>Step <input type="range" id="chain-step" min="0" max="0" value="0" step="1"></label>
<output id="chain-status" for="chain-step"></output>
</div>
<div class="chains" id="chain-panels"></div>
<noscript><p class="missing">The animation needs JavaScript.</p></noscript>"""


def _setting(record: RunRecord, *path: str) -> Any:
    value: Any = record.settings
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _learning(record: RunRecord) -> str:
    curves = learning_curves(record)
    if not curves:
        return _missing("Nothing has been logged yet.", "log.jsonl")
    pictures = "".join(picture(image, description) for image, description in curves)
    note = (
        "Where there are faint lines, they are the logged values and strong lines their running means; a curve of "
        "few values has the values alone."
    )
    if _setting(record, "method", "kind") == "contrastive":
        more = any(_setting(record, "method", name) for name in ("infonce_temperature", "real_energy_weight"))
        note += (
            " The loss is the difference of the energies of real and sampled sets"
            + (", with InfoNCE or the weighted energy of real sets added: the difference" if more else ": it")
            + " hovers near zero when sampled sets are as likely as real ones, and does not need to fall."
        )
    return f'<p class="note">{escape(note)}</p><div class="curves">{pictures}</div>'


def _ablation(record: RunRecord) -> str:
    if record.ablation is None or not record.ablation.get("rows"):
        return _missing("The fraction of stochastic steps has not been varied yet.", "ablation.json")
    steps = record.ablation.get("steps")
    count = f" of T = {readable(steps)}" if steps is not None else ""
    note = (
        f"The first S{count} steps of a chain add noise and sample, the rest descend. "
        "At S/T = 0 a chain only descends; at S/T = 1 noise is added in every step, the last one included. "
        "The picture shows the sampler's raw output, where that is scored; the table also has returned sets."
    )
    name = str(record.ablation.get("score_name") or "score")
    description = f"Energy on the left axis and {name} on the right axis against S/T."
    drawn = picture(ablation_picture(record.ablation), description, kind="ablation")
    headings = ablation_headings(record.ablation)
    rows = [{headings.get(name, name): row[name] for name in row} for row in record.ablation["rows"]]
    table = folded("Numbers", rows_table(rows))
    return f'<p class="note">{escape(note)}</p>{drawn}{table}'


def _cases(record: RunRecord) -> list[_Section]:
    """Single test sets beside their reconstructions, where the evaluation kept some."""
    evaluation = record.evaluation or {}
    cases = evaluation.get("cases") or []
    if not cases:
        return []
    axes = Axes2D.from_samples(evaluation)
    note = (
        "Test sets beside what was predicted for them: those with the smallest Chamfer distance, those in the "
        "middle, and those with the largest. The number below a prediction is its distance."
    )
    groups = ", ".join(dict.fromkeys(str(case.get("group", "")) for case in cases))
    description = f"{len(cases)} true sets beside their predictions: {groups}."
    drawn = picture(case_grid(cases, axes), description, kind="wide")
    return [_Section("cases", "Best, median and worst", f'<p class="note">{escape(note)}</p>{drawn}')]


def _spread(record: RunRecord) -> list[_Section]:
    """Whether predictions are spread as the truth is, where that was measured."""
    details = (record.evaluation or {}).get("details") or {}
    ranks = details.get("calibration") or {}
    shares = ranks.get("histogram")
    if not shares:
        return []
    inputs, samples = int(ranks.get("inputs") or 0), ranks.get("samples")
    note = (
        f"For {inputs} inputs the true set was put among {readable(samples)} predictions, and all were ranked by "
        "their mean distance to the others. Level bars: the truth could be one of the predictions. Bars that rise "
        "to the right: predictions are too much alike, or wrong; that fall: they are spread too widely. The line "
        "is the level; by chance, 19 of 20 bars end in the band."
    )
    description = f"Shares of the ranks 0 to {len(shares) - 1} of true sets among predictions."
    drawn = picture(calibration_picture(shares, inputs), description, kind="narrow")
    found = spread_verdict(shares, inputs, ranks.get("p_value"))
    words = (
        f"{sentence([found.words])} The mean rank of the truth is {found.mean_rank:.2f} of 0 to 1, where 0.50 is "
        f"right, and {2 * found.standard_error:.2f} more or less may be chance."
    )
    verdict = f'<p class="plain">{escape(words)}</p>'
    return [_Section("spread", "Is the spread right?", f'{verdict}<p class="note">{escape(note)}</p>{drawn}')]


def _evaluation(record: RunRecord) -> str:
    evaluation = record.evaluation or {}
    rows, details = evaluation.get("rows") or [], evaluation.get("details") or {}
    rows = [row for row in rows if not is_compared(row)]  # these have a section of their own
    if not rows and not details:
        return _missing("There are no scores yet.", "evaluation.json")
    note = "<p class='note'>Values are unscaled (8.8e-5, not 8.8). A dash means unknown.</p>"
    parts = [note, rows_table(rows) if rows else ""]
    if details:
        parts.append(folded("Details", names_table(flatten(details))))
    return "".join(parts)


def _provenance(record: RunRecord) -> str:
    summary = record.summary
    if summary is None:
        return _missing("There is no summary: training is not finished.", "summary.json")
    seconds, memory = summary.get("seconds"), summary.get("peak_memory_mb")
    pairs = [
        ("command", summary.get("command")),
        ("commit", summary.get("commit")),
        ("commit known from", summary.get("commit_source") or "unknown"),
        ("device", summary.get("device")),
        ("engine", summary.get("engine")),
        ("wall time", duration(seconds) if is_number(seconds) else None),
        ("peak memory", f"{readable(float(memory))} MB" if is_number(memory) else None),
        ("parameters", summary.get("parameters")),
        ("steps", summary.get("steps")),
        ("validation score of the kept weights", summary.get("kept_score")),
        ("step of the kept weights", summary.get("kept_step")),
    ]
    pairs += [(f"version of {name}", value) for name, value in (summary.get("versions") or {}).items()]
    return names_table(pairs)
