"""What a run was not seen to do is lent to it by runs that were: coupled clouds.

Counters are measured in groups, in different runs, and runs are cut.  The runs that hold a group
are a cloud in every segment of progress, and so are those that lack it.  Both know the time of the
segment, how far the run is ahead of its context until there (its lag), every counter that all runs
hold, and the context: through these the clouds are coupled by the bridge, segment by segment, and
from the coupling each run that lacks the group draws who lends it.  Given what all runs share,
groups that were never seen together are independent: among all joint laws that agree with the
measurements the one of the largest entropy.

Of one segment the coupling alone says who is drawn.  From segment to segment a run draws with the
same random numbers (a Gumbel number each pair, whose largest sum with log Γ is a draw from Γ), so
that its lender changes only where the coupling does: what is lent is as coherent as it can be.

Where a context has no run of a group its runs are coupled without a constraint on whom they meet,
and so are runs that were cut, where they end, with those that go on: one of these lends them all
that comes after.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msbgen.bridge.solve import SolverConfig, solve_bridge
from msbgen.core.contexts import squared_distances

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.int64]

# Deviations count for so much beside bandwidths of the context: runs that are within one or two of
# each other are taken for alike, or noise would choose the lender in every segment anew.
_ALIKE = 0.3
# Seed of the numbers that runs draw their lenders with: equal data give equal models.
_SEED = 0


def find_donors(
    coarse: Floats,
    lag: Floats,
    place: Floats,
    run_context: Indices,
    *,
    epsilon: float,
    tol: float,
) -> Indices:
    """Who lends each run each quantity in each segment, (n, segments, k): itself where it can.

    Parameters
    ----------
    coarse, lag : ndarray, (n, segments, k)
        Residuals of the segments, and lags; NaN throughout for a quantity that the run does not
        hold, and in all quantities from the segment on in which it was cut.
    place : ndarray, (n, n_resources)
        Contexts of the runs in bandwidths.
    run_context : ndarray of int, (n,)
    epsilon : float
        Of the bridge, in squared bandwidths of the contexts; residuals and lags enter in their
        deviations, times 0.3.
    tol : float
        Largest L1 error of its marginals.

    Raises
    ------
    msbgen.bridge.solve.NotConvergedError
        The solver did not reach its tolerance.

    Notes
    -----
    O(n²) per segment and group; linear in the segments.
    """
    n, segments, _ = coarse.shape
    lender = np.broadcast_to(np.arange(n)[:, None, None], coarse.shape).copy()
    there = np.isfinite(coarse)
    held, ends = np.asarray(there.any(axis=1)), np.asarray(there.any(axis=2)).sum(axis=1)
    shared = np.asarray(held[ends > 0].all(axis=0))
    clouds = _Clouds(coarse, lag, place, run_context, epsilon, tol)
    rng = np.random.default_rng(_SEED)
    for group in _groups(held[:, ~shared]):
        quantities = np.flatnonzero(~shared)[group]
        holds = held[:, quantities[0]]
        fate = rng.gumbel(size=(n, n))
        for j in range(segments):
            lack = np.flatnonzero(~holds & (ends > j))
            others = np.flatnonzero(holds & (ends > j))
            if len(lack):
                score = clouds.coupling(lack, others, j, shared) + fate[np.ix_(lack, others)]
                lender[lack[:, None], j, quantities] = others[score.argmax(axis=1), None]
    fate = rng.gumbel(size=(n, n))
    whole = ends == segments
    for run in np.flatnonzero(~whole):
        alike = whole & (held >= held[run]).all(axis=1)
        others = np.flatnonzero(alike if alike.any() else whole)
        both = held[run] & held[others].all(axis=0)
        score = clouds.affinity(np.array([run]), others, int(ends[run]) - 1, both)[0]
        chosen = others[int(np.argmax(score + fate[run, others]))]
        lender[run, ends[run] :] = lender[chosen, ends[run] :]
    return lender


def lend(values: Floats, lender: Indices) -> Floats:
    """Residuals of bins or segments (n, parts, k), each from the run that lends it."""
    per_segment = values.shape[1] // lender.shape[1]
    return np.take_along_axis(values, np.repeat(lender, per_segment, axis=1), axis=0)


def _groups(held: Bools) -> list[Indices]:
    """Columns that the same runs hold, together."""
    _, group = np.unique(held, axis=1, return_inverse=True)
    return [np.flatnonzero(group.ravel() == g) for g in range(group.max(initial=-1) + 1)]


class _Clouds:
    """Runs as points of the coordinates that some of them share, segment by segment."""

    def __init__(
        self,
        coarse: Floats,
        lag: Floats,
        place: Floats,
        run_context: Indices,
        epsilon: float,
        tol: float,
    ) -> None:
        deviation = np.nanstd(np.stack([coarse, lag]), axis=(1, 2), keepdims=True)
        unit = np.where(deviation > 0, deviation, 1.0) / _ALIKE
        self._coarse, self._lag = np.stack([coarse, lag]) / unit
        self._place, self._context = place, run_context
        self._epsilon, self._tol = epsilon, tol

    def points(self, runs: Indices, segment: int, quantities: Bools) -> Floats:
        """Residual and lag of some quantities, and the context, (runs, 2·quantities + m)."""
        if segment < 0:  # cut before anything was seen
            return self._place[runs]
        own = (self._coarse[runs, segment], self._lag[runs, segment])
        return np.concatenate([*(part[:, quantities] for part in own), self._place[runs]], axis=1)

    def affinity(self, runs: Indices, others: Indices, segment: int, quantities: Bools) -> Floats:
        """log of the kernel between runs and others, (runs, others)."""
        points = [self.points(some, segment, quantities) for some in (runs, others)]
        return -squared_distances(*points) / self._epsilon

    def coupling(self, runs: Indices, others: Indices, segment: int, quantities: Bools) -> Floats:
        """log of the coupling of two clouds, but for a number a run, (runs, others).

        Contexts that both clouds have weigh alike in both; what other contexts hold is coupled
        without constraint.
        """
        both = np.intersect1d(self._context[runs], self._context[others])
        log = self.affinity(runs, others, segment, quantities)
        if len(both) == 0:
            return log
        own, theirs = (np.isin(self._context[some], both) for some in (runs, others))
        bridge = solve_bridge(
            [self.points(some, segment, quantities) for some in (runs[own], others[theirs])],
            [_even(self._context[some]) for some in (runs[own], others[theirs])],
            epsilon=self._epsilon,
            config=SolverConfig(tol=self._tol),
        )
        potential = bridge.potentials[0][1]
        offered = np.full(len(others), np.median(potential))
        offered[theirs] = potential
        return log + offered / self._epsilon


def _even(context: Indices) -> Floats:
    """Weights under which every context counts alike."""
    _, place, many = np.unique(context, return_inverse=True, return_counts=True)
    return 1.0 / many[place.ravel()]
