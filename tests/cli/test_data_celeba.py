"""`desp data celeba`: from images to features."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from desp.data.celeba import load_celeba
from tiny_celeba import list_path, make_small, write_tiny_celeba

Desp = Callable[..., Any]
QUICK = ("--epochs", 1, "--batch-size", 8, "--device", "cpu")


@pytest.fixture(autouse=True)
def _small_faces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make_small(monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_faces_are_checked_decoded_and_described(
    desp: Desp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_tiny_celeba(tmp_path / "data" / "celeba", 40, rows=50)
    (folder / "img_align_celeba" / "000003.jpg").write_bytes(b"broken")
    finished = desp("data", "celeba", "--data-dir", tmp_path / "data", *QUICK)
    assert finished.status == 0, finished.err
    told = finished.message
    assert f"{folder / 'img_align_celeba'}: CelebA, 40 faces; images and features are cached" in told
    assert "40 images found, 1 left out; 70/10/20 split: 28 for training, 4 for validation, 7 for test" in told
    assert "1 x the image is broken: 000003.jpg (cannot identify" in told
    scores = load_celeba(tmp_path / "data").scores
    assert f"classifier on test faces: accuracy {scores['test_accuracy']:.3g}, mean AUC" in told
    assert "classifier on validation faces: accuracy" in told
    monkeypatch.setenv("DESP_DATA", str(tmp_path / "data"))
    assert desp("data", "celeba", *QUICK).out == finished.out


def test_folds_and_views(desp: Desp, tmp_path: Path) -> None:
    write_tiny_celeba(tmp_path, 40, parts=(0, 0, 1, 2))
    more = ("--features", "logits", "--folds", 2, "--views", 2, "--seed", 3)
    finished = desp("data", "celeba", "--data-dir", tmp_path, *QUICK, *more)
    assert finished.status == 0, finished.err
    assert "official split: 20 for training, 10 for validation, 10 for test" in finished.message
    data = load_celeba(tmp_path)
    assert data.training.features.shape == (2, 20, 13)
    assert data.feature_settings["seed"] == 3


def test_an_interruption_says_how_to_go_on(desp: Desp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_tiny_celeba(tmp_path / "my data", 40)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("desp.features.celeba.train_classifier", interrupted)
    finished = desp("data", "celeba", "--data-dir", folder, *QUICK)
    assert finished.status == 130
    again = f"desp data celeba --data-dir '{folder}' --epochs 1 --batch-size 8 --device cpu"
    assert f"Interrupted. To go on where it was: {again}" in finished.message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--folds", 2), "error: features must be 'logits' where folds is above 1, got 'pooled'"),
        (("--epochs", 0), "error: epochs must be positive, got 0"),
    ],
)
def test_settings_that_cannot_work(desp: Desp, options: tuple[object, ...], message: str) -> None:
    finished = desp("data", "celeba", *options)
    assert finished.status == 2
    assert message in finished.message


def test_missing_or_wrong_files(desp: Desp, tmp_path: Path) -> None:
    finished = desp("data", "celeba", "--data-dir", tmp_path)
    assert finished.status == 2
    assert "error: The data of CelebA are not there: expected img_align_celeba" in finished.message
    list_path(write_tiny_celeba(tmp_path / "celeba", 12), "attr").write_text("nothing")
    finished = desp("data", "celeba", "--data-dir", tmp_path)
    assert finished.status == 2
    assert "the first line must be the number of images, got 'nothing'" in finished.message


def test_help_has_an_example(desp: Desp) -> None:
    assert "desp data celeba --data-dir ~/data" in desp("data", "--help").out
    told = desp("data", "celeba", "--help").out
    for option in ("desp data celeba --data-dir ~/data", "--epochs", "--folds", "--views", "--seed", "--features"):
        assert option in told
