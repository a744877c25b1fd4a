"""Detection of faults in measured runs, before a distribution is fitted to them.

Contexts are compared with each other where counters say how much work of each kind a run did, and
several resources vary.  In turn: impossible counts; contexts that took too long, fit no other, or
were exchanged; stretches of runs that were slowed down.  Then contexts are compared once more
without these runs, and last the drift of the machine is estimated (:mod:`msbgen.engine.faults`).

Otherwise a context that takes long may just be like that.  Runs are then compared with those of
their own context only, and durations with start times (:mod:`msbgen.engine.faults.durations`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.contexts import are_many, random_order, representative_contexts
from msbgen.core.machine import OnProgress, available_cores
from msbgen.data.gaps import CARRIED
from msbgen.data.profiles import Profiles
from msbgen.engine.faults.counts import find_wrong_counts
from msbgen.engine.faults.drift import drift_basis, find_drift
from msbgen.engine.faults.durations import find_duration_faults
from msbgen.engine.faults.findings import (
    NOTHING,
    BadContext,
    ExchangedContexts,
    Fault,
    Findings,
    MachineDrift,
    SlowContext,
    StretchedRun,
    WrongCount,
    repair_counts,
)
from msbgen.engine.faults.hypotheses import Hypothesis, Kind
from msbgen.engine.faults.regression import TimeRegression, grows_with_time
from msbgen.engine.faults.roofline import fit_roofline
from msbgen.engine.faults.screen import Neighbours, partners_together
from msbgen.engine.faults.search import find_faulty_contexts
from msbgen.engine.faults.stretches import find_stretches, may_be_stretched, narrow_slowness
from msbgen.engine.generate.measurements import Measurements
from msbgen.engine.generate.progress import to_progress, uniform_knots
from msbgen.engine.generate.runs import usable_runs
from msbgen.engine.generate.word_columns import WordColumns
from msbgen.engine.trend.caps import Rate, at_rates, cap_rates

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.int64]

_log = logging.getLogger("msbgen")


@dataclass(frozen=True)
class DetectionSettings:
    """Settings of the detection of faults."""

    bins: int = 100  # of progress, in which runs are compared
    segments: int = 25  # of which a stretch consists
    # contexts needed per resource and one more: of fewer, none can be predicted
    contexts_per_resource: int = 3
    # of a stretch's time, from which missing samples may explain its length
    missing_share: float = 0.5
    # of its time that a context spends at a cap, from which the cap explains its time
    capped_share: float = 0.5
    # where contexts are many: deviation, over the usual one, from which one is searched
    suspicious: float = 4.0
    floor: float = 0.01  # of the mean of a quantity, below which it is compared additively
    representative: int = 300  # contexts that are enough for a few terms
    block: int = 100  # contexts that are searched together
    suspects: int = 6  # of a block; the others are around these, or random
    around: int = 2  # nearest contexts of each

    def are_enough(self, n_contexts: int, n_resources: int) -> bool:
        """Whether so many contexts predict one another."""
        return n_contexts >= self.contexts_per_resource * (n_resources + 1)


_SETTINGS = DetectionSettings()


def known_faults(profiles: Profiles, progress: OnProgress | None = None) -> Findings:
    """Faults that :func:`msbgen.engine.generate.fit.fit_profiles` reports and corrects.

    None for generated profiles, and with the attribute ``keep_all``.
    """
    if profiles.is_generated:
        return NOTHING
    return detect_faults(profiles, profiles.clock, progress)


def without_faults(profiles: Profiles, findings: Findings) -> Profiles:
    """Profiles without faulty measurements, for comparisons.

    Slowed runs and all runs of faulty contexts are NaN; impossible counts are replaced.  The times
    of a machine that drifted stay as measured.
    """
    findings = findings.corrected
    if not findings:
        return profiles
    kept = np.ones(profiles.duration.shape, dtype=bool)
    for fault in findings:
        if isinstance(fault, StretchedRun):
            kept[fault.contexts[0], fault.run] = False
        elif not isinstance(fault, WrongCount):
            kept[list(fault.contexts)] = False
    return without_absurd_counts(profiles, findings).of_runs(kept)


def without_absurd_counts(profiles: Profiles, findings: Findings) -> Profiles:
    """Profiles with impossible counts replaced by the mean of their neighbours in time."""
    cells = [fault for fault in findings if isinstance(fault, WrongCount)]
    if not cells:
        return profiles
    samples = list(profiles.samples)
    for k in {cell.counter for cell in cells}:
        samples[k] = samples[k].astype(float)
        own = [replace(cell, counter=0) for cell in cells if cell.counter == k]
        repair_counts(samples[k][..., None], own)
    return replace(profiles, samples=tuple(samples))


def detect_faults(profiles: Profiles, clock: int, progress: OnProgress | None = None) -> Findings:
    """Faults of profiles (:func:`find_faults`), whose progress the quantity `clock` measures.

    None with the attribute ``keep_all``.
    """
    if profiles.keeps_all:
        return NOTHING
    words = WordColumns.of(profiles.resources, profiles.contexts)
    measurements = Measurements(
        profiles.counts,
        profiles.duration,
        words.encode(profiles.contexts),
        profiles.interval,
        clock,
        complete=profiles.complete,
    )
    found = find_faults(
        measurements,
        started=profiles.started,
        missing=_missing_samples(profiles),
        time_driven=np.isin(list(profiles.counters), profiles.energy_counters),
        progress=progress,
    )
    levels = [tuple(row) for row in profiles.contexts.tolist()]
    return Findings(tuple(replace(f, levels=tuple(levels[i] for i in f.contexts)) for f in found))


def _missing_samples(profiles: Profiles) -> Bools:
    """Samples in gaps, and samples that include those of a gap before them, (n, runs, times)."""
    gaps = np.asarray(profiles.missing_samples().any(axis=3))
    carried = np.asarray(profiles.missing_samples((CARRIED,)).any(axis=3))
    gaps[..., 1:] |= carried[..., :-1]
    return gaps


def find_faults(
    measurements: Measurements,
    *,
    started: Floats | None = None,
    missing: Bools | None = None,
    time_driven: ArrayLike = False,
    progress: OnProgress | None = None,
) -> Findings:
    """Faults of measurements, detected from the measurements alone.

    In runs that were cut, in contexts where no complete run holds some counter, and for fewer than
    3 (m + 1) contexts only impossible counts are detected.  Runs start at `started` (n, runs) [s].
    Stretches of samples that were not measured one by one, `missing` (n, runs, times), are not
    compared.  Counters that grow as time passes, as energy does, are `time_driven` (k,): they
    explain no time, and only their impossible counts are detected.  Of many contexts, `progress` is
    called with the parts searched, and their total.

    Takes a third of the time of a fit where nothing is faulty, else once or twice that, O(n³).
    """
    counts, clock, contexts = measurements.counts, measurements.clock, measurements.contexts
    wrong = find_wrong_counts(counts)
    if wrong:
        counts = counts.copy()
        repair_counts(counts, wrong)
    ended = np.where(measurements.complete, measurements.duration, np.nan)
    informative = ~(np.asarray(time_driven) | _grow_with_time(counts, ended, contexts))
    if clock:
        informative[clock - 1] = True
    if informative.any():
        counts, clock = counts[..., informative], int(informative[:clock].sum())
    held = np.isfinite(counts).any(axis=2) & np.isfinite(ended)[..., None]
    rows = np.flatnonzero(np.asarray(held.any(axis=1)).all(axis=1))
    comparable = replace(
        measurements,
        counts=counts[rows],
        duration=ended[rows],
        contexts=contexts[rows],
        clock=clock,
        complete=True,
    )
    started = np.full(ended.shape, np.nan) if started is None else started
    absent = np.zeros(counts.shape[:3]) if missing is None else missing[rows].astype(float)
    found = [
        replace(fault, contexts=tuple(int(rows[i]) for i in fault.contexts))
        for fault in _run_and_context_faults(comparable, started[rows], absent, progress)
    ]
    levels = [tuple(row) for row in contexts.tolist()]
    every = (*wrong, *found)
    return Findings(tuple(replace(f, levels=tuple(levels[i] for i in f.contexts)) for f in every))


def _grow_with_time(counts: Floats, ended: Floats, contexts: Floats) -> Bools:
    """Counters (k,) that grow as time passes; none where contexts are too few to decide."""
    held = np.isfinite(counts).any(axis=2) & np.isfinite(ended)[..., None]  # (n, runs, k)
    rows = np.asarray(held.any(axis=1)).all(axis=1)
    if not _SETTINGS.are_enough(rows.sum(), contexts.shape[1]):
        return np.zeros(counts.shape[3], dtype=bool)
    runs, held = np.nansum(counts[rows], axis=2), held[rows]
    time = np.nan_to_num(ended[rows])[..., None]
    totals = np.where(held, runs, 0.0).sum(axis=1)
    # rates of a group of counters are those of the runs that hold it
    rates = totals / np.where(held, time, 0.0).sum(axis=1)
    return grows_with_time(contexts[rows], totals / held.sum(axis=1), rates)


@dataclass(frozen=True, eq=False)
class _Amounts:
    """Amounts of measured runs, of which some are used."""

    contexts: Floats  # (n, m)
    # (n, runs, 1 + k): time [s] and totals of the other counters; NaN where not measured
    totals: Floats
    state: Floats  # (n, runs, bins, 1 + k): amounts of all bins, of equal work
    used: Bools  # (n, runs)

    def of_contexts(self, rows: Indices) -> _Amounts:
        """The amounts of some contexts."""
        return _Amounts(self.contexts[rows], self.totals[rows], self.state[rows], self.used[rows])

    @property
    def held(self) -> Bools:
        """Totals of the runs that are used, (n, runs, 1 + k)."""
        return np.isfinite(self.totals) & self.used[..., None]

    @property
    def sums(self) -> Floats:
        """Sums of the used runs of each context, (n, bins, 1 + k).

        A quantity that some runs do not hold is scaled up to all runs.
        """
        finite = np.isfinite(self.state) & self.used[..., None, None]
        sums, count = np.where(finite, self.state, 0.0).sum(axis=1), finite.sum(axis=1)
        runs = self.used.sum(axis=1)[:, None, None]
        return np.where(count == runs, sums, sums * (runs / np.maximum(count, 1)))


def _run_and_context_faults(
    measurements: Measurements, started: Floats, missing: Floats, progress: OnProgress | None
) -> list[Fault]:
    """Faults of complete runs that hold all counters, started at (n, runs) [s]."""
    m = measurements
    if not _SETTINGS.are_enough(*m.contexts.shape):
        return []
    knots = uniform_knots(_SETTINGS.bins)
    measured = to_progress(m.counts, m.duration, m.interval, knots=knots, clock=m.clock)
    used = usable_runs(measured.total, m.clock)
    if not used.any(axis=1).all():
        return []  # the fit raises an error
    amounts = _Amounts(m.contexts, _totals(m, used), measured.state, used)
    missing_share = _missing_share(m, missing)

    def faults_among(rows: Indices) -> list[Fault]:
        part = amounts.of_contexts(rows)
        found = _find_with_stretches(part, missing_share[rows]) if m.clock else None
        found = _context_faults(part, []) if found is None else found
        return [replace(f, contexts=tuple(int(rows[i]) for i in f.contexts)) for f in found]

    several = (np.ptp(m.contexts, axis=0) > 0).sum() > 1
    is_explained = bool(several and amounts.totals.shape[2] > 1)
    if not is_explained:
        found = _faults_of_durations(amounts, missing_share, started, timed=m.clock != 0)
    elif are_many(m.contexts):
        found = _faults_of_many(amounts, faults_among, progress, timed=m.clock != 0)
    else:
        found = faults_among(np.arange(len(m.contexts)))
    return [*found, *_drift_faults(amounts, found, drift_basis(started), is_explained=is_explained)]


def _faults_of_durations(
    amounts: _Amounts, missing_share: Floats, started: Floats, *, timed: bool
) -> list[Fault]:
    """Doubts about runs slower than others of their context, and about durations alone."""
    used, found = amounts.used.copy(), list[Fault]()
    if timed:
        parts = _segment_amounts(amounts)
        zero = np.zeros(parts.shape[:3])
        stretches = find_stretches(
            amounts.contexts, parts, zero, zero.sum(axis=1), of_small_contexts=False
        )
        found += [replace(s, is_doubt=True) for s in stretches if _is_measured(s, missing_share)]
        for stretch in stretches:
            used[stretch.contexts[0], stretch.run] = False
    if are_many(amounts.contexts) or not used.any(axis=1).all():
        return found
    runs = used.sum(axis=1)
    time = np.where(used, np.nan_to_num(amounts.totals[..., 0]), 0.0).sum(axis=1) / runs
    return [*found, *find_duration_faults(amounts.contexts, time, runs, started)]


def _segment_amounts(amounts: _Amounts) -> Floats:
    """Amounts of the quantities of every used run per segment, (n, runs, segments, q)."""
    used = amounts.used
    parts = np.where(used[..., None, None], amounts.state, np.nan)
    parts = parts[..., np.isfinite(parts[used]).all(axis=(0, 1))]
    return parts.reshape(*used.shape, _SETTINGS.segments, -1, parts.shape[3]).sum(axis=3)


def _is_measured(stretch: StretchedRun, missing_share: Floats) -> bool:
    """Whether missing samples cannot explain the length of a stretch."""
    share = missing_share[stretch.contexts[0], stretch.run, _segments(stretch)].mean()
    return bool(share < _SETTINGS.missing_share)


def _faults_of_many(
    amounts: _Amounts,
    faults_among: Callable[[Indices], list[Fault]],
    progress: OnProgress | None,
    *,
    timed: bool,
) -> list[Fault]:
    """Faults of many contexts: only those that deviate from their neighbours are searched.

    A few are searched at a time, together with contexts around them and random ones.  `progress` is
    called with the number of such blocks done, and their total.
    """
    neighbours, order = Neighbours(amounts.contexts), random_order(amounts.contexts)
    suspects = _suspects(amounts, neighbours, timed=timed)

    def search(chosen: Indices) -> list[Fault]:
        around = neighbours.index[chosen, : _SETTINGS.around].ravel()
        rows = np.union1d(chosen, around)
        rest = order[~np.isin(order, np.union1d(rows, suspects))]
        found = faults_among(np.union1d(rows, rest[: max(_SETTINGS.block - len(rows), 0)]))
        return [fault for fault in found if {*fault.contexts} <= {*chosen.tolist()}]

    starts = np.arange(_SETTINGS.suspects, len(suspects), _SETTINGS.suspects)
    blocks = np.split(suspects, starts) if len(suspects) else []
    found = list[Fault]()
    with ThreadPoolExecutor(available_cores()) as pool:
        for done, faults in enumerate(pool.map(search, blocks), 1):
            found += faults
            if progress:
                progress(done, len(blocks))
    return found


def _suspects(amounts: _Amounts, neighbours: Neighbours, *, timed: bool) -> Indices:
    """Rows of contexts that deviate from those around them, at most a quarter of all.

    Two that may be exchanged follow one another.
    """
    contexts, held, state = amounts.contexts, amounts.held, amounts.sums
    known = np.asarray(np.asarray(held.any(axis=1)).all(axis=1))
    totals = np.where(held, amounts.totals, 0.0).sum(axis=1)
    means = totals / np.maximum(held.sum(axis=1), 1)
    part = representative_contexts(contexts, _SETTINGS.representative)
    part = part[known[part]]
    rates = cap_rates(contexts[part], state[part]) if timed else []
    roofline = fit_roofline(rates, contexts[part], state[part])
    added = roofline.excess(contexts, state)
    share = means[:, 0] / state[..., 0].sum(axis=1)
    excess = added.sum(axis=1) * share
    regression = TimeRegression.fit(
        contexts[part], means[part, 0], means[part, 1:], excess=excess[part]
    )
    values = means.copy()
    values[:, 0] /= regression.predict(contexts, means[:, 1:]) + excess
    floor = _SETTINGS.floor * values.mean(axis=0)
    values = np.log(values + np.where(floor > 0, floor, 1.0))
    deviation, usual = neighbours.deviations(values)
    score = np.where(known, (np.abs(deviation) / usual).max(axis=1), np.inf)
    if timed:
        added = added / amounts.used.sum(axis=1)[:, None]
        added = added.reshape(len(added), _SETTINGS.segments, -1).sum(axis=2)
        segments = _segment_amounts(amounts)
        shown = may_be_stretched(contexts, segments, added, part, neighbours)
        score[shown] = np.maximum(score[shown], 2 * _SETTINGS.suspicious)
    most = np.argsort(-score, kind="stable")[: len(contexts) // 4]
    rows = most[score[most] > _SETTINGS.suspicious]
    levels, counts = contexts[rows], means[rows, 1:]
    predicted = regression.predict_every_pair(levels, counts)
    predicted += roofline.excess_of_every_pair(levels, state[rows]) * share[rows]
    others = np.tile(values[rows], (len(rows), 1, 1))
    others[..., 0] = np.log(means[rows, 0] / predicted + max(floor[0], 0.0))
    expected = (values - deviation)[rows]
    misfit = (((others - expected[:, None]) / usual[rows][:, None]) ** 2).sum(axis=2)
    return rows[partners_together(misfit)]


def _totals(m: Measurements, used: Bools) -> Floats:
    """Time [s] of every run and totals of all counters but that of progress, (n, runs, 1 + k)."""
    held = np.isfinite(m.counts).any(axis=2) & used[..., None]
    totals = np.where(held, np.nansum(m.counts, axis=2), np.nan)
    if m.clock:
        totals = np.delete(totals, m.clock - 1, axis=2)
    return np.concatenate([np.where(used, m.duration, np.nan)[..., None], totals], axis=2)


def _missing_share(m: Measurements, missing: Floats) -> Floats:
    """Largest share of the time of missing samples in a segment and its two neighbours.

    (n, runs, segments); how a gap is filled changes the segments beside it.
    """
    if not missing.any():
        return np.zeros((*m.duration.shape, _SETTINGS.segments))
    work = m.counts[..., m.clock - 1]
    both = np.stack([work, np.where(np.isnan(work), np.nan, missing)], axis=-1)
    knots = uniform_knots(_SETTINGS.segments)
    state = to_progress(both, m.duration, m.interval, knots=knots, clock=1).state
    share = np.minimum(state[..., 1] * m.interval / np.maximum(state[..., 0], 1e-300), 1.0)
    share = np.pad(np.nan_to_num(share), ((0, 0), (0, 0), (1, 1)))
    return np.maximum(share[..., 1:-1], np.maximum(share[..., :-2], share[..., 2:]))


def _find_with_stretches(amounts: _Amounts, missing_share: Floats) -> list[Fault]:
    """Stretched runs and faulty contexts."""
    rates = cap_rates(amounts.contexts, amounts.sums)
    faults = _context_faults(amounts, rates)
    if faults:
        # an exchange may have hidden a cap
        relabelled = cap_rates(_exchange_labels(amounts.contexts, faults), amounts.sums)
        if relabelled != rates:
            rates = relabelled
            faults = _context_faults(amounts, rates, faults)
    # segments of an exchanged context look stretched: labels are exchanged back first
    labels = _exchange_labels(amounts.contexts, faults)
    used, shape = amounts.used.copy(), (*amounts.used.shape, _SETTINGS.segments, -1)
    parts = _segment_amounts(amounts)
    # a stretch at the rate of a cap was not slowed down
    capped = at_rates(rates, labels[:, None], amounts.state).reshape(shape).mean(axis=3)
    excess = fit_roofline(rates, labels, amounts.sums).excess(labels, amounts.sums)
    excess /= used.sum(axis=1)[:, None]
    excess = excess.reshape(len(labels), _SETTINGS.segments, -1).sum(axis=2)
    stretches = [
        s for s in find_stretches(labels, parts, capped, excess) if _is_measured(s, missing_share)
    ]
    if not stretches:
        return _narrow(amounts.contexts, parts, excess, faults, used)
    for stretch in stretches:
        used[stretch.contexts[0], stretch.run] = False
    rest = replace(amounts, used=used)
    others = _context_faults(rest, rates)
    without_runs = np.asarray(~used.any(axis=1))
    suspects = {i for fault in others for i in fault.contexts}
    # a context stays exchanged if its partner has no runs left
    exchanged = [
        f
        for f in faults
        if isinstance(f, ExchangedContexts)
        and without_runs[list(f.contexts)].any()
        and suspects & {*f.contexts}
    ]
    if exchanged:
        labels = _exchange_labels(amounts.contexts, exchanged)
        others = exchanged + _context_faults(replace(rest, contexts=labels), rates)
    parts[~used] = np.nan
    return stretches + _narrow(amounts.contexts, parts, excess, others, used)


def _narrow(
    contexts: Floats, parts: Floats, excess: Floats, faults: list[Fault], used: Bools
) -> list[Fault]:
    """The faults, with slow contexts of a single run replaced by the stretch that was slow."""
    slow = {
        fault.contexts[0]: fault
        for fault in faults
        if isinstance(fault, SlowContext) and used[fault.contexts[0]].sum() == 1
    }
    if not slow:
        return faults
    rows = np.flatnonzero(used.any(axis=1))
    index = {int(row): i for i, row in enumerate(rows)}
    found = narrow_slowness(
        contexts[rows], parts[rows], excess[rows], {index[i]: f.factor for i, f in slow.items()}
    )
    for part in found:
        whole = slow[int(rows[part.contexts[0]])]
        stretched = replace(part, contexts=whole.contexts, log_odds=whole.log_odds)
        faults = [stretched if fault is whole else fault for fault in faults]
    return faults


def _segments(stretch: StretchedRun) -> slice:
    """Segments of a stretch."""
    n = _SETTINGS.segments
    return slice(round(stretch.begin * n), round(stretch.end * n))


def _drift_faults(
    amounts: _Amounts, faults: Sequence[Fault], basis: Floats, *, is_explained: bool
) -> list[Fault]:
    """Drift of the machine, from runs without another fault; `basis` (n, runs, D).

    It is a doubt where the order of the contexts may explain it.  Where no counters explain time,
    only repeated runs show it.
    """
    contexts, totals, used, held = amounts.contexts, amounts.totals, amounts.used, amounts.held
    for fault in faults:
        runs = fault.run if isinstance(fault, StretchedRun) else slice(None)
        held[list(fault.contexts), runs] = False
    rows = np.flatnonzero(np.asarray(held.any(axis=1)).all(axis=1))
    if not _SETTINGS.are_enough(len(rows), contexts.shape[1]):
        return []
    if are_many(contexts[rows]):  # a part is enough for a few terms
        rows = rows[representative_contexts(contexts[rows], _SETTINGS.representative)]
    held = held[rows]
    means = np.where(held, totals[rows], 0.0).sum(axis=1) / held.sum(axis=1)
    filled = np.where(held, totals[rows], means[:, None])  # counters that a run does not hold
    regression = TimeRegression.fit(contexts[rows], means[:, 0], means[:, 1:])
    predicted = regression.predict(contexts[rows], np.swapaxes(filled[..., 1:], 0, 1)).T
    residual = np.log(filled[..., 0]) - np.log(predicted)
    drift = find_drift(contexts[rows], np.where(held[..., 0], residual, np.nan), basis[rows])
    if drift is None or not (drift.is_repeated or is_explained):
        return []
    logs = (basis[..., : len(drift.terms)] @ np.array(drift.terms))[used]
    time = basis[used][:, 0]
    factor = float(np.exp(logs[time.argmax()] - logs[time.argmin()]))
    return [
        MachineDrift(
            terms=drift.terms,
            factor=factor,
            log_odds=drift.log_odds,
            is_doubt=drift.is_confounded,
        )
    ]


def _context_faults(
    amounts: _Amounts, rates: Sequence[Rate], suspected: Sequence[Fault] = ()
) -> list[Fault]:
    """Contexts that were slowed down, fit no other, or were exchanged, by the runs used."""
    held = amounts.held
    kept = np.flatnonzero(np.asarray(held.any(axis=1)).all(axis=1))
    held, totals = held[kept], np.where(held[kept], amounts.totals[kept], 0.0)
    means = totals.sum(axis=1) / held.sum(axis=1)
    state, levels = amounts.sums[kept], amounts.contexts[kept]
    time, roofline = state[..., 0], fit_roofline(rates, levels, state)
    excess = roofline.excess_of_every_pair(levels, state) * (means[:, 0] / time.sum(axis=1))
    variance = _variance(totals, held, means)
    variance[:, 0] += roofline.variance(levels, state)
    capped_time = (at_rates(rates, levels, state) * time).sum(axis=1)
    found = find_faulty_contexts(
        levels,
        means[:, 0],
        means[:, 1:],
        variance,
        capped_time > _SETTINGS.capped_share * time.sum(axis=1),
        excess,
        _hypotheses_among(suspected, kept),
    )
    faults: list[Fault] = []
    for one, log_odds in zip(found.hypotheses, found.log_odds):
        first, contexts = one.contexts[0], tuple(int(kept[i]) for i in one.contexts)
        if one.kind == "slow":
            factor, weight = float(found.factor[first]), float(found.weight[first])
            faults.append(
                SlowContext(contexts=contexts, factor=factor, weight=weight, log_odds=log_odds)
            )
        else:
            kind = BadContext if one.kind == "bad" else ExchangedContexts
            faults.append(kind(contexts=contexts, log_odds=log_odds))
    return faults


def _hypotheses_among(faults: Sequence[Fault], kept: Indices) -> list[Hypothesis]:
    """Faults of the kept contexts as hypotheses about their rows among them."""
    index = {int(context): i for i, context in enumerate(kept)}
    return [
        Hypothesis(cast("Kind", fault.kind), tuple(index[i] for i in fault.contexts))
        for fault in faults
        if all(i in index for i in fault.contexts)
    ]


def _exchange_labels(contexts: Floats, faults: Sequence[Fault]) -> Floats:
    """Contexts with the labels of exchanged pairs corrected, (n, m)."""
    labels = contexts.copy()
    for fault in faults:
        if isinstance(fault, ExchangedContexts):
            pair = list(fault.contexts)
            labels[pair] = labels[pair[::-1]]
    return labels


def _variance(totals: Floats, held: Bools, means: Floats) -> Floats:
    """Variance of the logarithms of means over runs (n, runs, 1 + k), (n, 1 + k)."""
    n_runs = held.sum(axis=1)
    square = np.where(held, (totals - means[:, None]) ** 2, 0.0).sum(axis=1)
    floor = 0.01 * means.mean(axis=0)
    # a counter that is always 0 has no variance, and the square of less than this would be 0
    size = np.maximum(means + floor, 1e-150)
    variance = square / np.maximum(n_runs - 1, 1) / n_runs / size**2
    return np.where(n_runs > 1, variance, 0.0)


def log_faults(profiles: Profiles, findings: Findings) -> None:
    """Log a warning on the faults of profiles: a single fault, else their numbers by kind.

    Every verb fits the same file again: ``msbgen check`` names each of many faults once.
    """
    sentences, file = describe_faults(profiles, findings), profiles.source
    if len(sentences) == 1:
        _log.warning("%s: %s", file, sentences[0])
    elif sentences:
        corrected = findings.corrected
        doubts = len(findings.faults) - len(corrected.faults)
        parts = [f"{doubts} doubts, which change nothing"] if doubts else []
        if corrected:
            number = f"{len(corrected.faults)} faults, corrected or left out"
            parts.insert(0, f"{number} ({corrected.numbers()})")
        _log.warning(
            "%s: %s; msbgen check names each, --keep-all (attribute keep_all=1) trusts every run.",
            file, ", and ".join(parts),
        )  # fmt: skip


def describe_faults(profiles: Profiles, findings: Findings) -> list[str]:
    """One sentence for each fault of profiles: the fault, its correction, and what to do."""
    return findings.sentences(profiles.describe_context, list(profiles.counters))
