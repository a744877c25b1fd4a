"""Resampling of counts from timestamps onto equal intervals, with all events conserved."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError
from msbgen.measure.readers.recording import Recording

Floats = NDArray[np.float64]

# A remainder of a run below this share of an interval makes no interval of its own.
_ROUNDING = 1e-9


def resample(recording: Recording, interval: float, duration: float | None = None) -> Floats:
    """Counts in equal intervals, from linear interpolation of the cumulative counts.

    Timestamps are never exactly equally spaced.  Interpolation of cumulative counts conserves all
    events.  Timestamps after the end of the run are moved to its end: tools print the last one up
    to an interval after it, and on a busy machine several intervals.

    Parameters
    ----------
    recording : Recording
    interval : float
        Length of an interval [s].
    duration : float, optional
        Execution time of the run [s]; default: until the last timestamp with a count.

    Returns
    -------
    ndarray, (n_intervals, n_events)
        The last interval may be partial; sums over the intervals are the recording's totals.

    Raises
    ------
    ArgumentError
        The interval or the duration is not positive.
    """
    end = recording.last_activity() if duration is None else duration
    if not 0 < interval < np.inf or not 0 < end < np.inf:
        raise ArgumentError(
            f"interval is {interval} s and duration {end} s; positive numbers are wanted."
        )
    edges = np.append(interval * np.arange(interval_count(end, interval)), end)
    times = np.minimum(recording.times, end)
    last = np.append(np.diff(times) > 0, True)  # of the timestamps at one time
    stamps = np.append(0.0, times[last])
    counted = np.cumsum(recording.counts, axis=0)[last]
    columns = [np.interp(edges, stamps, np.append(0.0, column)) for column in counted.T]
    return np.diff(np.stack(columns, axis=1), axis=0)


def interval_count(duration: float, interval: float) -> int:
    """Number of intervals of a run, including a last partial one."""
    return max(int(np.ceil(duration / interval * (1 - _ROUNDING))), 1)
