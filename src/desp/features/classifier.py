"""A classifier of attributes, trained from scratch and resumed exactly; and the features that it computes."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import cos, pi
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor, nn

from desp.data.base import to_float
from desp.errors import TrainingError
from desp.features.augmentation import FaceAugmentation
from desp.features.settings import FeatureSettings
from desp.nn import resnet
from desp.randomness import make_generator, seeded_weights
from desp.training.checkpoints import Checkpoint, CheckpointStore, flatten_optimizer, restore_optimizer

CHECKPOINT_SECONDS = 20.0
"""A checkpoint is written after an epoch that ends at least this long after the last checkpoint."""
RISE = 0.3
"""Share of the steps in which the learning rate rises."""
FIRST = 1 / 25
"""The learning rate of the first step, as a fraction of the peak."""
AT_ONCE = 512
"""Images whose features are computed together."""


class AttributeClassifier(nn.Module):
    """ResNet-34, the average over positions, and a linear layer.

    Args:
        attributes: A, how many there are.
    """

    def __init__(self, attributes: int) -> None:
        super().__init__()
        self.trunk = resnet.ResNet34()
        self.read_out = nn.Linear(resnet.CHANNELS[-1], attributes)

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> tuple[Float[Tensor, "b c"], Float[Tensor, "b a"]]:
        """Pooled features and logits of images of intensities in [0, 1]."""
        pooled = self.trunk((images - 0.5) / 0.25).mean(dim=(2, 3))
        return pooled, self.read_out(pooled)


def one_cycle(step: int, steps: int, peak: float) -> float:
    """The learning rate of a step: up to its peak and down to zero, along half a cosine each (Smith 2018)."""
    rise = RISE * steps
    if step < rise:
        return peak * (FIRST + (1 - FIRST) * (1 - cos(pi * step / rise)) / 2)
    return peak * (1 + cos(pi * (step - rise) / (steps - rise))) / 2


def train_classifier(
    images: UInt8[Tensor, "m 3 side side"],
    attributes: Bool[Tensor, "m a"],
    rows: Int[Tensor, " k"],
    settings: FeatureSettings,
    fold: int,
    folder: Path,
    progress: Callable[[int, int], None] | None = None,
) -> AttributeClassifier:
    """Train a classifier; interrupted training is resumed from the last checkpoint, with the same result.

    All random numbers are a function of seed, fold and epoch.

    Args:
        images: on the device to train on.
        attributes: of all images, on the same device.
        rows: numbers of the images to train on.
        settings: of training.
        fold: all folds have the same initial weights and different batches.
        folder: of checkpoints, for these images, settings and fold alone.
        progress: called with the number of steps done, and of all.

    Returns:
        The classifier, ready to be evaluated.

    Raises:
        TrainingError: its weights became NaN or infinite.
        CheckpointError: the last checkpoint is damaged.
    """
    store = CheckpointStore(folder)
    store.sweep()
    with seeded_weights(settings.seed, "celeba weights"):
        model = AttributeClassifier(attributes.shape[1])
    model.to(images.device)
    optimizer = torch.optim.SGD(
        model.parameters(),
        settings.learning_rate,
        settings.momentum,
        weight_decay=settings.weight_decay,
        nesterov=settings.momentum > 0,
    )
    first, saved = _restore(store, model, optimizer), time.monotonic()
    with _deterministic():
        for epoch in range(first, settings.epochs):
            _train_epoch(model, optimizer, (images, attributes, rows), settings, fold, epoch, progress)
            _check_weights(model, epoch)
            if epoch + 1 == settings.epochs or time.monotonic() - saved >= CHECKPOINT_SECONDS:
                _save(store, epoch + 1, model, optimizer)
                saved = time.monotonic()
    return model.eval()


@contextmanager
def _deterministic() -> Iterator[None]:
    """Deterministic algorithms for convolutions; other operations have only one algorithm."""
    flags = torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=True)
    with flags:  # type: ignore[no-untyped-call,unused-ignore]
        yield


def _train_epoch(
    model: AttributeClassifier,
    optimizer: torch.optim.Optimizer,
    data: tuple[Tensor, Tensor, Tensor],
    settings: FeatureSettings,
    fold: int,
    epoch: int,
    progress: Callable[[int, int], None] | None,
) -> None:
    images, attributes, rows = data
    device, change = images.device, FaceAugmentation()
    batch = min(settings.batch_size, len(rows))
    count = len(rows) // batch
    drawn = torch.randperm(len(rows), generator=make_generator(settings.seed, "celeba order", fold, epoch))
    order = rows[drawn].to(device)
    generator = make_generator(settings.seed, "celeba augmentation", fold, epoch, device=device)
    model.train()
    for number in range(count):
        step, steps = epoch * count + number, settings.epochs * count
        for group in optimizer.param_groups:
            group["lr"] = one_cycle(step, steps, settings.learning_rate)
        chosen = order[number * batch : (number + 1) * batch]
        x = change(to_float(images[chosen], torch.float32), generator)
        targets = attributes[chosen].float().clamp(settings.label_smoothing, 1 - settings.label_smoothing)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            _, logits = model(x)
        loss = F.binary_cross_entropy_with_logits(logits.float(), targets)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call,unused-ignore]
        optimizer.step()
        if progress:
            progress(step + 1, steps)


def _check_weights(model: nn.Module, epoch: int) -> None:
    if not all(bool(torch.isfinite(value).all()) for value in model.parameters()):
        raise TrainingError(
            f"The classifier's weights became NaN or infinite in epoch {epoch + 1}. Lower the learning rate.",
            epoch + 1,
        )


def _save(store: CheckpointStore, epoch: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    groups = {"model": model.state_dict(), "optimizer": flatten_optimizer(optimizer)}
    tensors = {f"{group}/{name}": value for group, named in groups.items() for name, value in named.items()}
    store.save(epoch, Checkpoint(tensors, {"epoch": epoch}))


def _restore(store: CheckpointStore, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Restore the last checkpoint; returns the number of finished epochs."""
    checkpoint = store.latest()
    if checkpoint is None:
        return 0
    model.load_state_dict(checkpoint.group("model"))
    restore_optimizer(optimizer, checkpoint.group("optimizer"))
    return int(checkpoint.state["epoch"])


@torch.no_grad()
def compute_features(
    model: AttributeClassifier,
    images: UInt8[Tensor, "m 3 side side"],
    rows: Int[Tensor, " k"],
    generator: torch.Generator | None = None,
) -> tuple[Float[Tensor, "k c"], Float[Tensor, "k a"]]:
    """Pooled features and logits of images, each the mean of those of the image and its mirror image, on the CPU.

    Args:
        model: the classifier.
        images: on its device.
        rows: numbers of the wanted images.
        generator: None: images as they are; else they are augmented as in training.
    """
    found: list[tuple[Tensor, Tensor]] = []
    with _deterministic():
        for some in rows.split(AT_ONCE):
            x = to_float(images[some.to(images.device)], torch.float32)
            x = x if generator is None else FaceAugmentation()(x, generator)
            both = zip(model(x), model(x.flip(dims=(3,))), strict=True)
            pooled, logits = ((one + other).cpu() / 2 for one, other in both)
            found.append((pooled, logits))
    return torch.cat([pooled for pooled, _ in found]), torch.cat([logits for _, logits in found])
