"""Settings of tasks: data and scores."""

import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import ClassVar, Literal, Self

from desp.settings.base import Variant, require_not_negative, require_setting
from desp.settings.data import DataDescription

MnistDataset = Literal["mnist", "fashion"]
ClevrSource = Literal["files", "generated"]
ClevrTarget = Literal["boxes", "state", "objects"]
CelebaSource = Literal["files", "simulated"]
PedestrianSource = Literal["files", "simulated"]
PedestrianScene = Literal["eth", "hotel", "univ", "zara1", "zara2"]


@dataclass(frozen=True)
class TaskSettings(Variant):
    """Where data come from and how predictions are scored."""

    location_field: ClassVar[str | None] = None
    """The setting that says where the data are, which differs between machines; None where they are generated."""
    location_flag: ClassVar[str | None] = None
    """The command's flag for it."""
    resumed_by: ClassVar[str | None] = None
    """How a run is resumed that no command can resume, in words that follow its folder."""
    own_data: ClassVar[bool] = False
    """Whether the data are the user's own: then the recipe fixes no setting of the task (`with_data_of` takes them
    all from the run), and there are no published numbers to compare with."""

    @property
    def training_examples(self) -> int | None:
        """How many examples make an epoch; None where there are ever new ones, or only the files tell."""
        return None

    @property
    def location(self) -> str | None:
        """Where the data are; None where they are generated."""
        return None if self.location_field is None else str(getattr(self, self.location_field))

    def with_location(self, location: str | None) -> Self:
        """The same task with its data elsewhere."""
        return self if self.location_field is None else replace(self, **{self.location_field: location or ""})

    @property
    def data_name(self) -> str:
        """Which data they are, among those a recipe could use; part of a result's name if not the recipe's own."""
        return ""

    def in_run_folder(self, folder: Path) -> Self:
        """The same task for a run in a folder, where its data lie in that."""
        del folder
        return self

    def on_synthetic_data(self) -> Self | None:
        """The same task on generated data; None where there is no choice."""
        return None

    def with_data_of(self, other: Self) -> Self:
        """The same task on the data of `other`. Other data do not count as a changed setting, as `data_name` is
        part of a result's name."""
        return other if self.own_data else self.with_location(other.location)

    def fetch_command(self, location: str) -> str | None:
        """The command that fetches the data into a folder; None if they cannot be fetched."""
        del location
        return None


@TaskSettings.register("polygons", "desp.tasks.polygons:PolygonsTask")
@dataclass(frozen=True)
class PolygonsSettings(TaskSettings):
    """Regular polygons at random rotations; the input is the number of corners."""

    corners: tuple[int, ...] = (4, 5, 6, 7, 8)
    """The numbers of corners to learn."""

    def __post_init__(self) -> None:
        wanted = "distinct whole numbers, each at least 3"
        valid = len(set(self.corners)) == len(self.corners) > 0 and min(self.corners) >= 3
        require_setting(valid, "corners", wanted, self.corners)


@TaskSettings.register("digits", "desp.tasks.digits:DigitsTask")
@dataclass(frozen=True)
class DigitsSettings(TaskSettings):
    """Point clouds of a one or a seven, each in two styles; the input is the class, 0: one, 1: seven."""


@TaskSettings.register("files", "desp.tasks.files:FilesTask")
@dataclass(frozen=True)
class FilesSettings(TaskSettings):
    """A user's own data."""

    location_field: ClassVar[str | None] = "path"
    location_flag: ClassVar[str | None] = "--data"
    own_data: ClassVar[bool] = True
    path: str = ""
    """JSON lines, Parquet or Arrow with `input` and `set`; an npz file; or a folder: of npy files, of `inputs` and
    `sets` as CSV, Parquet or Arrow, or as Hugging Face's datasets saves it."""
    description: DataDescription = field(default_factory=DataDescription)
    """What inputs and features are."""
    held_out: float = 0.1
    """Fraction of examples held out for the test set; as many again, but at most 200 and at most a fifth of the
    rest, for validation."""
    split: Literal["inputs", "examples"] = "inputs"
    """How examples are held out. inputs: examples of equal inputs together, so that held-out inputs are never
    trained on (unless all inputs are equal: then one by one). examples: one by one; for inputs that are a few
    labels."""
    image_size: int = 0
    """Resize images that are named in a file to this width and height (stretched; the aspect ratio is not kept);
    boxes must then be normalised by width and height of the image. 0: all images must have one size."""
    set_column: str = "set"
    """The column or field that holds the set of a row."""
    id_column: str = "id"
    """The column that says which input a row belongs to, where elements and inputs have a table each."""

    @property
    def data_name(self) -> str:
        """The name of the file, without its ending."""
        return PurePath(self.path).stem

    def __post_init__(self) -> None:
        require_setting(0 < self.held_out < 1, "held_out", "between 0 and 1", self.held_out)
        require_not_negative(self, "image_size")
        for name in ("set_column", "id_column"):
            require_setting(bool(getattr(self, name)), name, "the name of a column", getattr(self, name))
        different = self.set_column != self.id_column
        require_setting(different, "id_column", "another column than set_column", self.id_column)


