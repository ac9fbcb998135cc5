"""The report of a run: one HTML file that needs nothing else, neither a server nor the network."""

import base64
import hashlib
import json
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from desp.comparison.words import CLEAR_DIFFERENCE_SE, VERDICT_WORDS, plus_minus
from desp.paths import resolved_path
from desp.report.chains import chain_payload
from desp.report.folder import RunRecord, read_run
from desp.report.numbers import duration, is_number, readable
from desp.report.own_data import comparison_of, name_of, verdict_of
from desp.report.sections import all_sections
from desp.report.tables import number_html, seed_count
from desp.results import metric_facts
from desp.runs.folder import WRITTEN_BY
from desp.settings import DescentSettings
from desp.storage import without_nonfinite, write_text

REPORT_FILE = "report.html"


def write_report(folder: Path) -> Path:
    """Write `report.html` into a run folder, and say where it is.

    What the run has not written yet is left out, with a note on how to get it.

    Raises:
        RunError: the folder is missing, holds no run, or one of its files is damaged.
        MissingExtraError: matplotlib is not installed.
    """
    record = read_run(Path(folder))
    path = record.folder / REPORT_FILE
    write_text(path, _page(record))
    return path


def _page(record: RunRecord) -> str:
    chains = chain_payload(record.samples or {}, _noisy_steps(record))
    sections = all_sections(record, chains)
    script = _package_file("page.js")
    return Template(_package_file("page.html")).substitute(
        title=escape(f"{record.recipe}: report"),
        css=_package_file("page.css"),
        headline=_headline(record),
        navigation="".join(f'<li><a href="#{item.anchor}">{escape(item.title)}</a></li>' for item in sections),
        sections="\n".join(item.html for item in sections),
        footer=escape(f"Made by desp from the run folder {resolved_path(record.folder).name}."),
        chains=_embedded(chains),
        script=script,
        script_hash=_hash(script),
    )


def _noisy_steps(record: RunRecord) -> int | None:
    """How many steps of a shown chain add noise, after which it only descends; None for other samplers."""
    sampler = None if record.method is None else record.method.prediction_sampler
    return 0 if isinstance(sampler, DescentSettings) else record.stochastic_steps


def _package_file(name: str) -> str:
    return resources.files("desp.report").joinpath(name).read_text(encoding="utf-8")


