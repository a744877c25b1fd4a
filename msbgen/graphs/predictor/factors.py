"""What a sheet does not know of a device: a few factors, fitted to a hundred runs or fewer.

With t(θ) and e(θ) the time and energy that a schedule of profiles says of a run when what cores of
cluster c work for is multiplied by exp θ_c, dispatches by exp θ_d, and the powers of the sheet
(whatever flows at all times; core cycles; stalls; misses) by factors of their own, θ minimises

    Σ_runs [ρ(log t − log t(θ)) + ρ(log e − log e(θ))] / σ² + Σ_i (θ_i − m_i)² / s²

by Gauss-Newton steps; m is what is thought before: nothing, as the sheet of one device being off
says little of that of another.  The prior keeps what runs say nothing of.  ρ is Huber's: runs in
which tasks happened to meet another core than the schedule thought are far off, and say little of
paces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.graphs.boards import (
    DISPATCH,
    IDLE,
    ON,
    SPEED,
    TOTAL_LAST,
    TOTAL_ON,
    TOTAL_PEAK,
    TOTAL_SPREAD,
    TOTAL_TIME,
    Arrays,
    Board,
    Indices,
    PreparedGraph,
    schedule,
)

Floats = NDArray[np.float64]

# Standard deviations of what runs and factors are off by, in logarithms.
_NOISE, _PRIOR = 0.05, 0.3
# Errors of a logarithm beyond this count by their size, not by their square.
_FAR = 0.08
# Steps of Gauss-Newton; what factors are moved by, up and down, to see what they do: schedules jump
# where tasks change places, so that the slope between near factors says nothing.
_STEPS, _NUDGE = 8, 0.05
# No step moves a factor by more; one that makes runs less of this share nearer is the last.
_LARGEST, _SETTLED = 0.5, 0.01
# How often a step that does not help is halved.
_HALVED = 6
# Factors beside the paces of the clusters.
OTHERS = ("dispatch", "always", "cycles", "stalls", "misses")


@dataclass(frozen=True, eq=False)
class Factors:
    """Logarithms of what a sheet's numbers are multiplied by.

    Attributes
    ----------
    values : ndarray, (n_clusters + 5,)
        Times that cores of the clusters work, then those of :data:`OTHERS`.
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
        (working, waiting), (core, stall, miss) = board.working_and_waiting, board.joules
        # a slower core works longer; what waits for memory takes as long as before
        pace = wide * working + waiting
        joules = cycles * wide * core + stalls * stall + misses * miss
        clusters = board.clusters.copy()
        clusters[SPEED] /= own[:, None]
        clusters[DISPATCH] *= dispatch
        clusters[[ON, IDLE]] *= always
        cooling = board.cooling.copy()
        cooling[0] *= always
        return pace, joules, clusters, cooling


def estimate(
    graph: PreparedGraph,
    arrays: Arrays,
    rows: Indices,
    temperature: Floats,
    *,
    ranked: bool = False,
) -> Floats:
    """Time [s], energy [J], temperature at the end [°C], spread of time, peak [°C], (m, 5).

    The spread is the standard deviation of the time over orders of the tasks, over its mean; the
    peak is the highest temperature after the start, in any order.
    """
    totals = schedule(graph, arrays, rows, temperature, ranked=ranked)
    time, found = totals[:, TOTAL_TIME], np.empty((len(totals), 5))
    # columns of one array: to stack them takes a fifth of what a schedule takes
    found[:, 0], found[:, 2], found[:, 4] = time, totals[:, TOTAL_LAST], totals[:, TOTAL_PEAK]
    found[:, 1] = arrays[3][0] * time + totals[:, TOTAL_ON:].sum(axis=1)
    found[:, 3] = totals[:, TOTAL_SPREAD] / time
    return found


@dataclass(frozen=True, eq=False)
class DeviceRuns:
    """Measured runs of one device, as fits take them.

    Attributes
    ----------
    graphs : sequence of PreparedGraph
    graph : ndarray of int, (n,)
        Which of them each run is of.
    rows : ndarray of int, (n, 1 + 2 n_clusters)
    temperature : ndarray, (n,)
        At the start [°C].
    log : ndarray, (n, 2)
        Logarithms of time [s] and energy [J].
    """

    graphs: Sequence[PreparedGraph]
    graph: Indices
    rows: Indices
    temperature: Floats
    log: Floats

    def some(self, at: Indices) -> DeviceRuns:
        """Those of some runs."""
        return DeviceRuns(
            self.graphs, self.graph[at], self.rows[at], self.temperature[at], self.log[at]
        )

    def estimates(self, arrays: Arrays, *, ranked: bool = False) -> Floats:
        """Logarithms of time and energy by a schedule; the rest as :func:`estimate`, (n, 5)."""
        found = np.empty((len(self.graph), 5))
        for g in np.unique(self.graph):
            own = np.flatnonzero(self.graph == g)
            rows, start = self.rows[own], self.temperature[own]
            found[own] = estimate(self.graphs[g], arrays, rows, start, ranked=ranked)
        found[:, :2] = np.log(found[:, :2])
        return found


def fit_factors(runs: DeviceRuns, board: Board, prior: Factors, *, ranked: bool = False) -> Factors:
    """Factors of a device from runs on it.

    Parameters
    ----------
    runs : DeviceRuns
        None are too few: the factors are those of the prior then.
    board : Board
    prior : Factors
        What is thought before.
    ranked : bool
        Whether tasks start by their ranks.
    """
    if len(runs.graph) == 0:
        return prior
    values = prior.values
    tightness = (_NOISE / _PRIOR) ** 2

    def said(values: Floats) -> Floats:
        return runs.estimates(Factors(values).applied(board), ranked=ranked)[:, :2].ravel()

    wanted = runs.log.ravel()

    def badness(values: Floats, off: Floats) -> float:
        far = np.minimum(np.abs(off), _FAR)
        return float((far * (2.0 * np.abs(off) - far)).sum()) + tightness * float(
            ((values - prior.values) ** 2).sum()
        )

    off = wanted - said(values)
    now = badness(values, off)
    for _ in range(_STEPS):
        moves = _NUDGE * np.eye(len(values))
        slope = np.stack([said(values + m) - said(values - m) for m in moves], axis=1)
        slope /= 2.0 * _NUDGE
        counts = 1.0 / np.maximum(np.abs(off) / _FAR, 1.0)
        normal = (slope.T * counts) @ slope + tightness * np.eye(len(values))
        pull = slope.T @ (counts * off) - tightness * (values - prior.values)
        step = np.linalg.solve(normal, pull)
        step *= min(1.0, _LARGEST / max(np.abs(step).max(), _LARGEST))
        before = now
        for _ in range(_HALVED):
            off = wanted - said(values + step)
            now = badness(values + step, off)
            if now < before:
                break
            step = step / 2
        else:
            break
        values = values + step
        if now > (1.0 - _SETTLED) * before:
            break
    return Factors(values)
