"""Features of CelebA's faces: decode images, train a classifier, save its features of each face."""

import hashlib
import json
import shutil
from dataclasses import asdict
from functools import partial
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from desp.data.celeba import check_pools
from desp.data.celeba_faces import CelebaFaces, celeba_roots, read_faces
from desp.data.celeba_features import VERSION, FaceFeatures, FeatureFacts, load_features, save_features
from desp.data.celeba_lists import PARTS, USED, Part
from desp.data.image_cache import Progress, writable
from desp.errors import DataError
from desp.features.classifier import AttributeClassifier, compute_features, train_classifier
from desp.features.settings import FeatureSettings
from desp.locks import exclusive
from desp.metrics.auc import roc_auc
from desp.randomness import make_generator
from desp.settings import Device
from desp.training.device import default_device

CHECKPOINTS = "classifier"


def prepare_celeba(
    data_dir: str | Path | None = None,
    settings: FeatureSettings | None = None,
    device: Device = "auto",
    progress: Progress | None = None,
) -> FeatureFacts:
    """Make the features that `load_celeba` reads, unless they are there; an interrupted call is resumed.

    Features of other files, or made with other settings, are replaced.

    Args:
        data_dir: where; see `celeba_folder`.
        settings: of the features.
        device: where the classifier is trained.
        progress: called with a word for the work, how much is done, and how much there is in all.

    Returns:
        How the features were made.

    Raises:
        DataError: files are missing or wrong, or there are too few faces.
        TrainingError: the classifier diverged.
    """
    settings, where = settings or FeatureSettings(), default_device(device)
    faces = read_faces(data_dir, progress)
    check_pools(faces)
    roots = celeba_roots(faces.files.folder)
    wanted = faces.files.fingerprint, asdict(settings)
    if found := load_features(roots, *wanted):
        return found.facts
    root = writable(roots)
    with exclusive(root / "features.lock"):
        found = load_features(roots, *wanted)  # where another process has made them in the meantime
        if found is None:
            features, logits = _make(faces, settings, where, root / CHECKPOINTS, progress)
            save_features(root, _with_facts(faces, settings, features, logits))
            shutil.rmtree(root / CHECKPOINTS, ignore_errors=True)
    found = found or load_features([root], *wanted)
    if found is None:
        raise DataError(f"{root} was written, but cannot be read again. Check the disk, then delete it.")
    return found.facts


def _with_facts(
    faces: CelebaFaces, settings: FeatureSettings, features: dict[Part, Tensor], logits: Float[Tensor, "m a"]
) -> FaceFeatures:
    """Features by part, with the logits of the used attributes and how they were made."""
    columns = [faces.attribute_names.index(name) for name in USED]
    used = logits[:, columns]
    facts = FeatureFacts(
        data=faces.files.fingerprint,
        settings=asdict(settings),
        found=len(faces.files.images),
        split=faces.split,
        names={part: list(faces.names_of(part)) for part in PARTS},
        scores=_scores(faces, used, faces.attributes[:, columns]),
        skips=asdict(faces.skips),
    )
    return FaceFeatures(features, {part: used[faces.rows(part)] for part in PARTS}, facts)


def fold_of_faces(count: int, settings: FeatureSettings) -> Int[Tensor, " m"]:
    """The fold of each face; folds have almost equal sizes. Faces that no classifier is trained on have folds too.

    So sets of faces mix the same classifiers in training and in test.
    """
    order = torch.randperm(count, generator=make_generator(settings.seed, "celeba folds"))
    return torch.empty_like(order).scatter_(0, order, torch.arange(count) % settings.folds)


def _make(
    faces: CelebaFaces,
    settings: FeatureSettings,
    device: torch.device,
    folder: Path,
    progress: Progress | None,
) -> tuple[dict[Part, Tensor], Float[Tensor, "m a"]]:
    """Train a classifier for each fold; features by part, (M, H) or (V, M, H), and logits of all attributes."""
    images, attributes = faces.images.to(device), faces.attributes.to(device)
    folds, training = fold_of_faces(len(faces.names), settings), faces.rows("training")
    views: list[Tensor] = []
    logits = torch.zeros(faces.attributes.shape)
    for fold in range(settings.folds):
        others = training if settings.folds == 1 else training[folds[training] != fold]
        key = f"{_key(faces, settings)}-{fold}"
        word = f"training {fold + 1}/{settings.folds}" if settings.folds > 1 else "training"
        tell = partial(progress, word) if progress else None
        model = train_classifier(images, attributes, others, settings, fold, folder / key, tell)
        for view in range(settings.views):
            seen = folds == fold if view == 0 else (folds == fold) & (faces.parts == PARTS.index("training"))
            mine = torch.nonzero(seen).flatten()
            found = _view(model, images, mine, settings, view)
            if len(views) == view:
                views.append(torch.zeros(len(folds), found[settings.features].shape[1], dtype=torch.float16))
            views[view][mine] = found[settings.features].half()
            if view == 0:
                logits[mine] = found["logits"]
    features: dict[Part, Tensor] = {part: views[0][faces.rows(part)] for part in PARTS}
    if settings.views > 1:
        features["training"] = torch.stack([view[training] for view in views])
    return features, logits


def _view(
    model: AttributeClassifier, images: Tensor, rows: Int[Tensor, " k"], settings: FeatureSettings, view: int
) -> dict[str, Tensor]:
    """Both kinds of features; the first view is of faces as they are, other views are of augmented faces."""
    generator = make_generator(settings.seed, "celeba views", view, device=images.device) if view else None
    pooled, logits = compute_features(model, images, rows, generator)
    return {"pooled": pooled, "logits": logits}


def _key(faces: CelebaFaces, settings: FeatureSettings) -> str:
    text = json.dumps([VERSION, faces.files.fingerprint, asdict(settings)])
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _scores(
    faces: CelebaFaces, logits: Float[Tensor, "m a"], attributes: Bool[Tensor, "m a"]
) -> dict[str, float | None]:
    """Accuracy and mean AUC over the used attributes; None where no attribute has faces with and without it."""
    scores: dict[str, float | None] = {}
    for part in ("validation", "test"):
        rows = faces.rows(part)
        guess, truth = logits[rows], attributes[rows]
        scores[f"{part}_accuracy"] = float(((guess > 0) == truth).double().mean())
        areas = roc_auc(guess, truth)
        known = areas[~areas.isnan()]
        scores[f"{part}_auc"] = float(known.mean()) if len(known) else None
    return scores
