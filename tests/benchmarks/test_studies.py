"""The studies in the folder benchmarks/: rows, picture, and floors counted by hand; no time is asserted."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from desp.benchmarks import BenchOptions, Row, measure
from desp.benchmarks.chains import ChainCase
from desp.distances import chamfer, hungarian
from desp.errors import SettingsError
from desp.settings import DeepSetsSettings, SetEncoderEnergySettings

CPU = torch.device("cpu")
FOLDER = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(FOLDER))
import floors  # noqa: E402
import predictions  # noqa: E402
import scaling  # noqa: E402
import scenes  # noqa: E402
import study  # noqa: E402
import subsets  # noqa: E402
import versions  # noqa: E402

import distances  # noqa: E402

sys.path.remove(str(FOLDER))


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little work a row."""
    monkeypatch.setitem(floors.MATRIX_SIDE, "cpu", 64)
    monkeypatch.setitem(floors.COPIED_BYTES, "cpu", 2**16)
    monkeypatch.setattr(measure, "SHORTEST_SAMPLE_S", 0.001)
    monkeypatch.setattr(measure, "WARM_UP_S", 0.001)
    monkeypatch.setattr(distances, "SHAPES", ((2, 3, 2), (1, 5, 3)))
    for name, grid in (("BATCHES", (1, 2)), ("SIZES", (2, 4)), ("STEPS", (1, 3)), ("DISTANCE_SIZES", (2, 4))):
        monkeypatch.setattr(scaling, name, grid)
    monkeypatch.setitem(scaling.LARGE_SETS, "cpu", (1, 8))


def options(**changes: Any) -> BenchOptions:
    return BenchOptions(CPU, **{"engine": "eager", "steps": 2, "repeats": 1, **changes})


def test_predictions(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = {"polygons-denoising": (3, 1), "digits-desp": (3,)}
    monkeypatch.setattr(predictions, "PREDICTING", counts)
    rows = predictions.prediction_rows(options(steps=None))
    assert [(row["task"], row["predictions"], row["size"], row["steps"]) for row in rows] == [
        ("polygons-denoising", 3, 8, 20),
        ("polygons-denoising", 1, 8, 20),
        ("digits-desp", 3, 64, 100),
    ]
    for row in rows:
        assert (row["engine"], row["precision"]) == ("eager", "float32")
        assert row["ms"] > 0


def test_scenes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(scenes.BATCHES, "cpu", (1, 2))
    rows = scenes.scene_rows(options())
    assert [row["batch"] for row in rows] == [1, 2]
    for row in rows:
        assert row["images_per_s"] == pytest.approx(1000 * row["batch"] / row["ms"])


def test_subsets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(subsets.BATCHES, "cpu", (1, 2))
    rows = subsets.subset_rows(options())
    assert [row["batch"] for row in rows] == [1, 2]
    for row in rows:
        assert row["sets_per_s"] == pytest.approx(1000 * row["batch"] / row["ms"])


def test_reference_distances(generator: torch.Generator) -> None:
    a, b = torch.rand(4, 7, 3, generator=generator), 2 * torch.rand(4, 7, 3, generator=generator)
    torch.testing.assert_close(distances.reference_chamfer(a, b), chamfer(a, b))
    torch.testing.assert_close(distances.reference_hungarian(a, b), hungarian(a, b))
    torch.testing.assert_close(distances.reference_chamfer(a, b[:, :5]), chamfer(a, b[:, :5]))


def test_times_of_distances_are_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([2.0, 10.0] * 4)
    repeated = []

    def measured(work: Any, device: torch.device, repeats: int) -> Row:
        repeated.append(repeats)
        return {"ms": next(times), "spread_ms": 0.1, "compile_s": 1.0, "peak_mb": 1.0}

    monkeypatch.setattr(distances, "measure", measured)
    for row in distances.distance_rows(options(repeats=4)):
        assert (row["ms"], row["reference_ms"], row["speedup"]) == (2.0, 10.0, 5.0)
    assert set(repeated) == {4}


def test_distances_are_measured_between_different_sets() -> None:
    pairs = []

    def distance(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        pairs.append((a, b))
        return a.sum(dim=(1, 2))

    distances.time_distance(distance, (2, 3, 4), options(seed=1))
    assert {tuple(item.shape) for pair in pairs for item in pair} == {(2, 3, 4)}
    assert not any(torch.equal(a, b) for a, b in pairs)
    again = distances.random_sets((2, 3, 4), options(seed=1))
    assert torch.equal(pairs[0][0], again)
    assert not torch.equal(again, distances.random_sets((2, 3, 4), options(seed=0)))


def test_distance_rows() -> None:
    rows = distances.distance_rows(options())
    assert [(row["task"], row["size"]) for row in rows] == [
        *(("chamfer", 3), ("chamfer", 5)),
        *(("hungarian", 3), ("hungarian", 5)),
    ]
    for row in rows:
        assert row["speedup"] == pytest.approx(row["reference_ms"] / row["ms"])
        assert (row["device"], row["precision"]) == ("cpu", "float32")


def test_scaling_rows_and_their_picture() -> None:
    told: list[Any] = []
    rows = scaling.scaling_rows(options(on_row=told.append))
    assert told == rows
    varied = [(row["task"], row["vary"], row["value"]) for row in rows]
    assert varied == [
        *(("chain", "batch", 1), ("chain", "batch", 2)),
        *(("chain", "size", 2), ("chain", "size", 4)),
        *(("chain", "steps", 1), ("chain", "steps", 3)),
        ("chain", "large sets", 8),
        *(("chamfer", "size", 2), ("chamfer", "size", 4)),
        *(("hungarian", "size", 2), ("hungarian", "size", 4)),
    ]
    for row in rows:
        assert row.keys() >= {"ms", "batch", "size", "steps", "engine", "device", "precision"}
        if row["vary"] != "steps":
            assert row["size" if row["vary"] == "large sets" else row["vary"]] == row["value"]
        assert row["steps"] == (row["value"] if row["vary"] == "steps" else 2 if row["task"] == "chain" else None)
    svg = scaling.scaling_picture(rows)
    for text in (b"milliseconds", b"hungarian", b"steps of a chain"):
        assert text in svg


def test_scaling_of_some_parts() -> None:
    rows = scaling.scaling_rows(options(tasks=("chamfer",)))
    assert {row["task"] for row in rows} == {"chamfer"}
    assert b"steps of a chain" not in scaling.scaling_picture(rows)


def colour_of(line: Any) -> str:
    return str(to_hex(line.get_color()))


def points_of(line: Any) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)]


