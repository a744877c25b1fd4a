"""Factors of a device: corrections of its sheet, fitted to at most a hundred runs.

Let t(θ) and e(θ) be the time and energy of a run by the schedule, where the computing time on the
cores of cluster c is multiplied by exp θ_c, the time to start a task by exp θ_d, and each of four
powers (constant power, core cycles, stalls, cache misses) by a factor of its own.  θ minimises

    Σ_runs [ρ(log t − log t(θ)) + ρ(log e − log e(θ))] / σ² + Σ_i (θ_i − m_i)² / s²

by Gauss-Newton steps.  The prior mean m is 0, as the error of one device's sheet does not predict
that of another.  The prior determines factors that the runs do not.  ρ is Huber's loss: runs whose
tasks were placed on other cores than in the schedule have large errors, and limited influence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from msbgen.core.arrays import Stored
from msbgen.systems.graphs import boards

Floats = NDArray[np.float64]

# Factors besides those of the clusters' computing times.
OTHERS = ("dispatch", "always", "cycles", "stalls", "misses")


@dataclass(frozen=True)
class FactorSettings:
    """Constants of the fit; all logarithms."""

    # σ and s: standard deviations of the errors of runs and of the factors.
    noise: float = 0.05
    prior: float = 0.3
    # Errors beyond this count linearly.
    huber: float = 0.08
    # Most Gauss-Newton steps, and most halvings of a step that does not improve the fit.
    steps: int = 8
    halvings: int = 6
    # Change of a factor for its derivative.  It is large, as schedules jump where tasks change
    # places, and a local derivative would miss that.
    change: float = 0.05
    # Most that a step changes a factor.
    largest: float = 0.5
    # The fit ends with a step that improves it by less than this share.
    settled: float = 0.01


@dataclass(frozen=True, eq=False)
class Factors:
    """Logarithms of the factors of a device: of computing on each cluster, then :data:`OTHERS`."""

    values: Annotated[Floats, Stored(("factor",), (-20.0, 20.0))]

    @classmethod
    def none(cls, n_clusters: int) -> Factors:
        """Factors of 1: the sheet as it is."""
        return cls(np.zeros(n_clusters + len(OTHERS)))

    def applied(self, board: boards.Board) -> boards.Arrays:
        """The device's arrays with the factors applied."""
        n = len(board.device.clusters)
        dispatch, always, cycles, stalls, misses = np.exp(self.values[n:])
        computing = np.exp(self.values[:n])
        wide = computing[None, :, None, None, None, None]
        (working, waiting), (core, stall, miss) = board.working_and_waiting, board.joules
        # only computing scales with the core: waiting for memory takes as long as before
        seconds = wide * working + waiting
        joules = cycles * wide * core + stalls * stall + misses * miss
        clusters = board.clusters.copy()
        clusters[boards.SPEED] /= computing[:, None]
        clusters[boards.DISPATCH] *= dispatch
        clusters[[boards.ON, boards.IDLE]] *= always
        cooling = board.cooling.copy()
        cooling[0] *= always
        return seconds, joules, clusters, cooling, board.device.sharing


def estimate(
    graph: boards.PreparedGraph,
    arrays: boards.Arrays,
    rows: boards.Indices,
    temperature: Floats,
    *,
    ranked: bool = False,
) -> Floats:
    """Time [s], energy [J], last temperature [°C], spread of time, peak [°C], (m, 5).

    The spread is the standard deviation of the time over the orders of tasks, divided by the mean.
    The peak is the highest temperature after the start in any order.
    """
    totals = boards.schedule(graph, arrays, rows, temperature, ranked=ranked)
    time, estimates = totals[:, boards.TOTAL_TIME], np.empty((len(totals), 5))
    # written into columns: stacking them costs a fifth of the schedule
    estimates[:, 0] = time
    estimates[:, 1] = arrays[3][0] * time + totals[:, boards.TOTAL_ON :].sum(axis=1)
    estimates[:, 2], estimates[:, 4] = totals[:, boards.TOTAL_LAST], totals[:, boards.TOTAL_PEAK]
    estimates[:, 3] = totals[:, boards.TOTAL_SPREAD] / time
    return estimates


@dataclass(frozen=True, eq=False)
class DeviceRuns:
    """Measured runs of one device, as arrays.

    Of each run: the number of its graph (n,), the row of its context (n, 1 + 2 n_clusters), the
    temperature at the start [°C] (n,), and the logarithms of time [s] and energy [J], (n, 2).
    """

    graphs: Sequence[boards.PreparedGraph]
    graph: boards.Indices
    rows: boards.Indices
    temperature: Floats
    log: Floats

    def some(self, at: boards.Indices) -> DeviceRuns:
        """The runs at these indices."""
        return DeviceRuns(
            self.graphs, self.graph[at], self.rows[at], self.temperature[at], self.log[at]
        )

    def estimates(self, arrays: boards.Arrays, *, ranked: bool = False) -> Floats:
        """As :func:`estimate` for each run, with logarithms of time and energy, (n, 5)."""
        estimates = np.empty((len(self.graph), 5))
        for g in np.unique(self.graph):
            of_graph = np.flatnonzero(self.graph == g)
            rows, start = self.rows[of_graph], self.temperature[of_graph]
            estimates[of_graph] = estimate(self.graphs[g], arrays, rows, start, ranked=ranked)
        estimates[:, :2] = np.log(estimates[:, :2])
        return estimates


def fit_factors(
    runs: DeviceRuns,
    board: boards.Board,
    prior: Factors,
    *,
    ranked: bool = False,
    settings: FactorSettings = FactorSettings(),
) -> Factors:
    """Factors of a device, fitted to runs on it; without runs, those of the prior, which are its
    means.
    """
    if len(runs.graph) == 0:
        return prior
    values, measured = prior.values, runs.log.ravel()
    tightness = (settings.noise / settings.prior) ** 2

    def estimates(values: Floats) -> Floats:
        return runs.estimates(Factors(values).applied(board), ranked=ranked)[:, :2].ravel()

    def loss(values: Floats, error: Floats) -> float:
        near = np.minimum(np.abs(error), settings.huber)
        return float((near * (2.0 * np.abs(error) - near)).sum()) + tightness * float(
            ((values - prior.values) ** 2).sum()
        )

    error = measured - estimates(values)
    now = loss(values, error)
    for _ in range(settings.steps):
        changes = settings.change * np.eye(len(values))
        slope = np.stack([estimates(values + c) - estimates(values - c) for c in changes], axis=1)
        slope /= 2.0 * settings.change
        weight = 1.0 / np.maximum(np.abs(error) / settings.huber, 1.0)
        normal = (slope.T * weight) @ slope + tightness * np.eye(len(values))
        gradient = slope.T @ (weight * error) - tightness * (values - prior.values)
        step = np.linalg.solve(normal, gradient)
        step *= min(1.0, settings.largest / max(np.abs(step).max(), settings.largest))
        before = now
        for _ in range(settings.halvings):
            error = measured - estimates(values + step)
            now = loss(values + step, error)
            if now < before:
                break
            step = step / 2
        else:
            break
        values = values + step
        if now > (1.0 - settings.settled) * before:
            break
    return Factors(values)
