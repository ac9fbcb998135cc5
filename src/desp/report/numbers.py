"""Numbers as people read them."""

import math
from typing import Any, TypeGuard

MINUS = "\N{MINUS SIGN}"
DASH = "\N{EN DASH}"


def short_number(value: float) -> str:
    """Three significant digits, with a real minus sign: -0.2103 becomes −0.210, 8.81e-05 becomes 8.81e−5."""
    return _digits(value, 3).replace("-", MINUS)


def readable(value: Any) -> str:
    """Any JSON value as short text; unknown is a dash."""
    if value is None:
        return DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}".replace(",", " ").replace("-", MINUS) if abs(value) >= 10_000 else str(value)
    if isinstance(value, float):
        return _trimmed(_digits(value, 4)).replace("-", MINUS)
    if isinstance(value, list | tuple):
        return ", ".join(readable(item) for item in value)
    return str(value)


def duration(seconds: float) -> str:
    """Wall time in the two largest units that matter."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a JSON value is a finite number; true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _trimmed(text: str) -> str:
    """Without zeros at the end of the fraction: a published 8.8e-5 must not look like 8.800e-5."""
    mantissa, mark, exponent = text.partition("e")
    return (mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa) + mark + exponent


def _digits(value: float, digits: int) -> str:
    """`digits` significant digits, scientific only outside of what is easily read."""
    if not math.isfinite(value):
        return str(value)
    if value == 0:
        return "0"
    if 1e-3 <= abs(value) < 1e5:
        places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
        return f"{value:.{places}f}"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return f"{mantissa}e{int(exponent)}"
