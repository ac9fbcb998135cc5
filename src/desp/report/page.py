"""The report of a run: one HTML file that needs nothing else, neither a server nor the network."""

import base64
import hashlib
import json
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from desp.report.chains import chain_payload
from desp.report.folder import RunRecord, read_run
from desp.report.headline import headline
from desp.report.sections import all_sections
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
        headline=headline(record),
        navigation="".join(f'<li><a href="#{item.anchor}">{escape(item.title)}</a></li>' for item in sections),
        sections="\n".join(item.html for item in sections),
        footer=escape(f"Made by desp from the run folder {record.folder.resolve().name}."),
        chains=_embedded(chains),
        script=script,
        script_hash=_hash(script),
    )


def _noisy_steps(record: RunRecord) -> int | None:
    """After which step a shown chain only descends; None where it is no chain of noise and descent."""
    sampler = None if record.method is None else record.method.prediction_sampler
    return 0 if isinstance(sampler, DescentSettings) else record.stochastic_steps


def _package_file(name: str) -> str:
    return resources.files("desp.report").joinpath(name).read_text(encoding="utf-8")


def _embedded(value: Any) -> str:
    """JSON that can stand inside a script element, where `</` or `<!--` would end or change it."""
    return json.dumps(without_nonfinite(value), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _hash(script: str) -> str:
    """Permits exactly this script: whatever else might slip into the page is not run."""
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"
