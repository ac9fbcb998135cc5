"""Features of CelebA's faces on disk: what a trained classifier computes of each face, and how it was made.

A folder holds an array for each part and ``features.json``, which is written last and removed first: without it
there are no features.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from desp.data.celeba_lists import PARTS, Part
from desp.data.image_cache import fill_array, map_array
from desp.storage import json_bytes, with_content, write_together

FOLDER, FACTS, LOGITS = "features", "features.json", "{}-logits"
VERSION = 2
"""Version of how features are made and saved; raise it when that changes."""


@dataclass(frozen=True)
class FeatureFacts:
    """How features were made, and from what.

    Attributes:
        data: fingerprint of CelebA's files.
        settings: settings of the features.
        found: number of images in the folder.
        split: which split, see `CelebaFaces`.
        names: of the image files, by part.
        scores: of the classifier: accuracy and mean AUC over the used attributes, on validation and test faces.
        skips: images that were left out, by reason.
        digest: checksum of the features.
    """

    data: str
    settings: dict[str, Any]
    found: int
    split: str
    names: dict[str, list[str]]
    scores: dict[str, float | None]
    skips: dict[str, Any]
    digest: str = ""


@dataclass(frozen=True)
class FaceFeatures:
    """Features of all faces, by part, as memory maps of 16-bit numbers.

    Attributes:
        parts: (M, H) each, or (V, M, H) where there are V views of each face.
        logits: (M, A) each, of the used attributes, for faces without augmentation.
        facts: how they were made.
    """

    parts: dict[Part, Tensor]
    logits: dict[Part, Tensor]
    facts: FeatureFacts


def save_features(root: Path, features: FaceFeatures) -> None:
    """Write features into a folder of `root`, in place of those that are there."""
    folder, files = root / FOLDER, {}
    digest = hashlib.blake2b(digest_size=16)
    for part in PARTS:
        for tensors, name in ((features.parts, part), (features.logits, LOGITS.format(part))):
            array = tensors[part].to("cpu", torch.float16).contiguous().numpy()
            digest.update(array.data)
            files[folder / f"{name}.npy"] = partial(fill_array, array)
    known = {**asdict(features.facts), "digest": digest.hexdigest(), "version": VERSION}
    # New files are on the disk before old ones are replaced: a full disk leaves the old ones as they were.
    write_together({**files, folder / FACTS: with_content(json_bytes(known))}, [folder / FACTS])


def load_features(roots: Sequence[Path], data: str, settings: dict[str, Any] | None = None) -> FaceFeatures | None:
    """The features in one of several folders, the newest that fit; None if there are none.

    Args:
        roots: folders of caches.
        data: the fingerprint of CelebA's files that they must have.
        settings: the settings that they must have; None: any.
    """
    fitting: list[tuple[int, FaceFeatures]] = []
    for folder in (root / FOLDER for root in roots):
        found = _load(folder)
        if found and found.facts.data == data and settings in (None, found.facts.settings):
            fitting.append(((folder / FACTS).stat().st_mtime_ns, found))
    return max(fitting, key=lambda item: item[0])[1] if fitting else None


def _load(folder: Path) -> FaceFeatures | None:
    try:
        known = json.loads((folder / FACTS).read_bytes())
        if known.pop("version") != VERSION:
            return None
        facts = FeatureFacts(**known)
        parts: dict[Part, Tensor] = {part: map_array(folder / f"{part}.npy") for part in PARTS}
        logits: dict[Part, Tensor] = {part: map_array(folder / f"{LOGITS.format(part)}.npy") for part in PARTS}
        tensors = (parts, logits)
        whole = all(item[part].shape[-2] == len(facts.names[part]) for part in PARTS for item in tensors)
    except (OSError, EOFError, ValueError, KeyError, TypeError, IndexError):
        return None
    return FaceFeatures(parts, logits, facts) if whole else None
