"""``desp data``"""

import json
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from desp.cli.common import bar, busy, number, parse
from desp.cli.data_pedestrians import PedestriansArguments, check_pedestrians
from desp.errors import SettingsError, TrainingInterrupted
from desp.features.settings import FeatureSettings
from desp.paths import check_regular
from desp.settings import Device, FilesSettings, MnistDataset

if TYPE_CHECKING:
    from desp.data.clevr import ClevrData
    from desp.data.mnist import MnistData

EXAMPLES = """  desp data mnist --data-dir ~/data
  desp data mnist --data-dir ~/data --no-download
  DESP_DATA=~/data desp data fashion
  desp data clevr --data-dir ~/data
  desp data celeba --data-dir ~/data
  desp data celeba --data-dir ~/data --features logits --folds 5
  desp data pedestrians --data-dir ~/data
  desp data boxes instances.json --images photos --output boxes.jsonl --size 128
  desp data boxes Annotations --images JPEGImages --output boxes.jsonl --size 128
  desp data labels items.csv --output items.jsonl --set-column basket --label-columns first second
  desp data inspect my_sets.jsonl
  desp data inspect tables --task.id-column scene
  desp data inspect boxes.jsonl --task.description.boxes 0 4 --json"""

RESIZED = 128
"""Width and height that images of different sizes are resized to, unless another is given."""
FETCHED = "Files that are missing are downloaded, and all are compared with their published checksums."


@dataclass(frozen=True)
class _MnistArguments:
    """Fetch and check MNIST or Fashion-MNIST."""

    dataset: Annotated[MnistDataset, tyro.conf.Suppress]
    data_dir: Path | None = None
    """Folder of the data; files are in `mnist` or `fashion` below it, or directly in it. DESP_DATA if not given,
    else ~/.local/share/desp."""
    download: bool = True
    """Fetch files that are missing."""


@dataclass(frozen=True)
class _ClevrArguments:
    """Check CLEVR and decode its images once.

    Download it by hand, as it takes 18 GB, and keep the official layout, images/{train,val} and scenes. Images are
    kept as 128 x 128 bytes in a folder beside them, 4.2 GB for all; an interrupted run resumes.
    """

    data_dir: Path | None = None
    """Folder of the data, which are in it, or in clevr or CLEVR_v1.0 below it; DESP_DATA if not given, else
    ~/.local/share/desp."""


@dataclass(frozen=True)
class _CelebaArguments:
    """Check CelebA, decode its images once, and make features of the faces.

    Download it by hand, for non-commercial research, and keep the official layout, img_align_celeba,
    list_attr_celeba.txt and list_eval_partition.txt, with all images or any of them. Faces are kept as 96 x 96
    bytes in a folder beside them, 5.6 GB for all. A ResNet-34 is trained to predict their attributes, best on a
    GPU; its features of each face are kept, 0.7 GB for all (0.2 GB with --views 1). An interrupted run resumes.

    Example: desp data celeba --data-dir ~/data
    """

    data_dir: Path | None = None
    """Folder of the data, which are in it, or in celeba or CelebA below it; DESP_DATA if not given, else
    ~/.local/share/desp."""
    device: Device = "auto"
    """Where the classifier is trained."""
    settings: Annotated[FeatureSettings, tyro.conf.arg(name="")] = field(default_factory=FeatureSettings)


@dataclass(frozen=True)
class _BoxesArguments:
    """Convert box annotations to JSON lines for `desp train custom`.

    They are a COCO JSON file, or a folder of Pascal VOC XML files. Sets hold the corners of boxes,
    normalised by the image's width and height, 0 to 1, and the class as one-hot columns if there are several.
    """

    annotations: Annotated[Path, tyro.conf.Positional]
    """COCO JSON file, or folder of Pascal VOC XML files."""
    images: Path
    """Folder of the images that they name."""
    output: Path
    """JSON lines file to write."""
    size: int | None = None
    """Copy images to a folder beside the output, resized to this width and height (stretched; the aspect ratio is
    not kept), so that training reads small files. Without it the output names the images where they are."""


@dataclass(frozen=True)
class _LabelsArguments:
    """Convert sets of items with binary labels to JSON lines for `desp train custom`.

    The CSV file has a row for each item: which set it is in, its label (1: in the subset to predict, 0: not), and
    its features, which are all other columns. Where several answers are valid, each has a column of labels.
    """

    table: Annotated[Path, tyro.conf.Positional]
    """CSV file; its first row has the names of the columns."""
    output: Path
    """JSON lines file to write."""
    set_column: str = "set"
    """Name of the column that says which set an item is in."""
    label_columns: tuple[str, ...] = ("label",)
    """Names of the columns of labels, one for each valid answer; where a set has fewer, the others are empty."""


