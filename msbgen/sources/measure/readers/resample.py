"""Resampling of counts from timestamps onto equal intervals, with all events conserved."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError
from msbgen.sources.measure.readers.recording import Recording

Floats = NDArray[np.float64]

# Largest share of an interval in which counts may be missing.
_LOST = 0.1
# A remainder of a run below this share of an interval makes no interval of its own.
_ROUNDING = 1e-9


def resample(recording: Recording, interval: float, duration: float | None = None) -> Floats:
    """Counts in equal intervals, from linear interpolation of the cumulative counts.

    Timestamps are never exactly equally spaced.  Interpolation of cumulative counts conserves all
    events.  Timestamps after the end of the run are moved to its end: tools print the last one up
    to an interval after it, and on a busy machine several intervals.

    Intervals of which a tenth or more lies in bins with a missing count are NaN; those with less
    get the rate of the rest.

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
        The last interval may be partial; sums over the intervals are the recording's totals where
        no count is missing.

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

    def in_intervals(amounts: Floats) -> Floats:
        sums = np.cumsum(amounts, axis=0)[last]
        columns = [np.interp(edges, stamps, np.append(0.0, column)) for column in sums.T]
        return np.diff(np.stack(columns, axis=1), axis=0)

    missing = np.isnan(recording.counts)
    if not missing.any():
        return in_intervals(recording.counts)
    lost = in_intervals(missing * np.diff(times, prepend=0.0)[:, None])
    lost /= np.diff(edges)[:, None]
    counts = in_intervals(np.where(missing, 0.0, recording.counts))
    return np.where(lost < _LOST, counts / np.maximum(1.0 - lost, _LOST), np.nan)


def interval_count(duration: float, interval: float) -> int:
    """Number of intervals of a run, including a last partial one."""
    return max(int(np.ceil(duration / interval * (1 - _ROUNDING))), 1)
