"""A user's own data: files of rows (JSON lines, CSV, Parquet, Arrow), and arrays (npz, npy)."""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

from torch import Tensor
from torch.utils.data import Dataset

from desp.data.arrays import Arrays, Example, load_arrays, map_arrays, rows_of
from desp.data.arrow_table import ARROW, PARQUET, SAVED_DATASET, SAVED_SPLITS, arrow_files, open_arrow
from desp.data.csv_table import open_csv
from desp.data.examples import GatheredExamples
from desp.data.inputs import LEAVE_OUT, GatheredInputs
from desp.data.json_lines import open_json_lines
from desp.data.long_tables import INPUTS, SETS, LongTables, long_files
from desp.data.row_inputs import ANSWERS, INPUT, RowInputs
from desp.data.tables import Record, Table, field_of
from desp.errors import DataError
from desp.paths import folder_of
from desp.settings import DataDescription, FilesSettings, InputKind

CSV = (".csv", ".tsv")
TABLES = (*CSV, *PARQUET, *ARROW)
NAMES_SHOWN = 5


class _Examples(Sequence[Example]):
    """Examples that are read on demand, so that a memory map is never copied as a whole.

    Args:
        read: from a place in the file to its example.
        places: of the examples, in their order.
    """

    def __init__(self, read: Callable[[int], Example], places: Sequence[int]) -> None:
        self.read, self.places = read, places

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> list[Example]: ...
    def __getitem__(self, index: int | slice) -> Example | list[Example]:
        if isinstance(index, slice):
            return [self.read(place) for place in self.places[index]]
        return self.read(self.places[index])


class DataFile(Dataset[tuple[Tensor, Tensor]]):
    """The examples of a file. As a dataset, an (input, set) pair for each valid set of each example.

    Args:
        examples: read on demand.
        answer_counts: how many valid sets each of them has.
        input_kind: of the inputs.
        description: what inputs and features are, completed by what the file itself tells.
        where: names an example of the file in messages, by its number.
        notes: sentences on how the file was read, for the user.
    """

    def __init__(
        self,
        examples: _Examples,
        answer_counts: Sequence[int],
        input_kind: InputKind,
        description: DataDescription,
        where: Callable[[int], str] = "row {}".format,
        notes: Sequence[str] = (),
    ) -> None:
        self.description, self.where, self.notes = description, where, notes
        self.examples, self.answer_counts, self.input_kind = examples, answer_counts, input_kind
        self._pairs = [(example, answer) for example, count in enumerate(answer_counts) for answer in range(count)]

    def __len__(self) -> int:
        return len(self._pairs)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        example, answer = self._pairs[index]
        x, answers = self.examples[example]
        return x, answers[answer]

    def part(self, places: Sequence[int]) -> "DataFile":
        """The examples at these places, with all their valid sets."""
        examples = _Examples(self.examples.read, [self.examples.places[place] for place in places])
        counts = [self.answer_counts[place] for place in places]
        return DataFile(examples, counts, self.input_kind, self.description, self.where)

    def name_of(self, index: int) -> str:
        """What messages call the example of a pair."""
        return self.where(self.examples.places[self._pairs[index][0]])


def open_table(path: Path, id_column: str | None = None) -> Table:
    """A file of rows as a table. Its name tells the format: CSV, Parquet, Arrow; anything else is JSON lines.

    A folder is one of Parquet files or of `datasets`; if it has a table of inputs, that is opened.

    Args:
        path: of the file or folder.
        id_column: its cells stay text, where the format does not tell numbers and text apart.

    Raises:
        DataError: it is missing or cannot be read.
        MissingExtraError: pyarrow is needed, and not installed.
    """
    if path.is_dir() and (of_inputs := long_files(path, TABLES).get(INPUTS)):
        return open_table(of_inputs, id_column)
    if path.is_dir():
        files_of(path)  # raises where there is nothing to read
    if path.is_dir() or path.suffix.lower() in (*PARQUET, *ARROW):
        return open_arrow(path)
    return open_csv(path, id_column) if path.suffix.lower() in CSV else open_json_lines(path)


