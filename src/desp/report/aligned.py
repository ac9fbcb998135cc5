"""Sets that are aligned with their inputs, as tables."""

from html import escape
from typing import Any

from desp.report.tables import rows_table

# Numbers of an element of the input that are listed; of more, the first ones.
_MOST_NUMBERS = 4


_DRAWS = "Predictions are sampled independently."
_MOST_PROBABLE = (
    "Predictions are the most probable answers, as far as they are probable enough; where these are fewer, the "
    "most probable one fills the other columns."
)


def aligned_tables(
    examples: list[dict[str, Any]], same: bool, which: str = "", *, most_probable: bool = False
) -> str:
    """A table for each input: its elements, each beside its outputs in the true and in the predicted sets.

    Args:
        examples: with `elements`, the rows of the input.
        same: whether all predictions for an input are the same set.
        which: a sentence on how examples were chosen.
        most_probable: whether predictions are the most probable answers, and no draws.
    """
    draws = "The method gives one answer." if same else _MOST_PROBABLE if most_probable else _DRAWS
    note = (
        "<p class='note'>One table for each input, one row for each of its elements: what is true of it, in all "
        f"answers that are known, and what was predicted. {draws} {which}</p>"
    )
    tables = []
    for item in examples:
        columns = {
            **{f"true {number}": rows for number, rows in enumerate(item["truth"], start=1)},
            **{
                f"prediction {number}": sample["set"]
                for number, sample in enumerate(item["samples"][: 1 if same else None], start=1)
            },
        }
        rows = [
            {
                "element": number + 1,
                "input": _first_numbers(element),
                **{name: sets[number] for name, sets in columns.items()},
            }
            for number, element in enumerate(item["elements"])
        ]
        group = f"{item['group']}: " if "group" in item else ""
        tables.append(f"<h3>{escape(group + str(item.get('label', '')))}</h3>{rows_table(rows)}")
    return note + "".join(tables)


def _first_numbers(element: list[float]) -> list[Any]:
    more = len(element) - _MOST_NUMBERS
    return element if more <= 0 else [*element[:_MOST_NUMBERS], f"{more} more"]
