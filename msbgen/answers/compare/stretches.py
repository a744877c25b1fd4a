"""Which stretches of the work changed between two versions, and in which quantity.

Windows of progress of many lengths are compared in every quantity (time, and events of every
counter), over all contexts and over the contexts below or above a level of a resource.  With
x_c,r the amount of run r in a window over the mean amount of its context c, the statistic is

    T = Σ_c w_c (mean of new x − mean of old x) / √(Σ_c w_c),
    1/w_c = v_c (1/n_old,c + 1/n_new,c) + u_c²,

where v_c is the variance of all runs of the context, shrunk to the geometric mean over contexts.
Sampling intervals that reach over an end of the window share their events out by length, which is
wrong by u_c where the rate is steep; a slower stretch moves the intervals after it.  Where work was
inserted or removed, all contexts share this error, and (Σ w_c u_c)² is added to Σ w_c in T.

The largest |T| is compared with its values under permutations of the versions' labels within each
context, or within each pair of runs that were measured one after the other (Westfall and Young,
1993).  This controls the familywise error over windows, quantities and groups of contexts for any
distribution of the runs.  A stretch that was found is set aside, and the rest is scanned again
(step-down).  It meets its sampling intervals in another phase, in all runs of a context alike:
means of contexts take the place of runs then, and the labels of contexts are exchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter1d, minimum_filter1d

from msbgen.answers.compare.variances import shrink

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.int64]

# Lengths of the windows [bins] of a scan; each starts at every quarter of its length.
_LENGTHS = (1, 2, 3, 5, 8, 12, 20, 35, 60, 100)
# Least relative deviation of an amount: smaller ones are rounding errors of the counts.
_ROUNDING = 1e-5
# Degrees of freedom of the usual variance in that of a context.
_PRIOR_FREEDOM = 6.0
# The most stretches that are reported; bins beside one that are set aside with it.
_MOST, _MARGIN = 8, 2
# An interval with a step, of uniform phase, is shared out with a standard deviation of √(1/12) of
# the step's amount; in the difference of two versions √2 times that.
_PHASE = (2 / 12) ** 0.5
# Windows and quantities whose amounts are this small a share of the whole are not compared.
_LEAST_SHARE = 1e-6


@dataclass(frozen=True)
class ContextGroup:
    """Contexts that are compared together: all, or those on one side of a level of a resource."""

    members: tuple[int, ...]
    resource: int = -1  # -1: all contexts
    level: float | None = None  # the group is below it, or at and above it
    below: bool = False


@dataclass(frozen=True)
class Stretch:
    """A stretch of progress that changed.

    Attributes
    ----------
    begin, end : float
        Shares of the old version's work.
    quantity : int
        0 for time, 1 + k for the k-th other counter: where the change is clearest.
    group : ContextGroup
        The contexts in which the change is clearest.
    p_value : float
        Of no change anywhere, adjusted for all windows, quantities and groups.
    increased : bool
        Whether the new version has more of the quantity.
    """

    begin: float
    end: float
    quantity: int
    group: ContextGroup
    p_value: float
    increased: bool


@dataclass(frozen=True, eq=False)
class Labelled:
    """Runs of both versions, side by side.

    Attributes
    ----------
    amounts : (n, runs, bins, q)
        Amount of each quantity in each bin of progress; NaN throughout for a missing run, and in
        quantities that the run lacks.
    new : (n, runs) of bool
        Whether a run is of the new version.
    reach : (n,)
        Sampling interval of each context as a share of the work.
    are_paired : bool
        Whether the first half of the runs is the old version's, each with its partner in the
        second half: labels are exchanged within pairs only.
    is_shifted : bool
        Whether the new version's work is shifted against its sampling intervals, in all contexts
        alike: the errors u_c of a window's ends add up, and do not average out.
    """

    amounts: Floats
    new: Bools
    reach: Floats
    are_paired: bool = False
    is_shifted: bool = False

    @classmethod
    def of(
        cls,
        old: Floats,
        new: Floats,
        reach: Floats,
        *,
        are_paired: bool = False,
        is_shifted: bool = False,
    ) -> Labelled:
        """Join the runs (n, runs, bins, q) of both versions."""
        labels = np.zeros((len(old), old.shape[1] + new.shape[1]), dtype=bool)
        labels[:, old.shape[1] :] = True
        return cls(np.concatenate([old, new], axis=1), labels, reach, are_paired, is_shifted)

    def shifted(self) -> Labelled:
        """Mean runs of both versions, where the new one's work is shifted."""
        sides = (
            np.where(side[..., None, None], self.amounts, np.nan) for side in (~self.new, self.new)
        )
        old, new = map(mean_run, sides)
        return Labelled.of(old, new, self.reach, is_shifted=True)


