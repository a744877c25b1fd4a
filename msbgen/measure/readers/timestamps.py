"""Convert times of day, as some tools print them, to seconds since the start."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import ProfileError, quoted

_TIME_OF_DAY = re.compile(r"(?:^|\D)(\d\d?):(\d\d):(\d\d(?:\.\d+)?)$", re.ASCII)
_DAY = 86_400.0
# Timestamps are cut to whole seconds [s]; polling is late by up to this share of the time [1].
_CUT, _DRIFT = 1.0, 0.05


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
        match = _TIME_OF_DAY.search(stamp)
        if not match:
            raise ProfileError(
                f"{source}: line {line}: time is {quoted(stamp)}; a time of day as 12:34:56 is "
                f"wanted."
            )
        seconds[i] = 3600 * int(match[1]) + 60 * int(match[2]) + float(match[3])
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
