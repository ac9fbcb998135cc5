"""Tables and frames of pictures of the page, as HTML. Every text from a file goes through `escape`."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from desp.report.numbers import is_number, readable

# Known columns come first, in this order.
_COLUMNS = (
    *("system", "metric", "direction", "value", "std", "seeds", "paper", "real_data"),
    *("scored", "protocol", "data", "task", "table", "recipe", "variant"),
)
_MOST_LISTED = 24


def number_html(value: Any, text: str | None = None) -> str:
    """A value in short, or as `text`, with the whole number for machines and on hovering."""
    shown = escape(text or readable(value))
    return f'<data value="{value!r}" title="{value!r}">{shown}</data>' if is_number(value) else shown


def picture(svg: bytes, description: str, caption: str = "", kind: str = "") -> str:
    """An SVG inside the page, with its description for those who cannot see it."""
    drawn = svg.decode("utf-8").replace("<svg", f'<svg role="img" aria-label="{escape(description)}"', 1)
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure><div class="{kind}">{drawn}</div>{below}</figure>'


def plain_table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of texts; the first text of each row is its heading."""
    first, *others = (escape(text) for text in heads)
    head = f'<th scope="col">{first}</th>' + "".join(
        f'<th scope="col" class="number">{text}</th>' for text in others
    )
    body = "".join(f"<tr>{_plain_cells([escape(text) for text in row])}</tr>" for row in rows)
    return f'<div class="table"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _plain_cells(texts: list[str]) -> str:
    cells = "".join(f'<td class="number">{text}</td>' for text in texts[1:])
    return f'<th scope="row">{texts[0]}</th>{cells}'


def seed_count(row: dict[str, Any]) -> int | None:
    """How many seeds the value of a row is of; None if it does not say."""
    seeds = row.get("seeds")
    return None if seeds is None else len(seeds)


def rows_table(rows: list[dict[str, Any]]) -> str:
    """All rows of an evaluation. Seeds are counted; columns in which nothing is known are left out."""
    rows = [{**row, "seeds": seed_count(row)} for row in rows]
    others = (str(key) for row in rows for key in row if key != "unit")  # values are unscaled: it would mislead
    names = list(dict.fromkeys([*_COLUMNS, *others]))
    names = known_columns(names, rows)
    head = "".join(f'<th scope="col"{_numeric(rows, name)}>{escape(_title(name))}</th>' for name in names)
    body = "".join(
        "<tr>"
        + "".join(f"<td{_numeric(rows, name)}>{number_html(row.get(name))}</td>" for name in names)
        + "</tr>"
        for row in rows
    )
    return f'<div class="table"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def known_columns(names: Iterable[str], rows: Sequence[dict[str, Any]]) -> list[str]:
    """The columns in which a row has a value."""
    return [name for name in names if any(row.get(name) is not None for row in rows)]


def _title(name: str) -> str:
    if name == "direction":
        return "Better"
    return name.replace("_", " ").capitalize() if name in _COLUMNS else name


def _numeric(rows: list[dict[str, Any]], name: str) -> str:
    known = [row[name] for row in rows if row.get(name) is not None]
    return ' class="number"' if known and all(is_number(value) for value in known) else ""


def names_table(pairs: Iterable[tuple[str, Any]]) -> str:
    """Two columns, a name and its value."""
    body = "".join(f'<tr><th scope="row">{escape(name)}</th><td>{_cell(value)}</td></tr>' for name, value in pairs)
    return f'<div class="table"><table class="names"><tbody>{body}</tbody></table></div>'


def _cell(value: Any) -> str:
    if isinstance(value, list | tuple) and len(value) > _MOST_LISTED:
        return f"{escape(readable(value[:_MOST_LISTED]))}, … ({len(value)} values)"
    return number_html(value)


def settings_tables(settings: dict[str, Any]) -> str:
    """Settings as one collapsible table a group; nested names are joined with dots; a note without any."""
    groups = {name: value for name, value in settings.items() if isinstance(value, dict)}
    single = [(name, value) for name, value in settings.items() if not isinstance(value, dict)]
    parts = [folded(name, names_table(flatten(value))) for name, value in groups.items()]
    if single:
        parts.append(folded("other", names_table(single)))
    return "".join(parts) or '<p class="missing">The run recorded no settings.</p>'


def folded(title: str, content: str) -> str:
    """Content that is shown on demand."""
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


def flatten(value: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Nested values as a flat list of dotted names, in the order they were written."""
    pairs: list[tuple[str, Any]] = []
    for name, item in value.items():
        if isinstance(item, dict):
            pairs += flatten(item, f"{prefix}{name}.")
        else:
            pairs.append((f"{prefix}{name}", item))
    return pairs