def mean_run(amounts: Floats) -> Floats:
    """Mean over the runs of each context, (n, runs, bins, q) -> (n, 1, bins, q)."""
    present = np.isfinite(amounts).all(axis=2, keepdims=True)
    sums = np.where(present, amounts, 0.0).sum(axis=1, keepdims=True)
    n_runs = present.sum(axis=1, keepdims=True)
    return np.where(n_runs > 0, sums / np.maximum(n_runs, 1), np.nan)


def context_groups(contexts: Floats) -> list[ContextGroup]:
    """All contexts, and for each resource those below and above its lower and upper third."""
    groups = [ContextGroup(tuple(range(len(contexts))))]
    for r, column in enumerate(contexts.T):
        levels = np.unique(column)
        thirds = {round(len(levels) * share) for share in (1 / 3, 2 / 3)} & set(
            range(1, len(levels))
        )
        for level in levels[sorted(thirds)]:
            for below in (True, False):
                members = np.flatnonzero((column < level) == below)
                groups.append(ContextGroup(tuple(members.tolist()), r, float(level), below))
    return groups


def find_stretches(
    runs: Labelled,
    groups: Sequence[ContextGroup],
    *,
    compared: Bools,
    level: float,
    permutations: int,
    rng: np.random.Generator,
) -> list[Stretch]:
    """Stretches that changed, the clearest first.

    Parameters
    ----------
    runs : Labelled
        Runs of both versions.
    groups : sequence of ContextGroup
        See :func:`context_groups`.
    compared : (bins,) of bool
        Bins that may be compared; windows with another bin are left out.
    level : float
        Familywise error.
    permutations : int
        Number of permutations; the smallest p-value is 1/(permutations + 1).
    rng : numpy.random.Generator
        Draws the permutations.

    Notes
    -----
    O(permutations · runs · windows · quantities · groups) in time, blocks of it in memory.
    """
    n_bins = runs.amounts.shape[2]
    windows = _windows(n_bins)
    allowed = compared.copy()
    found: list[Stretch] = []
    peaks = _peaks(runs, windows, groups, permutations, rng)
    while len(found) < _MOST:
        free = np.array([allowed[a:b].all() for a, b in windows])
        if not free.any():
            break
        over = peaks.size[:, free].reshape(len(peaks.size), -1).max(axis=1)
        p_value = float((over >= over[0] * (1 - 1e-12)).mean())
        if p_value > level:
            break
        flat = int(peaks.size[0, free].argmax())
        w, q = np.unravel_index(flat, peaks.size[0, free].shape)
        window = np.flatnonzero(free)[w]
        group = groups[int(peaks.group[window, q])]
        begin, end = _refined(runs, group, int(q), windows[window], allowed)
        more = bool(peaks.increased[window, q])
        found.append(Stretch(begin / n_bins, end / n_bins, int(q), group, p_value, more))
        first = min(begin, windows[window][0]) - _MARGIN
        allowed[max(first, 0) : max(end, windows[window][1]) + _MARGIN] = False
        if not runs.is_shifted:
            runs = runs.shifted()
            peaks = _peaks(runs, windows, groups, permutations, rng)
    return _merged(found, (_MARGIN + 1) / n_bins)


def _peaks(
    runs: Labelled,
    windows: Sequence[tuple[int, int]],
    groups: Sequence[ContextGroup],
    permutations: int,
    rng: np.random.Generator,
) -> _Peaks:
    """Largest |T| of all windows without and with permutations."""
    scan = _Scan.of(runs, windows)
    return scan.largest(_permuted_signs(runs, scan.present, permutations, rng), groups)


def _merged(found: Sequence[Stretch], apart: float) -> list[Stretch]:
    """Stretches of equal change that are no further apart than that are one, as clear as both."""
    out: list[Stretch] = []
    for one in found:
        for k, other in enumerate(out):
            near = max(one.begin - other.end, other.begin - one.end) <= apart + 1e-9
            if near and (one.quantity, one.increased) == (other.quantity, other.increased):
                begin, end = min(one.begin, other.begin), max(one.end, other.end)
                out[k] = replace(other, begin=begin, end=end)
                break
        else:
            out.append(one)
    return out


@dataclass(frozen=True, eq=False)
class _Peaks:
    """Largest |T| over the groups of contexts."""

    size: Floats  # (permutations + 1, windows, q); the first is without permutation
    group: Indices  # (windows, q): where it is without permutation
    increased: Bools  # (windows, q): whether T is positive there


