"""Small run folders, made up, with every file a run can have."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from desp.report.page import write_report

SETTINGS = {
    "schema": 4,
    "task": {"kind": "polygons", "corners": [3, 4]},
    "method": {
        "kind": "contrastive",
        "energy": {"kind": "deep-sets", "hidden": 8},
        "data_noise": 0.015,
        "sampler": {"kind": "langevin", "steps": 4, "stochastic_steps": 2},
    },
    "representation": {"padding": "zero"},
    "training": {"steps": 30, "clip_norm": None},
    "engine": "auto",
}


def polygon(corners: int, turn: float = 0.0) -> list[list[float]]:
    """A regular polygon around (0.5, 0.5)."""
    angles = [turn + 2 * math.pi * corner / corners for corner in range(corners)]
    return [[0.5 + 0.4 * math.cos(angle), 0.5 + 0.4 * math.sin(angle)] for angle in angles]


def example(corners: int) -> dict[str, Any]:
    return {
        "label": f"{corners} corners",
        "input": corners,
        "truth": [polygon(corners, 0.1), polygon(corners, 0.7)],
        "samples": [{"set": polygon(corners, 0.3), "energy": -0.25}, {"set": [], "energy": None}],
        "chain": {
            "frames": [[[0.1 * step, 0.2], [0.9, 0.1 * step]] for step in range(5)],
            "steps": [0, 1, 2, 3, 4],
            "energies": [1.0, 0.5, None, 0.1, 0.0],
        },
    }


def samples() -> dict[str, Any]:
    return {
        "task": "polygons",
        "axes": {"names": ["x", "y"], "closed": True, "row_first": False},
        "examples": [example(3), example(4)],
    }


def ablation() -> dict[str, Any]:
    rows = [
        {"ratio": ratio, "stochastic_steps": int(4 * ratio), "score": 1e-4 + ratio * 1e-5, "energy": ratio}
        for ratio in (0.0, 0.5, 1.0)
    ]
    return {
        "steps": 4,
        "rows": rows,
        "score_name": "Hungarian to the nearest true polygon",
        "real_data": 5e-5,
    }


def evaluation() -> dict[str, Any]:
    row = {
        "table": "1",
        "task": "polygons",
        "system": "desp",
        "recipe": "polygons",
        "protocol": "one-to-many",
        "metric": "Chamfer",
        "value": 9.1234567e-05,
        "std": None,
        "seeds": [3],
        "paper": 8.8e-05,
        "real_data": 8.1e-05,
        "data": "generated",
    }
    unpublished = {**row, "metric": "size RMSE", "value": 0.0123, "paper": None}
    return {"rows": [unpublished, row], "details": {"by_size": {"3": 1e-5, "4": 2e-5}, "draws": [1, 2, 3]}}


def summary() -> dict[str, Any]:
    return {
        "steps": 30,
        "seconds": 92.5,
        "engine": "eager",
        "device": "cpu",
        "peak_memory_mb": 120.5,
        "kept_score": 8.7e-05,
        "kept_step": 20,
        "versions": {"desp": "0.1.0"},
        "commit": "0123abc",
        "command": "desp train polygons",
        "parameters": 12345,
    }


def log_lines() -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    for step in range(1, 31):
        lines.append(
            {
                "step": step,
                "loss": 1 / step if step != 7 else None,
                "gradient_norm": 0.1 * step,
                "learning_rate": 1e-4,
                "seconds": 0.1 * step,
                "energy_real": -0.1,
                "energy_sampled": 0.1,
            }
        )
        if step % 10 == 0:
            lines.append({"step": step, "validation_score": 1e-4 / step})
    return lines


def write_run(folder: Path, **replaced: Any) -> Path:
    """A run folder with all files. A file is replaced by name, without its ending; None leaves it out."""
    files: dict[str, Any] = {
        "settings": {"recipe": "polygons", "seed": 3, "settings": SETTINGS},
        "summary": summary(),
        "evaluation": evaluation(),
        "samples": samples(),
        "ablation": ablation(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    lines = replaced.pop("log", log_lines())
    if lines is not None:
        (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for name, value in {**files, **replaced}.items():
        if value is not None:
            (folder / f"{name}.json").write_text(json.dumps(value))
    return folder


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    def make(**replaced: Any) -> Path:
        return write_run(tmp_path / "run", **replaced)

    return make


@pytest.fixture(scope="session")
def whole_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page of a run that has every file, drawn once."""
    return write_report(write_run(tmp_path_factory.mktemp("whole") / "run")).read_text(encoding="utf-8")


@pytest.fixture
def sample_data() -> dict[str, Any]:
    return samples()


@pytest.fixture
def ablation_data() -> dict[str, Any]:
    return ablation()


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch, undrawn: None) -> list[Figure]:
    """Every figure that would be rendered, in order: pictures are bytes, and bytes do not say what they show."""
    figures: list[Figure] = []
    savefig = Figure.savefig

    def note(figure: Figure, *arguments: Any, **options: Any) -> None:
        figures.append(figure)
        savefig(figure, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", note)
    return figures