def _embedded(value: Any) -> str:
    """JSON that can stand inside a script element, where `</` or `<!--` would end or change it."""
    return json.dumps(without_nonfinite(value), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _hash(script: str) -> str:
    """The hash by which the page's policy permits this script and no other one."""
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


# -- the top of the page: what was run, how well it did, and what that number means -------------------------


def _headline(record: RunRecord) -> str:
    """Title, one line on the run, the main score beside its references, and an explanation."""
    row, comparison = _main_row(record.evaluation), comparison_of(record)
    parts = [f"<h1>{escape(record.recipe)}</h1>", f'<p class="lede">{_about(record)}</p>']
    if (verdict := verdict_of(record)) is not None:
        parts.append(
            f'<p class="verdict">{escape(verdict.get("sentence") or verdict.get("not_compared") or "")}</p>'
        )
    if comparison is not None:
        parts.append(_systems(comparison))
    elif row is not None:
        metrics = ((record.evaluation or {}).get("result") or {}).get("metrics") or {}
        parts += [_scores(row), f'<p class="plain">{_in_words(row, metrics)}</p>']
    else:
        parts.append(_not_scored(record))
    return "\n".join(parts)


def _systems(comparison: dict[str, Any]) -> str:
    """The energy scores of the run and of baselines."""
    tiles = []
    for name, system in comparison["systems"].items():
        score, half = plus_minus(system["energy_score"], CLEAR_DIFFERENCE_SE * system["energy_score_se"])
        remark = f"± {half}"
        if "verdict" in system:
            own = "the model's single answer is" if name == "mlp" else "the model is"  # an MLP has no spread
            remark += f", {own} {VERDICT_WORDS[system['verdict']]}"
        tiles.append(
            _tile(_capital(name_of(name)), system["energy_score"], remark, "own" if name == "desp" else "", score)
        )
    return (
        f'<dl class="scores">{"".join(tiles)}</dl><p class="plain">Energy scores on {comparison["tests"]} '
        "held-out examples: lower is better; ± is two standard errors.</p>"
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _main_row(evaluation: dict[str, Any] | None) -> dict[str, Any] | None:
    """The row that stands for the run: the first with a number in the paper, else the first with a value."""
    scored = [row for row in (evaluation or {}).get("rows") or [] if is_number(row.get("value"))]
    compared = [row for row in scored if is_number(row.get("paper"))]
    return next(iter(compared + scored), None)


def _about(record: RunRecord) -> str:
    parts = [] if record.seed is None else [f"seed {escape(str(record.seed))}"]
    summary = record.summary
    if summary is None or record.finished is None:
        steps = f" at step {readable(record.log[-1]['step'])}" if record.log else ""
        return " · ".join([*parts, f"training is not finished{steps}"])
    parts.append(f"finished {record.finished:%Y-%m-%d %H:%M} UTC")
    if is_number(summary.get("steps")):
        parts.append(f"{readable(summary['steps'])} steps")
    if is_number(summary.get("seconds")):
        parts.append(f"trained for {duration(summary['seconds'])}")
    if summary.get("device"):
        parts.append(f"on {escape(str(summary['device']))}")
    return " · ".join(parts)


def _scores(row: dict[str, Any]) -> str:
    spread = row.get("std")
    if is_number(spread):
        remark = f"standard deviation {readable(spread)} over {readable(seed_count(row))} seeds"
    else:
        remark = _direction(row) or "one run"
    tiles = [_tile("This run", row["value"], remark, "own")]
    if is_number(row.get("paper")):
        tiles.append(_tile("Paper", row["paper"], "as published"))
    if is_number(row.get("real_data")):
        tiles.append(_tile("Real data", row["real_data"], "the data themselves as predictions"))
    return f'<dl class="scores">{"".join(tiles)}</dl>'


def _tile(name: str, value: Any, remark: str, kind: str = "", text: str | None = None) -> str:
    return (
        f'<div class="score {kind}"><dt>{escape(name)}</dt>'
        f"<dd>{number_html(value, text)}<small>{escape(remark)}</small></dd></div>"
    )


def _direction(row: dict[str, Any]) -> str:
    """Which way is better: as the row says, else where the metric's name tells; otherwise nothing is claimed."""
    better = row.get("direction") or metric_facts(str(row.get("metric", "")))["direction"]
    return f"{better} is better" if better else ""


def _in_words(row: dict[str, Any], metrics: dict[str, Any]) -> str:
    metric = escape(str(row.get("metric") or "score"))
    direction = _direction(row)
    if metric == "score":  # what the task is compared by
        meaning = (metrics.get("score") or {}).get("text") or "a distance to true sets"
        text = [f"The score is {escape(str(meaning))}: {direction}."]
    else:
        text = [f"The number above is <b>{metric}</b>{f' ({direction})' if direction else ''}."]
    value = row["value"]
    if is_number(row.get("paper")) and row["paper"]:
        raw = row.get("raw") if row.get("scored") == "returned" else None
        what, compared = ("For raw output it", raw) if is_number(raw) else ("It", value)
        text.append(f"{what} is {_ratio(compared, row['paper'])} the number the paper reports.")
    if is_number(row.get("real_data")):
        text.append(
            "Real data is what true sets score when they are taken as predictions: "
            "a perfect predictor would score about the same."
        )
        if row["real_data"]:
            text.append(f"This run is at {_ratio(value, row['real_data'])} that reference.")
    return " ".join(text)


def _ratio(value: float, reference: float) -> str:
    return f"{readable(round(value / reference, 2))} times"


def _not_scored(record: RunRecord) -> str:
    best = (record.summary or {}).get("kept_score")
    shown = ""
    if is_number(best):
        step = (record.summary or {}).get("kept_step")
        remark = f"at step {readable(step)}" if step is not None else "during training"
        shown = f'<dl class="scores">{_tile("Validation score of the kept weights", best, remark, "own")}</dl>'
    command = escape(WRITTEN_BY["evaluation.json"])
    return f'{shown}<p class="missing">Not scored yet. <code>{command}</code> scores this run.</p>'
