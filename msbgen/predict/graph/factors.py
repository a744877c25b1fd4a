"""What a sheet does not know of a device: a few factors, fitted to a hundred runs or fewer.

With t(θ) and e(θ) the time and energy that a schedule of profiles says of a run when paces of
cluster c are multiplied by exp θ_c, dispatches by exp θ_d, and the powers of the sheet (whatever
flows at all times; core cycles; stalls; misses) by factors of their own, θ minimises

    Σ_runs [(log t − log t(θ))² + (log e − log e(θ))²] / σ² + Σ_i (θ_i − m_i)² / s²

by Gauss-Newton steps; m is what other devices came to, or none.  The prior keeps what runs say
nothing of: without a run all factors are those of m.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.predict.graph._kernels import (
    DISPATCH,
    IDLE,
    IDLE_JOULES,
    JOULES,
    LAST,
    ON,
    ON_JOULES,
    TIME,
)
from msbgen.predict.graph.boards import Arrays, Board, Indices, Prepared, schedule

Floats = NDArray[np.float64]

# Standard deviations of what runs and factors are off by, in logarithms.
_NOISE, _PRIOR = 0.05, 0.3
# Share of its full power that a core that stalls draws, before anything is known.
_STALLED = 0.5
# Steps of Gauss-Newton, and what factors are moved by to see what they do.
_STEPS, _NUDGE = 8, 1e-3
# A step that moves no factor by more is the last.
_SETTLED = 1e-4
# Factors beside the paces of the clusters.
OTHERS = ("dispatch", "always", "cycles", "stalls", "misses")


@dataclass(frozen=True, eq=False)
class Factors:
    """Logarithms of what a sheet's numbers are multiplied by.

    Attributes
    ----------
    values : ndarray, (n_clusters + 5,)
        Paces of the clusters, then those of :data:`OTHERS`.
    """

    values: Floats

    @classmethod
    def none(cls, n_clusters: int) -> Factors:
        """The sheet as it stands."""
        return cls(np.zeros(n_clusters + len(OTHERS)))

    def applied(self, board: Board) -> Arrays:
        """The board's arrays, multiplied."""
        n = len(board.device.clusters)
        dispatch, always, cycles, stalls, misses = np.exp(self.values[n:])
        own = np.exp(self.values[:n])
        wide = own[None, :, None, None, None, None]
        core, stall, miss = board.joules
        # a stall lasts as long as the pace says
        joules = cycles * core + _STALLED * stalls * wide * stall + misses * miss
        clusters = board.clusters.copy()
        clusters[DISPATCH] *= dispatch
        clusters[[ON, IDLE]] *= always
        cooling = board.cooling.copy()
        cooling[0] *= always
        return board.pace * wide, joules, clusters, cooling


def estimate(
    graph: Prepared, arrays: Arrays, rows: Indices, temperature: Floats, *, ranked: bool = False
) -> Floats:
    """Time [s], energy [J] and temperature at the end [°C] in contexts, (m, 3)."""
    totals = schedule(graph, arrays, rows, temperature, ranked=ranked)
    time = totals[:, TIME]
    flowing = arrays[3][0] * time + totals[:, ON_JOULES] + totals[:, IDLE_JOULES]
    energy = flowing + totals[:, JOULES:].sum(axis=1)
    return np.stack([time, energy, totals[:, LAST]], axis=1)


@dataclass(frozen=True, eq=False)
class Runs:
    """Measured runs of one device, as fits take them.

    Attributes
    ----------
    graphs : sequence of Prepared
    graph : ndarray of int, (n,)
        Which of them each run is of.
    rows : ndarray of int, (n, 1 + 2 n_clusters)
    temperature : ndarray, (n,)
        At the start [°C].
    log : ndarray, (n, 2)
        Logarithms of time [s] and energy [J].
    """

    graphs: Sequence[Prepared]
    graph: Indices
    rows: Indices
    temperature: Floats
    log: Floats

    def some(self, at: Indices) -> Runs:
        """Those of some runs."""
        return Runs(self.graphs, self.graph[at], self.rows[at], self.temperature[at], self.log[at])

    def estimates(self, arrays: Arrays, *, ranked: bool = False) -> Floats:
        """Logarithms of time and energy by a schedule, and the last temperature, (n, 3)."""
        found = np.empty((len(self.graph), 3))
        for g in np.unique(self.graph):
            own = np.flatnonzero(self.graph == g)
            rows, start = self.rows[own], self.temperature[own]
            found[own] = estimate(self.graphs[g], arrays, rows, start, ranked=ranked)
        found[:, :2] = np.log(found[:, :2])
        return found


def fit_factors(runs: Runs, board: Board, prior: Factors, *, ranked: bool = False) -> Factors:
    """Factors of a device from runs on it.

    Parameters
    ----------
    runs : Runs
        None are too few: the factors are those of the prior then.
    board : Board
    prior : Factors
        What is thought before.
    ranked : bool
        Whether tasks start by their ranks.
    """
    values = prior.values.copy()
    if len(runs.graph) == 0:
        return prior
    tightness = (_NOISE / _PRIOR) ** 2

    def said(values: Floats) -> Floats:
        return runs.estimates(Factors(values).applied(board), ranked=ranked)[:, :2].ravel()

    wanted = runs.log.ravel()
    now = said(values)

    def badness(values: Floats, now: Floats) -> float:
        return float(((wanted - now) ** 2).sum() + tightness * ((values - prior.values) ** 2).sum())

    for _ in range(_STEPS):
        slope = np.empty((len(wanted), len(values)))
        for i in range(len(values)):
            moved = values.copy()
            moved[i] += _NUDGE
            slope[:, i] = (said(moved) - now) / _NUDGE
        normal = slope.T @ slope + tightness * np.eye(len(values))
        pull = slope.T @ (wanted - now) - tightness * (values - prior.values)
        step = np.linalg.solve(normal, pull)
        # schedules jump where tasks change places: a step that does not help is halved
        while np.abs(step).max() > _SETTLED:
            new = said(values + step)
            if badness(values + step, new) < badness(values, now):
                break
            step = step / 2
        else:
            break
        values, now = values + step, new
    return Factors(values)


def mean_factors(fitted: Sequence[tuple[int, Factors]], n_clusters: int) -> Factors:
    """What to think of a device from the factors of others: their means.

    Parameters
    ----------
    fitted : sequence of (int, Factors)
        Clusters of each other device, and its factors.
    n_clusters : int
        Of this one.
    """
    if not fitted:
        return Factors.none(n_clusters)
    pace = np.mean([factors.values[:n].mean() for n, factors in fitted])
    others = np.mean([factors.values[n:] for n, factors in fitted], axis=0)
    return Factors(np.array([*np.full(n_clusters, pace), *others], dtype=np.float64))
