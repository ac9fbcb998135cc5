"""A user's own files: what is read, and what each mistake is called."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from desp.data.base import DatasetSource
from desp.data.files import DataFile, read_data_file
from desp.data.inputs import read_input
from desp.data.json_lines import open_json_lines
from desp.data.tables import field_of
from desp.errors import DataError
from desp.settings import DataDescription
from tiny_clevr import png_that_claims

WriteLines = Callable[..., Path]


def inputs_of(data: DataFile) -> Tensor:
    return torch.stack([x for x, _ in data.examples])


def sets_of(data: DataFile) -> list[Tensor]:
    return [answers[0] for _, answers in data.examples]


@pytest.fixture
def write(tmp_path: Path) -> WriteLines:
    """Write lines, given as text or as objects, to a file."""

    def lines(*records: Any) -> Path:
        path = tmp_path / "data.jsonl"
        texts = [record if isinstance(record, str) else json.dumps(record) for record in records]
        path.write_text("\n".join(texts) + "\n" if texts else "")
        return path

    return lines


@pytest.fixture
def write_npz(tmp_path: Path) -> Callable[..., Path]:
    """Write arrays to an npz file."""

    def arrays(**values: Any) -> Path:
        np.savez(tmp_path / "data.npz", **values)
        return tmp_path / "data.npz"

    return arrays


GOOD = {"input": [1, 2], "set": [[0.5, 1], [2, 3]]}


def test_json_lines_with_vectors(write: WriteLines) -> None:
    data = read_data_file(write(GOOD, "", {"input": [3, 4.5], "set": [], "comment": "ignored"}))
    assert len(data) == 2
    assert (data.input_kind, data[0][0].shape) == ("vector", (2,))
    assert inputs_of(data).tolist() == [[1, 2], [3, 4.5]]
    assert [item.tolist() for item in sets_of(data)] == [[[0.5, 1], [2, 3]], []]
    assert sets_of(data)[1].shape == (0, 2)
    x, elements = data[0]
    assert (x.dtype, elements.dtype) == (torch.float32, torch.float32)


def test_a_file_can_begin_with_an_empty_set(write: WriteLines) -> None:
    data = read_data_file(write({"input": 1, "set": []}, {"input": 2, "set": [[1, 2, 3]]}))
    assert inputs_of(data).tolist() == [[1], [2]]
    assert sets_of(data)[0].shape == (0, 3)


def test_set_inputs_are_padded_with_presence(write: WriteLines) -> None:
    data = read_data_file(write({"input": [[1, 2]], "set": [[0.0]]}, {"input": [[3, 4], [5, 6]], "set": [[1.0]]}))
    assert (data.input_kind, data[0][0].shape) == ("set", (2, 3))
    assert inputs_of(data).tolist() == [[[1, 2, 1], [0, 0, 0]], [[3, 4, 1], [5, 6, 1]]]


@pytest.mark.parametrize("first", ["empty", "full"])
def test_set_inputs_may_be_empty(write: WriteLines, first: str) -> None:
    records = [{"input": [], "set": [[1.0]]}, {"input": [[3, 4]], "set": [[1.0]]}]
    data = read_data_file(write(*(records if first == "empty" else reversed(records))))
    rows = inputs_of(data).tolist()
    assert sorted(rows) == [[[0, 0, 0]], [[3, 4, 1]]]


def test_images_are_read_beside_the_file(write: WriteLines, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.zeros((2, 3, 3), dtype=np.uint8)
    pixels[0, 2] = (255, 0, 51)
    image.fromarray(pixels).save(tmp_path / "a.png")
    data = read_data_file(write({"input": "a.png", "set": [[1.0]]}))
    assert (data.input_kind, data[0][0].shape) == ("image", (3, 2, 3))
    assert inputs_of(data).dtype == torch.uint8  # a quarter of the memory; floats are made on the device
    assert inputs_of(data)[0, :, 0, 2].tolist() == [255, 0, 51]
    assert inputs_of(data).sum().item() == 306


def test_images_are_resized_to_one_size_where_that_is_asked_for(write: WriteLines, tmp_path: Path) -> None:
    for name, size in (("a.png", (6, 4)), ("b.jpg", (3, 9)), ("c.bmp", (5, 5))):
        Image.new("RGB", size, (10, 20, 30)).save(tmp_path / name, quality=100)
    path = write(*({"input": name, "set": [[1.0]]} for name in ("a.png", "b.jpg", "c.bmp")))
    images = inputs_of(read_data_file(path, image_size=5))
    assert images.shape == (3, 3, 5, 5)
    assert (images - torch.tensor([10, 20, 30])[:, None, None]).abs().max() <= 2
    with pytest.raises(DataError, match=r"line 2: images have different sizes \(6 x 4 and 3 x 9\). Resize all"):
        read_data_file(path)


def test_an_image_size_is_for_images_in_rows(write: WriteLines, write_npz: Callable[..., Path]) -> None:
    with pytest.raises(DataError, match=r"line 1: task.image_size is for images, but the input is a vector"):
        read_data_file(write(GOOD), image_size=8)
    with pytest.raises(
        DataError, match=r"task.image_size is for images named in files of rows .*, not for arrays"
    ):
        read_data_file(write_npz(inputs=np.zeros((2, 3)), sets=np.zeros((2, 1, 1))), image_size=8)


@pytest.mark.parametrize("channels", [1, 3])
def test_an_image_to_predict_for_has_the_size_and_channels_of_the_model(tmp_path: Path, channels: int) -> None:
    Image.new("RGB", (9, 5), (200, 200, 200)).save(tmp_path / "a.png")
    x = read_input("a.png", "image", (channels, 4, 6), tmp_path, "here")
    assert (x.shape, x.dtype) == ((channels, 4, 6), torch.uint8)
    assert (x == 200).all()


def test_images_of_other_channels_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="here: image files have 1 or 3 channels, and this model's inputs have 4"):
        read_input("a.png", "image", (4, 4, 4), tmp_path, "here")


def test_huge_images_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png_that_claims(9000, 9000))
    with pytest.raises(DataError, match=r"here: cannot read the image .*a.png: the image has more than 64"):
        read_input("a.png", "image", (3, 4, 4), tmp_path, "here")


def test_parts_keep_inputs_with_their_sets(write: WriteLines) -> None:
    data = read_data_file(write(*({"input": k, "set": [[k]] * (k + 1)} for k in range(5))))
    part = data.part([3, 1])
    assert inputs_of(part).tolist() == [[3], [1]]
    assert [len(item) for item in sets_of(part)] == [4, 2]
    assert part.input_kind == data.input_kind
    assert inputs_of(part.part([0])).tolist() == [[3]]  # a part of a part counts from that part


def test_a_file_feeds_a_source(write: WriteLines) -> None:
    data = read_data_file(write(GOOD, {"input": [3, 4], "set": []}))
    batch = next(DatasetSource(data, 4, max_size=2, features=2).batches(0))
    assert (batch.x.shape, batch.sets.elements.shape) == ((4, 2), (4, 2, 2))


LINE = "data.jsonl, line 2: "


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ('{"input": [1, 2], "set"', LINE + "not valid JSON"),
        ("[1, 2]", LINE + "expected a JSON object"),
        ("7", LINE + "expected a JSON object"),
        ({"set": [[1, 2]]}, LINE + r"the field 'input' is missing \(found: set\)"),
        ({"input": [1, 2]}, LINE + r"the field 'set' is missing \(found: input\)"),
        ({}, LINE + r"the field 'input' is missing \(found: nothing\)"),
        ('{"input": [1, 2], "set": [[1, NaN]]}', LINE + "element 0, feature 1 holds NaN"),
        ('{"input": [1, 2], "set": [[1, 1e999]]}', LINE + "element 0, feature 1 holds NaN or infinity"),
        ('{"input": [1, NaN], "set": [[1, 2]]}', LINE + "An input holds NaN"),
        ({"input": [1, 2], "set": [[1, 2, 3]]}, LINE + "elements have 3 features, but 2 in the sets before"),
        (
            {"input": [1, 2], "set": [[1, 2], [3]]},
            LINE + "element 1 has 1 feature, the first has 2. Expected a list",
        ),
        (
            {"input": [1, 2], "set": [[1, 2], [3, "b"]]},
            LINE + "element 1, feature 1 is text, 'b'. Expected a list",
        ),
        ({"input": [1, 2], "set": [[None, 2]]}, LINE + r"element 0, feature 0 is null \(None\). Expected"),
        ({"input": [1, 2], "set": None}, LINE + r"expected a list .*, got null \(None\)\. An empty set is"),
        ({"input": [1, 2], "set": [1, 2]}, LINE + "expected two dimensions"),
        ({"input": [1, 2], "set": [[True, False]]}, LINE + "expected real numbers"),
        ({"input": [1, 2, 3], "set": [[1, 2]]}, LINE + r"expected an input of shape \(2,\)"),
        ({"input": 1, "set": [[1, 2]]}, LINE + r"expected an input of shape \(2,\) \(vector\), got \(1,\)"),
        ({"input": [[1, 2]], "set": [[1, 2]]}, LINE + "expected an input of kind 'vector', like the others"),
        (
            {"input": "a.png", "set": [[1, 2]]},
            LINE + "expected an input of kind 'vector', like the others, got the text 'a.png'.$",
        ),
        ({"input": "[1, 2]", "set": [[1, 2]]}, LINE + r".*got the text '\[1, 2\]'\. Write lists in JSON lines,"),
        ({"input": {"a": 1}, "set": [[1, 2]]}, LINE + "an input must be a number"),
        ({"input": None, "set": [[1, 2]]}, LINE + "an input must be a number"),
        (
            {"input": [1, None], "set": [[1, 2]]},
            LINE + r"An input holds null \(None\), at \[1\]. Expected a number",
        ),
        ({"input": [1, "a"], "set": [[1, 2]]}, LINE + r"An input holds text, 'a', at \[1\]. Expected"),
    ],
)
def test_bad_lines_are_named(write: WriteLines, bad: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_data_file(write(GOOD, bad))


def test_line_numbers_count_blank_lines(write: WriteLines) -> None:
    with pytest.raises(DataError, match="line 4: not valid JSON"):
        read_data_file(write(GOOD, "", "", "{"))


def test_set_inputs_of_other_widths(write: WriteLines) -> None:
    with pytest.raises(DataError, match="line 2: elements have 1 features, expected 2"):
        read_data_file(write({"input": [[1, 2]], "set": [[1]]}, {"input": [[1]], "set": [[1]]}))


def test_missing_and_broken_images(write: WriteLines, tmp_path: Path) -> None:
    pytest.importorskip("PIL.Image")
    (tmp_path / "broken.png").write_text("not an image")
    for name in ("missing.png", "broken.png"):
        with pytest.raises(DataError, match=f"line 1: cannot read the image .*{name}"):
            read_data_file(write({"input": name, "set": [[1]]}))


@pytest.mark.parametrize("lines", [(), ("", "  ")], ids=["empty", "blank"])
def test_files_without_examples(write: WriteLines, lines: tuple[str, ...]) -> None:
    with pytest.raises(DataError, match="holds no examples"):
        read_data_file(write(*lines))


def test_only_empty_sets(write: WriteLines) -> None:
    with pytest.raises(DataError, match="every set is empty"):
        read_data_file(write({"input": 1, "set": []}, {"input": 2, "set": []}))


def test_elements_without_features(write: WriteLines) -> None:
    with pytest.raises(DataError):
        read_data_file(write({"input": 1, "set": [[], []]}))


@pytest.mark.parametrize("name", ["nothing.jsonl", "nothing.npz"])
def test_missing_files(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=f"There is no data file at .*{name}"):
        read_data_file(tmp_path / name)


@pytest.mark.parametrize(
    ("names", "held"), [((), "nothing"), (("b", "a"), "a, b"), (tuple("abcdefg"), "a, b, c, d, e, ...")]
)
def test_folders_without_data(tmp_path: Path, names: tuple[str, ...], held: str) -> None:
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(DataError, match=rf"is a folder, but has none of: inputs\.npy .* It holds {held}\. Pass a"):
        read_data_file(tmp_path)


@pytest.mark.parametrize("indent", [None, 1])
def test_one_json_array(tmp_path: Path, indent: int | None) -> None:
    path = tmp_path / "array.json"
    path.write_text(json.dumps([GOOD, GOOD], indent=indent))
    lines = tmp_path / "array.jsonl"
    message = "the file is one JSON array, but each object must be on a line of its own. "
    with pytest.raises(DataError, match=message + f".*: jq -c '.\\[\\]' {path} > {lines}$"):
        read_data_file(path)
    path.rename(lines)  # never the file itself
    with pytest.raises(DataError, match=f"{lines} > {tmp_path / 'array-lines.jsonl'}$"):
        read_data_file(lines)


def test_binary_files(tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_bytes(bytes(range(128, 256)))
    with pytest.raises(DataError, match="is not a text file"):
        read_data_file(tmp_path / "data.jsonl")


def test_lines_are_named(write: WriteLines, tmp_path: Path) -> None:
    table = open_json_lines(write(GOOD, "", GOOD))
    assert [table.where(number).split(", ")[-1] for number, _ in table.rows()] == ["line 1", "line 3"]
    with pytest.raises(DataError, match="There is no file"):
        open_json_lines(tmp_path / "nothing.jsonl")
    assert field_of({"a": 1}, "a", "here") == 1
    with pytest.raises(DataError, match=r"here: the field 'b' is missing \(found: a\)"):
        field_of({"a": 1}, "b", "here")


SETS = np.arange(12, dtype=np.float32).reshape(2, 3, 2)


@pytest.mark.parametrize(
    ("extra", "sizes"),
    [
        ({}, [3, 3]),
        ({"sizes": np.array([1, 0])}, [1, 0]),
        ({"sizes": np.array([[2], [3]])}, [2, 3]),
        ({"presence": np.array([[1, 0, 1], [0, 0, 1]])}, [2, 1]),
        ({"presence": np.array([[True, False, True], [False] * 3])}, [2, 0]),
        ({"presence": np.array([[1, 0, 1], [0, 0, 1]]), "sizes": np.array([3, 3])}, [2, 1]),
    ],
    ids=["full", "sizes", "column of sizes", "presence", "boolean presence", "presence before sizes"],
)
def test_npz(write_npz: Callable[..., Path], extra: dict[str, Any], sizes: list[int]) -> None:
    data = read_data_file(write_npz(inputs=np.array([[1, 2], [3, 4]]), sets=SETS, **extra))
    assert (data.input_kind, data[0][0].shape) == ("vector", (2,))
    assert inputs_of(data).dtype == torch.float32
    assert [len(item) for item in sets_of(data)] == sizes
    if "presence" in extra:
        expected = SETS[0][extra["presence"][0] > 0.5]
        assert sets_of(data)[0].tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((2,), ("vector", (1,))),
        ((2, 3, 4), ("vector", (12,))),
        ((2, 3, 8, 8), ("image", (3, 8, 8))),
    ],
)
def test_npz_inputs(write_npz: Callable[..., Path], shape: tuple[int, ...], expected: tuple[Any, ...]) -> None:
    data = read_data_file(write_npz(inputs=np.zeros(shape), sets=SETS))
    assert (data.input_kind, data[0][0].shape) == expected
    assert len(inputs_of(data)) == 2


def test_npz_ignores_what_absent_rows_hold(write_npz: Callable[..., Path]) -> None:
    sets = SETS.copy()
    sets[0, 2] = np.nan
    data = read_data_file(write_npz(inputs=np.zeros(2), sets=sets, sizes=np.array([2, 3])))
    assert [len(item) for item in sets_of(data)] == [2, 3]


INPUTS = np.zeros((2, 1))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"sets": SETS}, r"the array 'inputs' is missing \(found: sets\)"),
        ({"inputs": INPUTS}, r"the array 'sets' is missing \(found: inputs\)"),
        ({"inputs": INPUTS, "sets": np.array([[["a"]], None], dtype=object)}, "Arrays of objects"),
        ({"inputs": INPUTS, "sets": SETS[0]}, r"'sets' of shape \(M, N, D\), M > 0, got \(2, 1\) and \(3, 2\)"),
        ({"inputs": INPUTS[:1], "sets": SETS}, r"got \(1, 1\) and \(2, 3, 2\)"),
        ({"inputs": INPUTS[:0], "sets": SETS[:0]}, "M > 0"),
        ({"inputs": INPUTS, "sets": SETS * np.nan}, r"data\.npz, set 0: element 0, feature 0 holds NaN"),
        ({"inputs": INPUTS * np.nan, "sets": SETS}, "'inputs' must hold finite numbers"),
        ({"inputs": np.array([[1.0], [1e300]]), "sets": SETS}, "at most 3.4e.38, but in row 1 there is 1e.300"),
        (
            {"inputs": INPUTS, "sets": np.full(SETS.shape, 1e300)},
            "set 0: element 0, feature 0 holds NaN or infinity",
        ),
        (
            {"inputs": INPUTS, "sets": SETS, "sizes": np.array([1.0, 2.5])},
            "whole numbers, but in row 1 there is 2.5",
        ),
        ({"inputs": INPUTS, "sets": SETS, "sizes": np.array([np.nan, 1])}, "'sizes' must be whole numbers"),
        (
            {"inputs": INPUTS, "sets": SETS, "presence": np.array([[1, 0, 1], [0.6, 0, 1]])},
            "'presence' must be 0 or 1, but in row 1 there is 0.6",
        ),
        (
            {"inputs": INPUTS, "sets": SETS, "presence": np.array([[1, 0, 2], [1, 0, 1]])},
            "'presence' must be 0 or 1, but in row 0 there is 2",
        ),
        ({"inputs": np.array(["a", "b"]), "sets": SETS}, "'inputs' must hold real numbers"),
        ({"inputs": INPUTS, "sets": SETS, "sizes": np.array([1, 2, 3])}, "'sizes' shape"),
        (
            {"inputs": INPUTS, "sets": SETS, "presence": np.ones((2, 2))},
            r"'presence' must have shape \(2, 3\)",
        ),
        ({"inputs": INPUTS, "sets": np.array([[["a"]], [["b"]]])}, r"data\.npz"),
        ({"inputs": np.array(1.0), "sets": SETS}, r"data\.npz"),
        ({"inputs": INPUTS, "sets": SETS, "presence": np.array([["a"] * 3] * 2)}, r"data\.npz"),
        ({"inputs": INPUTS, "sets": SETS, "sizes": np.array([1, 4])}, r"data\.npz"),
        ({"inputs": INPUTS, "sets": SETS, "sizes": np.array([1, -1])}, r"data\.npz"),
        ({"inputs": INPUTS, "sets": SETS, "sizes": np.array([0, 0])}, "every set is empty"),
    ],
    ids=lambda value: value if isinstance(value, str) else ",".join(value),
)
def test_bad_npz(write_npz: Callable[..., Path], arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_data_file(write_npz(**arrays))


def broken_files() -> dict[str, Callable[[Path], None]]:
    """Ways to write a file that is named .npz and is none."""

    def array(path: Path) -> None:
        with path.open("wb") as file:
            np.save(file, np.zeros(3))

    def half(path: Path) -> None:
        np.savez(path, inputs=INPUTS, sets=SETS)
        path.write_bytes(path.read_bytes()[:200])

    return {
        "empty": lambda path: path.touch(),
        "text": lambda path: path.write_text("not an archive") and None,
        "array": array,
        "half": half,
    }


@pytest.mark.parametrize("make", broken_files().values(), ids=broken_files().keys())
def test_broken_npz(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "data.npz")
    with pytest.raises(DataError, match="cannot be read"):
        read_data_file(tmp_path / "data.npz")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"input": [], "set": [[1]]}\n{"input": [], "set": [[2]]}\n', "line 1: all inputs are empty lists"),
        ('{"input": ' + "9" * 5000 + ', "set": [[1]]}', "line 1: not valid JSON"),
        ('{"input": ' + "[" * 100_000 + ', "set": [[1]]}', "line 1: not valid JSON"),
        (
            '{"input": [1], "set": [[1' + "0" * 30 + "]]}",
            "line 1: element 0, feature 0 is a whole number of more than 64 bits",
        ),
    ],
    ids=["no numbers", "thousands of digits", "nested too deep", "beyond int64"],
)
def test_odd_lines(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_data_file(path)


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text('{"input": [1], "set": [[1]]}', encoding="utf-8-sig")
    assert len(read_data_file(path)) == 1


def test_outputs_cannot_be_aligned_with_numbers(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text('{"input": 3, "set": [[1]]}')
    with pytest.raises(DataError, match="line 1: outputs can only be aligned with inputs that are sets"):
        read_data_file(path, DataDescription(aligned=True))
