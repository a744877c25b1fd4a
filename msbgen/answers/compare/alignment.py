"""Alignment of two versions of a program by what their counters look like.

Work that was inserted or removed shifts all that follows.  Both versions are cut into blocks of
equal work (instructions), each described by its rates: time and events per instruction, in
logarithms, averaged over each of G groups of contexts.  A monotone path matches blocks of both at
least cost,

    Σ_matched Σ_g,q min(|rate_old,g,q − rate_new,g,q|² / 2 (τ² + v), cap) / G
    + Σ_gaps (a + b · length),

by dynamic programming with affine gaps (Gotoh, J. Mol. Biol. 162(3), 1982).  Rates vary by v: from
run to run, and within a sampling interval, whose phase shifts them.  A matched block may be slower
or miss more, at bounded cost; a gap is inserted or removed work.  The alternative without gaps
scales the progress of both to equal totals.

Where the program looks the same all along, or the noise is large, a gap fits in many places.  They
are those at which all other work costs nearly as little.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import maximum_filter1d, minimum_filter1d, uniform_filter1d

Floats = NDArray[np.float64]

# Blocks of the old version, and those of the coarse search that comes first.  Rates closer than τ,
# in logarithms, look equal.  Bound of the cost of a rate; cost of a gap, and of 1/200 of the work
# in it.
BLOCKS, _COARSE = 800, 200
_TAU, _CAP = 0.05, 3.0
GAP, _EXTENSION = 24.0, 2.0
# Blocks over which the noise is averaged, as a share of the work: few runs show it badly.
_NOISE_SPAN = 0.05
# A gap may be where the cost is higher by this at most, as e⁻³ = 1/20 of the likelihood.
_LIKELY = 3.0
# Share of matched rates at the bound of their cost, or of both works without a match, from which
# the programs are different ones.
_DIFFERENT = 0.5
# The most that one version may be shifted against the other, as a share of the work.
_BAND = 0.35
# Programs are different ones, too, where one does this many times the work of the other: blocks of
# equal work would be too many to search.
_MOST_WORK = 10.0
# A span of work shorter than this is empty.
_EMPTY = 1e-9
_MATCH, _INSERT, _REMOVE = range(3)


@dataclass(frozen=True)
class Gap:
    """Work without a match in the other version.

    Attributes
    ----------
    old, new : tuple of float
        Begin and end as shares of either work.
    begins : tuple of float
        Between which shares of the old work it may begin, as far as the counters show.
    """

    old: tuple[float, float]
    new: tuple[float, float]
    begins: tuple[float, float]

    @property
    def kind(self) -> str:
        """``"inserted"`` or ``"removed"`` if one version has nothing there, else ``"replaced"``."""
        lengths = self.old[1] - self.old[0], self.new[1] - self.new[0]
        if lengths[0] < _EMPTY:
            return "inserted"
        return "removed" if lengths[1] < _EMPTY else "replaced"

    @property
    def length(self) -> float:
        """The longer of both spans."""
        return max(self.old[1] - self.old[0], self.new[1] - self.new[0])


@dataclass(frozen=True, eq=False)
class Alignment:
    """A monotone map of progress.

    Attributes
    ----------
    old, new : (k,)
        Matching knots in the progress of both versions, from 0 to 1; linear in between.
    gaps : tuple of Gap
        Inserted, removed and replaced work.
    mismatch : float
        Share of the matched rates that differ beyond the bound of their cost.
    """

    old: Floats
    new: Floats
    gaps: tuple[Gap, ...]
    mismatch: float

    @property
    def is_same_program(self) -> bool:
        """Whether most work of one version at least has a match, and most of that looks alike."""
        old = sum(gap.old[1] - gap.old[0] for gap in self.gaps)
        new = sum(gap.new[1] - gap.new[0] for gap in self.gaps)
        return self.mismatch < _DIFFERENT and min(old, new) < _DIFFERENT

    def to_new(self, places: Floats) -> Floats:
        """Progress of the new version that matches the old one's, (n,)."""
        matching = np.interp(places, self.old, self.new)
        # work inserted before the first or after the last is a gap at an end, and no shift of it
        return np.where(places <= 0, 0.0, np.where(places >= 1, 1.0, matching))


def align(
    old: Floats,
    new: Floats,
    *,
    work: float,
    reach: float,
    noise: tuple[Floats, Floats] | None = None,
) -> Alignment:
    """Alignment of two versions from the rates of their blocks.

    Parameters
    ----------
    old, new : (groups, n, k)
        Logarithms of the rates of both versions in groups of contexts, and in n blocks of equal
        shares of their work.
    work : float
        Work of the new version over that of the old one, in total.
    reach : float
        Sampling interval as a share of the work.
    noise : pair of (groups, n, k), optional
        Variances of the rates of both versions; default: 0.
    """
    identity = np.array([0.0, 1.0])
    if not 1 / _MOST_WORK <= work <= _MOST_WORK:
        return Alignment(identity, identity, (), 1.0)
    known = noise or (np.zeros_like(old), np.zeros_like(new))
    first, second = (_Rates.of(*one, reach) for one in zip((old, new), known))
    coarse = _search(first, second, work, _COARSE, None)
    if coarse is None:
        return Alignment(identity, identity, (), _mismatch(first, second))
    before = np.array([part / part[-1] for part in _places(coarse)])
    fine = _search(first, second, work, BLOCKS, before)
    return _from_steps(coarse if fine is None else fine, first, second, work)