@dataclass(frozen=True, eq=False)
class _Scan:
    """Relative amounts of all windows, and the variances of their differences."""

    amounts: Floats  # (n, runs, windows, q): over the mean of the context; 0 where not present
    present: Bools  # (n, runs, q)
    variance: Floats  # (n, windows, q); infinite where a window has nothing to compare
    shift: Floats  # (n, windows, q): errors that all contexts share

    @classmethod
    def of(cls, runs: Labelled, windows: Sequence[tuple[int, int]]) -> _Scan:
        whole = runs.amounts
        present = np.asarray(np.isfinite(whole).all(axis=2))
        values = np.where(present[:, :, None], whole, 0.0)
        n_runs = np.maximum(present.sum(axis=1), 1)[:, None]
        first, last = np.array(windows).T
        sums = np.concatenate([np.zeros_like(values[:, :, :1]), np.cumsum(values, axis=2)], axis=2)
        parts = sums[:, :, last] - sums[:, :, first]
        mean = parts.sum(axis=1) / n_runs
        total = sums[:, :, -1].sum(axis=1)[:, None] / n_runs
        enough = mean > _LEAST_SHARE * np.maximum(total, 1e-300)
        held, divisor = present[:, :, None], np.where(enough, mean, 1.0)
        relative = parts / divisor[:, None]
        square = np.where(held, (relative - 1.0) ** 2, 0.0).sum(axis=1)
        noise = _shrunk(np.where(enough & (n_runs > 1), square, np.nan), n_runs - 1)
        counts = [(present & side[..., None]).sum(axis=1) for side in (runs.new, ~runs.new)]
        both = np.all([n > 0 for n in counts], axis=0)[:, None]
        each = 1.0 / np.maximum(counts[0], 1) + 1.0 / np.maximum(counts[1], 1)
        blur = _blur(values.sum(axis=1) / n_runs, runs.reach)
        phase = (blur[:, first] ** 2 + blur[:, last] ** 2) / divisor**2
        variance = noise * each[:, None] + phase
        usable = both & np.isfinite(variance) & (variance > 0)
        return cls(
            np.where(held, relative, 0.0),
            present,
            np.where(usable, variance, np.inf),
            np.sqrt(phase) if runs.is_shifted else np.zeros_like(phase),
        )

    def largest(self, signs: Floats, groups: Sequence[ContextGroup]) -> _Peaks:
        """Largest |T| over the groups, for signs (permutations + 1, n, runs)."""
        n, r, w, q = self.amounts.shape
        weight = 1.0 / self.variance
        flat = (self.amounts * weight[:, None]).reshape(n, r, w * q)
        size = np.zeros((len(signs), w * q))
        best, increased = np.zeros(w * q, dtype=np.int64), np.zeros(w * q, dtype=bool)
        # sums of all contexts less those of the group before are the sums of its complement
        whole = sums = np.zeros((len(signs), w * q))
        rest: tuple[int, ...] | None = None
        for g, group in enumerate(groups):
            rows = list(group.members)
            precision = weight[rows].sum(axis=0).reshape(-1)
            shared = (weight[rows] * self.shift[rows]).sum(axis=0).reshape(-1) ** 2
            scale = np.where(
                precision > 0, 1.0 / np.sqrt(np.maximum(precision + shared, 1e-300)), 0.0
            )
            if group.members == rest:
                sums = whole - sums
            else:
                sums = signs[:, rows].reshape(len(signs), -1) @ flat[rows].reshape(-1, w * q)
            rest = tuple(sorted(set(range(n)) - set(rows)))
            whole = sums if not rest else whole
            values = np.abs(sums) * scale
            larger = values[0] > size[0]
            best[larger], increased[larger] = g, sums[0, larger] > 0
            np.maximum(size, values, out=size)
        return _Peaks(size.reshape(-1, w, q), best.reshape(w, q), increased.reshape(w, q))


def _shrunk(square: Floats, free: Indices) -> Floats:
    """Variances from sums of squares (n, windows, q), shrunk to the geometric mean of contexts."""
    free = np.maximum(free, 1)
    raw = np.maximum(square / free, _ROUNDING**2)
    known = np.isfinite(raw)
    usual = np.exp(np.log(np.where(known, raw, 1.0)).sum(axis=0) / np.maximum(known.sum(axis=0), 1))
    return shrink(raw, free, usual, _PRIOR_FREEDOM)


