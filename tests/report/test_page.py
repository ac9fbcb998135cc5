"""The page: self-contained, safe with hostile text, and useful whatever is missing."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from desp.errors import MissingExtraError, RunError
from desp.report.chains import GRID, chain_payload
from desp.report.folder import read_run
from desp.report.numbers import MINUS
from desp.report.page import write_report

MakeRun = Callable[..., Path]
VOID = {"meta", "input", "br", "img", "link", "path", "use", "rect"}


class Outline(HTMLParser):
    """Collects what a browser would see, and notices elements that are not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.scripts: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        values = dict(attrs)
        self.links += [str(values[name]) for name in ("src", "href", "action", "data") if values.get(name)]
        if values.get("id"):
            self.ids.append(str(values["id"]))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)


def outline(page: str) -> Outline:
    parser = Outline()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser


def page_of(folder: Path) -> str:
    return write_report(folder).read_text(encoding="utf-8")


@pytest.mark.usefixtures("undrawn")
def test_page_is_written_into_the_folder(make_run: MakeRun) -> None:
    folder = make_run()
    assert write_report(folder) == folder / "report.html"
    assert not [item for item in folder.iterdir() if item.name.endswith(".tmp")]


def test_page_names_its_folder_also_from_inside_of_it(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(make_run(samples=None, ablation=None, log=None))
    assert "from the run folder run." in page_of(Path("."))


def test_page_is_self_contained(whole_page: str) -> None:
    assert "http://" not in whole_page
    assert "https://" not in whole_page
    assert "@import" not in whole_page
    for link in outline(whole_page).links:
        assert link.startswith(("#", "data:"))
    for target in re.findall(r"url\(([^)]*)\)", whole_page):
        assert target.strip("'\"").startswith("#")


def test_inner_links_have_targets(whole_page: str) -> None:
    seen = outline(whole_page)
    assert {link[1:] for link in seen.links if link.startswith("#")} <= set(seen.ids)


def test_page_shows_score_beside_its_references(whole_page: str) -> None:
    top = whole_page[: whole_page.index("<nav")]
    assert f'<data value="9.1234567e-05" title="9.1234567e-05">9.123e{MINUS}5</data>' in top
    assert f"8.8e{MINUS}5" in top
    assert f"8.1e{MINUS}5" in top
    assert "lower is better" in top
    assert "1.04 times the number the paper reports" in top
    assert "seed 3" in top
    assert "finished " in top


def test_page_has_every_section(whole_page: str) -> None:
    assert 'class="missing"' not in whole_page.replace('<noscript><p class="missing">', "")
    for text in (
        "size RMSE",
        "method",
        "representation",
        "energy.kind",
        "0123abc",
        "desp train polygons",
        "1 min 32 s",
    ):
        assert text in whole_page
    assert "120.5 MB" in whole_page
    assert whole_page.count('role="img"') == 6


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("summary", "desp train"),
        ("evaluation", "desp evaluate RUN"),
        ("samples", "desp report RUN"),
        ("ablation", "desp ablate RUN"),
        ("log", "desp train"),
    ],
)
def test_page_says_how_to_get_what_is_missing(make_run: MakeRun, name: str, command: str) -> None:
    page = page_of(make_run(**{name: None}))
    outline(page)
    assert f"<code>{command}</code>" in page


def test_page_of_a_run_that_has_only_begun(make_run: MakeRun) -> None:
    page = page_of(make_run(summary=None, evaluation=None, samples=None, ablation=None, log=None))
    outline(page)
    assert "training is not finished" in page


@pytest.mark.usefixtures("undrawn")
def test_unscored_run_shows_its_validation(make_run: MakeRun) -> None:
    page = page_of(make_run(evaluation=None))
    assert "Validation score of the kept weights" in page[: page.index("<nav")]


HOSTILE = "</script><script>alert(1)</script><!--\"'&$title"


def test_hostile_text_is_escaped(make_run: MakeRun, sample_data: dict[str, Any]) -> None:
    settings = {
        "recipe": "<script>",
        "seed": HOSTILE,
        "settings": {HOSTILE: {HOSTILE: HOSTILE}, "x": HOSTILE},
    }
    row = {"metric": HOSTILE, "value": 1.0, "paper": HOSTILE, HOSTILE: HOSTILE}
    sample_data["axes"]["names"] = [HOSTILE] * 2
    for item in sample_data["examples"]:
        item["label"] = HOSTILE
    summary = dict.fromkeys(("steps", "seconds", "device", "command", "commit", "kept_score"), HOSTILE)
    page = page_of(
        make_run(
            settings=settings,
            evaluation={"rows": [row], "details": {HOSTILE: [HOSTILE]}},
            samples=sample_data,
            summary={**summary, "versions": {HOSTILE: HOSTILE}},
            ablation={"rows": [{"ratio": 0.5, "score": 1.0, "energy": 1.0}], "score_name": HOSTILE},
        )
    )
    seen = outline(page)
    assert "<h1>&lt;script&gt;</h1>" in page
    assert "<script>alert" not in page
    assert len(seen.scripts) == 2
    assert json.loads(seen.scripts[0])["examples"][0]["label"] == HOSTILE