@dataclass(frozen=True, eq=False)
class _Rates:
    """Logarithms of rates, and their variances, (n, k) each.

    Columns are those of all groups of contexts, one after the other.
    """

    value: Floats
    variance: Floats
    groups: int

    @classmethod
    def of(cls, rates: Floats, noise: Floats, reach: float) -> _Rates:
        value = np.concatenate(list(rates), axis=1)
        size = 2 * round(reach * len(value) / 2) + 1
        high = maximum_filter1d(value, size, axis=0, mode="nearest")
        spread = (high - minimum_filter1d(value, size, axis=0, mode="nearest")) / 2
        width = max(round(_NOISE_SPAN * len(value)), 1)
        steady = uniform_filter1d(
            np.concatenate(list(noise), axis=1), width, axis=0, mode="nearest"
        )
        # the noise of an interval is that of all blocks in it, and counts once
        return cls(value, spread**2 + steady * max(reach * _COARSE, 1.0), len(rates))

    def blocks(self, n: int) -> _Rates:
        """Rates of n blocks by interpolation between the centres of those here."""
        return _Rates(_sampled(self.value, n), _sampled(self.variance, n), self.groups)

    def rows(self, indices: NDArray[np.int64]) -> _Rates:
        """Some of the blocks."""
        return _Rates(self.value[indices], self.variance[indices], self.groups)


def _search(
    old: _Rates, new: _Rates, work: float, n: int, path: Floats | None
) -> NDArray[np.int8] | None:
    """Steps of the cheapest path with n blocks of the old version; None if it has no gap.

    With the shares of both works along a `path` (2, k), only its neighbourhood is searched.
    """
    n_new = max(round(work * n), 1)
    blocks, others = old.blocks(n), new.blocks(n_new)
    scale = _COARSE / n
    costs = scale * _costs(blocks, others)
    if path is None:
        width = max(int(_BAND * max(n, n_new)), abs(n_new - n)) + 2
        centre = np.arange(n + 1)
    else:
        shares = np.interp(np.arange(n + 1) / n, path[0], path[1])
        centre = np.round(shares * n_new).astype(np.int64)
        width = 4 * n // _COARSE + int(np.abs(np.diff(centre)).max())
    steps, cost = best_path(costs, scale * _EXTENSION, centre, width)
    if path is None:
        plain = float(np.trace(scale * _costs(blocks, new.blocks(n))))
        # programs whose work differs have one gap at least; further ones must lower the cost
        needed = GAP + scale * _EXTENSION * abs(n_new - n) if n_new != n else 0.0
        if cost - needed >= plain:
            return None
    return None if (steps == _MATCH).all() else steps


def _sampled(rates: Floats, n: int) -> Floats:
    """Rates of n blocks by interpolation between the centres of given blocks, (n, k)."""
    centres = (np.arange(len(rates)) + 0.5) / len(rates)
    asked = (np.arange(n) + 0.5) / n
    return np.stack([np.interp(asked, centres, column) for column in rates.T], axis=1)


def _costs(old: _Rates, new: _Rates) -> Floats:
    """Cost of matching each pair of blocks, (n_old, n_new)."""
    out = np.zeros((len(old.value), len(new.value)))
    columns = zip(old.value.T, new.value.T, old.variance.T, new.variance.T)
    for first, second, first_variance, second_variance in columns:
        variance = _TAU**2 + first_variance[:, None] + second_variance
        out += np.minimum((first[:, None] - second) ** 2 / (2 * variance), _CAP)
    return out / old.groups


def _mismatch(old: _Rates, new: _Rates) -> float:
    """Share of matched rates (n, k) that differ beyond the bound of their cost."""
    variance = _TAU**2 + old.variance + new.variance
    return float(((old.value - new.value) ** 2 / (2 * variance) >= _CAP).mean())