def test_scaling_has_a_panel_for_whatever_was_varied(monkeypatch: pytest.MonkeyPatch) -> None:
    def row(task: str, vary: str, value: int, ms: float) -> dict[str, Any]:
        return {"task": task, "vary": vary, "value": value, "ms": ms}

    rows = [row("chain", "batch", 100, 3.0), row("chain", "batch", 10, 2.0), row("chain", "steps", 5, 7.0)]
    rows += [row("chamfer", "size", 8, 0.5), row("hungarian", "size", 8, 4.0), row("hungarian", "size", 2, 1.0)]
    rows.append(row("chain", "large sets", 9, 9.0))
    drawn: list[Figure] = []
    monkeypatch.setattr(scaling, "render", lambda figure, _: drawn.append(figure) or b"")
    scaling.scaling_picture(rows)
    shown = [
        (axes.get_xlabel()[0], {line.get_label(): (colour_of(line), points_of(line)) for line in axes.lines})
        for axes in drawn[0].axes
    ]
    assert shown == [
        ("B", {"chain": ("#0072b2", [(10, 2), (100, 3)])}),
        ("T", {"chain": ("#0072b2", [(5, 7)])}),
        ("N", {"chamfer": ("#009e73", [(8, 0.5)]), "hungarian": ("#d55e00", [(2, 1), (8, 4)])}),
    ]
    assert {scale for axes in drawn[0].axes for scale in (axes.get_xscale(), axes.get_yscale())} == {"log"}
    assert [axes.get_ylabel() for axes in drawn[0].axes] == ["milliseconds", "", ""]
    assert [axes.get_title(loc="left") for axes in drawn[0].axes] == ["chain", "chain", "chamfer, hungarian"]
    assert [bool(axes.get_legend()) for axes in drawn[0].axes] == [False, False, True]
    ticks = [[label.get_text() for label in axes.get_xticklabels()] for axes in drawn[0].axes]
    assert ticks == [["10", "100"], ["5"], ["2", "8"]]
    (limits,) = {axes.get_ylim() for axes in drawn[0].axes}  # one scale for all panels
    assert limits[0] < 0.5
    assert limits[1] > 7


TINY_DS = ChainCase(
    "tiny",
    batch=2,
    size=3,
    channels=2,
    code_features=5,
    steps=4,
    noise_scale=0.1,
    energy=DeepSetsSettings(hidden=4, element_layers=2, set_layers=2),
)
TINY_SE = replace(TINY_DS, energy=SetEncoderEnergySettings(hidden=4, layers=2, latent=5))


