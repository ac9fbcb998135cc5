"""Checkpoints: single safetensors files, written atomically, checked when read."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from desp.errors import CheckpointError
from desp.storage import give_second_name, remove, sweep, with_content, write_together

FORMAT = "1"
KEPT = 2

# Where safetensors 0.8 wrote what it then renamed; earlier versions of desp let it write checkpoints itself.
_LEFTOVERS = ".tmp" + 6 * "[0-9A-Za-z]"


@dataclass(frozen=True)
class Checkpoint:
    """Named tensors, and JSON values about them."""

    tensors: dict[str, Tensor]
    state: dict[str, Any]

    def group(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names start with ``prefix/``, without it."""
        start = f"{prefix}/"
        return {name[len(start) :]: value for name, value in self.tensors.items() if name.startswith(start)}


def fill_checkpoint(checkpoint: Checkpoint, path: Path) -> None:
    """Write a checkpoint to a file that nobody reads yet; see `desp.storage.write_together`."""
    # Copies, as the format has no room for tensors that share memory (tied weights, for example).
    tensors = {
        name: value.detach().to("cpu", copy=True).contiguous() for name, value in checkpoint.tensors.items()
    }
    state = json.dumps(checkpoint.state)
    metadata = {
        "format": FORMAT,
        "state": state,
        "digest": _digest(tensors),
        "header_digest": _header_digest(tensors, state),
    }
    # Not safetensors' `save_file`: it renames a file of its own onto the path, which is locked then no longer, and
    # leaves one that nobody knows of if it is killed.
    with_content(save(tensors, metadata))(path)


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint.

    Raises:
        CheckpointError: missing, cut short, changed since it was written, or not one of ours.
    """
    if not path.is_file():
        raise CheckpointError(f"There is no checkpoint at {path}.")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
        state = json.loads(metadata["state"])
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged or not a checkpoint ({error}).") from error
    if metadata.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} has checkpoint format {metadata.get('format')}, this version reads {FORMAT}. "
            "Train again, or use the version that wrote it."
        )
    header = _header_digest(tensors, metadata["state"])
    if metadata.get("digest") != _digest(tensors) or metadata.get("header_digest") != header:
        raise CheckpointError(f"{path} was changed or damaged after it was written: its checksum does not fit.")
    return Checkpoint(tensors, state)


class CheckpointStore:
    """The checkpoints of one run: the newest few, the best, and what a roll-back returns to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._best_found = self.best_path

    def save(
        self,
        step: int,
        checkpoint: Checkpoint,
        best: Checkpoint | None = None,
        target: Checkpoint | None = None,
        target_best: Checkpoint | None = None,
    ) -> None:
        """Write the checkpoint of `step`, and drop those that are no longer needed.

        Args:
            step: how many steps are done. Later ones on the disk were rolled back, and go.
            checkpoint: of it.
            best: a new best one, written with it.
            target: what a roll-back returns to, if that is an earlier checkpoint; it is kept, or written.
            target_best: the best one then, if it is another than now.

        Raises:
            StorageError: they cannot be written; those before are still there.
        """
        files = {} if best is None else {self.best_path: best}
        kept = None if target is None else self.path(target.state["step"])
        if target is not None and kept is not None and not kept.exists():
            files[kept] = target
        if target_best is not None:
            files[self.target_best_path] = target_best
        files[self.path(step)] = checkpoint
        outdated = [path for path in self.paths() if path > self.path(step)]
        if best is not None and self.best_is_in_place and self.best_path.exists():
            give_second_name(self.best_path, self.replaced_best_path)
        # Together, so that nothing changes if the disk is full. After a crash between the names the newest
        # checkpoint speaks of an earlier best one, which is still there under another name.
        write_together({path: partial(fill_checkpoint, item) for path, item in files.items()}, outdated)
        if best is not None:
            self._best_found = self.best_path
        if self.best_is_in_place:
            remove(self.replaced_best_path)
        if target_best is None and self.best_is_in_place:
            remove(self.target_best_path)
        for old in self.paths()[:-KEPT]:
            if old != kept:
                remove(old)

    def sweep(self) -> None:
        """Remove what a killed process left half-written. Nobody else may be writing here."""
        sweep(self.folder, _LEFTOVERS)

    @property
    def best_path(self) -> Path:
        """Where the checkpoint with the best validation score so far is, if there is one."""
        return self.folder / "best.safetensors"

    @property
    def target_best_path(self) -> Path:
        """Where the best checkpoint is to which a roll-back returns, if that is an earlier one."""
        return self.folder / "best-before.safetensors"

    def path(self, step: int) -> Path:
        """Where the checkpoint of `step` is, if there is one."""
        return self.folder / f"step-{step:08d}.safetensors"

    @property
    def replaced_best_path(self) -> Path:
        """Where the former best checkpoint stays until all new files have their names."""
        return self.folder / "best-replaced.safetensors"

    @property
    def best_is_in_place(self) -> bool:
        """Whether the best checkpoint was found under its own name; else a crash came in between names."""
        return self._best_found == self.best_path

    def load_best(self, step: int, score: float | None) -> Checkpoint | None:
        """The checkpoint with the best validation score so far; None: others are in its place.

        Args:
            step: its step.
            score: its score. After a roll-back another checkpoint of the same step may be there.

        Raises:
            CheckpointError: it is missing or damaged.
        """
        damage: CheckpointError | None = None
        self._best_found = self.best_path
        for path in (self.best_path, self.target_best_path, self.replaced_best_path):
            try:
                found = load_checkpoint(path)
            except CheckpointError as error:
                damage = damage or (error if path == self.best_path else None)
                continue
            if found.state.get("step") == step and found.state.get("score", score) == score:
                self._best_found = path
                return found
        if damage is not None:
            raise CheckpointError(
                f"{damage} The best weights so far are nowhere else: restore it, or train in another folder."
            ) from damage
        return None

    def paths(self) -> list[Path]:
        """The checkpoints of this run, oldest first."""
        return sorted(
            path for path in self.folder.glob("step-*") if re.fullmatch(r"step-\d+\.safetensors", path.name)
        )

    def latest(self) -> Checkpoint | None:
        """The newest checkpoint, or None if nothing was saved yet.

        Raises:
            CheckpointError: the newest one is damaged; the message says what is left.
        """
        paths = self.paths()
        if not paths:
            return None
        try:
            return load_checkpoint(paths[-1])
        except CheckpointError as error:
            left = f"the one before it, {paths[-2].name}, is used" if paths[1:] else "training begins anew"
            raise CheckpointError(f"{error} If it cannot be restored, delete it: {left} then.") from error


