"""Values of options from their text; invalid text raises with an example."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msbgen.core.durations import has_unit, parse_seconds
from msbgen.core.records import (
    Count,
    Fraction,
    Name,
    Parsed,
    Positive,
    Seed,
    Within,
    fits,
    from_text,
    wanted,
)

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def option(hint: Any, words: str = "") -> Callable[[str], Any]:
    """Function from the text of an option to its value, which is as an annotation says.

    `words` say what is wanted, where those of the annotation do not.
    """

    def read(text: str) -> Any:
        try:
            return from_text(hint, text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not {words or wanted(hint)}") from None

    return read


def _share_of(text: str) -> float:
    """Share given as 2% or 0.02."""
    number = from_text(float, text.removesuffix("%"))
    return number / 100 if text.endswith("%") else number


_Time = Parsed(parse_seconds, "a time above 0, such as 2s, 500ms, 5min or 1h")
_TimeOrNone = Parsed(parse_seconds, "a time of 0 or more, such as 2s, 500ms or 5min")
_Part = Parsed(_share_of, "a share from 0% to below 100%, such as 2% or 0.02")
_Percentage = Parsed(_share_of, "a share above 0% and below 100%, such as 2% or 0.02")
Duration = Annotated[float, _Time, Within(0, above=True)]
DurationOrNone = Annotated[float, _TimeOrNone, Within(0)]
_Shares = Annotated[float, _Part, Within(0, 1, below=True)]
_Decimal = Annotated[float, Parsed(lambda text: from_text(float, text), ""), Within(0, above=True)]
Group = Annotated[int, Within(0, 99_999)]

count = option(Count)
folds = option(Annotated[int, Within(2)])
seed = option(Seed)
number = option(Positive)
degrees = option(Annotated[float, Within(-100, 300)], "a temperature from -100 to 300 °C")
duration = option(Duration)
duration_or_none = option(DurationOrNone)
share = option(_Shares)
percentage = option(Annotated[float, _Percentage, Within(0, 1, above=True, below=True)])
# of speed that lower clocks may cost, or the name of a rule for it
slack = option(
    Literal["reference", "simulated"] | _Shares,
    "a share from 0% to below 100%, such as 2% or 0.02, or 'reference' or 'simulated'",
)
shares = option(tuple[Fraction, ...], "a list of shares from 0 to 1, such as 0.3,0.5")
names = option(tuple[Name, ...], "a list of names, such as old,new")
numbers = option(tuple[Positive, ...], "a list of numbers > 0, such as 12,8")
groups = option(tuple[Group, ...], "a list of whole numbers, such as 0,1")
amounts = option(dict[Name, Positive], "a list of amounts, such as cache_ways=20,bandwidth=1400")


@dataclass(frozen=True)
class TimesFastest:
    """A limit of time relative to the shortest expected time, as 1.1x."""

    factor: float


def duration_or_factor(text: str) -> float | TimesFastest:
    """Time with its unit, or a multiple from 1 on of the shortest time, as 1.1x."""
    if not text.endswith("x"):
        if fits(_Decimal, text):  # 1.1 may be meant as 1.1x
            raise argparse.ArgumentTypeError(f"{text!r} has no unit; {text}s or {text}x is wanted")
        return duration(text)
    factor = number(text[:-1])
    if factor < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is below 1x, which no context can keep")
    return TimesFastest(factor)


def seconds_of(limit: float | TimesFastest, fastest: float) -> float:
    """The limit in seconds, where the shortest expected time is `fastest` [s]."""
    return limit.factor * fastest if isinstance(limit, TimesFastest) else limit


def budget(text: str) -> str | int:
    """Measuring time, with its unit, or a number of contexts."""
    if text.isascii() and text.isdigit():
        return count(text)
    if not fits(Duration, text) or not has_unit(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a time, such as 120s, 5min or 1h, nor a number of "
            "contexts, such as 40"
        )
    return text


def folder(text: str) -> Path:
    """Folder of input files."""
    return Path(text)


def output(text: str) -> Path:
    """File or folder to write."""
    if text == "-":
        raise argparse.ArgumentTypeError("'-' (stdout) is for tables only; name a file")
    if not text:
        raise argparse.ArgumentTypeError("'' is not a name; name a file or a folder")
    return Path(text)


def table_output(text: str) -> Path | None:
    """File to write a table to, None for stdout, which is written ``-``."""
    return None if text == "-" else output(text)


def csv_output(text: str) -> Path | None:
    """As :func:`table_output`, where tables are CSV only."""
    if text.endswith(".nc"):
        raise argparse.ArgumentTypeError(
            f"{text!r} names a netCDF file; the table is CSV: end the name with .csv"
        )
    return table_output(text)


def levels(text: str) -> Mapping[str, ArrayLike]:
    """Levels by name, from the text or of the virtual platform."""
    if text == "virtual":
        from msbgen.sources.platform import PlatformConfig

        return PlatformConfig().levels
    from msbgen.answers.plan.plan import parse_levels
    from msbgen.core.errors import ArgumentError

    try:
        return parse_levels(text)
    except ArgumentError as error:
        raise argparse.ArgumentTypeError(str(error).removesuffix(".")) from None
