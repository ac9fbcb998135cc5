"""CelebA: faces, of which sets with outliers are drawn (paper, section 5.5)."""

import hashlib
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from desp.data.celeba_faces import ALL, CelebaFaces, celeba_roots
from desp.data.celeba_features import load_features
from desp.data.celeba_files import celeba_files
from desp.data.celeba_lists import PARTS, USED, Part, read_attributes
from desp.data.skips import Skips
from desp.data.subsets import ItemPool
from desp.errors import DataError

WHOLE = "CelebA"
"""Data label of all faces; the label of fewer faces adds their number."""


@dataclass(frozen=True)
class CelebaData:
    """Faces as items with features and the attributes `USED`.

    Attributes:
        training: faces to train on; their features may have several views.
        validation: faces to choose by.
        test: faces to score.
        data_label: "CelebA", or for a subset "CelebA, 10,000 faces".
        checksum: of the files and the features.
        image_folder: where the images are.
        names: of the image files, by part, in the order of the items.
        split: "official" or "70/10/20".
        feature_settings: what the features were made with.
        logits: (M, A) by part, of the attributes, by the classifier whose features these are.
        scores: of this classifier.
        skips: what was left out.
    """

    training: ItemPool
    validation: ItemPool
    test: ItemPool
    data_label: str
    checksum: str
    image_folder: Path
    names: dict[Part, tuple[str, ...]]
    split: str
    feature_settings: dict[str, Any]
    logits: dict[Part, Tensor]
    scores: dict[str, float | None]
    skips: Skips

    def image_path(self, part: Part, item: int) -> Path:
        """The image file of an item."""
        return self.image_folder / self.names[part][item]


def load_celeba(data_dir: str | Path | None = None) -> CelebaData:
    """Read the features and attributes of all faces.

    Args:
        data_dir: where; see `celeba_folder`.

    Raises:
        DataError: files are missing or wrong, there are too few faces, or their features were not made yet.
    """
    files = celeba_files(data_dir)
    features = load_features(celeba_roots(files.folder), files.fingerprint)
    if features is None:
        raise DataError(
            f"Features of the faces in {files.folder} are not there yet, or the files have changed since. Make "
            f"them by: {prepare_command(data_dir)}"
        )
    facts, attributes = features.facts, read_attributes(files.attribute_file)
    names: dict[Part, tuple[str, ...]] = {part: tuple(facts.names[part]) for part in PARTS}
    columns = attributes.columns(USED)

    def pool(part: Part) -> ItemPool:
        used = attributes.of(names[part], files.attribute_file)[:, columns]
        return _pool(part, features.parts[part].float(), used)

    return CelebaData(
        training=pool("training"),
        validation=pool("validation"),
        test=pool("test"),
        data_label=WHOLE if facts.found == ALL else f"{WHOLE}, {facts.found:,} faces",
        checksum=hashlib.blake2b(f"{facts.data};{facts.digest}".encode(), digest_size=16).hexdigest(),
        image_folder=files.image_folder,
        names=names,
        split=facts.split,
        feature_settings=facts.settings,
        logits={part: features.logits[part].float() for part in PARTS},
        scores=facts.scores,
        skips=Skips(**facts.skips),
    )


def prepare_command(data_dir: str | Path | None) -> str:
    """The command that makes features."""
    return "desp data celeba" + (f" --data-dir {shlex.quote(str(data_dir))}" if data_dir else "")


def check_pools(faces: CelebaFaces) -> None:
    """Check that sets can be drawn from every part, before features take their time.

    Raises:
        DataError: there are too few faces.
    """
    columns = [faces.attribute_names.index(name) for name in USED]
    for part in PARTS:
        attributes = faces.attributes[faces.rows(part)][:, columns]
        _pool(part, torch.zeros(len(attributes), 1), attributes)


def _pool(part: Part, features: Float[Tensor, "*v m h"], attributes: Bool[Tensor, "m a"]) -> ItemPool:
    try:
        return ItemPool.of(features, attributes, USED)
    except DataError as error:
        raise DataError(f"CelebA has too few faces for {part}. {error}") from error