def flatten_optimizer(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's state as named tensors; its settings follow from the run's."""
    state = optimizer.state_dict()["state"]
    return {
        f"{index}/{name}": torch.as_tensor(value)
        for index, values in state.items()
        for name, value in values.items()
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put back what `flatten_optimizer` gave, in the memory layout of the parameters."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        index, name = key.split("/")
        # A copy: the optimiser works in place on what it is given, and `tensors` may be needed once more.
        state.setdefault(int(index), {})[name] = _laid_out_like(parameters[int(index)], value)
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _laid_out_like(parameter: Tensor, value: Tensor) -> Tensor:
    """A copy of `value`; fused Adam wants moments with the strides of their parameter, which files do not keep."""
    if value.shape != parameter.shape:
        return value.clone()
    return torch.empty_like(parameter, dtype=value.dtype, device=value.device).copy_(value)


def _digest(tensors: Mapping[str, Tensor]) -> str:
    total = hashlib.blake2b(digest_size=16)
    for name in sorted(tensors):
        total.update(name.encode())
        total.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


def _header_digest(tensors: Mapping[str, Tensor], state: str) -> str:
    layout = [(name, str(tensors[name].dtype), list(tensors[name].shape)) for name in sorted(tensors)]
    return hashlib.blake2b(json.dumps([layout, state]).encode(), digest_size=16).hexdigest()
