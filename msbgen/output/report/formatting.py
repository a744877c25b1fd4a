"""Formats of the numbers of a report, each with its place in the JSON file."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

# Longest name in a line of text; longer ones are cut.
_SHOWN = 80


@dataclass(frozen=True)
class Figure:
    """A number on the page: its text, its value and its place in the JSON file."""

    text: str
    value: float
    at: str


Sentence = tuple["str | Figure", ...]


def plain(sentence: Sentence) -> str:
    """Text of a sentence."""
    return "".join(part.text if isinstance(part, Figure) else part for part in sentence)


def rounded(value: float, digits: int) -> str:
    """Number with `digits` significant digits and commas between thousands.

    Examples
    --------
    >>> rounded(0.01234, 2), rounded(1234.5, 2), rounded(0.0, 3), rounded(99.96, 3)
    ('0.012', '1,234', '0', '100')
    """
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "–"
    if not 1e-4 <= abs(value) < 1e15:
        return f"{value:.{digits - 1}e}"
    after = digits - 1 - math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    return f"{value:,.{max(after, 0)}f}"


def as_share(value: float) -> str:
    """A share in per cent."""
    return f"{rounded(100 * value, 2)}\u00a0%"


def as_fine_share(value: float) -> str:
    """A share in per cent, with three digits."""
    return f"{rounded(100 * value, 3)}\u00a0%"


def as_rate(value: float) -> str:
    """A share near 1 in per cent, to a tenth."""
    return f"{100 * value:.1f}".removesuffix(".0") + "\u00a0%"


def as_seconds(value: float) -> str:
    """A time [s]."""
    return f"{rounded(value, 3)}\u00a0s"


def as_count(value: float) -> str:
    """A whole number."""
    return f"{int(value):,}"


def as_number(value: float) -> str:
    """Three significant digits."""
    return rounded(value, 3)


def as_level(value: float) -> str:
    """A level of a resource as the file has it."""
    return f"{value:.10g}"


FORMS: dict[str, Callable[[float], str]] = {
    "share": as_share,
    "fine": as_fine_share,
    "rate": as_rate,
    "seconds": as_seconds,
    "count": as_count,
    "number": as_number,
    "level": as_level,
}


class Numbers:
    """The numbers of a report by place: ``held_out.error``, ``next.runs.3``."""

    def __init__(self, tree: Mapping[str, Any]):
        self.tree = tree

    def __call__(self, at: str, form: str = "number") -> Figure:
        """Number at a place in a format of :data:`FORMS`; "–" where it is missing."""
        value: Any = self.tree
        for key in at.split("."):
            value = value[int(key) if isinstance(value, (list, tuple)) else key]
        if value is None or not math.isfinite(value):
            return Figure("–", math.nan, at)
        return Figure(FORMS[form](value), float(value), at)


def shortened(name: str, most: int = _SHOWN) -> str:
    """Name in one line: without control characters, cut to `most` characters.

    Examples
    --------
    >>> shortened("gzip"), shortened("a" * 99, 5), shortened("two\\nlines")
    ('gzip', 'aaaa…', 'two lines')
    """
    text = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    return text if len(text) <= most else text[: most - 1] + "…"


def unit_of(units: str) -> str:
    """Unit behind a number; empty for counts.

    Examples
    --------
    >>> unit_of("MB s-1"), unit_of("1")
    ('\\xa0MB\\xa0s⁻¹', '')
    """
    text = re.sub(r"(?<=[A-Za-z])-([1-3])\b", lambda m: "⁻" + "¹²³"[int(m[1]) - 1], units)
    return "" if units in ("", "1") else f" {shortened(text, 20)}".replace(" ", "\u00a0")


def labelled_unit(units: str) -> str:
    """Unit behind a name."""
    return "" if units in ("", "1") else f" [{unit_of(units)[1:]}]"
