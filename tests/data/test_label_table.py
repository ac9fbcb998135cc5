"""Tables of items with labels, as CSV."""

import json
from pathlib import Path

import pytest

from desp.data.label_table import read_label_table
from desp.errors import DataError

HEAD = "basket,first,weight,second,price\n"
ROWS = "a,1,0.5,0,2\nb,0,1.5,,3\na,0,2.5,1,4\nb,1,3e1,,-5\n"


def table(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "items.csv"
    path.write_text(text)
    return path


def read(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in read_label_table(path, "basket", ("first", "second")).lines()]


def test_rows_become_sets_with_their_answers(tmp_path: Path) -> None:
    path = table(tmp_path, HEAD + ROWS)
    assert read(path) == [
        {"input": [[0.5, 2.0], [2.5, 4.0]], "answers": [[[1.0], [0.0]], [[0.0], [1.0]]]},
        {"input": [[1.5, 3.0], [30.0, -5.0]], "answers": [[[0.0], [1.0]]]},
    ]
    found = read_label_table(path, "basket", ("first", "second"))
    assert (found.features, found.names) == (("weight", "price"), ("a", "b"))


def test_a_table_as_spreadsheets_write_it(tmp_path: Path) -> None:
    """With a byte order mark, other ends of lines, quotes and an empty last row."""
    path = tmp_path / "items.csv"
    path.write_bytes(
        b"\xef\xbb\xbf" + (HEAD + ROWS).replace("\n", "\r\n").replace("0.5", '"0.5"').encode() + b"\r\n"
    )
    assert read(path)[0]["input"] == [[0.5, 2.0], [2.5, 4.0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no column 'basket'. It has: none"),
        ("basket,first,weight\na,1,2\n", "has no column 'second'. It has: basket, first, weight"),
        ("basket,first,second,x,x\na,1,,1,2\n", "has two columns 'x'"),
        (HEAD, "has no rows below the names of its columns"),
        ("basket,first,second\na,1,\n", "has no features"),
        (HEAD + "a,1,2\n", "line 2: expected 5 values, got 3"),
        (HEAD + "a,1,heavy,,2\n", "line 2: expected a number in the column 'weight', got 'heavy'"),
        (HEAD + "a,1,nan,,2\n", "line 2: expected a number in the column 'weight', got 'nan'"),
        (HEAD + "a,1,,,2\n", "line 2: expected a number in the column 'weight', got ''"),
        (HEAD + "a,2,1,,2\n", "line 2: expected 0 or 1 in the column 'first', or nothing, got '2'"),
        (HEAD + "a,,1,,2\n", "line 2: the set 'a' has no answer. Fill first or second"),
        (HEAD + "a,1,1,0,2\na,1,1,,2\n", "line 3: 'second' is empty here, but not for all items of the set 'a'"),
    ],
)
def test_wrong_tables(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError) as caught:
        read(table(tmp_path, text))
    assert message in str(caught.value)


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00"])
def test_what_is_no_table(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "items.csv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match="cannot be read as CSV"):
        read(path)


def test_an_item_without_a_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"line 3: the column 'basket' is empty\. Name the set of every item"):
        read(table(tmp_path, HEAD + "a,1,1,0,1\n ,1,1,0,1\n"))


def test_blanks_around_the_name_of_a_set_do_not_matter(tmp_path: Path) -> None:
    found = read_label_table(table(tmp_path, HEAD + "a,1,1,0,1\na ,0,1,1,1\n"), "basket", ("first", "second"))
    assert found.names == ("a",)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ((), "There is no column of labels"),
        (("first", "first"), "'first' is named twice"),
        (("first", "basket"), "'basket' is named twice"),
    ],
)
def test_label_columns_are_named_once(tmp_path: Path, labels: tuple[str, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_label_table(table(tmp_path, HEAD + ROWS), "basket", labels)