def files_of(path: Path) -> list[Path]:
    """All files that the data of a file or folder are read from.

    Raises:
        DataError: there are none.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise DataError(f"There is no data file at {path}.")
    if arrays := sorted(path.glob("*.npy")):
        return arrays
    if (path / SAVED_SPLITS).exists():
        parts = ", ".join(sorted(item.parent.name for item in path.glob(f"*/{SAVED_DATASET}")))
        raise DataError(f"{path} holds several datasets: {parts}. Pass the folder of one of them.")
    found = {} if (path / SAVED_DATASET).exists() else long_files(path, TABLES)
    if len(found) == 2:
        return [found[INPUTS], found[SETS]]
    if found:
        raise _half_of_two(path, *found.values())
    if (path / SAVED_DATASET).exists() or any(item.suffix.lower() in PARQUET for item in path.iterdir()):
        return arrow_files(path)
    raise DataError(
        f"{path} is a folder, but has none of: {INPUTS}.npy and {SETS}.npy; {INPUTS} and {SETS}, each as CSV, "
        f"Parquet or Arrow; other Parquet files; a dataset saved by `datasets`. It holds {_held(path)}. Pass a "
        "folder with one of these, or a file."
    )


def _held(folder: Path) -> str:
    """The first names in a folder."""
    names = sorted(item.name for item in folder.iterdir())
    return ", ".join([*names[:NAMES_SHOWN], *(["..."] if len(names) > NAMES_SHOWN else [])]) or "nothing"


def _half_of_two(folder: Path, found: Path) -> DataError:
    missing = SETS if found.stem == INPUTS else INPUTS
    there = ", ".join(sorted(item.name for item in folder.iterdir()))
    return DataError(
        f"{folder} holds {found.name}, but no table '{missing}' beside it. Expected are '{INPUTS}' and '{SETS}', "
        f"each as CSV, Parquet or Arrow; found are: {there}. If {found.name} "
        "holds inputs with their sets, pass the file itself."
    )


def read_data_file(
    path: Path,
    description: DataDescription | None = None,
    image_size: int = 0,
    *,
    set_column: str = "set",
    id_column: str = "id",
    all_may_be_empty: bool = False,
) -> DataFile:
    """Read inputs and sets from a file or folder.

    A row may hold ``answers``, all sets that are valid for its input, in place of ``set``. Arrays are ``inputs``
    (M, ...) and ``sets`` (M, N, D), and for sets of different sizes ``sizes`` (M,) or ``presence`` (M, N); inputs
    that are sets (M, N, D) may have ``input_sizes`` or ``input_presence`` likewise. Arrays of a folder are memory
    maps: only what is used is read. Rows are read one after another; if they are large, they are kept in a
    temporary file.

    Args:
        path: the file or folder.
        description: what inputs and features are.
        image_size: images named in files are resized to this width and height; 0: they must have one size.
        set_column: the column that holds the set of a row.
        id_column: the column that joins a table of inputs and one of elements.
        all_may_be_empty: accept arrays in which every set is empty, from which nothing could be learned.

    Raises:
        DataError: missing, empty or broken; the message names the line or row.
        MissingExtraError: pyarrow is needed, and not installed.
    """
    columns: dict[str, Any] = {"set_column": set_column, "id_column": id_column}
    settings = FilesSettings(str(path), description or DataDescription(), image_size=image_size, **columns)
    files = files_of(path)
    if files[0].suffix.lower() in (".npz", ".npy"):
        arrays = load_arrays(path) if path.is_file() else map_arrays(path)
        return _from_arrays(arrays, path, settings, all_may_be_empty)
    if path.is_dir() and files[0].stem == INPUTS:
        # An id column that is also part of the inputs may hold numbers.
        text = None if id_column in settings.description.input_columns else id_column
        inputs, sets = (open_table(file, text) for file in files)
        return _from_long(LongTables(inputs, sets, id_column, settings.description, image_size))
    if path.suffix.lower() in CSV:
        raise DataError(
            f"{path}: a CSV file has one row per element. Put it as {SETS}.csv into a folder, beside it "
            f"{INPUTS}.csv with one row per input, join them by a column '{id_column}', and pass the folder. (For "
            "tables of items with labels: desp data labels)"
        )
    return _from_rows(open_table(path), settings)


def _from_arrays(arrays: Arrays, path: Path, settings: FilesSettings, all_may_be_empty: bool) -> DataFile:
    description = settings.description
    if settings.image_size:
        raise DataError(
            f"{path}: task.image_size is for images named in files of rows (JSON lines, CSV, Parquet, Arrow), not "
            f"for arrays. {LEAVE_OUT}"
        )
    if description.input_columns:
        raise DataError(f"{path}: input_columns are for tables, not for arrays. {LEAVE_OUT}")
    rows, notes = rows_of(arrays, path, description, all_may_be_empty=all_may_be_empty), []
    if rows.kind == "vector" and len(shape := arrays["inputs"].shape) > 2 and description.input_kind is None:
        notes.append(
            f"{path}: inputs of shape {shape[1:]} are read as vectors. If they are sets, pass "
            "--task.description.input-kind set; if images, add their channel, (M, 1, height, width)."
        )
    return DataFile(_Examples(rows.read, range(len(rows))), [1] * len(rows), rows.kind, description, notes=notes)


def _from_long(tables: LongTables) -> DataFile:
    read, numbers = tables.reader(), tables.numbers
    examples = _Examples(read, range(len(numbers)))
    where = tables.inputs.where
    return DataFile(
        examples, [1] * len(numbers), tables.input_kind, tables.description, lambda place: where(numbers[place])
    )


def _from_rows(table: Table, settings: FilesSettings) -> DataFile:
    others = frozenset({settings.set_column, ANSWERS, settings.id_column})
    inputs = RowInputs.found_in(table, settings.description.input_columns, others)
    gathered = GatheredExamples(
        GatheredInputs(folder_of(table.path), settings.image_size), aligned=settings.description.aligned
    )
    numbers = array("q")
    for number, record in table.rows():
        where = table.where(number)
        value = inputs.value(inputs.written(record, table, number), where)
        gathered.add(value, _answers(record, where, settings.set_column), where)
        numbers.append(number)
    if not numbers:
        raise DataError(
            f'{table.path} holds no examples. Write a row per example, as JSON {{"{INPUT}": ..., "set": [[...]]}}'
        )
    examples = _Examples(gathered.reader(table.path), range(len(numbers)))
    # Vectors have no names in the file: those that were given are for reports.
    description = replace(settings.description, input_columns=inputs.names or settings.description.input_columns)
    kind: InputKind = gathered.inputs.kind or "vector"
    return DataFile(examples, gathered.answer_counts, kind, description, lambda place: table.where(numbers[place]))


def _answers(record: Record, where: str, set_column: str) -> list[Any]:
    """The valid sets of a row: its ``set``, or all its ``answers``."""
    answers = record.get(ANSWERS)
    if answers is None and (ANSWERS not in record or set_column in record):
        return [field_of(record, set_column, where)]
    if record.get(set_column) is not None:
        raise DataError(
            f"{where}: has '{set_column}' and 'answers'. Write all valid sets as 'answers', or one as "
            f"'{set_column}'."
        )
    if not isinstance(answers, list) or not answers:
        raise DataError(f"{where}: 'answers' must be a list of at least one set.")
    return answers
