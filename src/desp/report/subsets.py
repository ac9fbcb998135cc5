"""Which items of a set do not belong: a row of faces, or of numbers, for each prediction and each answer."""

from collections import Counter
from html import escape
from typing import Any

_NOTE = (
    "<p class='note'>One table for each set. A row is a prediction, with how many of them are the same; framed "
    "items are those that do not belong. Beside a valid answer stands what its other items share. Valid answers "
    "that were not predicted follow in red.</p>"
)


def subset_tables(examples: list[dict[str, Any]], same: bool) -> str:
    """A table for each set of items that `samples.json` tells names of.

    Args:
        examples: with `items`, and `reasons` for each of their true sets.
        same: whether all predictions are the same, so that one is shown.
    """
    return _NOTE + "".join(_subset_table(item, same) for item in examples)


def _subset_table(example: dict[str, Any], same: bool) -> str:
    items = example["items"]
    answers = {_inliers(rows): reason for rows, reason in zip(example["truth"], example["reasons"], strict=True)}
    predicted = Counter(_inliers(sample["set"]) for sample in example["samples"][: 1 if same else None])
    rows = [
        _row(items, inliers, f"{count} of {predicted.total()}", _verdict(answers.get(inliers)), "")
        for inliers, count in predicted.most_common()
    ]
    missed = [(inliers, reason) for inliers, reason in answers.items() if inliers not in predicted]
    rows += [_row(items, inliers, "missed", f"share {reason}", "missed") for inliers, reason in missed]
    images = "".join(
        f"--item{n}:url({escape(item['image'], quote=True)});" for n, item in enumerate(items) if item.get("image")
    )
    return (
        f"<h3>{escape(str(example.get('label', '')))}</h3>"
        f"<div class='wide'><table class='subset' style='{images}'>{_head(items)}{''.join(rows)}</table></div>"
    )


def _inliers(rows: list[list[float]]) -> tuple[bool, ...]:
    """A label is decided by its sign."""
    return tuple(row[0] > 0 for row in rows)


def _verdict(reason: str | None) -> str:
    return "no valid answer" if reason is None else f"valid: inliers share {reason}"


def _head(items: list[dict[str, Any]]) -> str:
    names = "".join(
        f"<th scope='col' title='{escape(', '.join(item['facts']), quote=True)}'>{escape(item['name'])}</th>"
        for item in items
    )
    return f"<tr><th scope='col'>predictions</th>{names}<th scope='col'></th></tr>"


def _row(items: list[dict[str, Any]], inliers: tuple[bool, ...], count: str, verdict: str, kind: str) -> str:
    cells = "".join(
        _cell(number, item, inlier) for number, (item, inlier) in enumerate(zip(items, inliers, strict=True))
    )
    return f"<tr class='{kind}'><th scope='row'>{escape(count)}</th>{cells}<td>{escape(verdict)}</td></tr>"


def _cell(number: int, item: dict[str, Any], inlier: bool) -> str:
    """An item: its image, or its number where there is none."""
    says = "belongs" if inlier else "does not belong"
    image = f" style='background-image:var(--item{number})'" if item.get("image") else ""
    text = "" if item.get("image") else str(number + 1)
    kind = "in" if inlier else "out"
    return f"<td><span class='item {kind}' role='img' aria-label='{number + 1} {says}'{image}>{text}</span></td>"
