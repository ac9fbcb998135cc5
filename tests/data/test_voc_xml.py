"""Pascal VOC's XML files, also those that mean harm."""

from pathlib import Path

import pytest

from desp.data.voc_xml import UnusableXml, VocRecord, read_voc_xml

OBJECT = (
    "<object><name>{}</name><bndbox><xmin>{}</xmin><ymin>{}</ymin><xmax>{}</xmax><ymax>{}</ymax></bndbox></object>"
)


def read(tmp_path: Path, text: str | bytes) -> VocRecord:
    path = tmp_path / "a.xml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_voc_xml(path)


def test_a_record_with_boxes_as_they_are_written(tmp_path: Path) -> None:
    size = "<size><width>20</width><height>10</height><depth>3</depth></size>"
    objects = OBJECT.format(" cat ", 1, 1, 1, 1) + OBJECT.format("dog", "2.5", 3, 20, 10)
    record = read(tmp_path, f"<annotation><filename>a.png</filename>{size}{objects}</annotation>")
    assert record == VocRecord("a.png", (20, 10), (("cat", (1, 1, 1, 1)), ("dog", (2.5, 3, 20, 10))))


@pytest.mark.parametrize("size", ["", "<size/>", "<size><width>wide</width><height/></size>"])
def test_sizes_may_be_unknown(tmp_path: Path, size: str) -> None:
    assert read(tmp_path, f"<a><filename>a.png</filename>{size}</a>") == VocRecord("a.png", (None, None), ())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no XML: no element found"),
        ("<annotation>", "no XML: no element found"),
        ("not xml", "no XML: syntax error"),
        (b"\xff\xfe\x00", "no XML"),
        ('<?xml version="1.0" encoding="nonsense"?><a/>', "no XML: unknown encoding"),
        ("<a/>", "there is no filename"),
        ("<a><filename> </filename></a>", "there is no filename"),
        ("<a><filename>a.png</filename><object/></a>", "object 0 has no name, or no bndbox"),
        (f"<a><filename>a.png</filename>{OBJECT.format('cat', 1, 'x', 3, 4)}</a>", "object 0 has no name"),
        (f"<a><filename>a.png</filename>{OBJECT.format('', 1, 2, 3, 4)}</a>", "object 0 has no name"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str | bytes, told: str) -> None:
    with pytest.raises(UnusableXml, match=told):
        read(tmp_path, text)


LAUGHS = "".join(f'<!ENTITY l{level} "{f"&l{level - 1};" * 10}">' for level in range(1, 10))


@pytest.mark.parametrize(
    "doctype",
    [
        f'<!DOCTYPE a [<!ENTITY l0 "ha">{LAUGHS}]>',
        '<!DOCTYPE a [<!ENTITY l9 SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE a SYSTEM "http://127.0.0.1:9/a.dtd">',
        "<!DOCTYPE a>",
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_entities_are_never_expanded(tmp_path: Path, doctype: str, encoding: str) -> None:
    text = f'<?xml version="1.0" encoding="{encoding}"?>{doctype}<a><filename>&l9;</filename></a>'
    with pytest.raises(UnusableXml, match=r"it has a DOCTYPE, .* is not accepted"):
        read(tmp_path, text.encode(encoding))