@pytest.mark.parametrize("features", [1, 3])
def test_page_of_other_feature_counts(make_run: MakeRun, sample_data: dict[str, Any], features: int) -> None:
    for item in sample_data["examples"]:
        item["truth"] = [[[0.5] * features]]
        item["samples"] = [{"set": [[0.25] * features], "energy": 1.0}]
        item["chain"]["frames"] = [[[0.1] * features], [[0.2] * features], []]
    sample_data["axes"] = {"names": [], "closed": False}
    payload = json.loads(outline(page_of(make_run(samples=sample_data))).scripts[0])
    assert payload["features"] == min(features, 2)
    assert payload["examples"][0]["frames"][2] == []


@pytest.mark.usefixtures("undrawn")
def test_page_without_chains(make_run: MakeRun, sample_data: dict[str, Any]) -> None:
    for item in sample_data["examples"]:
        del item["chain"]
    page = page_of(make_run(samples=sample_data))
    assert "no recorded chains" in page
    assert outline(page).scripts[0] == "null"


@pytest.mark.usefixtures("undrawn")
def test_page_without_examples(make_run: MakeRun) -> None:
    assert "no predictions yet" in page_of(make_run(samples={"examples": []}))


def test_chain_payload_places_frames_in_the_window(sample_data: dict[str, Any]) -> None:
    payload = chain_payload(sample_data, 2)
    assert payload is not None
    first = payload["examples"][0]
    assert first["steps"] == [0, 1, 2, 3, 4]
    assert first["energies"] == [1.0, 0.5, None, 0.1, 0.0]
    assert payload["stochasticSteps"] == 2
    for row in first["frames"][4]:
        assert len(row) == 3
        assert row[2] == 100
        assert 0 <= row[0] <= GRID


def test_chain_payload_reads_presence_as_opacity(sample_data: dict[str, Any]) -> None:
    sample_data["examples"][0]["chain"]["frames"] = [[[0.5, 0.5, 0.25], [0.5, None, 1.0], [0.5, 0.5, 7.0]]]
    payload = chain_payload(sample_data, None)
    assert payload is not None
    assert [row[2] for row in payload["examples"][0]["frames"][0]] == [25, 100]
    assert payload["fades"]


@pytest.mark.usefixtures("undrawn")
def test_heavy_chains_are_thinned(make_run: MakeRun, sample_data: dict[str, Any]) -> None:
    frames = [[[0.5, 0.001 * point] for point in range(400)] for _ in range(162)]
    for item in sample_data["examples"]:
        item["chain"] = {"frames": frames, "steps": list(range(162)), "energies": [0.0] * 162}
    path = write_report(make_run(samples=sample_data))
    assert path.stat().st_size < 1_500_000
    payload = json.loads(outline(path.read_text(encoding="utf-8")).scripts[0])
    assert payload["examples"][0]["steps"][-1] == 161


@pytest.mark.usefixtures("undrawn")
def test_risk_runs_descend_only(make_run: MakeRun) -> None:
    settings = {"schema": 4, "method": {"kind": "set-risk", "sampler": {"kind": "descent", "steps": 80}}}
    page = page_of(make_run(settings={"recipe": "r", "seed": 0, "settings": settings}))
    assert json.loads(outline(page).scripts[0])["stochasticSteps"] == 0


def test_wrong_folder(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no run folder"):
        write_report(tmp_path)


def test_missing_matplotlib(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_run()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"desp\[viz\]"):
        write_report(folder)
    assert not (folder / "report.html").exists()


def test_report_needs_no_torch_and_imports_matplotlib_late() -> None:
    code = "import sys, desp.report; sys.exit('torch' in sys.modules or 'matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


@pytest.mark.usefixtures("undrawn")
def test_a_denoised_run_is_not_told_as_a_chain(make_run: MakeRun) -> None:
    settings = {"schema": 4, "method": {"kind": "denoising", "sampler": {"kind": "edm", "steps": 20}}}
    details = {"calibration": {"inputs": 50, "samples": 2, "histogram": [0.2, 0.3, 0.5]}}
    folder = make_run(
        settings={"recipe": "demo", "seed": 0, "settings": settings},
        ablation=None,
        evaluation={"rows": [{"metric": "score", "value": 1.0}], "details": details},
    )
    page = write_report(folder).read_text(encoding="utf-8")
    assert json.loads(outline(page).scripts[0])["stochasticSteps"] is None
    assert "Is the spread right?" in page
    assert "among 2 predictions" in page
    for word in ("Ablation of S/T", "desp ablate", "without noise"):
        assert word not in page


def test_older_records_of_set_mnist_have_the_present_names(make_run: MakeRun) -> None:
    folder = make_run(
        settings={"recipe": "mnist-desp", "seed": 0, "settings": {"schema": 5, "task": {"kind": "mnist"}}},
        ablation={"steps": 4, "rows": [{"ratio": 0.0, "score": 1.0, "energy": 1.0, "size_rmse": 0.5}]},
        evaluation={"rows": [{"metric": "size_rmse", "task": "set-mnist", "value": 1.0}]},
    )
    record = read_run(folder)
    assert record.evaluation is not None
    assert record.evaluation["rows"][0]["metric"] == "size_rmse_released"
    assert record.ablation is not None
    assert record.ablation["rows"][0]["size_rmse_released"] == 0.5


def test_a_chain_is_told_as_one(whole_page: str) -> None:
    assert "Ablation of S/T" in whole_page
    assert "Is the spread right?" not in whole_page