def test_operations_of_a_tiny_deep_sets_energy() -> None:
    energy = TINY_DS.build(CPU)
    elements = 2 * (2 * 6 * 2 * 4) + 2 * (
        2 * 6 * 4 * 4
    )  # 6 rows: first layer from 2 features, then 4 x 4, both ways
    sets = 2 * (2 * 2 * 4 * 4) + 2 * 2 * 4 * 4  # 2 rows: one layer both ways, the quadratic form once
    assert floors.gradient_flops(energy, 2, 3, 2) == elements + sets


def test_operations_of_a_tiny_set_encoder_energy() -> None:
    energy = TINY_SE.build(CPU)
    assert floors.gradient_flops(energy, 2, 3, 2) == 2 * (2 * 6 * 2 * 4) + 2 * (2 * 6 * 4 * 5)


def test_bytes_of_a_tiny_energy() -> None:
    weights = (2 * 4 + 4) + (4 * 5 + 5) + 5 * 21  # two layers, knots
    assert floors.gradient_bytes(TINY_SE.build(CPU), 2, 3, 2) == 4 * (weights + 2 * 2 * 3 * 2)


def test_floor_is_the_larger_bound() -> None:
    energy = TINY_SE.build(CPU)
    operations, moved = floors.gradient_flops(energy, 2, 3, 2), floors.gradient_bytes(energy, 2, 3, 2)
    computing = floors.chain_floor_ms(energy, 2, 3, 2, steps=4, peaks=floors.Peaks(1e3, 1e9))
    moving = floors.chain_floor_ms(energy, 2, 3, 2, steps=4, peaks=floors.Peaks(1e9, 1e3))
    assert computing == pytest.approx(1e3 * 4 * operations / 1e3)
    assert moving == pytest.approx(1e3 * 4 * moved / 1e3)


def test_floors_of_chains() -> None:
    rows = floors.floor_rows(options(tasks=("celeba", "polygons")))
    assert [(row["task"], row["steps"]) for row in rows] == [("polygons", 100), ("celeba", 50)]
    assert all(row["floor_ms"] > 0 for row in rows)


@pytest.mark.parametrize(
    "rows_of",
    [distances.distance_rows, scaling.scaling_rows, floors.floor_rows, scenes.scene_rows, subsets.subset_rows],
)
def test_unknown_tasks_are_refused(rows_of: Any) -> None:
    with pytest.raises(SettingsError, match="no task 'polygon'"):
        rows_of(options(tasks=("polygon",)))


def test_a_study_shows_and_records_its_rows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    given = ["study", "--device", "cpu", "--repeats", "1", "--tasks", "chamfer", "--record", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", given)
    rows = study.main("distances", distances.distance_rows, "about")
    assert "| chamfer | 2 | 3 | torch | float32 |" in capsys.readouterr().out
    record = json.loads((tmp_path / "distances-cpu.json").read_text())
    assert [row["size"] for row in record["rows"]] == [row["size"] for row in rows] == [3, 5]


def test_two_versions_are_compared_by_medians_and_asked_in_both_orders(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[tuple[str, str]] = []

    class Server:
        def __init__(self, source: Path, tasks: list[str], repeats: int) -> None:
            self.name, self.times = source.name, iter([1.0, 2.0, 9.0] if source.name == "old" else [4.0, 3.0, 5.0])
            self.process = self
            assert (tasks, repeats) == (["celeba"], 7)

        def ms(self, task: str) -> float:
            asked.append((self.name, task))
            return next(self.times)

        def communicate(self) -> None:
            asked.append((self.name, "end"))

    monkeypatch.setattr(versions, "Server", Server)
    (row,) = versions.chain_rows([tmp_path / "old", tmp_path / "new"], ["celeba"], rounds=3, repeats=7)
    assert row == {
        "what": "chain",
        "task": "celeba",
        "ratio": 2.0,
        "ms_before": [1.0, 2.0, 9.0],
        "ms": [4.0, 3.0, 5.0],
    }
    assert [name for name, task in asked if task == "celeba"] == ["new", "old", "old", "new", "new", "old"]
    assert asked[-2:] == [("old", "end"), ("new", "end")]


def test_a_version_is_imported_from_its_own_tree(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", "/here/src:/packages")
    assert versions._environment(tmp_path)["PYTHONPATH"] == f"{tmp_path}:/packages"


def test_versions_ask_for_two_source_folders(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["versions.py", "src"])
    with pytest.raises(SystemExit, match="2"):
        versions.main()
    assert "expected two folders `src`, of the earlier and the later version, got 1" in capsys.readouterr().err
