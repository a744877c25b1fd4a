"""Convert times of day, as some tools print them, to seconds since the start."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import ProfileError, quoted

_TIME_OF_DAY = re.compile(r"(?:^|\D)(\d\d?):(\d\d):(\d\d(?:\.\d+)?)$", re.ASCII)
_DAY = 86_400.0
# Timestamps are cut to whole seconds [s]; polling is late by up to this share of the time [1].
_CUT, _DRIFT = 1.0, 0.05


def seconds_of_stamps(stamps: Sequence[str]) -> NDArray[np.float64] | None:
    """Seconds since the first of dates with times, or of times of day; None if one is neither.

    Dates are as ISO 8601 or as ``2026/01/12 10:54:47.307``, all with an offset from UTC or none.

    Examples
    --------
    >>> seconds_of_stamps(["2026-01-12T23:59:59.5Z", "2026-01-13T00:00:00Z"])
    array([0. , 0.5])
    >>> seconds_of_stamps(["23:59:59.5", "00:00:00"])
    array([0. , 0.5])
    """
    if all(_TIME_OF_DAY.fullmatch(stamp) for stamp in stamps):
        seconds = np.array([_seconds_of_day(stamp) for stamp in stamps])
        seconds += _DAY * np.cumsum(np.append(0, np.diff(seconds) < -_DAY / 2))
        return seconds - seconds[0]
    try:
        dates = [datetime.fromisoformat(stamp.replace("/", "-").strip()) for stamp in stamps]
        return np.array([(date - dates[0]).total_seconds() for date in dates])
    except (ValueError, TypeError, OverflowError):  # a TypeError: some have an offset
        return None


def _seconds_of_day(stamp: str) -> float:
    found = _TIME_OF_DAY.search(stamp)
    return 3600 * int(found[1]) + 60 * int(found[2]) + float(found[3]) if found else float("nan")


def times_from_timestamps(
    source: str, lines: Sequence[int], stamps: Sequence[str], step: float | None
) -> NDArray[np.float64]:
    """Ends of the bins of one place [s], from rows with a time of day.

    `stamps` are ``12:34:56`` or ``12:34:56.789``, optionally after a date, in the lines `lines`.
    The polling interval `step` [s] is required if several rows have the same timestamp.
    ProfileError: a cell is no time of day, there are too few rows, or timestamps are ambiguous or
    contradict the step.
    """
    seconds = np.empty(len(stamps))
    for i, (line, stamp) in enumerate(zip(lines, stamps)):
        seconds[i] = _seconds_of_day(stamp)
        if np.isnan(seconds[i]):
            raise ProfileError(
                f"{source}: line {line}: time is {quoted(stamp)}; a time of day as 12:34:56 is "
                f"wanted."
            )
    seconds += _DAY * np.cumsum(np.append(0, np.diff(seconds) < -_DAY / 2))
    steps = np.diff(seconds)
    if step is None:
        if len(steps) == 0 or (steps <= 0).any():
            raise ProfileError(
                f"{source}: several rows have one time; the polling interval is wanted (--step "
                f"100ms)."
            )
        return seconds - seconds[0] + float(np.median(steps))
    span = step * len(steps)
    printed_span = float(seconds[-1] - seconds[0]) if len(seconds) else 0.0
    if abs(span - printed_span) > _CUT + _DRIFT * max(span, printed_span):
        raise ProfileError(
            f"{source}: {len(stamps)} rows span {printed_span:g} s; with steps of {step:g} s they "
            f"would span {span:g} s; the tool's polling interval is wanted."
        )
    return np.asarray(step * np.arange(1, len(stamps) + 1), dtype=float)