def _blur(amounts: Floats, reach: Floats) -> Floats:
    """Error of cumulative amounts by the phase of sampling, (n, bins + 1, q).

    From mean amounts (n, bins, q), and sampling intervals as shares of the work (n,).
    """
    out = np.zeros((len(amounts), amounts.shape[1] + 1, amounts.shape[2]))
    for row, one, share in zip(out, amounts, reach):
        length = share * len(one)  # of an interval [bins]
        size = 2 * int(np.ceil(length / 2)) + 1
        high = maximum_filter1d(one, size, axis=0, mode="nearest")
        steep = (high - minimum_filter1d(one, size, axis=0, mode="nearest")) * length * _PHASE
        row[1:-1] = (steep[1:] + steep[:-1]) / 2
    return out


def _windows(n_bins: int) -> list[tuple[int, int]]:
    """Begin and end of the windows of a scan."""
    out = []
    for length in (n for n in _LENGTHS if n <= n_bins):
        starts = [*range(0, n_bins - length, max(length // 4, 1)), n_bins - length]
        out += [(start, start + length) for start in starts]
    return out


def _permuted_signs(
    runs: Labelled, present: Bools, permutations: int, rng: np.random.Generator
) -> Floats:
    """Weights of the runs in the difference of means, (permutations + 1, n, runs).

    1/n_new for runs of the new version, −1/n_old for those of the old one; then with their labels
    permuted within each context, or exchanged within pairs.
    """
    new = runs.new
    some = np.asarray(present.any(axis=2))
    n_new, n_old = (some & new).sum(axis=1), (some & ~new).sum(axis=1)
    both = (n_new > 0) & (n_old > 0)
    signs = np.where(new, 1.0 / np.maximum(n_new, 1)[:, None], -1.0 / np.maximum(n_old, 1)[:, None])
    signs = np.where(some & both[:, None], signs, 0.0)
    out = np.empty((permutations + 1, *signs.shape))
    out[0] = signs
    if runs.are_paired:
        flips = rng.choice([-1.0, 1.0], (permutations, len(new), new.shape[1] // 2))
        out[1:] = signs * np.tile(flips, (1, 1, 2))
        return out
    # runs that are present come first in `order`, so that labels move among them only
    order = np.argsort(~some, axis=1, kind="stable")
    sorted_signs = np.take_along_axis(signs, order, axis=1)
    n_some = some.sum(axis=1)[:, None]
    for p in range(1, permutations + 1):
        keys = rng.random(signs.shape)
        keys[np.arange(signs.shape[1]) >= n_some] = 2.0
        drawn = np.take_along_axis(sorted_signs, np.argsort(keys, axis=1), axis=1)
        np.put_along_axis(out[p], order, drawn, axis=1)
    return out


def _refined(
    runs: Labelled, group: ContextGroup, q: int, window: tuple[int, int], allowed: Bools
) -> tuple[int, int]:
    """Ends of a stretch [bins] that explain the differences best, of those that overlap a window.

    The pooled difference per bin is a constant share of its amount within the stretch and 0
    outside, with noise of each bin's variance: the ends of largest explained squares are taken.
    They may be far from the window's: of a uniform change all windows are about equally clear.
    """
    rows = list(group.members)
    values, new = runs.amounts[rows, :, :, q], runs.new[rows]
    held = np.asarray(np.isfinite(values).all(axis=2))
    mean = np.nanmean(np.where(held[..., None], values, np.nan), axis=(1, 2), keepdims=True)
    x = np.where(held[..., None], values / np.where(mean > 0, mean, 1.0), np.nan)
    old_mean = np.nanmean(np.where(new[..., None], np.nan, x), axis=1)
    new_mean = np.nanmean(np.where(new[..., None], x, np.nan), axis=1)
    amount = np.nanmean((old_mean + new_mean) / 2, axis=0)
    difference = np.nanmean(new_mean - old_mean, axis=0)
    # noise of a bin between contexts, at least a thousandth of its amount
    noise = np.nanvar(new_mean - old_mean, axis=0) + (1e-3 * amount) ** 2 + 1e-30
    low, high = first, last = window
    while first > 0 and allowed[first - 1]:
        first -= 1
    while last < len(allowed) and allowed[last]:
        last += 1
    # weighted regression of differences on amounts: gain (Σ d a / v)² / Σ a² / v
    cross = np.concatenate([[0.0], np.cumsum(difference * amount / noise)])
    square = np.concatenate([[0.0], np.cumsum(amount**2 / noise)])
    begins, ends = np.meshgrid(
        np.arange(first, last), np.arange(first + 1, last + 1), indexing="ij"
    )
    overlaps = (begins < high) & (ends > low) & (ends > begins)
    squares = np.where(overlaps, np.maximum(square[ends] - square[begins], 1e-300), 1.0)
    gain = (cross[ends] - cross[begins]) ** 2 / squares
    best = int(np.where(overlaps, gain, -1.0).argmax())
    return int(begins.flat[best]), int(ends.flat[best])