@dataclass(frozen=True)
class _InspectArguments:
    """Tell what training would use of a file of your own, and what in it looks wrong.

    Nothing is trained or written. The settings --task.* are the same as for `desp train custom`.
    """

    data: Annotated[Path, tyro.conf.Positional]
    """JSON lines, Parquet or Arrow with `input` and `set`; an npz file; or a folder: of npy files, of `inputs` and
    `sets` as CSV, Parquet or Arrow, or as Hugging Face's datasets saves it."""
    task: FilesSettings = field(default_factory=FilesSettings)
    """What the data are, and how much is held out."""
    seed: int = 0
    """Decides which examples are held out."""
    json: bool = False
    """Print JSON."""


def _subcommand(dataset: MnistDataset, name: str) -> Any:
    about = f"Fetch and check {name} as sets of points.\n\n{FETCHED}"
    return tyro.conf.subcommand(dataset, default=_MnistArguments(dataset), description=about)


_Command = (
    Annotated[_MnistArguments, _subcommand("mnist", "MNIST: digits")]
    | Annotated[_MnistArguments, _subcommand("fashion", "Fashion-MNIST: clothes")]
    | Annotated[_ClevrArguments, tyro.conf.subcommand("clevr")]
    | Annotated[_CelebaArguments, tyro.conf.subcommand("celeba")]
    | Annotated[PedestriansArguments, tyro.conf.subcommand("pedestrians")]
    | Annotated[_BoxesArguments, tyro.conf.subcommand("boxes")]
    | Annotated[_LabelsArguments, tyro.conf.subcommand("labels")]
    | Annotated[_InspectArguments, tyro.conf.subcommand("inspect")]
)


@dataclass(frozen=True)
class _DataArguments:
    """Fetch and check a dataset, convert annotations, or look at a file of your own."""

    command: Annotated[_Command, tyro.conf.arg(name="")]


def run(arguments: list[str]) -> None:
    """Fetch, check or convert data."""
    command = parse(_DataArguments, arguments, "data", EXAMPLES).command
    if isinstance(command, _MnistArguments):
        _mnist(command)
    elif isinstance(command, _ClevrArguments):
        _clevr(command)
    elif isinstance(command, _CelebaArguments):
        _celeba(command, arguments)
    elif isinstance(command, PedestriansArguments):
        check_pedestrians(command)
    elif isinstance(command, _LabelsArguments):
        _labels(command)
    elif isinstance(command, _BoxesArguments):
        _boxes(command)
    else:
        _inspect(command)


# -- MNIST -----------------------------------------------------------------------------------------------


def _mnist(options: _MnistArguments) -> None:
    from desp.data.mnist import load_mnist
    from desp.data.mnist_files import fetch_files, files_folder

    if options.download:
        with bar() as tell:
            fetch_files(options.dataset, options.data_dir, tell)
    data = load_mnist(options.dataset, options.data_dir)
    folder = files_folder(options.dataset, options.data_dir)
    print(f"{folder}: all files are there, and their checksums are right")
    _print_sizes(data, "sets", "points")


def _print_sizes(data: "MnistData | ClevrData", examples: str, elements: str) -> None:
    """Print how many examples the parts have, and how many elements a set has."""
    parts = data.training, data.validation, data.test
    sizes = [size for part in parts for size in part.sizes.tolist()]
    training, validation, test = map(len, parts)
    print(
        f"{training} {examples} for training, {validation} for validation, {test} for test; "
        f"{min(sizes)} to {max(sizes)} {elements}, {sum(sizes) / len(sizes):.1f} on average"
    )


# -- CLEVR -----------------------------------------------------------------------------------------------


def _clevr(options: _ClevrArguments) -> None:
    from desp.data.clevr import load_clevr

    with bar() as tell:
        data = load_clevr(options.data_dir, tell)
    print(f"{data.folder}: {data.data_label}, images are cached")
    _print_sizes(data, "images", "objects")
    for split, skips in data.skips.items():
        print(f"{split}: {skips.total} left out, {data.clipped[split]} boxes clipped to their image")
        for line in skips.lines():
            print(f"  {line}")


# -- CelebA ----------------------------------------------------------------------------------------------


def _celeba(options: _CelebaArguments, arguments: list[str]) -> None:
    from desp.data.celeba import load_celeba
    from desp.features.celeba import prepare_celeba

    try:
        with bar() as tell:
            facts = prepare_celeba(options.data_dir, options.settings, options.device, tell)
    except KeyboardInterrupt:
        again = shlex.join(["desp", "data", *arguments])
        raise TrainingInterrupted(f"Interrupted. To go on where it was: {again}") from None
    data = load_celeba(options.data_dir)
    print(f"{data.image_folder}: {data.data_label}; images and features are cached")
    print(
        f"{facts.found} images found, {data.skips.total} left out; {data.split} split: {len(data.training)} for "
        f"training, {len(data.validation)} for validation, {len(data.test)} for test"
    )
    for line in data.skips.lines():
        print(f"  {line}")
    for part in ("validation", "test"):
        accuracy, auc = (number(data.scores[f"{part}_{name}"]) for name in ("accuracy", "auc"))
        print(f"classifier on {part} faces: accuracy {accuracy}, mean AUC {auc} over the attributes in use")


