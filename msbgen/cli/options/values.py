"""Values of options from their text; invalid text raises with an example."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def count(text: str) -> int:
    """Whole number from 1 on."""
    if not text.isascii() or not text.isdigit() or len(text) > 18 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number ≥ 1")
    return int(text)


def folds(text: str) -> int:
    """Whole number from 2 on."""
    if count(text) < 2:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number ≥ 2")
    return int(text)


def seed(text: str) -> int:
    """Whole number from 0 on."""
    if not text.isascii() or not text.isdigit() or len(text) > 19 or int(text) >= 2**63:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 2^63 - 1")
    return int(text)


def number(text: str) -> float:
    """Positive number."""
    value = _number(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return value


def degrees(text: str) -> float:
    """Temperature [°C]."""
    value = _number(text)
    if not -100 <= value <= 300:
        raise argparse.ArgumentTypeError(f"{text!r} is not a temperature from -100 to 300 °C")
    return value


def duration(text: str) -> float:
    """Time [s] above 0, given as 2s, 500ms, 5min, 1h, or a number of seconds."""
    value = _seconds(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time above 0, such as 2s, 500ms, 5min or 1h"
        )
    return value


@dataclass(frozen=True)
class TimesFastest:
    """A limit of time relative to the shortest expected time, as 1.1x."""

    factor: float


def duration_or_factor(text: str) -> float | TimesFastest:
    """Time with its unit, or a multiple from 1 on of the shortest time, as 1.1x."""
    if not text.endswith("x"):
        if _number(text) > 0:  # 1.1 may be meant as 1.1x
            raise argparse.ArgumentTypeError(f"{text!r} has no unit; {text}s or {text}x is wanted")
        return duration(text)
    factor = number(text[:-1])
    if factor < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is below 1x, which no context can keep")
    return TimesFastest(factor)


def seconds_of(limit: float | TimesFastest, fastest: float) -> float:
    """The limit in seconds, where the shortest expected time is `fastest` [s]."""
    return limit.factor * fastest if isinstance(limit, TimesFastest) else limit


def duration_or_none(text: str) -> float:
    """Time as :func:`duration`, or 0."""
    value = _seconds(text)
    if not value >= 0:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a time of 0 or more, such as 2s, 500ms or 5min"
        )
    return value


def budget(text: str) -> str | int:
    """Measuring time, with its unit, or a number of contexts."""
    if text.isascii() and text.isdigit():
        return count(text)
    if not _seconds(text) > 0 or not text[-1:].isalpha():
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a time, such as 120s, 5min or 1h, nor a number of "
            "contexts, such as 40"
        )
    return text


def _seconds(text: str) -> float:
    """Time [s]; NaN for anything else."""
    from msbgen.core.durations import parse_seconds
    from msbgen.core.errors import ArgumentError

    try:
        return parse_seconds(text)
    except ArgumentError:
        return float("nan")


def _number(text: str) -> float:
    """Number in decimal notation; NaN for anything else."""
    from msbgen.data.columns import NUMBER

    return float(text) if NUMBER.fullmatch(text.strip()) else float("nan")


def _share(text: str) -> float:
    """Share given as 2% or 0.02; NaN for anything else."""
    return _number(text[:-1]) / 100 if text.endswith("%") else _number(text)


def share(text: str) -> float:
    """Share from 0 to below 1, given as 2% or 0.02."""
    value = _share(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a share from 0% to below 100%, such as 2% or 0.02"
        )
    return value


def percentage(text: str) -> float:
    """Share above 0 and below 1, given as 2% or 0.02."""
    value = _share(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a share above 0% and below 100%, such as 2% or 0.02"
        )
    return value


def slack(text: str) -> float | str:
    """Share of speed that lower clocks may cost, or the name of a rule for it."""
    if text in ("reference", "simulated"):
        return text
    value = _share(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a share from 0% to below 100%, such as 2% or 0.02, nor "
            f"'reference' or 'simulated'"
        )
    return value


def shares(text: str) -> list[float]:
    """Shares from 0 to 1, between commas."""
    values = [_number(part) for part in text.split(",")]
    if not all(0 <= value <= 1 for value in values):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of shares from 0 to 1, such as 0.3,0.5"
        )
    return values


def names(text: str) -> list[str]:
    """Names between commas."""
    found = [part.strip() for part in text.split(",")]
    if not all(found):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of names, such as old,new")
    return found


def amounts(text: str) -> dict[str, float]:
    """Positive amounts by name, as ``cache_ways=20,bandwidth=1400``."""
    parts = [part.partition("=") for part in text.split(",")]
    found = {name.strip(): _number(value) for name, _, value in parts}
    if len(found) < len(parts) or not all(
        name and 0 < value < float("inf") for name, value in found.items()
    ):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of amounts, such as cache_ways=20,bandwidth=1400"
        )
    return found


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
