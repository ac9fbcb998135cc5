"""Features of CelebA: made once, made anew where they are out of date, and loaded as pools."""

import errno
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from desp.data.celeba import CelebaData, load_celeba
from desp.data.celeba_faces import read_faces
from desp.data.celeba_lists import PARTS, USED
from desp.data.image_cache import writable
from desp.errors import DataError, StorageError
from desp.features import celeba, classifier
from desp.features.celeba import fold_of_faces, prepare_celeba
from desp.features.settings import FeatureSettings
from tiny_celeba import attribute_values, make_small, write_face, write_tiny_celeba

QUICK = FeatureSettings(epochs=2, batch_size=8, views=1)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    make_small(monkeypatch)
    monkeypatch.setattr(classifier, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_tiny_celeba(tmp_path / "celeba", 40)


@pytest.fixture
def told() -> list[str]:
    return []


def prepare(folder: Path, told: list[str], settings: FeatureSettings = QUICK) -> CelebaData:
    told.clear()
    prepare_celeba(folder, settings, "cpu", lambda word, *_: told.append(word))
    return load_celeba(folder)


def test_faces_become_pools(folder: Path, told: list[str]) -> None:
    data = prepare(folder, told)
    assert (data.data_label, data.split) == ("CelebA, 40 faces", "70/10/20")
    values = torch.from_numpy(attribute_values(40))[:, :11]
    for part, count in zip(PARTS, (28, 4, 8), strict=True):
        pool = getattr(data, part)
        assert (len(pool), pool.features.shape, pool.names) == (count, (count, 8), USED)
        assert pool.features.dtype == torch.float32
        rows = [int(name[:6]) - 1 for name in data.names[part]]
        assert torch.equal(pool.attributes, values[rows])
        assert data.image_path(part, 1) == folder / "img_align_celeba" / data.names[part][1]
    assert set(data.scores) == {"validation_accuracy", "validation_auc", "test_accuracy", "test_auc"}
    assert 0 <= data.scores["test_accuracy"] <= 1
    assert data.feature_settings["epochs"] == 2
    assert set(told) == {"decoding", "training"}
    assert not (folder / "desp-cache-32" / "classifier").exists()


def test_features_are_those_of_the_classifier(folder: Path, told: list[str], tmp_path: Path) -> None:
    data = prepare(folder, told)
    faces = read_faces(folder)
    rows = faces.rows("training")
    model = classifier.train_classifier(faces.images, faces.attributes, rows, QUICK, 0, tmp_path / "again")
    for part in PARTS:
        pooled, _ = classifier.compute_features(model, faces.images, faces.rows(part))
        torch.testing.assert_close(getattr(data, part).features, pooled, atol=2e-3, rtol=2e-3)
        array = np.load(folder / "desp-cache-32" / "features" / f"{part}.npy")
        assert array.dtype == np.float16
    columns = [faces.attribute_names.index(name) for name in USED]
    for part in PARTS:
        _, logits = classifier.compute_features(model, faces.images, faces.rows(part))
        torch.testing.assert_close(data.logits[part], logits[:, columns], atol=2e-3, rtol=2e-3)


def test_features_are_made_once(folder: Path, told: list[str]) -> None:
    first = prepare(folder, told)
    again = prepare(folder, told)
    assert not told
    assert first.checksum == again.checksum


def test_other_settings_are_made_anew(folder: Path, told: list[str]) -> None:
    first = prepare(folder, told)
    other = prepare(folder, told, replace(QUICK, seed=1))
    assert set(told) == {"training"}
    assert other.feature_settings["seed"] == 1
    assert first.checksum != other.checksum
    back = prepare(folder, told)
    assert back.checksum == first.checksum  # the same seed gives the same features


def test_the_newest_features_are_read(folder: Path, told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The first ones lie beside the data; where nothing can be written any more, others go to the user's cache."""
    prepare(folder, told)
    monkeypatch.setattr(celeba, "writable", lambda roots: writable(roots[1:]))
    other = replace(QUICK, features="logits")
    assert prepare(folder, told, other).feature_settings["features"] == "logits"
    first = celeba.celeba_roots(folder)[0] / "features" / "features.json"
    os.utime(first)  # made last, so that they are read again
    assert load_celeba(folder).feature_settings["features"] == "pooled"


def test_other_files_are_noticed(folder: Path, told: list[str]) -> None:
    prepare(folder, told)
    write_face(folder / "img_align_celeba" / "000005.jpg", 99)
    with pytest.raises(DataError, match=r"the files have changed since\. Make them by: desp data celeba"):
        load_celeba(folder)
    prepare(folder, told)
    assert set(told) == {"decoding", "training"}


@pytest.mark.parametrize("name", ["features.json", "training.npy", "test.npy"])
def test_damaged_features_are_made_anew(folder: Path, told: list[str], name: str) -> None:
    prepare(folder, told)
    (folder / "desp-cache-32" / "features" / name).write_bytes(b"{}")
    with pytest.raises(DataError, match="not there yet"):
        load_celeba(folder)
    prepare(folder, told)
    assert told


def test_another_version_is_made_anew(folder: Path, told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(folder, told)
    monkeypatch.setattr("desp.data.celeba_features.VERSION", -1)
    prepare(folder, told)
    assert told


@pytest.mark.parametrize("word", ["decoding", "training"])
def test_an_interruption_changes_nothing(folder: Path, told: list[str], tmp_path: Path, word: str) -> None:
    expected = prepare(write_tiny_celeba(tmp_path / "other", 40), told)

    def stop(what: str, done: int, _: int) -> None:
        if what == word and done in (0, 5):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare_celeba(folder, QUICK, "cpu", stop)
    data = prepare(folder, told)
    assert told.count("training") == (6 if word == "decoding" else 3)
    assert data.checksum == expected.checksum
    assert torch.equal(data.training.features, expected.training.features)


def test_the_facts_are_recorded(folder: Path, told: list[str]) -> None:
    (folder / "img_align_celeba" / "000003.jpg").write_bytes(b"broken")
    data = prepare(folder, told)
    facts = json.loads((folder / "desp-cache-32" / "features" / "features.json").read_text())
    assert facts["data"] == read_faces(folder).files.fingerprint
    assert facts["settings"]["batch_size"] == 8
    assert (facts["found"], facts["split"]) == (40, "70/10/20")
    assert sum(len(names) for names in facts["names"].values()) == 39
    assert facts["scores"] == data.scores
    assert data.skips.counts == {"the image is broken": 1}


def test_the_whole_of_celeba_has_its_name(folder: Path, told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("desp.data.celeba.ALL", 40)
    assert prepare(folder, told).data_label == "CelebA"


# -- folds and views -------------------------------------------------------------------------------------


def test_folds_are_of_almost_equal_sizes() -> None:
    folds = fold_of_faces(11, FeatureSettings(folds=3, features="logits"))
    assert sorted(folds.bincount().tolist()) == [3, 4, 4]
    assert fold_of_faces(5, FeatureSettings()).tolist() == [0] * 5


def test_no_classifier_sees_the_faces_of_its_fold(
    folder: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(QUICK, folds=2, features="logits")
    seen: list[set[int]] = []
    real = celeba.train_classifier

    def noted(images: Tensor, attributes: Tensor, rows: Tensor, *others: Any) -> Any:
        seen.append(set(rows.tolist()))
        return real(images, attributes, rows, *others)

    monkeypatch.setattr(celeba, "train_classifier", noted)
    data = prepare(folder, told, settings)
    assert data.training.features.shape == (28, 13)
    assert set(told) == {"decoding", "training 1/2", "training 2/2"}
    faces, folds = read_faces(folder), fold_of_faces(40, settings)
    training = set(faces.rows("training").tolist())
    for fold, rows in enumerate(seen):
        assert rows == {row for row in training if folds[row] != fold}
    assert (data.training.features.abs().sum(dim=1) > 0).all()


def test_views_of_training_faces(folder: Path, told: list[str], generator: torch.Generator) -> None:
    plain = prepare(folder, told)
    data = prepare(folder, told, replace(QUICK, views=3))
    features = data.training.features
    assert (features.shape, len(data.training)) == ((3, 28, 8), 28)
    assert torch.equal(features[0], plain.training.features)
    assert torch.equal(data.test.features, plain.test.features)
    assert not torch.allclose(features[1], features[2])
    items = torch.randint(28, (50, 5), generator=generator)
    drawn = data.training.features_of(items, generator)
    among = (drawn.unsqueeze(0) == features[:, items]).all(dim=-1)
    assert among.any(dim=0).all()
    assert among.any(dim=(1, 2)).all()
    assert torch.equal(data.test.features_of(items % 8, generator), data.test.features[items % 8])


# -- what can go wrong -----------------------------------------------------------------------------------


def test_features_that_were_not_made(folder: Path) -> None:
    with pytest.raises(DataError, match=rf"Features of the faces in .* desp data celeba --data-dir {folder}$"):
        load_celeba(folder)


def test_too_few_faces_are_noticed_before_training(
    folder: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("desp.data.subsets.PAIR_THRESHOLD", 10)
    with pytest.raises(
        DataError, match=r"too few faces for validation\. Sets are drawn for pairs .* Use more items"
    ):
        prepare(folder, told)
    assert set(told) == {"decoding"}


def test_a_full_disk_leaves_the_features_that_are_there(
    folder: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = prepare(folder, told).training.features

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("desp.data.celeba_features.fill_array", full)
    with pytest.raises(StorageError, match=r"training\.npy could not be written: No space left"):
        prepare(folder, told, replace(QUICK, seed=1))
    assert torch.equal(load_celeba(folder).training.features, before)
