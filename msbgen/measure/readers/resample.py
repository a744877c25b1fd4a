"""Counts between printed stamps onto equally spaced intervals, events conserved."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError
from msbgen.measure.readers.recording import Recording

Floats = NDArray[np.float64]

# A run that ends this share of an interval after its last whole interval ends with it.
_ROUNDING = 1e-9


def resample(recording: Recording, interval: float, duration: float | None = None) -> Floats:
    """Counts in intervals of one length: what was counted up to each end, interpolated.

    Row i of a recording is not at i intervals: the events that were counted up to each printed
    stamp are interpolated linearly, so that no event is lost or made.  Stamps behind the end of the
    run count as its end: tools print the last one up to an interval, and on a busy machine some
    intervals, after it.

    Parameters
    ----------
    recording : Recording
    interval : float
        Length of an interval [s].
    duration : float, optional
        How long the run took [s]; where it is not known, until the last stamp with a count.

    Returns
    -------
    ndarray, (n_intervals, n_events)
        The last interval may be partial; sums over the intervals are the recording's totals.

    Raises
    ------
    ArgumentError
        An interval or a duration that is not positive.
    """
    end = recording.last_activity() if duration is None else duration
    if not 0 < interval < np.inf or not 0 < end < np.inf:
        raise ArgumentError(
            f"interval is {interval} s and duration {end} s; positive numbers are wanted."
        )
    edges = np.append(interval * np.arange(interval_count(end, interval)), end)
    times = np.minimum(recording.times, end)
    last = np.append(np.diff(times) > 0, True)  # of the stamps at one time
    stamps = np.append(0.0, times[last])
    counted = np.cumsum(recording.counts, axis=0)[last]
    columns = [np.interp(edges, stamps, np.append(0.0, column)) for column in counted.T]
    return np.diff(np.stack(columns, axis=1), axis=0)


def interval_count(duration: float, interval: float) -> int:
    """Intervals that a run goes on for, the last of which may be partial."""
    return max(int(np.ceil(duration / interval * (1 - _ROUNDING))), 1)
