"""Stretched runs: runs of a sound context of which a part was slowed down.

The time of each segment of progress is compared with that of the other runs of the context.  In
*small* contexts, of one or two runs, it is compared with the leave-one-out prediction from its
counts and all other contexts.  A stretch is a window of segments whose mean residual is far larger
than that of windows of the same length in other runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from msbgen.engine.faults.findings import StretchedRun
from msbgen.engine.faults.process import EXCLUDED, Neighbourhoods, Process, ProcessSearch
from msbgen.engine.faults.regression import LEAST_SPREAD, TimeRegression
from msbgen.engine.faults.screen import Neighbours
from msbgen.engine.trend.coordinates import Coordinates, default_names

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.int64]

# Runs of a context that are compared with one another; fewer are compared with other contexts.
_SIBLINGS = 3
# Prior odds of a stretched run; its least slowdown, and least share in the time of the run.
_PRIOR_ODDS, _LEAST_FACTOR, _LEAST_TIME = 0.002, 1.15, 0.02
# The longest window of a run of a small context, as a share of its length.
_LONGEST = 0.5
# Standard deviation of a normal variable over its median absolute deviation.
_NORMAL = 1.4826
# A context is slow throughout where half of its segments have this share of the log slowdown.
_THROUGHOUT = 0.5
# Rounds of finding runs of small contexts.  A round takes those of at least this share of its
# largest log odds, and the last leaves at most this share of the runs stretched.
_ROUNDS, _SURE, _MOST = 6, 0.3, 0.25
# A window runs at a cap's rate where more than this share of it does.
_CAPPED = 0.5
# Two runs are slow alike where they differ by at most this share of their residuals, in the root
# mean square: the runs of that context simply differ.
_ALIKE = 0.2
# Log odds of a stretch from which a run of many contexts is searched more closely.
_SUSPICIOUS = -6.0


def find_stretches(
    contexts: Floats,
    amounts: Floats,
    capped: Floats,
    excess: Floats,
    *,
    of_small_contexts: bool = True,
) -> list[StretchedRun]:
    """The runs with a stretch that was slowed down, at most one stretch a run.

    `amounts` (n, runs, segments, 1 + k) are time [s] and counts of every segment of progress; NaN
    throughout for a missing run.  `capped` (n, runs, segments) is the share of each segment in
    which a run is at a cap's rate; a stretch is slower.  `excess` (n, segments) is the time [s]
    that caps add to a segment, in the mean of runs.  Runs of small contexts are compared with other
    contexts, or not at all.
    """
    present = np.asarray(np.isfinite(amounts).all(axis=(2, 3)))
    typical = amounts[present][..., 0].mean(axis=0)
    residuals = _residuals(contexts, amounts, present, excess)
    several = present.sum(axis=1) >= _SIBLINGS
    found, deviation = [], np.full(residuals.shape, np.nan)
    if several.any():
        compared = present & several[:, None]
        whole = np.where(present[..., None], capped, 0.0).sum(axis=1) / present.sum(axis=1)[:, None]
        deviation[several] = _from_same_context(
            residuals[several], amounts[several], present[several], whole[several]
        )
        # where the runs of a context differ anyway, a stretch must deviate more
        usual = _NORMAL * np.nanmedian(np.abs(deviation[several]), axis=1, keepdims=True)
        usual = np.broadcast_to(usual, deviation[several].shape)[present[several]]
        places, longest = np.argwhere(compared), amounts.shape[2]
        scanned = _scan(deviation[compared], usual, typical, places, longest=longest)
        found += [
            s for s in scanned if not any(_alike(s, other, deviation, typical) for other in scanned)
        ]
    alone = present & ~several[:, None]
    if of_small_contexts and (~several).sum() >= 3 * (contexts.shape[1] + 1):
        stretches, deviation[alone] = _in_small_contexts(contexts, residuals, alone, typical)
        found += stretches
    return [
        _whole(s, deviation[s.contexts[0], s.run], typical)
        for s in found
        if not _is_capped(s, capped[s.contexts[0], s.run])
    ]


def may_be_stretched(
    contexts: Floats, amounts: Floats, excess: Floats, part: Indices, neighbours: Neighbours
) -> Bools:
    """Which of many contexts (n, m) may hold a stretched run, (n,): a quick look, O(n).

    Arguments as of :func:`find_stretches`.  The contexts `part` are enough to predict times from
    counts.  Runs of small contexts are compared with the `neighbours` of their context.
    """
    present = np.asarray(np.isfinite(amounts).all(axis=(2, 3)))
    typical = amounts[present][..., 0].mean(axis=0)
    residuals = _residuals(contexts, amounts, present, excess, part)
    several = present.sum(axis=1) >= _SIBLINGS
    shown = np.zeros(len(contexts), dtype=bool)
    if not several.all():
        means = np.where(present[..., None], residuals, 0.0).sum(axis=1)
        deviation, _ = neighbours.deviations(means / present.sum(axis=1)[:, None])
        deviation -= np.median(deviation, axis=1, keepdims=True)
        alone = np.argwhere(~several)
        places, none = np.column_stack([alone, np.zeros_like(alone)]), np.zeros((len(alone), 1))
        longest = int(_LONGEST * len(typical))
        found = _scan(
            deviation[~several], none, typical, places, longest=longest, least=_SUSPICIOUS
        )
        shown[[s.contexts[0] for s in found]] = True
    if several.any():
        compared = present & several[:, None]
        values = np.where(compared[..., None], residuals, np.nan)[several]
        values -= np.nanmedian(values, axis=1, keepdims=True)
        usual = _NORMAL * np.nanmedian(np.abs(values), axis=1, keepdims=True)
        usual = np.broadcast_to(usual, values.shape)[compared[several]]
        places, longest = np.argwhere(compared), len(typical)
        values = values[compared[several]]
        found = _scan(values, usual, typical, places, longest=longest, least=_SUSPICIOUS)
        shown[[s.contexts[0] for s in found]] = True
    return shown


def narrow_slowness(
    contexts: Floats, amounts: Floats, excess: Floats, slow: Mapping[int, float]
) -> list[StretchedRun]:
    """Of slow contexts with a single run, those that were slow over a part of it only.

    Arguments as of :func:`find_stretches`; `slow` maps contexts to their slowdown.  Log odds are 0.
    """
    present = np.asarray(np.isfinite(amounts).all(axis=(2, 3)))
    typical = amounts[present][..., 0].mean(axis=0)
    residuals = _residuals(contexts, amounts, present, excess)
    rest = ~np.isin(np.arange(len(contexts)), list(slow))[:, None] & present
    residuals -= np.median(residuals[rest], axis=0)
    found = []
    for context, factor in slow.items():
        (run,) = np.flatnonzero(present[context])
        values = residuals[context, run]
        if np.median(values) > _THROUGHOUT * np.log(factor):
            continue
        first, last = _best_window(typical * (values - np.log(factor)))
        times = np.exp(np.average(values[first:last], weights=typical[first:last]))
        n = len(values)
        found.append(_stretched((context, int(run)), first / n, last / n, float(times), 0.0))
    return found


def _stretched(
    place: Sequence[int], begin: float, end: float, factor: float, log_odds: float
) -> StretchedRun:
    """The stretched run of a context and run."""
    context, run = place
    return StretchedRun(
        contexts=(context,), run=run, begin=begin, end=end, factor=factor, log_odds=log_odds
    )


def _best_window(values: Floats) -> tuple[int, int]:
    """Begin and end of the window of largest sum."""
    sums = np.append(0.0, np.cumsum(values))
    over = np.triu(sums[None] - sums[:, None], 1) + np.tril(np.full((len(sums),) * 2, -np.inf))
    first, last = np.unravel_index(int(over.argmax()), over.shape)
    return int(first), int(last)


def _whole(stretch: StretchedRun, deviation: Floats, typical: Floats) -> StretchedRun:
    """The stretch, extended over its neighbours that deviate by half as much, (segments,).

    The window that was found is the most certain part of it.
    """
    n = len(deviation)
    first, last = round(stretch.begin * n), round(stretch.end * n)
    excess = deviation - _THROUGHOUT * np.log(stretch.factor)
    first -= int(np.argmax(np.append(0.0, np.cumsum(excess[:first][::-1]))))
    last += int(np.argmax(np.append(0.0, np.cumsum(excess[last:]))))
    times = np.exp(np.average(deviation[first:last], weights=typical[first:last]))
    return replace(stretch, begin=first / n, end=last / n, factor=float(times))


def _in_small_contexts(
    contexts: Floats, residuals: Floats, alone: Bools, typical: Floats
) -> tuple[list[StretchedRun], Floats]:
    """Stretches of runs of small contexts, and the deviations (runs, segments) of all.

    The surest are found first: they distort other predictions.
    """
    places, longest = np.argwhere(alone), int(_LONGEST * residuals.shape[2])
    found: dict[tuple[int, int], StretchedRun] = {}
    deviation = np.zeros((len(places), residuals.shape[2]))
    for _ in range(_ROUNDS):
        kept = alone.copy()
        kept[tuple(np.array(list(found), dtype=int).reshape(-1, 2).T)] = False
        deviation = _from_others(contexts, residuals, alone, kept)
        none = np.zeros(deviation.shape)
        new = [
            s
            for s in _scan(deviation, none, typical, places, longest=longest)
            if (s.contexts[0], s.run) not in found
        ]
        if not new or len(found) > _MOST * len(places):
            break
        least = _SURE * max(s.log_odds for s in new)
        found |= {(s.contexts[0], s.run): s for s in new if s.log_odds >= least}
    return list(found.values()), deviation


def _is_capped(stretch: StretchedRun, capped: Floats) -> bool:
    window = slice(round(stretch.begin * len(capped)), round(stretch.end * len(capped)))
    return bool(capped[window].mean() > _CAPPED)


def _alike(one: StretchedRun, other: StretchedRun, deviation: Floats, typical: Floats) -> bool:
    """Whether two runs of a context are slow alike: what several runs repeat is no fault."""
    if one.contexts != other.contexts or one.run == other.run:
        return False
    first, second = deviation[one.contexts[0], [one.run, other.run]]
    difference, size = ((first - second) ** 2 * typical).sum(), (first**2 * typical).sum()
    return bool(difference < _ALIKE**2 * size)


def _residuals(
    contexts: Floats,
    amounts: Floats,
    present: Bools,
    excess: Floats,
    part: Indices | slice = slice(None),
) -> Floats:
    """Log of measured over predicted time of segments, (n, runs, segments).

    The contexts `part` determine the prediction.
    """
    means = np.where(present[..., None, None], amounts, 0.0).sum(axis=1)
    means /= present.sum(axis=1)[:, None, None]
    # segments first
    usual, other = np.moveaxis(means, 1, 0), excess.T
    floor = LEAST_SPREAD * usual[..., 0].mean(axis=1, keepdims=True)
    regression = TimeRegression.fit(
        contexts[part], usual[:, part, 0] + floor, usual[:, part, 1:], excess=other[:, part]
    )
    values = np.moveaxis(np.where(present[..., None, None], amounts, 1.0), (1, 2), (0, 1))
    predicted = regression.predict(contexts, values[..., 1:]) + other
    return np.moveaxis(np.log(values[..., 0] + floor) - np.log(predicted), 2, 0)


def _from_same_context(
    residuals: Floats, amounts: Floats, present: Bools, capped: Floats
) -> Floats:
    """Residuals of runs less the median of their context, (n, runs, segments).

    At a cap the time is proportional to the capped counter, even where that counter predicts little
    time elsewhere.  So of the residual and the time per count of every counter, the one of least
    deviation is taken there.
    """
    time, counts = amounts[..., 0], np.moveaxis(amounts[..., 1:], -1, 0)
    floor = np.finfo(np.float64).tiny
    out = np.full(residuals.shape, np.nan)
    per_count = (np.log(np.maximum(time, floor) / np.maximum(c, floor)) for c in counts)
    for values in (residuals, *per_count):
        deviation = np.where(present[..., None], values, np.nan)
        deviation -= np.nanmedian(deviation, axis=1, keepdims=True)
        smaller = (capped > _CAPPED)[:, None] & (np.abs(deviation) < np.abs(out))
        out = np.where(np.isnan(out) | smaller, deviation, out)
    return out


def _from_others(contexts: Floats, residuals: Floats, alone: Bools, kept: Bools) -> Floats:
    """Residuals of runs less their prediction from all other contexts, (runs, segments).

    Contexts without a run that is `kept` have no influence on others.
    """
    rows = np.flatnonzero(alone.any(axis=1))
    table = contexts[rows]
    z = Coordinates.of(default_names(table), table).scaled(table)
    neighbourhoods, ones = Neighbourhoods.of(z), np.ones(len(rows))
    weight = alone[rows][..., None]
    values = (residuals[rows] * weight).sum(axis=1) / weight.sum(axis=1)
    excluded = np.asarray(~kept[rows].any(axis=1))
    values -= np.median(values[~excluded], axis=0)
    whole = np.median(values, axis=1)
    process = ProcessSearch(neighbourhoods, ones, excluded).fit(whole)
    added = np.where(excluded, EXCLUDED * process.smooth.diagonal(), 0.0)
    inverse = Process(process.smooth, process.noise + added).precision()
    deviation = (inverse @ values) / np.diag(inverse)[:, None]
    deviation -= np.median(deviation, axis=1, keepdims=True)  # slow throughout is no stretch
    return deviation[np.searchsorted(rows, np.nonzero(alone)[0])]


def _scan(
    deviation: Floats,
    usual: Floats,
    typical: Floats,
    places: Indices,
    *,
    longest: int,
    least: float = 0.0,
) -> list[StretchedRun]:
    """The window of each run (runs, segments) that deviates most, where it is a stretch.

    It is one where its log odds are above the `least`.

    `usual` (runs, segments) is the usual difference between runs of that context, `typical`
    (segments,) the usual time [s] of segments; `places` (runs, 2) are context and run.
    """
    n, segments = deviation.shape
    spread = _NORMAL * np.median(np.abs(deviation), axis=0) + LEAST_SPREAD
    weight = typical / spread**2 / typical.sum()
    sums, usual_sums = np.zeros((2, n, segments + 1))
    np.cumsum(deviation * weight, axis=1, out=sums[:, 1:])
    np.cumsum(usual * weight, axis=1, out=usual_sums[:, 1:])
    size = np.concatenate([[0.0], np.cumsum(weight)])
    share = np.concatenate([[0.0], np.cumsum(typical)]) / typical.sum()
    best = np.full(n, -np.inf)
    window, factor = np.zeros((n, 2), dtype=np.int64), np.ones(n)
    windows = sum(segments - length + 1 for length in range(1, longest + 1))
    prior = np.log(_PRIOR_ODDS / windows)
    for length in range(1, longest + 1):
        widths = size[length:] - size[:-length]
        mean = (sums[:, length:] - sums[:, :-length]) / widths
        chance = _NORMAL * np.median(np.abs(mean), axis=0) + LEAST_SPREAD
        differ = (usual_sums[:, length:] - usual_sums[:, :-length]) / widths
        log_odds = 0.5 * (mean / np.maximum(chance, differ)) ** 2 + prior
        times = np.exp(mean)
        added = (times - 1.0) * (share[length:] - share[:-length])
        log_odds[(times < _LEAST_FACTOR) | (added < _LEAST_TIME)] = -np.inf
        first = log_odds.argmax(axis=1)
        top = log_odds[np.arange(n), first]
        better = top > best
        best[better], factor[better] = top[better], times[np.arange(n), first][better]
        window[better] = np.column_stack([first, first + length])[better]
    found = best > least
    shares = (window[found] / segments).tolist()
    scores = zip(places[found].tolist(), shares, factor[found].tolist(), best[found].tolist())
    return [_stretched(place, begin, end, f, odds) for place, (begin, end), f, odds in scores]