@TaskSettings.register("given", "desp.tasks.given:InMemoryTask")
@dataclass(frozen=True)
class InMemorySettings(TaskSettings):
    """Data that a program gave to `SetPredictor.fit`."""

    resumed_by: ClassVar[str | None] = (
        "was fitted by a program, which has the training data. Resume it there: fit(..., folder=..., resume=True)."
    )
    own_data: ClassVar[bool] = True
    held_out: bool = False
    """Whether the examples that are kept were not trained on, so that predictions can be scored on them."""
    path: str = ""
    """Folder of examples that are kept: `examples` in the run folder."""

    @property
    def data_name(self) -> str:
        """Data in memory have no name."""
        return "given"

    def in_run_folder(self, folder: Path) -> Self:
        """Examples lie in the run folder, wherever that is now."""
        return replace(self, path=str(folder / "examples"))


@TaskSettings.register("mnist", "desp.tasks.mnist:SetMnistTask")
@dataclass(frozen=True)
class MnistSettings(TaskSettings):
    """Handwritten digits, or pieces of clothing, as sets of points; the input is the set itself."""

    location_field: ClassVar[str | None] = "data_dir"
    location_flag: ClassVar[str | None] = "--data-dir"
    dataset: MnistDataset = "mnist"
    """MNIST, or Fashion-MNIST."""
    data_dir: str = ""
    """Folder with the data; DESP_DATA, or else the user's data folder, if empty."""
    translate_fraction: float = 0.0
    """Augmentation: fraction of the training sets that are translated by whole pixels to anywhere in the picture,
    so that points at its border, which are rare, are seen more often."""
    validation_distance: Literal["chamfer", "hungarian"] = "chamfer"
    """The distance by which validation chooses weights, and `desp tune` samplers."""

    def __post_init__(self) -> None:
        require_setting(
            0 <= self.translate_fraction <= 1, "translate_fraction", "between 0 and 1", self.translate_fraction
        )

    @property
    def training_examples(self) -> int:
        """95 % of the 60,000 that both datasets have."""
        return 57_000

    @property
    def data_name(self) -> str:
        """The dataset."""
        return self.dataset

    def with_data_of(self, other: Self) -> Self:
        """The same dataset, in the same folder."""
        return replace(self.with_location(other.location), dataset=other.dataset)

    def fetch_command(self, location: str) -> str:
        """`desp data` knows where the files come from."""
        return f"desp data {self.dataset} --data-dir {shlex.quote(location)}"


@dataclass(frozen=True)
class FilesOrSyntheticSettings(TaskSettings):
    """Data that are read from files, or made here."""

    location_field: ClassVar[str | None] = "data_dir"
    location_flag: ClassVar[str | None] = "--data-dir"
    synthetic_source: ClassVar[str] = "generated"
    """The source of data that are made here."""
    source: str = "files"
    data_dir: str = ""
    """Folder with the files; DESP_DATA, or else the user's data folder, if empty."""

    @property
    def location(self) -> str | None:
        """Where the files are; None where data are made here."""
        return None if self.source == self.synthetic_source else self.data_dir

    @property
    def data_name(self) -> str:
        """Data that are made here have their own results."""
        return self.synthetic_source if self.source == self.synthetic_source else ""

    def on_synthetic_data(self) -> Self | None:
        """The same task on data that are made here."""
        return replace(self, source=self.synthetic_source, data_dir="")

    def with_data_of(self, other: Self) -> Self:
        """Of the same source, in the same folder."""
        return replace(self, source=other.source, data_dir=other.data_dir)

    def with_location(self, location: str | None) -> Self:
        """The same task with its files elsewhere; data that are made here have none."""
        return self if self.source == self.synthetic_source else super().with_location(location)