# -- boxes -----------------------------------------------------------------------------------------------


def _boxes(options: _BoxesArguments) -> None:
    from desp.data.box_annotations import classes_file, read_annotations, write_boxes

    if options.size is not None and options.size < 1:
        raise SettingsError(f"--size must be at least 1, got {options.size}.")
    check_regular(options.output)  # said before any work is done
    with busy("converting"):
        found = read_annotations(options.annotations, options.images)
        annotations = write_boxes(found, options.output, options.size)
    boxes = [len(image.boxes) for image in annotations.images]
    print(f"{options.output}: {len(boxes)} images, {sum(boxes)} boxes, {min(boxes)} to {max(boxes)} an image")
    print(f"{classes_file(options.output)}: {len(annotations.classes)} classes: {', '.join(annotations.classes)}")
    print(f"{annotations.skips.total} left out, {annotations.clipped} boxes clipped to their image")
    for line in annotations.skips.lines():
        print(f"  {line}")
    description, settings = annotations.description(), []
    for name in ("boxes", "categories"):
        for first, end in getattr(description, name):
            settings += [f"--task.description.{name}", str(first), str(end)]
    if options.size is None and len(annotations.shapes()) > 1:
        settings += ["--task.image-size", str(RESIZED)]
        print(
            f"Images have {len(annotations.shapes())} different sizes; training resizes them to {RESIZED} x "
            f"{RESIZED}. --size {RESIZED} does that once."
        )
    _print_train_command(options.output, settings)


def _print_train_command(data: Path, settings: list[str]) -> None:
    words = ["desp", "train", "custom", "--data", str(data), "--run", f"runs/{data.stem}", *settings]
    print(f"To train: {shlex.join(words)}")


# -- labels ----------------------------------------------------------------------------------------------


def _labels(options: _LabelsArguments) -> None:
    from desp.data.label_table import read_label_table
    from desp.settings.label_methods import MOST_ELEMENTS
    from desp.storage import write_text

    if options.output.exists() and options.table.exists() and options.output.samefile(options.table):
        raise SettingsError(f"--output is the table itself, {options.table}. Name another file.")
    table = read_label_table(options.table, options.set_column, options.label_columns)
    write_text(options.output, "".join(table.lines()))
    sizes, several = [len(items) for items in table.items], sum(len(answers) > 1 for answers in table.answers)
    counts = f"{len(sizes)} sets of {min(sizes)} to {max(sizes)} items"
    print(f"{options.output}: {counts}, {several} with several answers")
    print(f"{len(table.features)} features: {', '.join(table.features)}")
    method = "label-likelihood" if max(sizes) <= MOST_ELEMENTS else "autoregressive-tagger"
    _print_train_command(options.output, ["--task.description.aligned", "--use-method", method])


# -- a file of one's own ---------------------------------------------------------------------------------


def _inspect(options: _InspectArguments) -> None:
    from desp.randomness import check_seed
    from desp.tasks.inspection import inspect_file

    if options.task.path:
        raise SettingsError(f"The file is {options.data}, so --task.path has no place here. Leave it out.")
    facts = inspect_file(options.task.with_location(str(options.data)), check_seed(options.seed))
    if options.json:
        print(json.dumps(facts, indent=1))
        return
    kind, shape, sizes = facts["input"]["kind"], facts["input"]["shape"], facts["set_sizes"]
    split, different = facts["split"], facts["different_inputs"]
    print(f"{facts['file']}: {facts['examples']} examples, {facts['sets']} sets")
    columns = facts["columns"]
    print(f"input: {kind}, shape {tuple(shape)}{', presence included' if kind == 'set' else ''}")
    if columns["input"]:
        print(f"columns of the input: {', '.join(columns['input'])}")
    print(f"sets: {sizes['least']} to {sizes['most']} elements, {sizes['mean']} on average")
    for column, ends in enumerate(facts["features"]):
        name = f" ({columns['features'][column]})" if columns["features"] else ""
        print(f"column {column}{name}: {ends['low']:g} to {ends['high']:g}{_role(column, facts)}")
    print(f"inputs: {different} different, so {facts['examples'] - different} examples repeat one")
    print(
        f"split: {split['training']} to train on, {split['validation']} for validation, {split['test']} for tests"
    )
    print(f"looks wrong: {'nothing' if not facts['findings'] else len(facts['findings'])}")
    for finding in facts["findings"]:
        print(f"  {finding}")


def _role(column: int, facts: dict[str, Any]) -> str:
    roles = {"categories": ", a category", "boxes": ", of a box"}
    return "".join(
        text for name, text in roles.items() if any(first <= column < end for first, end in facts[name])
    )
