"""The README tells the truth: its example runs, its table is the measured one, its links lead somewhere."""

import re
from pathlib import Path

import pytest

from desp.cli.main import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_python_example_runs_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "README.md", "exec"), {"__name__": "readme"})  # noqa: S102 - our own text
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert all(re.fullmatch(r"\d points, energy -?\d+\.\d+", line) for line in lines)
    assert (tmp_path / "polygons" / "model.safetensors").is_file()


@pytest.mark.parametrize(
    ("page", "options"),
    [("README.md", "--markdown --only toy mnist"), ("docs/results.md", "--markdown --all")],
)
def test_tables_are_the_measured_ones(
    page: str, options: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    ((command, shown),) = re.findall(r"<!-- measured: (.*?) -->\n(.*?)\n<!-- end -->", text, re.DOTALL)
    assert command == f"desp tables {options}"
    monkeypatch.chdir(ROOT)
    main(command.split()[1:])
    assert shown == capsys.readouterr().out.rstrip("\n"), f"put the output of `{command}` into {page}"


def test_links_lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_own_encoder_example_runs() -> None:
    source = (ROOT / "examples" / "own_encoder.py").read_text(encoding="utf-8")
    names: dict[str, object] = {"__name__": "own_encoder"}
    exec(compile(source, "own_encoder.py", "exec"), names)  # noqa: S102 - our own text
    prediction = names["main"](steps=3)  # type: ignore[operator]
    assert len(prediction.sets) == 3
    assert all(points.shape[1] == 2 for points in prediction.sets)


def test_pedestrians_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    source = (ROOT / "examples" / "pedestrians.py").read_text(encoding="utf-8")
    names: dict[str, object] = {"__name__": "pedestrians"}
    exec(compile(source, "pedestrians.py", "exec"), names)  # noqa: S102 - our own text
    names["main"](steps=2)  # type: ignore[operator]
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["predicted", "constant velocity"]
    assert all(re.search(r"energy score \d+\.\d\d m, best of K \d+\.\d\d m$", line) for line in lines)
