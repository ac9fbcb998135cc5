"""Windows of pedestrians, in which one scene is left out of training and tested on."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from desp.data.base import Batch
from desp.data.pedestrian_elements import as_batch
from desp.data.pedestrian_files import (
    CHECKSUMS,
    SCENES,
    Rows,
    check_recordings,
    pedestrian_folder,
    read_recording,
)
from desp.data.pedestrian_windows import Windows, augmented, some_people, split_in_time, windows_of
from desp.data.simulated_walkers import LAYOUTS, simulated_recording
from desp.sets import SetBatch
from desp.settings import PedestrianScene

VALIDATION_SHARE = 0.15
"""Of the frames of each training recording: its last ones."""


@dataclass(frozen=True)
class PedestrianData:
    """Windows of people; validation and test windows as aligned inputs and sets.

    Attributes:
        training: windows of all recordings but those of the scenes that are left out, without the last frames.
        validation: windows of these last frames, or of a second scene that is left out.
        test: windows of the scene that is left out.
        data_label: what the data are.
        checksum: of the recordings; None of simulated ones.
    """

    training: Windows
    validation: Batch
    test: Batch
    data_label: str
    checksum: str | None = None

    @property
    def max_size(self) -> int:
        """The largest number of people in a window."""
        return self.test.sets.max_size


def load_pedestrians(
    scene: PedestrianScene,
    data_dir: str | Path | None = None,
    validation_scene: PedestrianScene | None = None,
) -> PedestrianData:
    """The recordings of ETH and UCY, split for a scene.

    Args:
        scene: is left out, for the test.
        data_dir: folder of the recordings.
        validation_scene: is left out as well, for validation.

    Raises:
        DataError: recordings are missing, or are not the published ones.
    """
    folder = pedestrian_folder(data_dir)
    checksum = check_recordings(folder)
    recordings = {name: read_recording(folder / name) for name in CHECKSUMS}
    second = SCENES[validation_scene] if validation_scene else ()
    return _split(recordings, SCENES[scene], second, "ETH/UCY", checksum)


def simulated_pedestrians(
    scene: PedestrianScene, validation_scene: PedestrianScene | None = None
) -> PedestrianData:
    """Simulated walkers in five layouts, split in the same way."""
    recordings: dict[str, Rows] = {name: simulated_recording(name) for name in LAYOUTS}
    second = (validation_scene,) if validation_scene else ()
    return _split(recordings, (scene,), second, "simulated walkers")


def _split(
    recordings: dict[str, Rows],
    tested: tuple[str, ...],
    validated: tuple[str, ...],
    label: str,
    checksum: str | None = None,
) -> PedestrianData:
    training, validation, test = list[torch.Tensor](), list[torch.Tensor](), list[torch.Tensor]()
    for name, rows in recordings.items():
        if name in tested:
            test += windows_of(rows)
        elif name in validated:
            validation += windows_of(rows)
        else:
            first, last = split_in_time(rows, VALIDATION_SHARE)
            training += windows_of(first)
            validation += [] if validated else windows_of(last)
    size = max(map(len, training + validation + test))
    seen, validated_on, tested_on = (Windows.of(part, size) for part in (training, validation, test))
    return PedestrianData(seen, as_batch(validated_on), as_batch(tested_on), label, checksum)


def some_of(batch: Batch, count: int | None) -> Batch:
    """`count` windows, evenly spaced in time, as neighbours are nearly the same; all if there are not more."""
    if count is None or len(batch.x) <= count:
        return batch
    places = torch.linspace(0, len(batch.x) - 1, count).long()
    return Batch(batch.x[places], SetBatch(batch.sets.elements[places], batch.sets.mask[places]))


@dataclass(frozen=True)
class WindowTable:
    """Windows to draw training batches from, on one device, changed at random.

    Attributes:
        windows: of the training recordings.
        largest_scale: see `augmented`.
        largest_noise: see `augmented`.
        people: at most so many people of a window, chosen at random; None: all of them.
    """

    windows: Windows
    largest_scale: float = 1.0
    largest_noise: float = 0.0
    people: int | None = None

    def to(self, device: torch.device | str) -> "WindowTable":
        """Move all tensors to `device`."""
        return replace(self, windows=Windows(self.windows.paths.to(device), self.windows.mask.to(device)))

    def draw(self, batch_size: int, generator: torch.Generator) -> Batch:
        """Draw windows with replacement; no shape depends on what is drawn, so a CUDA graph can capture it."""
        paths, mask = self.windows.paths, self.windows.mask
        chosen = torch.randint(len(mask), (batch_size,), generator=generator, device=mask.device)
        some = Windows(paths.index_select(0, chosen), mask.index_select(0, chosen))
        if self.people is not None:
            some = some_people(some, self.people, generator)
        return as_batch(augmented(some, generator, self.largest_scale, self.largest_noise))
