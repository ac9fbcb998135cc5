"""XML files of Pascal VOC, read safely: files with a DOCTYPE, which may define entities, are refused."""

from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, XMLParser

Pixels = tuple[float, float, float, float]


class UnusableXml(Exception):
    """A file that is not as expected; the message says what is wrong."""


@dataclass(frozen=True)
class VocRecord:
    """An annotated image.

    Attributes:
        image: the name of its file.
        size: width and height; None where the file does not say.
        objects: for each a class, and xmin, ymin, xmax, ymax as they are written: pixels are counted from 1, and
            the last one belongs to the box.
    """

    image: str
    size: tuple[float | None, float | None]
    objects: tuple[tuple[str, Pixels], ...]


class _WithoutDoctype(TreeBuilder):
    def doctype(self, name: str, pubid: str | None, system: str | None) -> None:
        """Refuse the file before entities that it declares, which may expand to gigabytes, can be used."""
        del name, pubid, system
        raise UnusableXml("it has a DOCTYPE, which may define entities and is not accepted")


def read_voc_xml(path: Path) -> VocRecord:
    """Read one file.

    Raises:
        UnusableXml: no XML, with a DOCTYPE, or without what is needed.
    """
    parser = XMLParser(target=_WithoutDoctype())  # noqa: S314 - what is dangerous in XML needs a DOCTYPE
    try:
        parser.feed(path.read_bytes())
        root: Element = parser.close()
    except (ParseError, ValueError, LookupError) as error:  # the last for an unknown encoding
        raise UnusableXml(f"no XML: {error}") from error
    image = (root.findtext("filename") or "").strip()
    if not image:
        raise UnusableXml("there is no filename")
    size = tuple(_number_at(root, f"size/{key}") for key in ("width", "height"))
    objects = tuple(_read_object(item, number) for number, item in enumerate(root.findall("object")))
    return VocRecord(image, (size[0], size[1]), objects)


def _read_object(item: Element, number: int) -> tuple[str, Pixels]:
    name = (item.findtext("name") or "").strip()
    box = [_number_at(item, f"bndbox/{key}") for key in ("xmin", "ymin", "xmax", "ymax")]
    left, top, right, bottom = box
    if not name or left is None or top is None or right is None or bottom is None:
        raise UnusableXml(f"object {number} has no name, or no bndbox with xmin, ymin, xmax and ymax")
    return name, (left, top, right, bottom)


def _number_at(element: Element, path: str) -> float | None:
    text = element.findtext(path)
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