def best_path(
    costs: Floats, extension: float, centre: NDArray[np.int64], width: int
) -> tuple[NDArray[np.int8], float]:
    """Steps of the cheapest monotone path through all blocks of both, and its cost.

    Steps are 0 for a match, 1 for a block of the new version alone and 2 for one of the old; a run
    of equal steps other than matches costs `GAP` and `extension` for each.  Row i is searched
    within `width` blocks of `centre` (n_old + 1,).
    """
    n, m = costs.shape
    total = np.full((3, n + 1, m + 1), np.inf)
    back = np.zeros((3, n + 1, m + 1), dtype=np.int8)
    total[_MATCH, 0, 0] = 0.0
    opened = GAP + extension
    for i in range(n + 1):
        first, last = max(0, centre[i] - width), min(m, centre[i] + width) + 1
        if i:
            low = max(first, 1)
            before = total[:, i - 1, low - 1 : last - 1]
            back[_MATCH, i, low:last] = before.argmin(axis=0)
            total[_MATCH, i, low:last] = before.min(axis=0) + costs[i - 1, low - 1 : last - 1]
            before = total[:, i - 1, first:last] + opened
            before[_REMOVE] -= GAP
            back[_REMOVE, i, first:last] = before.argmin(axis=0)
            total[_REMOVE, i, first:last] = before.min(axis=0)
        # an insertion begins in any earlier column: a running minimum finds the best one
        others = total[[_MATCH, _REMOVE], i, first:last]
        length = extension * np.arange(last - first)
        start = others.min(axis=0) + opened - length
        total[_INSERT, i, first + 1 : last] = np.minimum.accumulate(start)[:-1] + length[:-1]
        goes_on = total[_INSERT, i, first : last - 1] + extension < start[:-1] + length[:-1]
        begins = np.where(others.argmin(axis=0) == 0, _MATCH, _REMOVE)[:-1]
        back[_INSERT, i, first + 1 : last] = np.where(goes_on, _INSERT, begins)
    steps, i, j = [], n, m
    state = int(total[:, n, m].argmin())
    cost = float(total[state, n, m])
    while i or j:
        steps.append(state)
        state, i, j = int(back[state, i, j]), i - (state != _INSERT), j - (state != _REMOVE)
    return np.array(steps[::-1], dtype=np.int8), cost


def _places(steps: NDArray[np.int8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Blocks of either version that lie before each step, (len(steps) + 1,)."""
    at_old = np.concatenate([[0], np.cumsum(steps != _INSERT)])
    return at_old, np.concatenate([[0], np.cumsum(steps != _REMOVE)])


def _from_steps(steps: NDArray[np.int8], old: _Rates, new: _Rates, work: float) -> Alignment:
    """The map of a path, with its gaps; matching work takes equally long in both versions."""
    at_old, at_new = _places(steps)
    knots = np.concatenate([[0], np.flatnonzero(np.diff(steps)) + 1, [len(steps)]])
    kinds = steps[knots[:-1]]
    length_old, length_new = (np.diff(at[knots]) / at[-1] for at in (at_old, at_new))
    # blocks round the lengths: the longest gap takes the difference
    matching = kinds == _MATCH
    longer = length_new if work >= 1 else length_old
    wanted = _INSERT if work >= 1 else _REMOVE
    if (kinds == wanted).any():
        widest = int(np.where(kinds == wanted, longer, -1.0).argmax())
        if work >= 1:
            length_new[matching] = length_old[matching] / work
        else:
            length_old[matching] = length_new[matching] * work
        longer[widest] = max(longer[widest] + 1.0 - longer.sum(), 0.0)
    places = [np.append(0.0, np.cumsum(part)) for part in (length_old, length_new)]
    places = [part / part[-1] for part in places]
    blocks, others = old.blocks(int(at_old[-1])), new.blocks(int(at_new[-1]))
    costs = _COARSE / len(blocks.value) * _costs(blocks, others)
    gaps = []
    for first, last in _spans(~matching):
        old_span, new_span = ((float(part[first]), float(part[last])) for part in places)
        # between the gaps around it
        around = knots[[max(first - 1, 0), first, last, min(last + 1, len(kinds))]]
        shifts = _likely_shifts(costs, at_old[around], at_new[around]) / len(blocks.value)
        begins = old_span[0] + float(shifts[0]), old_span[0] + float(shifts[1])
        gaps.append(Gap(old_span, new_span, begins))
    matched = np.flatnonzero(steps == _MATCH)
    pairs, matches = blocks.rows(at_old[matched]), others.rows(at_new[matched])
    mismatch = _mismatch(pairs, matches) if len(matched) else 1.0
    return Alignment(places[0], places[1], tuple(gaps), mismatch)


def _spans(members: NDArray[np.bool_]) -> NDArray[np.int64]:
    """First index and end of each run of members, (runs, 2)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], members, [0]])))
    return edges.reshape(-1, 2)


def _likely_shifts(
    costs: Floats, old: NDArray[np.int64], new: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The least and the greatest shift of a gap, in blocks, that costs at most `_LIKELY` more.

    `old` and `new` (4,) are the blocks of either version at the end of the gap before, at begin and
    end of this one, and at the begin of the next: work in between has a match.
    """
    before = np.arange(old[0], old[3] - (old[2] - old[1]))
    after = before + (old[2] - old[1])
    # to begin later, the gap takes in the match of `after`, and leaves that of `before`
    left = costs[before, before - old[1] + new[1]]
    taken = costs[after, after - old[2] + new[2]]
    total = np.append(0.0, np.cumsum(left - taken))
    likely = np.flatnonzero(total <= total.min() + _LIKELY)
    return likely[[0, -1]] - (old[1] - old[0])
