"""Every format of tables gives the data set that JSON lines give, bit for bit, and the same errors."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from desp.data.files import DataFile, files_of, open_table, read_data_file
from desp.data.named_columns import NamedColumns
from desp.errors import DataError, MissingExtraError
from desp.settings import DataDescription
from table_files import (
    LONG,
    NESTED,
    long_records,
    write_arrow_file,
    write_csv,
    write_json_lines,
    write_long,
    write_parquet,
    write_saved_dataset,
)


def assert_same(found: DataFile, expected: DataFile) -> None:
    assert (found.input_kind, len(found), len(found.examples)) == (
        expected.input_kind,
        len(expected),
        len(expected.examples),
    )
    for (x, answers), (other, others) in zip(found.examples, expected.examples, strict=True):
        assert x.dtype == other.dtype
        assert torch.equal(x, other)
        assert len(answers) == len(others)
        for y, z in zip(answers, others, strict=True):
            assert (y.dtype, y.shape) == (z.dtype, z.shape)
            assert torch.equal(y, z)


def some_sets(numbers: random.Random) -> list[list[list[float]]]:
    sizes = [0, 3, 1, 2, *(numbers.randint(0, 4) for _ in range(14))]
    return [[[numbers.gauss(0, 1e3), numbers.random()] for _ in range(size)] for size in sizes]


def some_inputs(kind: str, numbers: random.Random, folder: Path) -> list[Any]:
    if kind == "number":
        return [numbers.gauss(0, 50) for _ in range(18)]
    if kind == "vector":
        return [[numbers.random(), 3 * numbers.random(), -7.0] for _ in range(18)]
    if kind == "set":
        return [[[numbers.random(), 2.0] for _ in range(index % 4)] for index in range(18)]
    for index in range(18):
        Image.new("RGB", (3, 2), (index, 0, 255)).save(folder / f"{index}.png")
    return [f"{index}.png" for index in range(18)]


@pytest.mark.parametrize("kind", ["number", "vector", "set", "image"])
@pytest.mark.parametrize("format_", NESTED)
def test_rows_of_examples(tmp_path: Path, format_: str, kind: str) -> None:
    numbers = random.Random(3)
    name, write = NESTED[format_]
    # Images are looked up beside a file, and in a folder.
    beside = tmp_path
    inputs = some_inputs(kind, numbers, beside)
    records = [{"input": x, "set": y} for x, y in zip(inputs, some_sets(numbers), strict=True)]
    expected = read_data_file(write_json_lines(tmp_path / "data.jsonl", records))
    assert_same(read_data_file(write(tmp_path / name, records)), expected)


@pytest.mark.parametrize("format_", NESTED)
def test_several_answers(tmp_path: Path, format_: str) -> None:
    numbers, (name, write) = random.Random(5), NESTED[format_]
    sets = some_sets(numbers)
    records = [{"input": [1.0 * place], "answers": [y, sets[0], y]} for place, y in enumerate(sets)]
    expected = read_data_file(write_json_lines(tmp_path / "data.jsonl", records))
    assert_same(read_data_file(write(tmp_path / name, records)), expected)
    assert expected.answer_counts == [3] * 18


@pytest.mark.parametrize("format_", LONG)
def test_rows_of_elements(tmp_path: Path, format_: str) -> None:
    numbers = random.Random(4)
    inputs = some_inputs("vector", numbers, tmp_path)
    records = [{"input": x, "set": y} for x, y in zip(inputs, some_sets(numbers), strict=True)]
    of_inputs, elements = long_records(records, ("x", "y"))
    data = read_data_file(write_long(tmp_path / "long", format_, of_inputs, elements))
    assert_same(data, read_data_file(write_json_lines(tmp_path / "data.jsonl", records)))
    assert data.description.input_columns == ("x0", "x1", "x2")
    assert data.description.feature_columns == ("x", "y")
    # Rows of a set need not follow each other; their own order stays.
    mixed = sorted(elements, key=lambda row: row["y"])
    inverse = sorted(mixed, key=lambda row: (int(row["id"][1:]), mixed.index(row)))
    again = read_data_file(write_long(tmp_path / "mixed", format_, of_inputs, mixed))
    assert_same(again, read_data_file(write_long(tmp_path / "sorted", format_, of_inputs, inverse)))


finite = st.floats(width=32, allow_nan=False, allow_infinity=False)
examples = st.lists(
    st.tuples(st.lists(finite, min_size=2, max_size=2), st.lists(st.tuples(finite, finite, finite), max_size=3)),
    min_size=1,
    max_size=6,
).filter(lambda items: any(elements for _, elements in items))


@settings(max_examples=30, deadline=None)
@given(examples)
def test_any_numbers_are_read_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory, items: list[tuple[list[float], list[tuple[float, ...]]]]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    records = [{"input": x, "set": [list(y) for y in elements]} for x, elements in items]
    expected = read_data_file(write_json_lines(folder / "data.jsonl", records))
    assert_same(read_data_file(write_parquet(folder / "data.parquet", records)), expected)
    assert_same(read_data_file(write_arrow_file(folder / "data.arrow", records)), expected)
    inputs, elements = long_records(records, ("a", "b", "c"))
    for format_ in LONG:
        assert_same(read_data_file(write_long(folder / format_, format_, inputs, elements)), expected)
    for (x, y), record in zip(expected, records, strict=True):
        assert x.tolist() == record["input"]
        assert y.tolist() == record["set"]


# -- columns with names ----------------------------------------------------------------------------------

PEOPLE: list[dict[str, Any]] = [
    {"id": 1, "age": 31, "colour": "red", "weight": 1.5},
    {"id": 2, "age": 45.5, "colour": "blue", "weight": -2.0},
    {"id": 3, "age": 12, "colour": "red", "weight": 0.25},
]
THINGS: list[dict[str, Any]] = [
    {"id": 2, "x": 0.5, "kind": "cup", "y": 1.0},
    {"id": 1, "x": 0.25, "kind": "plate", "y": 2.0},
    {"id": 2, "x": 0.75, "kind": "plate", "y": 3.0},
]
SETS: list[list[list[float]]] = [[[1.0]], [[2.0]], [[3.0]]]
CODED = [[31.0, 0.0, 1.0, 1.5], [45.5, 1.0, 0.0, -2.0], [12.0, 0.0, 1.0, 0.25]]
NAMES = ("age", "colour=blue", "colour=red", "weight")


@pytest.mark.parametrize("format_", LONG)
def test_text_becomes_one_hot(tmp_path: Path, format_: str) -> None:
    data = read_data_file(write_long(tmp_path / "long", format_, PEOPLE, THINGS))
    assert [x.tolist() for x, _ in data.examples] == CODED
    assert data.description.input_columns == NAMES
    assert data.description.feature_columns == ("x", "kind=cup", "kind=plate", "y")
    assert (data.description.categories, data.description.class_names) == (((1, 3),), ("cup", "plate"))
    assert [y[0].tolist() for _, y in data.examples] == [
        [[0.25, 0.0, 1.0, 2.0]],
        [[0.5, 1.0, 0.0, 1.0], [0.75, 0.0, 1.0, 3.0]],
        [],
    ]


@pytest.mark.parametrize("format_", LONG)
def test_an_equals_sign_in_names_of_columns_of_numbers_makes_no_category(tmp_path: Path, format_: str) -> None:
    things = [{**thing, "T=300K": 4.5, "T=400K": 6.0, "kind=old": 1.5} for thing in THINGS]
    folder = write_long(tmp_path / "long", format_, PEOPLE, things)
    data = read_data_file(folder)
    names = ("x", "kind=cup", "kind=plate", "y", "T=300K", "T=400K", "kind=old")
    assert data.description.feature_columns == names
    assert (data.description.categories, data.description.class_names) == (((1, 3),), ("cup", "plate"))
    assert data.examples[0][1][0].tolist() == [[0.25, 0.0, 1.0, 2.0, 4.5, 6.0, 1.5]]
    asked = DataDescription(feature_columns=("T=400K", "T=300K", "kind=plate", "kind=cup", "kind=old"))
    assert read_data_file(folder, asked).description.categories == ((2, 4),)


@pytest.mark.parametrize("format_", NESTED)
def test_columns_of_rows_of_examples(tmp_path: Path, format_: str) -> None:
    """All but the id and the sets, unless there is one called input; or those that are named."""
    name, write = NESTED[format_]
    records = [{**person, "points": y} for person, y in zip(PEOPLE, SETS, strict=True)]
    path = write(tmp_path / name, records)
    data = read_data_file(path, set_column="points")
    assert [x.tolist() for x, _ in data.examples] == CODED
    assert (data.description.input_columns, data.input_kind) == (NAMES, "vector")
    chosen = DataDescription(input_columns=("weight", "colour=red", "colour=blue"))
    data = read_data_file(path, chosen, set_column="points")
    assert [x.tolist() for x, _ in data.examples] == [[1.5, 1, 0], [-2.0, 0, 1], [0.25, 1, 0]]
    assert data.description == chosen


def test_columns_of_json_lines(tmp_path: Path) -> None:
    """As fields of the input, or of the line where they are named."""
    inside = [{"input": dict(list(person.items())[1:]), "set": y} for person, y in zip(PEOPLE, SETS, strict=True)]
    data = read_data_file(write_json_lines(tmp_path / "a.jsonl", inside))
    assert [x.tolist() for x, _ in data.examples] == CODED
    beside = [{**person, "set": y} for person, y in zip(PEOPLE, SETS, strict=True)]
    chosen = DataDescription(input_columns=("age", "colour"))
    data = read_data_file(write_json_lines(tmp_path / "b.jsonl", beside), chosen)
    assert data.description.input_columns == ("age", "colour=blue", "colour=red")
    with pytest.raises(DataError, match=r"b.jsonl, line 1: the field 'input' is missing \(found: age, colour, id"):
        read_data_file(tmp_path / "b.jsonl")


def test_a_single_column_of_lists_is_the_input(tmp_path: Path) -> None:
    records = [{"embedding": [1.0 * place, 2.0], "set": y} for place, y in enumerate(SETS)]
    data = read_data_file(write_parquet(tmp_path / "data.parquet", records))
    assert data.description.input_columns == ("embedding",)
    assert [x.tolist() for x, _ in data.examples] == [[0, 2], [1, 2], [2, 2]]


def test_numbers_as_categories_are_named(tmp_path: Path) -> None:
    records = [{"code": code, "set": y} for code, y in zip((3, 1, 3), SETS, strict=True)]
    chosen = DataDescription(input_columns=("code=1", "code=3"))
    data = read_data_file(write_parquet(tmp_path / "data.parquet", records), chosen)
    assert [x.tolist() for x, _ in data.examples] == [[0, 1], [1, 0], [0, 1]]


# -- what can be wrong -----------------------------------------------------------------------------------


def changed(rows: list[dict[str, Any]], place: int, **values: Any) -> list[dict[str, Any]]:
    return [{**row, **values} if number == place else row for number, row in enumerate(rows)]


def without(rows: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in names} for row in rows]


WRONG_TABLES: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], str]] = {
    "missing number": (
        changed(PEOPLE, 1, age=None),
        THINGS,
        "the column 'age' has no value. Missing values are not",
    ),
    "missing text": (changed(PEOPLE, 1, colour=None), THINGS, "the column 'colour' has no value"),
    "missing feature": (PEOPLE, changed(THINGS, 1, x=None), "the column 'x' has no value"),
    "beyond": (PEOPLE, changed(THINGS, 1, x=1e300), "the column 'x' holds NaN or infinity"),
    "unknown id": (PEOPLE, changed(THINGS, 1, id=9), "there is no input with the id '9' in .*inputs"),
    "no id": (PEOPLE, changed(THINGS, 1, id=None), "expected a whole number or text as 'id', got None"),
    "twice": (changed(PEOPLE, 1, id=1), THINGS, "the id '1' is there already, in .*inputs"),
    "no column": (
        without(PEOPLE, "id"),
        THINGS,
        r"has no column 'id'. It has: age, colour, weight. .*--task.id-col",
    ),
    "no inputs": (without(PEOPLE, "age", "colour", "weight"), THINGS, "there are no columns of the input"),
    "no features": (PEOPLE, without(THINGS, "x", "y", "kind"), "no column of features beside 'id'"),
}


@pytest.mark.parametrize("case", WRONG_TABLES)
@pytest.mark.parametrize("format_", LONG)
def test_wrong_tables(tmp_path: Path, format_: str, case: str) -> None:
    people, things, message = WRONG_TABLES[case]
    with pytest.raises(DataError, match=message) as caught:
        read_data_file(write_long(tmp_path / "long", format_, people, things))
    if "column" not in case and "no in" not in case and "no feat" not in case:
        # The second row: of text, the third line.
        wanted = "line 3" if format_ == "csv" else "row 1"
        assert wanted in str(caught.value)


def test_text_among_numbers_is_a_mistake(tmp_path: Path) -> None:
    folder = write_long(tmp_path / "long", "csv", changed(PEOPLE, 2, age="old"), THINGS)
    with pytest.raises(DataError, match=r"line 4: the column 'age' holds text, 'old', but a number in .*line 2"):
        read_data_file(folder)


@pytest.mark.parametrize("missing", ["NaN", "nan", "NA", "n/a", "null", "None", "<NA>"])
@pytest.mark.parametrize("row", [0, 2])
def test_words_for_a_missing_number(tmp_path: Path, missing: str, row: int) -> None:
    folder = write_long(tmp_path / "long", "csv", changed(PEOPLE, row, age=missing), THINGS)
    message = rf"line {row + 2}: the column 'age' has no value in this row \('{missing}'\). Missing values are not"
    with pytest.raises(DataError, match=message):
        read_data_file(folder)


def test_words_for_a_missing_number_may_be_categories(tmp_path: Path) -> None:
    people = [{**row, "colour": "None"} if place else row for place, row in enumerate(PEOPLE)]
    folder = write_long(tmp_path / "long", "csv", people, THINGS)
    assert "colour=None" in read_data_file(folder).description.input_columns


def test_names_are_no_categories(tmp_path: Path) -> None:
    people = [{"id": place, "name": f"person {place}"} for place in range(200)]
    folder = write_long(tmp_path / "long", "csv", people, THINGS)
    with pytest.raises(DataError, match="the column 'name' holds text of more than 100 different values"):
        read_data_file(folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "inputs.csv is empty"),
        ("id,a,a\n1,2,3\n", "has two columns 'a'"),
        ("id,,a\n1,2,3\n", "column 1 has no name"),
        ("id,a\n", "inputs.csv holds no inputs"),
        ("id,a\n1,2,3\n", "line 2: expected 2 values, got 3"),
        ("id;a\n1;2,5\n", "line 2: '2,5' in the column 'a' has a decimal comma"),
        ('id,a\n1,"2\n', "line 2: the row that begins here cannot be read as CSV"),
        ("id,a\n1,nan\n2,3\n", r"line 2: the column 'a' has no value in this row \('nan'\)"),
        ("id,a\n1,old\n2,3\n", "line 3: the column 'a' holds a number, 3, but text"),
        ('id,a\n1,2\n2,"3\n3,4\n4,5\n', r"line 3: .* \(unexpected end of data\). Close its quotes"),
        ("id;a\n1;1.234,5\n", "line 2: '1.234,5' in the column 'a' has a decimal comma"),
    ],
)
def test_wrong_csv_files(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "inputs.csv").write_text(text)
    write_csv(tmp_path / "sets.csv", THINGS)
    with pytest.raises(DataError, match=message):
        read_data_file(tmp_path)


@pytest.mark.parametrize("delimiter", [";", "\t", ","])
def test_csv_as_spreadsheets_write_it(tmp_path: Path, delimiter: str) -> None:
    text = "id, a ,b\r\n1,2.5,3\r\n\r\n2,+4e1,.5\r\n".replace(",", delimiter)
    (tmp_path / "inputs.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    write_csv(tmp_path / "sets.csv", THINGS)
    data = read_data_file(tmp_path)
    assert data.description.input_columns == ("a", "b")
    assert [x.tolist() for x, _ in data.examples] == [[2.5, 3], [40, 0.5]]


@pytest.mark.parametrize(
    ("name", "head", "row"),
    [
        ("inputs.tsv", "id\tx, y, z", "1\t2"),
        ("inputs.csv", 'id;"x, y, z"', "1;2"),
        ("inputs.csv", '\nid;"x, y, z"', "1;2"),
    ],
)
def test_commas_in_names_of_columns_separate_nothing(tmp_path: Path, name: str, head: str, row: str) -> None:
    (tmp_path / name).write_text(f"{head}\n{row}\n2{row[1:]}\n")
    write_csv(tmp_path / "sets.csv", THINGS)
    assert read_data_file(tmp_path).description.input_columns == ("x, y, z",)


def test_a_csv_file_alone_is_told_what_it_needs(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "things.csv", THINGS)
    with pytest.raises(DataError, match=r"Put it as sets.csv into a folder, beside it inputs.csv with one row"):
        read_data_file(path)


def test_binary_files_are_no_csv(tmp_path: Path) -> None:
    (tmp_path / "inputs.csv").write_bytes(bytes(range(128, 256)))
    write_csv(tmp_path / "sets.csv", THINGS)
    with pytest.raises(DataError, match=r"inputs.csv cannot be read as CSV"):
        read_data_file(tmp_path)


# -- ids -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("of_inputs", "of_sets"),
    [
        (["1234567890123456701", "1234567890123456702"], ["1234567890123456702", "1234567890123456701"]),
        (["007", "7"], ["7", "007"]),
        (["3.10", "3.1"], ["3.1", " 3.10 "]),
        (["12e3", "12000"], ["12000", "12e3"]),
        (["1", "2"], ["2.0", "1.0"]),
        (["1,5", "2,5"], ["2,5", "1,5"]),
    ],
)
def test_ids_of_csv_files_are_text(tmp_path: Path, of_inputs: list[str], of_sets: list[str]) -> None:
    write_csv(tmp_path / "inputs.csv", [{"id": name, "a": place} for place, name in enumerate(of_inputs)])
    write_csv(tmp_path / "sets.csv", [{"id": name, "x": 1 - place} for place, name in enumerate(of_sets)])
    data = read_data_file(tmp_path)
    assert [(x.tolist(), y[0].tolist()) for x, y in data.examples] == [([0.0], [[0.0]]), ([1.0], [[1.0]])]


def test_an_id_that_is_asked_for_as_an_input_is_a_number(tmp_path: Path) -> None:
    folder = write_long(tmp_path / "long", "csv", PEOPLE, THINGS)
    data = read_data_file(folder, DataDescription(input_columns=("id",)))
    assert [x.tolist() for x, _ in data.examples] == [[1], [2], [3]]


# -- names of columns, and of files ----------------------------------------------------------------------


@pytest.mark.parametrize("format_", LONG)
def test_a_column_called_input_is_like_any_other(tmp_path: Path, format_: str) -> None:
    people = [{"id": place, "input": place, "size": 2.0} for place in (1, 2, 3)]
    data = read_data_file(write_long(tmp_path / "long", format_, people, THINGS))
    assert data.description.input_columns == ("input", "size")
    assert [x.tolist() for x, _ in data.examples] == [[1, 2], [2, 2], [3, 2]]


def test_a_column_called_input_may_name_images(tmp_path: Path) -> None:
    names = some_inputs("image", random.Random(1), tmp_path)[1:4]
    folder = write_long(
        tmp_path / "long", "csv", [{"id": i, "input": f"../{name}"} for i, name in enumerate(names, 1)], THINGS
    )
    assert read_data_file(folder).input_kind == "image"


def test_names_of_one_column_are_neighbours(tmp_path: Path) -> None:
    folder = write_long(tmp_path / "long", "csv", PEOPLE, THINGS)
    apart = DataDescription(feature_columns=("kind=cup", "x", "kind=plate"))
    with pytest.raises(DataError, match=r"'kind' are named with another column between them, 'x'. Name them one"):
        read_data_file(folder, apart)
    for names in (("colour=red", "colour"), ("colour", "colour=red")):
        with pytest.raises(DataError, match="'colour' is named as a number and as a category"):
            NamedColumns(names).numbers(PEOPLE[0], "row 0")


def test_objects_have_the_same_names(tmp_path: Path) -> None:
    inputs = [{"a": 1.0}, {"a": 2.0, "b": 3.0}]
    path = write_json_lines(tmp_path / "a.jsonl", [{"input": x, "set": [[1.0]]} for x in inputs])
    with pytest.raises(DataError, match=r"line 2: .* 'b' is in .*line 2 and not in .*line 1\. Write it"):
        read_data_file(path)
    assert len(read_data_file(path, DataDescription(input_columns=("a",)))) == 2


def test_empty_text_is_missing(tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "a.parquet", [{"a": text, "set": [[1.0]]} for text in ("x", "")])
    with pytest.raises(DataError, match="row 1: the column 'a' has no value"):
        read_data_file(path)


def test_words_for_booleans_are_numbers() -> None:
    columns = NamedColumns(("flag",))
    assert [columns.numbers({"flag": word}, "row 0") for word in ("True", "FALSE", True)] == [[1.0], [0.0], [1.0]]
    with pytest.raises(DataError, match="expected a number in the column 'flag', got 'yes'"):
        columns.numbers({"flag": "yes"}, "row 0")


def test_an_index_of_pandas_is_no_input(tmp_path: Path) -> None:
    records = [{"a": 1.0, "set": [[1.0]], "__index_level_0__": place} for place in range(3)]
    data = read_data_file(write_parquet(tmp_path / "a.parquet", records))
    assert data.description.input_columns == ("a",)
    assert list(next(open_table(tmp_path / "a.parquet").rows())[1]) == ["a", "set"]


def test_half_of_two_tables(tmp_path: Path) -> None:
    write_parquet(tmp_path / "inputs.parquet", PEOPLE)
    with pytest.raises(DataError, match=r"no table 'sets' beside it.*found are: inputs.parquet.*pass the file"):
        read_data_file(tmp_path)
    assert len(list(open_table(tmp_path).rows())) == 3  # enough to predict for
    write_parquet(tmp_path / "points.parquet", THINGS)
    with pytest.raises(DataError, match=r"found are: inputs.parquet, points.parquet"):
        read_data_file(tmp_path)
    (tmp_path / "inputs.parquet").rename(tmp_path / "sets.parquet")
    with pytest.raises(DataError, match=r"holds sets.parquet, but no table 'inputs' beside it"):
        read_data_file(tmp_path)


def test_two_tables_of_one_name(tmp_path: Path) -> None:
    folder = write_long(tmp_path / "long", "csv", PEOPLE, THINGS)
    write_parquet(folder / "sets.parquet", THINGS)
    with pytest.raises(DataError, match=r"holds sets.csv and sets.parquet, and only one of them can be meant"):
        read_data_file(folder)


GOOD = [{"input": [1.0 * place], "set": [[1.0, 2.0]]} for place in range(12)]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"input": [1.0, 2.0], "set": [[1.0, 2.0]]}, r"row 7: expected an input of shape \(1,\)"),
        ({"input": [1.0], "set": [[1.0]]}, "row 7: elements have 1 features, but 2"),
        ({"input": [1.0], "set": None}, "row 7: expected a list"),
        ({"input": None, "set": [[1.0, 2.0]]}, "row 7: an input must be a number"),
        ({"input": [None], "set": [[1.0, 2.0]]}, r"row 7: An input holds null \(None\), at \[0\]"),
        ({"input": [1.0], "set": [[1.0, None]]}, r"row 7: element 0, feature 1 is null \(None\)"),
        ({"input": [1.0], "set": [[1.0, float("nan")]]}, "row 7: element 0, feature 1 holds NaN"),
        ({"input": [float("inf")], "set": [[1.0, 2.0]]}, "row 7: An input holds NaN or infinity"),
    ],
)
@pytest.mark.parametrize("format_", NESTED)
def test_bad_rows_are_named(tmp_path: Path, format_: str, bad: dict[str, Any], message: str) -> None:
    name, write = NESTED[format_]
    with pytest.raises(DataError, match=message):
        read_data_file(write(tmp_path / name, [*GOOD[:7], bad, *GOOD[7:]]))


@pytest.mark.parametrize("format_", NESTED)
def test_missing_columns(tmp_path: Path, format_: str) -> None:
    name, write = NESTED[format_]
    path = write(tmp_path / name, [{"input": [1.0], "points": [[1.0]]}] * 4)
    with pytest.raises(DataError, match=r"row 0: the field 'set' is missing \(found: input, points\)"):
        read_data_file(path)


def cut(path: Path, share: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("name", ["data.parquet", "data.arrow", "stream.arrow"])
def test_damaged_files(tmp_path: Path, name: str, share: float) -> None:
    write = dict(NESTED.values())[name]
    cut(path := write(tmp_path / name, [{"input": [1.0] * 500, "set": [[1.0]]}] * 40), share)
    with pytest.raises(DataError, match=rf"{name} cannot be read as (Parquet|Arrow): .*Write it again"):
        read_data_file(path)


@pytest.mark.parametrize("name", ["no.parquet", "no.arrow", "no.csv", "no"])
def test_files_that_are_missing(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="There is no data file at"):
        read_data_file(tmp_path / name)


def break_state(folder: Path) -> None:
    (folder / "state.json").write_text("{")


def lose_shard(folder: Path) -> None:
    (folder / "data-00001-of-00002.arrow").unlink()


def select_rows(folder: Path) -> None:
    state = json.loads((folder / "state.json").read_text())
    (folder / "state.json").write_text(json.dumps({**state, "_indices_data_files": [{"filename": "i.arrow"}]}))


def keep_nothing(folder: Path) -> None:
    (folder / "state.json").write_text(json.dumps({"_data_files": []}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (break_state, "state.json is damaged"),
        (lose_shard, r"There is no data file at .*data-00001-of-00002.arrow"),
        (select_rows, r"holds a selection of rows. Save it with flatten_indices\(\)"),
        (keep_nothing, "holds no examples"),
    ],
)
def test_damaged_datasets(tmp_path: Path, damage: Callable[[Path], None], message: str) -> None:
    folder = write_saved_dataset(tmp_path / "dataset", GOOD)
    damage(folder)
    with pytest.raises(DataError, match=message):
        read_data_file(folder)


def test_of_several_splits_one_is_chosen(tmp_path: Path) -> None:
    for name in ("train", "test"):
        write_saved_dataset(tmp_path / name, GOOD)
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(DataError, match=r"holds several datasets: test, train\. Pass the folder of one of them"):
        read_data_file(tmp_path)
    assert len(read_data_file(tmp_path / "train")) == 12


def test_names_of_columns_are_not_for_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", inputs=np.zeros((2, 3)), sets=np.zeros((2, 1, 1)))
    with pytest.raises(DataError, match="input_columns are for tables, not for arrays"):
        read_data_file(tmp_path / "data.npz", DataDescription(input_columns=("a", "b", "c")))


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_parquet(tmp_path / "data.parquet", GOOD)

    def missing(name: str) -> Any:
        raise ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")

    monkeypatch.setattr("importlib.import_module", missing)
    with pytest.raises(MissingExtraError, match=r"'pyarrow' is needed to read Parquet .*desp\[tables\]"):
        open_table(path)


# -- more than fits into memory --------------------------------------------------------------------------


def test_large_tables_go_to_a_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [{"input": [1.0 * place, 2.0], "set": [[0.5 * place]] * (place % 5)} for place in range(300)]
    path = write_parquet(tmp_path / "data.parquet", records)
    expected = read_data_file(path)
    monkeypatch.setattr("desp.data.scratch.KEPT_IN_MEMORY", 100)
    found = read_data_file(path)
    assert_same(found, expected)
    inputs, elements = long_records(records, ("a",))
    assert_same(read_data_file(write_long(tmp_path / "long", "parquet", inputs, elements)), expected)


def test_files_are_read_a_part_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("desp.data.arrow_table.ROWS_AT_ONCE", 4)
    path = tmp_path / "data.parquet"
    pa.parquet.write_table(pa.Table.from_pylist(GOOD), path)
    rows = open_table(path).rows()
    assert [next(rows)[0] for _ in range(3)] == [0, 1, 2]
    assert [number for number, _ in rows] == list(range(3, 12))


def test_what_a_fingerprint_covers(tmp_path: Path) -> None:
    long = write_long(tmp_path / "long", "csv", PEOPLE, THINGS)
    (long / "notes.txt").write_text("not data")
    assert [path.name for path in files_of(long)] == ["inputs.csv", "sets.csv"]
    saved = write_saved_dataset(tmp_path / "saved", GOOD)
    assert [path.name for path in files_of(saved)] == ["data-00000-of-00002.arrow", "data-00001-of-00002.arrow"]
