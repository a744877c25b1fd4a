"""What is wrong with measured runs, before anything is fitted to them.

In turn: counts that no run can have; contexts that took too long, fit no other, or changed places;
stretches of runs that were slowed down, and the contexts once more without these
(:mod:`msbgen.faults`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.data.energy import energy_counters
from msbgen.data.gaps import CARRIED
from msbgen.data.schema import (
    clock_name,
    complete_array,
    context_table,
    count_array,
    counter_names,
    describe_context,
    duration_array,
    file_of,
    missing_array,
    replicate_dim,
    sampling_interval,
    started_array,
)
from msbgen.faults.counts import find_wrong_counts
from msbgen.faults.drift import drift_basis, find_drift
from msbgen.faults.findings import (
    NOTHING,
    BadContext,
    ExchangedContexts,
    Fault,
    Findings,
    MachineDrift,
    SlowContext,
    StretchedRun,
    WrongCount,
    mend_counts,
)
from msbgen.faults.hypotheses import Hypothesis, Kind
from msbgen.faults.regression import TimeRegression, grows_with_time
from msbgen.faults.roofline import Roofline
from msbgen.faults.search import find_faulty_contexts
from msbgen.faults.stretches import find_stretches, narrow_slowness
from msbgen.generate.clock import to_progress, uniform_knots
from msbgen.generate.runs import usable_runs
from msbgen.trend.caps import Rate, at_rates, cap_rates

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_log = logging.getLogger("msbgen")

# The most measured contexts of a fit: the trend takes their number to the third power, minutes at
# 1,000.
MOST_KNOWN = 1_000
# Bins of progress in which runs are looked at, and segments of a stretch.
_BINS, _SEGMENTS = 100, 25
# Fewer contexts than this for a resource and one more tell nothing on one another.
_CONTEXTS = 3
# A stretch of which this share of the time was not seen may be how that was filled in.
_UNSEEN = 0.5
# Who spends this share of the time at a cap is as slow as it makes him.
_AT_CAP = 0.5


def known_faults(dataset: xr.Dataset) -> Findings:
    """What :func:`msbgen.generate.model.fit_profiles` names of valid profiles, and fits without.

    Nothing of generated ones, nor of more contexts than it takes.
    """
    if "kind" in dataset.attrs or dataset.sizes["context"] > MOST_KNOWN:
        return NOTHING
    clock = clock_name(dataset)
    at = 0 if clock == "time" else 1 + counter_names(dataset).index(clock)
    return dataset_faults(dataset, at)


def without_faults(dataset: xr.Dataset, findings: Findings) -> xr.Dataset:
    """The profiles that others may be judged by: what was found wrong is missing.

    Runs that were slowed down are NaN, and all runs of contexts that are wrong throughout; absurd
    counts are mended.  The times of a machine that drifted stay as they are.
    """
    kept = np.ones(duration_array(dataset).shape, dtype=bool)
    for fault in findings:
        if isinstance(fault, StretchedRun):
            kept[fault.contexts[0], fault.run] = False
        elif not isinstance(fault, WrongCount):
            kept[list(fault.contexts)] = False
    dims = [dim for dim in ("context", replicate_dim(dataset)) if dim]
    mask = xr.DataArray(kept.reshape([dataset.sizes[dim] for dim in dims]), dims=dims)
    mended = without_absurd_counts(dataset, findings)
    names = *counter_names(dataset), "duration"
    return mended.assign({name: mended[name].where(mask) for name in names})


def without_absurd_counts(dataset: xr.Dataset, findings: Findings) -> xr.Dataset:
    """The profiles with the mean of their neighbours in the place of counts that are absurd."""
    dims = [dim for dim in ("context", replicate_dim(dataset), "time") if dim]
    out = {}
    for k, name in enumerate(counter_names(dataset)):
        cells = [f for f in findings if isinstance(f, WrongCount) and f.counter == k]
        if cells:
            values = dataset[name].transpose(*dims)
            counts = np.array(values, dtype=np.float64, order="C")
            first = [replace(cell, counter=0) for cell in cells]
            mend_counts(counts.reshape(len(counts), -1, counts.shape[-1], 1), first)
            out[name] = values.copy(data=counts)
    return dataset.assign(out)


def dataset_faults(dataset: xr.Dataset, clock: int) -> Findings:
    """Find what was measured wrongly of valid profiles: :func:`find_faults`."""
    return find_faults(
        count_array(dataset),
        duration_array(dataset),
        context_table(dataset),
        sampling_interval(dataset),
        clock,
        complete_array(dataset),
        started_array(dataset),
        _spread_out(dataset),
        np.isin(counter_names(dataset), energy_counters(dataset)),
    )


def _spread_out(dataset: xr.Dataset) -> Bools:
    """Samples in gaps, and those that hold what these missed, (n, runs, times)."""
    gaps = np.asarray(missing_array(dataset).any(axis=3))
    carried = np.asarray(missing_array(dataset, kinds=(CARRIED,)).any(axis=3))
    gaps[..., 1:] |= carried[..., :-1]
    return gaps


def find_faults(
    counts: Floats,
    duration: Floats,
    contexts: Floats,
    interval: float,
    clock: int,
    complete: ArrayLike = True,
    started: Floats | None = None,
    missing: Bools | None = None,
    spent: ArrayLike = False,
) -> Findings:
    """Find what was measured wrongly, from the measurements alone.

    Parameters
    ----------
    counts : ndarray, (n, runs, times, k)
        Events per interval, NaN once a run has ended, and throughout a run that does not hold
        the counter.
    duration : ndarray, (n, runs)
        [s], NaN where a run is missing.
    contexts : ndarray, (n, m)
    interval : float
        [s]
    clock : int
        What tells progress: 0 for wall time, 1 + k for counter k.
    complete : array_like of bool, broadcastable to (n, runs)
        Which runs went on to their end; of the others, and of contexts in which no such run holds
        some counter, absurd counts are found only.
    started : ndarray, (n, runs), optional
        When runs began [s].
    missing : ndarray of bool, (n, runs, times), optional
        Samples that were not seen by themselves: a stretch of these tells nothing.
    spent : array_like of bool, broadcastable to (k,)
        Counters that grow because time goes by, as energy does: they explain none of it, and only
        absurd counts of them are found.

    Returns
    -------
    Findings
        Nothing of fewer than 3 (m + 1) contexts, but for absurd counts.

    Notes
    -----
    A third of the time of a fit where nothing is wrong, once or twice that of one elsewhere, O(n³).
    """
    wrong = find_wrong_counts(counts)
    if wrong:
        counts = counts.copy()
        mend_counts(counts, wrong)
    ended = np.where(complete, duration, np.nan)
    telling = ~(np.asarray(spent) | _goes_with_time(counts, ended, contexts))
    if clock:
        telling[clock - 1] = True
    if telling.any():
        counts, clock = counts[..., telling], int(telling[:clock].sum())
    held = np.isfinite(counts).any(axis=2) & np.isfinite(ended)[..., None]
    rows = np.flatnonzero(np.asarray(held.any(axis=1)).all(axis=1))
    drift = drift_basis(np.full(duration.shape, np.nan) if started is None else started)
    found = [
        replace(fault, contexts=tuple(int(rows[i]) for i in fault.contexts))
        for fault in _found(
            counts[rows],
            ended[rows],
            contexts[rows],
            interval,
            clock,
            drift[rows],
            np.zeros(counts.shape[:3]) if missing is None else missing[rows].astype(float),
        )
    ]
    levels = [tuple(row) for row in contexts.tolist()]
    every = (*wrong, *found)
    return Findings(tuple(replace(f, levels=tuple(levels[i] for i in f.contexts)) for f in every))


def _goes_with_time(counts: Floats, ended: Floats, contexts: Floats) -> Bools:
    """Counters (k,) that grow because time goes by, as far as enough contexts tell."""
    held = np.isfinite(counts).any(axis=2) & np.isfinite(ended)[..., None]  # (n, runs, k)
    rows = np.asarray(held.any(axis=1)).all(axis=1)
    if rows.sum() < _CONTEXTS * (contexts.shape[1] + 1):
        return np.zeros(counts.shape[3], dtype=bool)
    runs, held = np.nansum(counts[rows], axis=2), held[rows]
    time = np.nan_to_num(ended[rows])[..., None]
    totals = np.where(held, runs, 0.0).sum(axis=1)
    # rates of a group of counters are those of the runs that hold it
    rates = totals / np.where(held, time, 0.0).sum(axis=1)
    return grows_with_time(contexts[rows], totals / held.sum(axis=1), rates)


def _found(
    counts: Floats,
    duration: Floats,
    contexts: Floats,
    interval: float,
    clock: int,
    drift: Floats,
    missing: Floats,
) -> list[Fault]:
    if len(contexts) < _CONTEXTS * (contexts.shape[1] + 1):
        return []  # as of none at all, of which the fit says so
    measured = to_progress(counts, duration, interval, knots=uniform_knots(_BINS), clock=clock)
    used = usable_runs(measured.total, clock)
    if not used.any(axis=1).all():
        return []  # the fit says so
    quantities = _quantities(counts, duration, used, clock)
    if clock:
        unseen = _unseen(counts, missing, duration, interval, clock)
        found = _of_runs_and_contexts(contexts, quantities, measured.state, used, unseen)
    else:
        found = _of_contexts(contexts, quantities, measured.state, used, [])
    return [*found, *_drifts(contexts, quantities, used, found, drift)]


def _unseen(
    counts: Floats, missing: Floats, duration: Floats, interval: float, clock: int
) -> Floats:
    """Share of the time of segments that samples are missing of, there or in the next or last one.

    (n, runs, segments): how a gap was filled in moves what adjoins it.
    """
    if not missing.any():
        return np.zeros((*duration.shape, _SEGMENTS))
    both = np.stack(
        [counts[..., clock - 1], np.where(np.isnan(counts[..., clock - 1]), np.nan, missing)],
        axis=-1,
    )
    state = to_progress(both, duration, interval, knots=uniform_knots(_SEGMENTS), clock=1).state
    share = np.minimum(state[..., 1] * interval / np.maximum(state[..., 0], 1e-300), 1.0)
    share = np.pad(np.nan_to_num(share), ((0, 0), (0, 0), (1, 1)))
    return np.maximum(share[..., 1:-1], np.maximum(share[..., :-2], share[..., 2:]))


def _of_runs_and_contexts(
    contexts: Floats, quantities: Floats, every: Floats, used: Bools, unseen: Floats
) -> list[Fault]:
    """Stretched runs, and contexts at fault, by the amounts of all bins (n, runs, bins, 1 + k)."""
    state = _sums_of_runs(every, used)
    rates = cap_rates(contexts, state)
    moved = _of_contexts(contexts, quantities, every, used, rates)
    if moved and (right := cap_rates(_exchanged_back(contexts, moved), state)) != rates:
        # an exchange may have hidden a cap
        rates = right
        moved = _of_contexts(contexts, quantities, every, used, rates, moved)
    return _with_stretches(contexts, quantities, every, used, rates, moved, unseen)


def _with_stretches(
    contexts: Floats,
    quantities: Floats,
    every: Floats,
    used: Bools,
    rates: Sequence[Rate],
    moved: list[Fault],
    unseen: Floats,
) -> list[Fault]:
    """Stretched runs, sought after some contexts were found at fault, and all contexts anew."""
    used = used.copy()
    # segments of an exchanged context look stretched: it is exchanged back before
    labels = _exchanged_back(contexts, moved)
    parts = np.where(used[..., None, None], every, np.nan)
    parts = parts[..., np.isfinite(parts[used]).all(axis=(0, 1))]  # what every run holds
    parts = parts.reshape(*used.shape, _SEGMENTS, -1, parts.shape[3]).sum(axis=3)
    # a stretch that ran at the rate of a cap was not slowed down
    capped = at_rates(rates, labels[:, None], every)
    capped = capped.reshape(*used.shape, _SEGMENTS, -1).mean(axis=3)
    state = _sums_of_runs(every, used)
    excess = Roofline.fit(rates, labels, state).excess(labels, state)
    excess /= used.sum(axis=1)[:, None]
    excess = excess.reshape(len(labels), _SEGMENTS, -1).sum(axis=2)
    stretches = [
        s
        for s in find_stretches(labels, parts, capped, excess)
        if unseen[s.contexts[0], s.run, _window(s)].mean() < _UNSEEN
    ]
    if not stretches:
        return _narrowed(contexts, parts, excess, moved, used)
    for stretch in stretches:
        used[stretch.contexts[0], stretch.run] = False
    again = _of_contexts(contexts, quantities, every, used, rates)
    gone = np.asarray(~used.any(axis=1))
    odd = {i for fault in again for i in fault.contexts}
    # whose partner is left out may still be seen to be in the wrong place
    halves = [
        f
        for f in moved
        if isinstance(f, ExchangedContexts) and gone[list(f.contexts)].any() and odd & {*f.contexts}
    ]
    if halves:
        labels = _exchanged_back(contexts, halves)
        again = halves + _of_contexts(labels, quantities, every, used, rates)
    parts[~used] = np.nan
    return stretches + _narrowed(contexts, parts, excess, again, used)


def _narrowed(
    contexts: Floats, parts: Floats, excess: Floats, faults: list[Fault], used: Bools
) -> list[Fault]:
    """The faults, those of a single run that was slow over a part only told as such."""
    slow = {
        fault.contexts[0]: fault
        for fault in faults
        if isinstance(fault, SlowContext) and used[fault.contexts[0]].sum() == 1
    }
    if not slow:
        return faults
    rows = np.flatnonzero(used.any(axis=1))
    place = {int(row): at for at, row in enumerate(rows)}
    found = narrow_slowness(
        contexts[rows], parts[rows], excess[rows], {place[i]: f.factor for i, f in slow.items()}
    )
    for part in found:
        whole = slow[int(rows[part.contexts[0]])]
        stretched = replace(part, contexts=whole.contexts, log_odds=whole.log_odds)
        faults = [stretched if fault is whole else fault for fault in faults]
    return faults


def _window(stretch: StretchedRun) -> slice:
    """Its segments."""
    return slice(round(stretch.begin * _SEGMENTS), round(stretch.end * _SEGMENTS))


def _drifts(
    contexts: Floats, quantities: Floats, used: Bools, found: Sequence[Fault], basis: Floats
) -> list[Fault]:
    """The drift of the machine, by runs in which nothing else was found; `basis` (n, runs, D)."""
    held = np.isfinite(quantities) & used[..., None]
    for fault in found:
        runs = fault.run if isinstance(fault, StretchedRun) else slice(None)
        held[list(fault.contexts), runs] = False
    rows = np.flatnonzero(np.asarray(held.any(axis=1)).all(axis=1))
    if len(rows) < _CONTEXTS * (contexts.shape[1] + 1):
        return []
    held = held[rows]
    means = np.where(held, quantities[rows], 0.0).sum(axis=1) / held.sum(axis=1)
    own = np.where(held, quantities[rows], means[:, None])  # of a group that a run does not hold
    regression = TimeRegression.fit(contexts[rows], means[:, 0], means[:, 1:])
    left = np.log(own[..., 0]) - np.log(regression.predict(contexts[rows], own[..., 1:]))
    drift = find_drift(contexts[rows], np.where(held[..., 0], left, np.nan), basis[rows])
    if drift is None:
        return []
    logs = (basis[..., : len(drift.terms)] @ np.array(drift.terms))[used]
    place = basis[used][:, 0]
    factor = float(np.exp(logs[place.argmax()] - logs[place.argmin()]))
    return [MachineDrift(terms=drift.terms, factor=factor, log_odds=drift.log_odds)]


def _quantities(counts: Floats, duration: Floats, used: Bools, clock: int) -> Floats:
    """Time [s] of every run and its totals of the counters but the clock, (n, runs, k).

    NaN for what a run does not hold.
    """
    held = np.isfinite(counts).any(axis=2) & used[..., None]
    totals = np.where(held, np.nansum(counts, axis=2), np.nan)
    if clock:
        totals = np.delete(totals, clock - 1, axis=2)
    return np.concatenate([np.where(used, duration, np.nan)[..., None], totals], axis=2)


def _of_contexts(
    contexts: Floats,
    quantities: Floats,
    every: Floats,
    used: Bools,
    rates: Sequence[Rate],
    suspected: Sequence[Fault] = (),
) -> list[Fault]:
    """Contexts that were slowed down, fit no other, or changed places, by the runs used.

    `every` (n, runs, bins, 1 + k) are the amounts of all bins, of equal work.
    """
    held = np.isfinite(quantities) & used[..., None]
    kept = np.flatnonzero(np.asarray(held.any(axis=1)).all(axis=1))
    held, quantities = held[kept], np.where(held[kept], quantities[kept], 0.0)
    means = quantities.sum(axis=1) / held.sum(axis=1)
    state, levels = _sums_of_runs(every, used)[kept], contexts[kept]
    time, roofline = state[..., 0], Roofline.fit(rates, levels, state)
    excess = roofline.excess_of_every_pair(levels, state) * (means[:, 0] / time.sum(axis=1))
    variance = _variance(quantities, held, means)
    variance[:, 0] += roofline.variance(levels, state)
    excused = (at_rates(rates, levels, state) * time).sum(axis=1) > _AT_CAP * time.sum(axis=1)
    found = find_faulty_contexts(
        levels,
        means[:, 0],
        means[:, 1:],
        variance,
        excused,
        excess,
        _hypotheses_among(suspected, kept),
    )
    faults: list[Fault] = []
    for one, log_odds in zip(found.hypotheses, found.log_odds):
        first, places = one.contexts[0], tuple(int(kept[i]) for i in one.contexts)
        if one.kind == "slow":
            factor, weight = float(found.factor[first]), float(found.weight[first])
            faults.append(
                SlowContext(contexts=places, factor=factor, weight=weight, log_odds=log_odds)
            )
        else:
            kind = BadContext if one.kind == "bad" else ExchangedContexts
            faults.append(kind(contexts=places, log_odds=log_odds))
    return faults


def _hypotheses_among(faults: Sequence[Fault], kept: NDArray[np.int64]) -> list[Hypothesis]:
    """Faults of these contexts as hypotheses about their rows among them."""
    place = {int(context): at for at, context in enumerate(kept)}
    return [
        Hypothesis(cast("Kind", fault.kind), tuple(place[i] for i in fault.contexts))
        for fault in faults
        if all(i in place for i in fault.contexts)
    ]


def _exchanged_back(contexts: Floats, faults: Sequence[Fault]) -> Floats:
    """The contexts with the labels of those exchanged put right, (n, m)."""
    labels = contexts.copy()
    for fault in faults:
        if isinstance(fault, ExchangedContexts):
            pair = list(fault.contexts)
            labels[pair] = labels[pair[::-1]]
    return labels


def _sums_of_runs(state: Floats, used: Bools) -> Floats:
    """Of the runs of each context (n, runs, bins, k) that are used, (n, bins, k).

    As many of a quantity that some runs do not hold as there would be if they did.
    """
    seen = np.isfinite(state) & used[..., None, None]
    sums, many = np.where(seen, state, 0.0).sum(axis=1), seen.sum(axis=1)
    runs = used.sum(axis=1)[:, None, None]
    return np.where(many == runs, sums, sums * (runs / np.maximum(many, 1)))


def _variance(quantities: Floats, held: Bools, means: Floats) -> Floats:
    """Of the logarithms of means over runs (n, runs, 1 + k), as runs tell it, (n, 1 + k)."""
    few = held.sum(axis=1)
    square = np.where(held, (quantities - means[:, None]) ** 2, 0.0).sum(axis=1)
    floor = 0.01 * means.mean(axis=0)
    own = square / np.maximum(few - 1, 1) / few / np.maximum(means + floor, 1e-300) ** 2
    return np.where(few > 1, own, 0.0)


def log_faults(dataset: xr.Dataset, findings: Findings) -> None:
    """Tell the logger, with the file that they are in."""
    for sentence in describe_faults(dataset, findings):
        _log.warning("%s: %s", file_of(dataset), sentence)


def describe_faults(dataset: xr.Dataset, findings: Findings) -> list[str]:
    """A sentence for each fault of a dataset, with what is done about it and what to do."""
    return findings.sentences(lambda i: describe_context(dataset, i), counter_names(dataset))
