"""Stretches of runs that were slowed down, though the context is all right.

The time of each segment of progress is compared with that of the other runs of the context or, of
one or two runs, with what the segment's counts and all other contexts say (leave-one-out).  A
stretch is a window of segments whose mean departure is far out of what windows of that length
depart in other runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.faults.explained import EVEN, Explained
from msbgen.faults.process import SILENT, Neighbourhoods, Process, fit_process
from msbgen.trend.coordinates import Coordinates, default_names

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# Runs of a context that tell on one another.
_SIBLINGS = 3
# Odds of a stretched run; the least that a stretch is slowed down, and makes of the whole time.
_ODDS, _LEAST_FACTOR, _LEAST_TIME = 0.002, 1.15, 0.02
# The longest window of a run without siblings, as a share of its length.
_LONGEST = 0.5
_NORMAL = 1.4826
# Who is slow throughout is so, by the logarithm, to this share in half of its length.
_THROUGHOUT = 0.5
# Rounds in which runs without siblings are found: those of at least this share of the largest gain
# first; no more than this share of the runs.
_ROUNDS, _SURE, _MOST = 6, 0.3, 0.25
# A window is as slow as a cap makes it where more than this share is at the cap.
_CAPPED = 0.5
# Stretched siblings that differ from one another by no more than this share of what they depart, in
# the root mean square over their length, are how runs of that context differ.
_ALIKE = 0.2


@dataclass(frozen=True)
class Stretch:
    """A part of a run that took too long.

    Attributes
    ----------
    context, run : int
    first, last : float
        Where it begins and ends, as shares of the work.
    factor : float
        How many times longer it took.
    gain : float
        Log odds that it is no chance.
    """

    context: int
    run: int
    first: float
    last: float
    factor: float
    gain: float


def find_stretches(
    contexts: Floats, amounts: Floats, capped: Floats, excess: Floats
) -> list[Stretch]:
    """Find the runs with a stretch that was slowed down, at most one a run.

    Parameters
    ----------
    contexts : ndarray, (n, m)
    amounts : ndarray, (n, runs, segments, 1 + k)
        Time [s] and counts of every segment of progress; NaN throughout for a missing run.
    capped : ndarray, (n, runs, segments)
        Share of each segment in which a run is as slow as a cap makes it; a stretch is slower.
    excess : ndarray, (n, segments)
        Time [s] of a segment that caps add to what its counts explain, in the mean of runs.
    """
    there = np.asarray(np.isfinite(amounts).all(axis=(2, 3)))
    typical = amounts[there][..., 0].mean(axis=0)
    left = _unexplained(contexts, amounts, there, excess)
    several = there.sum(axis=1) >= _SIBLINGS
    found = []
    if several.any():
        siblings = there & several[:, None]
        departure = np.full(left.shape, np.nan)
        whole = np.where(there[..., None], capped, 0.0).sum(axis=1) / there.sum(axis=1)[:, None]
        departure[several] = _from_siblings(
            left[several], amounts[several], there[several], whole[several]
        )
        # where runs differ anyway, more is wanted
        usual = _NORMAL * np.nanmedian(np.abs(departure[several]), axis=1, keepdims=True)
        usual = np.broadcast_to(usual, departure[several].shape)[there[several]]
        places, longest = np.argwhere(siblings), amounts.shape[2]
        own = _scan(departure[siblings], usual, typical, places, longest=longest)
        found += [s for s in own if not any(_alike(s, other, departure, typical) for other in own)]
    alone = there & ~several[:, None]
    if (~several).sum() >= 3 * (contexts.shape[1] + 1):
        found += _alone(contexts, left, alone, typical)
    return [s for s in found if not _is_capped(s, capped[s.context, s.run])]


def narrow_slowness(
    contexts: Floats, amounts: Floats, excess: Floats, slow: Mapping[int, float]
) -> list[Stretch]:
    """Of contexts with a single run that took too long, those that did over a part of it only.

    Arguments as :func:`find_stretches`; `slow` are contexts and how many times longer they took.
    Gains are 0.
    """
    there = np.asarray(np.isfinite(amounts).all(axis=(2, 3)))
    typical = amounts[there][..., 0].mean(axis=0)
    left = _unexplained(contexts, amounts, there, excess)
    rest = ~np.isin(np.arange(len(contexts)), list(slow))[:, None] & there
    left -= np.median(left[rest], axis=0)
    found = []
    for context, factor in slow.items():
        (run,) = np.flatnonzero(there[context])
        own = left[context, run]
        if np.median(own) > _THROUGHOUT * np.log(factor):
            continue
        first, last = _window(typical * (own - np.log(factor)))
        times = np.exp(np.average(own[first:last], weights=typical[first:last]))
        n = len(own)
        found.append(Stretch(context, int(run), first / n, last / n, float(times), 0.0))
    return found


def _window(values: Floats) -> tuple[int, int]:
    """Begin and end of the window of largest sum."""
    sums = np.append(0.0, np.cumsum(values))
    over = np.triu(sums[None] - sums[:, None], 1) + np.tril(np.full((len(sums),) * 2, -np.inf))
    first, last = np.unravel_index(int(over.argmax()), over.shape)
    return int(first), int(last)


def _alone(contexts: Floats, left: Floats, alone: Bools, typical: Floats) -> list[Stretch]:
    """Stretches of runs without siblings, the surest first: they spoil what others say."""
    places, longest = np.argwhere(alone), int(_LONGEST * left.shape[2])
    found: dict[tuple[int, int], Stretch] = {}
    for _ in range(_ROUNDS):
        kept = alone.copy()
        kept[tuple(np.array(list(found), dtype=int).reshape(-1, 2).T)] = False
        departure = _from_others(contexts, left, alone, kept)
        none = np.zeros(departure.shape)
        new = [
            s
            for s in _scan(departure, none, typical, places, longest=longest)
            if (s.context, s.run) not in found
        ]
        if not new or len(found) > _MOST * len(places):
            break
        sure = _SURE * max(s.gain for s in new)
        found |= {(s.context, s.run): s for s in new if s.gain >= sure}
    return list(found.values())


def _is_capped(one: Stretch, capped: Floats) -> bool:
    window = slice(round(one.first * len(capped)), round(one.last * len(capped)))
    return bool(capped[window].mean() > _CAPPED)


def _alike(one: Stretch, other: Stretch, departure: Floats, typical: Floats) -> bool:
    """Whether two runs of a context were slow alike: what runs do again is no fault."""
    if one.context != other.context or one.run == other.run:
        return False
    own, its = departure[one.context, [one.run, other.run]]
    apart, away = ((own - its) ** 2 * typical).sum(), (own**2 * typical).sum()
    return bool(apart < _ALIKE**2 * away)


def _unexplained(contexts: Floats, amounts: Floats, there: Bools, excess: Floats) -> Floats:
    """Log time of segments that their counts do not explain, (n, runs, segments)."""
    means = np.where(there[..., None, None], amounts, 0.0).sum(axis=1)
    means /= there.sum(axis=1)[:, None, None]
    out = np.zeros(amounts.shape[:3])
    for s in range(amounts.shape[2]):
        floor = EVEN * means[:, s, 0].mean()
        time, counts, other = means[:, s, 0] + floor, means[:, s, 1:], excess[:, s]
        model = Explained.fit(contexts, time, counts, excess=other)
        own = np.where(there[..., None], amounts[:, :, s], 1.0)
        explained = model.of(contexts, own[..., 1:]) + other[:, None]
        out[..., s] = np.log(own[..., 0] + floor) - np.log(explained)
    return out


def _from_siblings(left: Floats, amounts: Floats, there: Bools, capped: Floats) -> Floats:
    """What is left of runs, less the median of their context's, (n, runs, segments).

    At a cap the time goes with the count that is capped, however little the count explains: of all
    that a time may go with, what it departs least from.
    """
    time, counts = amounts[..., 0], np.moveaxis(amounts[..., 1:], -1, 0)
    floor = np.finfo(np.float64).tiny
    out = np.full(left.shape, np.nan)
    for what in (left, *(np.log(np.maximum(time, floor) / np.maximum(c, floor)) for c in counts)):
        own = np.where(there[..., None], what, np.nan)
        own -= np.nanmedian(own, axis=1, keepdims=True)
        less = np.isnan(out) | ((capped > _CAPPED)[:, None] & (np.abs(own) < np.abs(out)))
        out = np.where(less, own, out)
    return out


def _from_others(contexts: Floats, left: Floats, alone: Bools, kept: Bools) -> Floats:
    """What is left of runs, less what it is in all other contexts, (runs, segments).

    Contexts without a run that is `kept` say nothing of others.
    """
    rows = np.flatnonzero(alone.any(axis=1))
    table = contexts[rows]
    z = Coordinates.of(default_names(table), table).scaled(table)
    around, ones = Neighbourhoods.of(z), np.ones(len(rows))
    weight = alone[rows][..., None]
    values = (left[rows] * weight).sum(axis=1) / weight.sum(axis=1)
    out = np.asarray(~kept[rows].any(axis=1))
    values -= np.median(values[~out], axis=0)
    whole = np.median(values, axis=1)
    process = fit_process(around, whole, ones, out)
    silent = np.where(out, SILENT * process.smooth.diagonal(), 0.0)
    inverse = Process(process.smooth, process.noise + silent).precision()
    own = (inverse @ values) / np.diag(inverse)[:, None]
    own -= np.median(own, axis=1, keepdims=True)  # slow throughout is no stretch
    return own[np.searchsorted(rows, np.nonzero(alone)[0])]


def _scan(
    departure: Floats,
    usual: Floats,
    typical: Floats,
    places: NDArray[np.int64],
    *,
    longest: int,
) -> list[Stretch]:
    """The window of each run (runs, segments) that departs most, where it does.

    `usual` (runs, segments) is what runs of that context differ, `typical` (segments,) the time
    that segments take; `places` (runs, 2) are context and run.
    """
    n, segments = departure.shape
    spread = _NORMAL * np.median(np.abs(departure), axis=0) + EVEN
    weight = typical / spread**2 / typical.sum()
    sums, differ = np.zeros((2, n, segments + 1))
    np.cumsum(departure * weight, axis=1, out=sums[:, 1:])
    np.cumsum(usual * weight, axis=1, out=differ[:, 1:])
    size = np.concatenate([[0.0], np.cumsum(weight)])
    share = np.concatenate([[0.0], np.cumsum(typical)]) / typical.sum()
    best = np.full(n, -np.inf)
    window, factor = np.zeros((n, 2), dtype=np.int64), np.ones(n)
    windows = sum(segments - length + 1 for length in range(1, longest + 1))
    odds = np.log(_ODDS / windows)
    for length in range(1, longest + 1):
        mean = (sums[:, length:] - sums[:, :-length]) / (size[length:] - size[:-length])
        chance = _NORMAL * np.median(np.abs(mean), axis=0) + EVEN
        own = (differ[:, length:] - differ[:, :-length]) / (size[length:] - size[:-length])
        gain = 0.5 * (mean / np.maximum(chance, own)) ** 2 + odds
        times = np.exp(mean)
        added = (times - 1.0) * (share[length:] - share[:-length])
        gain[(times < _LEAST_FACTOR) | (added < _LEAST_TIME)] = -np.inf
        first = gain.argmax(axis=1)
        top = gain[np.arange(n), first]
        better = top > best
        best[better], factor[better] = top[better], times[np.arange(n), first][better]
        window[better] = np.column_stack([first, first + length])[better]
    return [
        Stretch(
            int(places[i, 0]),
            int(places[i, 1]),
            float(window[i, 0] / segments),
            float(window[i, 1] / segments),
            float(factor[i]),
            float(best[i]),
        )
        for i in np.flatnonzero(best > 0)
    ]
