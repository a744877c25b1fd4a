"""Times of day as some tools print them: seconds since the start, where they tell enough."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import ProfileError

_CLOCK = re.compile(r"(?:^|\D)(\d\d?):(\d\d):(\d\d(?:\.\d+)?)$", re.ASCII)
_DAY = 86_400.0
# Stamps are cut to whole seconds, and polling is late by as much of the time as this.
_CUT, _DRIFT = 1.0, 0.05


def times_from_timestamps(
    source: str, lines: Sequence[int], stamps: Sequence[str], step: float | None
) -> NDArray[np.float64]:
    """Ends of the bins [s] of one place whose rows carry a time of day.

    Parameters
    ----------
    source : str
    lines : sequence of int
        Line of each row.
    stamps : sequence of str
        ``12:34:56`` or ``12:34:56.789``, with or without a date before it.
    step : float, optional
        Polling interval [s]: wanted where several rows carry the same stamp.

    Raises
    ------
    ProfileError
        A cell that is no time of day, too few rows, stamps that tell too little or contradict the
        step.
    """
    seconds = np.empty(len(stamps))
    for i, (line, stamp) in enumerate(zip(lines, stamps)):
        match = _CLOCK.search(stamp)
        if not match:
            raise ProfileError(
                f"{source}: line {line}: time is {stamp[:40]!r}; a time of day as 12:34:56 is "
                f"wanted."
            )
        seconds[i] = 3600 * int(match[1]) + 60 * int(match[2]) + float(match[3])
    seconds += _DAY * np.cumsum(np.append(0, np.diff(seconds) < -_DAY / 2))
    steps = np.diff(seconds)
    if step is None:
        if len(steps) == 0 or (steps <= 0).any():
            raise ProfileError(
                f"{source}: several rows carry one time; the polling interval is wanted (--step "
                f"100ms)."
            )
        return seconds - seconds[0] + float(np.median(steps))
    span, told = step * len(steps), float(seconds[-1] - seconds[0]) if len(seconds) else 0.0
    if abs(span - told) > _CUT + _DRIFT * max(span, told):
        raise ProfileError(
            f"{source}: {len(stamps)} rows lie {told:g} s apart, steps of {step:g} s would make it "
            f"{span:g} s; the interval that the tool polled with is wanted."
        )
    return np.asarray(step * np.arange(1, len(stamps) + 1), dtype=float)
