"""``desp data pedestrians``"""

from dataclasses import dataclass
from pathlib import Path

from desp.cli.common import bar


@dataclass(frozen=True)
class PedestriansArguments:
    """Fetch and check recordings of pedestrians: ETH and UCY.

    Files that are missing are downloaded, and all are compared with their checksums.
    """

    data_dir: Path | None = None
    """Folder of the data, which are in it, or in pedestrians below it; DESP_DATA if not given, else
    ~/.local/share/desp."""
    download: bool = True
    """Fetch files that are missing."""


def check_pedestrians(options: PedestriansArguments) -> None:
    """Fetch what is missing, check all, and tell what there is."""
    from desp.data.pedestrian_files import SCENES, fetch_recordings, pedestrian_folder
    from desp.data.pedestrians import load_pedestrians

    if options.download:
        with bar() as tell:
            fetch_recordings(options.data_dir, tell)
    sets = {scene: load_pedestrians(scene, options.data_dir) for scene in SCENES}
    print(f"{pedestrian_folder(options.data_dir)}: all recordings are there, and their checksums are right")
    for scene, data in sets.items():
        people = int(data.test.sets.sizes.max())
        print(
            f"{scene}: {len(data.test.x)} windows of up to {people} people; of the other recordings "
            f"{len(data.training)} for training, {len(data.validation.x)} for validation"
        )
