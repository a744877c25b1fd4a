"""What is wrong with measured runs, before anything is fitted to them.

In turn: counts that no run can have; stretches of runs that were slowed down; contexts that took
too long, fit no other, or changed places (:mod:`msbgen.faults`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.data.schema import counter_names, describe_context
from msbgen.faults.counts import find_wrong_counts
from msbgen.faults.findings import Fault, Findings, mend_counts
from msbgen.faults.runs import find_stretches
from msbgen.faults.search import find_suspects
from msbgen.generate.clock import to_progress, uniform_knots
from msbgen.generate.runs import usable_runs
from msbgen.trend.caps import at_caps

Floats = NDArray[np.float64]

# Bins of progress in which runs are looked at, and segments of a stretch.
_BINS, _SEGMENTS = 100, 25
# Fewer contexts than this for a resource and one more tell nothing on one another.
_CONTEXTS = 3
# Who spends this share of the time at a cap is as slow as it makes him.
_AT_CAP = 0.5


def find_faults(
    counts: Floats, duration: Floats, contexts: Floats, interval: float, clock: int
) -> Findings:
    """Find what was measured wrongly, from the measurements alone.

    Parameters
    ----------
    counts : ndarray, (n, runs, times, k)
        Events per interval, NaN once a run has ended.
    duration : ndarray, (n, runs)
        [s], NaN where a run is missing.
    contexts : ndarray, (n, m)
    interval : float
        [s]
    clock : int
        What tells progress: 0 for wall time, 1 + k for counter k.

    Returns
    -------
    Findings
        Nothing of fewer than 3 (m + 1) contexts, but for absurd counts.

    Notes
    -----
    A fifth of the time of a fit where nothing is wrong, O(n³).
    """
    faults = _found(counts, duration, contexts, interval, clock)
    levels = [tuple(row) for row in contexts.tolist()]
    return Findings(tuple(replace(f, levels=tuple(levels[i] for i in f.contexts)) for f in faults))


def _found(
    counts: Floats, duration: Floats, contexts: Floats, interval: float, clock: int
) -> list[Fault]:
    faults = [
        Fault(
            "count", (w.context,), (w.run, w.interval, w.counter), w.factor, 1.0, np.log(w.factor)
        )
        for w in find_wrong_counts(counts)
    ]
    if faults:
        counts = counts.copy()
        mend_counts(counts, faults)
    if len(contexts) < _CONTEXTS * (contexts.shape[1] + 1):
        return faults
    measured = to_progress(counts, duration, interval, knots=uniform_knots(_BINS), clock=clock)
    used = usable_runs(measured.total, clock)
    if not used.any(axis=1).all():
        return faults  # the fit says so
    excused = np.zeros(len(contexts), dtype=bool)
    stretches = []
    if clock != 0:
        states = np.where(used[..., None, None], measured.state, 0.0).sum(axis=1)
        capped, time = at_caps(contexts, states), states[..., 0]
        excused = (capped * time).sum(axis=1) > _AT_CAP * time.sum(axis=1)
        state = np.where(used[..., None, None], measured.state, np.nan)
        parts = state.reshape(*used.shape, _SEGMENTS, -1, state.shape[3]).sum(axis=3)
        stretches = find_stretches(
            contexts, parts, capped.reshape(len(contexts), _SEGMENTS, -1).mean(axis=2)
        )
    for s in stretches:
        used[s.context, s.run] = False
        where = (float(s.run), s.first, s.last)
        faults.append(Fault("stretched", (s.context,), where, s.factor, 1.0, s.gain))
    kept = np.flatnonzero(used.any(axis=1))
    used, few = used[kept], used[kept].sum(axis=1)
    own = np.where(used, duration[kept], 0.0)
    totals = np.where(used[..., None], np.nansum(counts[kept], axis=2), 0.0)
    if clock:
        totals = np.delete(totals, clock - 1, axis=2)
    quantities = np.concatenate([own[..., None], totals], axis=2)
    means = quantities.sum(axis=1) / few[:, None]
    suspects = find_suspects(
        contexts[kept],
        means[:, 0],
        means[:, 1:],
        _variance(quantities, used, means),
        excused[kept],
    )
    for move, gain in zip(suspects.moves, suspects.gains):
        first = move.contexts[0]
        own_factor, worth = float(suspects.factor[first]), float(suspects.worth[first])
        places = tuple(int(kept[i]) for i in move.contexts)
        slow = move.kind == "slow"
        faults.append(
            Fault(move.kind, places, (), own_factor if slow else 1.0, worth if slow else 1.0, gain)
        )
    return faults


def _variance(quantities: Floats, used: NDArray[np.bool_], means: Floats) -> Floats:
    """Of the logarithms of means over runs (n, runs, 1 + k), as runs tell it, (n, 1 + k)."""
    few = used.sum(axis=1)[:, None]
    square = np.where(used[..., None], (quantities - means[:, None]) ** 2, 0.0).sum(axis=1)
    floor = 0.01 * means.mean(axis=0)
    own = square / np.maximum(few - 1, 1) / few / np.maximum(means + floor, 1e-300) ** 2
    return np.where(few > 1, own, 0.0)


def name_faults(dataset: xr.Dataset, findings: Findings) -> list[str]:
    """A sentence for each fault of a dataset, with what is done about it and what to do."""
    return findings.sentences(lambda i: describe_context(dataset, i), counter_names(dataset))