@TaskSettings.register("clevr", "desp.tasks.clevr:ClevrTask")
@dataclass(frozen=True)
class ClevrSettings(FilesOrSyntheticSettings):
    """Images of up to ten objects; the set has the box of each, its state, or both."""

    source: ClevrSource = "files"
    """files: the official layout, CLEVR v1.0 or re-rendered. generated: scenes by the same rules, drawn and
    rendered here."""
    predict: ClevrTarget = "boxes"
    """boxes: left, top, right, bottom by the published formula, normalised by the image's width and height, 0 to
    1. state: x, y, z divided by 3, and one-hot material, colour, shape and size. objects: the box and the state of
    each, scored as states, for methods that look where a box is."""
    scenes: int = 20_000
    """Of generated scenes: how many are rendered before training and drawn from. 0: new ones for every batch,
    which take longer than a training step."""
    augment: bool = True
    """Flip and shift training images with their boxes, and change brightness, contrast and tint; for states
    and objects, the last three alone, and less."""

    def __post_init__(self) -> None:
        require_not_negative(self, "scenes")

    @property
    def training_examples(self) -> int | None:
        """Of generated scenes."""
        return self.scenes or None if self.source == self.synthetic_source else None


@TaskSettings.register("celeba", "desp.tasks.celeba:CelebaTask")
@dataclass(frozen=True)
class CelebaSettings(FilesOrSyntheticSettings):
    """Five items with features; the set has a label for each: 1 if it belongs to the others, -1 if not."""

    synthetic_source: ClassVar[str] = "simulated"
    source: CelebaSource = "files"
    """files: faces of CelebA, whose features `desp data celeba` makes. simulated: items with made-up features, and
    attributes about as frequent as in CelebA."""
    feature_noise: float = 0.0
    """Augmentation: standard deviation of noise on training features, in units of the standard deviation of each.
    Features of faces that their network was trained on are sharper than those of new ones."""
    simulated_noise: float = 0.7
    """Of simulated items: standard deviation of the noise on each of 48 features. An attribute moves the vector of
    features by a length of 2."""

    def __post_init__(self) -> None:
        require_not_negative(self, "feature_noise", "simulated_noise")

    @property
    def training_examples(self) -> int:
        """Sets are drawn anew; the released code calls 32,000 of them an epoch."""
        return 32_000


@TaskSettings.register("pedestrians", "desp.tasks.pedestrians:PedestriansTask")
@dataclass(frozen=True)
class PedestriansSettings(FilesOrSyntheticSettings):
    """Everybody's next 12 positions from their last 8, at 2.5 frames a second; the set has an element for each
    person, all futures together."""

    synthetic_source: ClassVar[str] = "simulated"
    source: PedestrianSource = "files"
    """files: recordings of ETH and UCY. simulated: walkers with goals who avoid each other."""
    scene: PedestrianScene = "eth"
    """The scene that is left out of training, and tested on; of simulated walkers, one of five layouts."""
    validation_scene: PedestrianScene | None = None
    """A second scene that is left out of training, and validated on: it tells how settings do on a scene that
    was not trained on. None: the last part of each training recording is validated on."""
    largest_scale: float = 2.0
    """Augmentation: lengths of training windows are multiplied by a random factor of at most this, and at least
    its inverse, as people walk faster in some scenes than in others; 1: not at all. Windows are also turned and
    mirrored at random."""
    largest_noise: float = 0.0
    """Augmentation: in half of the training windows, the observed positions have noise with a standard deviation
    of up to this many metres: some recordings are smoothed, others have the noise of a tracker; 0: no noise."""
    people_in_training: int | None = None
    """Most people in a training window: where there are more, this many are drawn at random. It saves time, as few
    windows are full. None: all of them."""
    drawn: int = 160
    """Predictions drawn for each test window. Raw scores are of the first twenty, returned ones of the centres of
    twenty clusters of all; both have the energy score of the first twenty."""

    def fetch_command(self, location: str) -> str:
        """`desp data` knows where the recordings come from."""
        return f"desp data pedestrians --data-dir {shlex.quote(location)}"

    def __post_init__(self) -> None:
        other = self.validation_scene != self.scene
        require_setting(other, "validation_scene", "another scene than the one tested on, or None", self.scene)
        require_setting(self.drawn >= 20, "drawn", "at least 20", self.drawn)
        require_setting(self.largest_scale >= 1, "largest_scale", "at least 1", self.largest_scale)
        require_not_negative(self, "largest_noise")
        people = self.people_in_training
        require_setting(people is None or people >= 1, "people_in_training", "at least 1, or None", people)
