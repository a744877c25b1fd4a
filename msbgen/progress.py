"""The law of profiles on a progress clock: a trend over contexts, and a bridge on what it leaves.

At equal progress all runs are in the same phase, so the state (time and events per bin of
progress) depends smoothly on the context: log state = trend(β, bin) + residual.  Progress is cut
into segments; the snapshot of a segment is the cloud of all measured runs' residuals there and of
how far each run has got ahead of the trend until there (its lag).  A run measured at β_r serves
context β as exp(trend(β) + residual) (regression adjustment).  The bridge between the snapshots is
a Markov chain over the segments, so that whole coherent paths can be drawn, and the most likely
one found: a path follows, in each segment, the residuals of the run that it visits there.

Arrays only; labels are put on in :mod:`msbgen.generate`.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msbgen import _kernels
from msbgen.bridge import SolverConfig, available_cores, solve_bridge
from msbgen.clock import lost_counts, sharpen, to_progress, to_wall_time, uniform_knots
from msbgen.contexts import gaussian_log_weights, scott_bandwidth, to_unit_range
from msbgen.elapsed import Kind, OnProgress
from msbgen.trend import Trend, fit_trend

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Contexts that one thread answers at a time: enough to share the trend's work, few enough to keep
# paths of all samples in memory.
_BLOCK = 64

# A mean profile ends where less than this share of the runs would still go on.
_NEGLIGIBLE = 0.01


@dataclass(frozen=True)
class ProgressSettings:
    """How profiles on a progress clock are turned into a trend and a bridge.

    Attributes
    ----------
    clock : str
        Counter that tells progress; empty for the file's own choice (its attribute
        ``progress``), ``instructions``, or else wall time.
    bins : int
        Bins of progress in which states are kept; a multiple of `segments`.
    segments : int
        Segments of progress, one snapshot of the bridge each.
    sharpenings : int
        Times that the trend is used to place the counts of a sampling interval within it
        (:func:`msbgen.clock.sharpen`) and fitted again.
    epsilon : float
        Weight of the entropy, in squared units of the scaled coordinates: residuals and lags
        divided by their standard deviation, contexts by the bandwidth of the kernel.
    bandwidth : float
        Kernel bandwidth in the context, as a multiple of Scott's rule over the known contexts.
    neighbours : int
        Measured runs that may serve one context.
    tol : float
        Largest L1 error of the marginals.
    """

    clock: str = ""
    bins: int = 400
    segments: int = 25
    sharpenings: int = 3
    epsilon: float = 0.1
    bandwidth: float = 1.0
    neighbours: int = 40
    tol: float = 1e-6

    def __post_init__(self) -> None:
        for name in ("bins", "segments", "epsilon", "bandwidth", "neighbours", "tol"):
            value = getattr(self, name)
            if not 0 < value < np.inf:
                raise ValueError(f"{name} is {value}; a positive number is wanted.")
        if self.bins % self.segments:
            raise ValueError(f"bins is {self.bins}; a multiple of segments {self.segments}.")


@dataclass(frozen=True, eq=False)
class ProgressLaw:
    """The fitted trend and the bridge on its residuals.

    Attributes
    ----------
    settings : ProgressSettings
    contexts : ndarray, (n_known, n_resources)
    duration : ndarray, (n_known, n_runs)
        Measured execution times [s], NaN where a run is missing.
    interval : float
        Sampling interval [s].
    clock : int
        0 for wall time, 1 + k for counter k.
    total : ndarray, (n_known, n_runs)
        What the clock counted in each run; NaN for runs that are missing or lost counts.
    trend : Trend
        Amounts per bin at any context.
    total_trend : Trend
        What the clock counts at any context.
    run_context : ndarray of int, (n,)
        Known context of each run that is used, not decreasing.
    residual : ndarray, (n, bins, k)
        Log of measured over fitted amounts.
    points : ndarray, (segments, n, 2k + n_resources)
        Scaled residuals, lags and contexts: the snapshots of the bridge.
    lag : ndarray, (n, k)
        Log of measured over fitted amounts of the whole run.
    total_residual : ndarray, (n,)
        Log of measured over fitted total of the clock.
    potentials : ndarray, (2, segments − 1, n)
        Dual potentials of the pairs of neighbouring segments.
    status, marginal_error
        How the solver ended, and the largest L1 error of a marginal.
    """

    settings: ProgressSettings
    contexts: Floats
    duration: Floats
    interval: float
    clock: int
    total: Floats
    trend: Trend
    total_trend: Trend
    run_context: Indices
    residual: Floats
    points: Floats
    lag: Floats
    total_residual: Floats
    potentials: Floats
    status: str
    marginal_error: float

    @classmethod
    def fit(
        cls,
        counts: Floats,
        duration: Floats,
        contexts: Floats,
        interval: float,
        clock: int,
        settings: ProgressSettings,
        *,
        progress: OnProgress | None = None,
    ) -> ProgressLaw:
        """Fit the trend, then the bridge between the residuals of neighbouring bins.

        Runs that lost counts (:func:`msbgen.clock.lost_counts`) are left out.

        Parameters
        ----------
        counts : ndarray, (n_known, n_runs, n_times, n_counters)
            Events per interval, NaN once a run has ended.
        duration : ndarray, (n_known, n_runs)
            [s], NaN where a run is missing.
        contexts : ndarray, (n_known, n_resources)
        interval : float
            [s]
        clock : int
            0 for wall time, 1 + k for counter k.
        settings : ProgressSettings
        progress : callable
            Called with (done, total) pairs.

        Raises
        ------
        ValueError
            The clock counted nothing in every run of a context.
        msbgen.bridge.NotConvergedError
            The solver did not reach its tolerance.
        """
        knots = uniform_knots(settings.bins)
        measured = to_progress(counts, duration, interval, knots=knots, clock=clock)
        used = _usable(measured.total, clock)
        if not used.any(axis=1).all():
            row = int(np.argmin(used.any(axis=1)))
            raise ValueError(
                f"the clock counted nothing in every run of context {row}: measure it again, drop "
                f"it, or choose another clock."
            )
        run_context, run = np.nonzero(used)
        runs = (counts[run_context, run], duration[run_context, run], interval)
        n_runs = np.bincount(run_context)
        own = measured.state[run_context, run]
        states = _context_means(own, run_context)
        # a cap is on a counter per time, which is a state only where time is not the clock
        trend = fit_trend(contexts, states, weights=n_runs, find_caps=clock != 0)
        for _ in range(settings.sharpenings):
            prior = trend.predict(contexts)[run_context]
            own = sharpen(*runs, prior, knots=knots, clock=clock).state
            trend = trend.refit(_context_means(own, run_context), weights=n_runs)
        expected = trend.predict(contexts)[run_context]
        run_total = measured.total[run_context, run]
        total_trend = fit_trend(
            contexts,
            _context_means(run_total[:, None, None], run_context),
            weights=n_runs,
            find_caps=False,
        )
        parts = (len(own), settings.segments, -1, own.shape[-1])
        lag = _log_ratio(own.cumsum(axis=1), expected.cumsum(axis=1))
        coarse = _log_ratio(own.reshape(parts).sum(axis=2), expected.reshape(parts).sum(axis=2))
        place = _in_bandwidths(contexts, contexts, settings)[run_context]
        points = np.concatenate(
            [
                _standardised(coarse),
                _standardised(lag.reshape(parts)[:, :, -1]),
                np.repeat(place[:, None], settings.segments, axis=1),
            ],
            axis=2,
        )
        points = np.ascontiguousarray(points.transpose(1, 0, 2))
        bridge = solve_bridge(
            list(points),
            epsilon=settings.epsilon,
            config=SolverConfig(tol=settings.tol),
            progress=progress,
        )
        potentials = np.array(bridge.potentials).reshape(settings.segments - 1, 2, len(own))
        return cls(
            settings,
            contexts,
            duration,
            interval,
            clock,
            np.where(used, measured.total, np.nan),
            trend,
            total_trend,
            run_context,
            _log_ratio(own, expected),
            points,
            lag[:, -1],
            np.log(run_total / total_trend.predict(contexts)[run_context, 0, 0]),
            np.ascontiguousarray(potentials.transpose(1, 0, 2)),
            str(bridge.status),
            float(bridge.marginal_error.max(initial=0.0)),
        )

    def profiles(
        self,
        query: Floats,
        kind: Kind,
        *,
        n_samples: int = 1,
        rng: np.random.Generator,
        progress: OnProgress | None = None,
    ) -> tuple[NDArray[np.float32], Floats]:
        """Counts per interval and durations at contexts.

        Paths of the bridge over the trend, taken back to wall time: drawn ones (sample), the
        most likely one, or all measured ones in their kernel weights averaged in wall time
        (mean: the expected count of every interval, as long as the mean duration).

        Returns
        -------
        counts : ndarray, (n_query[, n_samples], n_times, n_counters)
            NaN after the end; the last interval holds the share that the duration covers.
        duration : ndarray, (n_query[, n_samples])
            [s]
        """
        # outside the threads: the library of linear algebra has its own
        trend, total = self.trend.predict(query), self.total_trend.predict(query)[:, 0, 0]
        blocks = [slice(i, i + _BLOCK) for i in range(0, len(query), _BLOCK)]
        generators = rng.spawn(len(blocks))
        done = 0

        def answer(job: tuple[slice, np.random.Generator]) -> tuple[Floats, Floats]:
            nonlocal done
            rows, generator = job
            result = self._answer(query[rows], trend[rows], total[rows], kind, n_samples, generator)
            done += 1
            if progress:
                progress(done, len(blocks))
            return result

        with ThreadPoolExecutor(available_cores()) as pool:
            answers = list(pool.map(answer, zip(blocks, generators)))
        n_times = max(counts.shape[-2] for counts, _ in answers)
        duration = np.concatenate([d for _, d in answers])
        counts = np.full(
            (*duration.shape, n_times, answers[0][0].shape[-1]), np.nan, dtype=np.float32
        )
        for rows, (part, _) in zip(blocks, answers):
            counts[rows, ..., : part.shape[-2], :] = part
        return counts, duration

    def _answer(
        self,
        query: Floats,
        trend: Floats,
        total: Floats,
        kind: Kind,
        n_samples: int,
        rng: np.random.Generator,
    ) -> tuple[Floats, Floats]:
        active, log_weight = self._active_runs(query)
        if kind == "mean":
            state = self._adjusted(trend, self.residual[active], self.lag[active])
            totals = total[:, None] * np.exp(self.total_residual[active])
            return _expected(*self._to_wall_time(state, totals), np.exp(log_weight))
        if kind == "max_likelihood":
            return self._to_wall_time(trend * np.exp(self._most_likely(active, log_weight)), total)
        path = np.empty((len(query), n_samples, self.settings.segments), dtype=np.int64)
        uniform = rng.random(path.shape)
        f, g = self.potentials
        _kernels.draw_paths(
            self.points, f, g, self.settings.epsilon, active, log_weight, uniform, path
        )
        last = path[..., -1]
        state = self._adjusted(trend, self._follow(path), self.lag[last])
        return self._to_wall_time(state, total[:, None] * np.exp(self.total_residual[last]))

    def _adjusted(self, trend: Floats, residual: Floats, lag: Floats) -> Floats:
        """Amounts (q, paths, bins, k) of residuals over the trend, scaled to whole runs' lags."""
        state = trend[:, None] * np.exp(residual)
        wanted = trend.sum(axis=1)[:, None] * np.exp(lag)
        reached = state.sum(axis=2)
        factor = np.divide(wanted, reached, out=np.ones_like(reached), where=reached > 0)
        return state * factor[:, :, None]

    def _follow(self, path: Indices) -> Floats:
        """Residuals along paths of runs: (..., segments) -> (..., bins, k)."""
        per_segment = self.settings.bins // self.settings.segments
        visited = np.repeat(path, per_segment, axis=-1)
        return self.residual[visited, np.arange(self.settings.bins)]

    def _most_likely(self, active: Indices, log_weight: Floats) -> Floats:
        """Residuals of the most likely path, moved to the mode of the density: (q, bins, k)."""
        segments, bins = self.settings.segments, self.settings.bins
        dims = self.points.shape[2] - self.contexts.shape[1]
        bandwidth = active.shape[1] ** (-1.0 / (dims + 4))  # Scott's, for unit deviation
        path = np.empty((len(active), segments), dtype=np.int64)
        f, g = self.potentials
        _kernels.most_likely_paths(
            self.points, f, g, self.settings.epsilon, active, log_weight, bandwidth, dims, path
        )
        visited = self.points[np.arange(segments), path][:, :, None, :dims]
        around = self.points[np.arange(segments)[:, None], active[:, None]][..., :dims]
        exponent = -0.5 * ((around - visited) ** 2).sum(axis=-1) / bandwidth**2
        weight = np.exp(exponent + log_weight[:, None])
        weight /= weight.sum(axis=2, keepdims=True)
        residual = self.residual[active].reshape(*active.shape, segments, bins // segments, -1)
        return np.einsum("qsr,qrsbk->qsbk", weight, residual).reshape(len(active), bins, -1)

    def _to_wall_time(self, state: Floats, total: Floats) -> tuple[Floats, Floats]:
        """Counts and durations of amounts (q[, paths], bins, k), clock's totals (q[, paths])."""
        knots = uniform_knots(self.settings.bins)
        return to_wall_time(state, total, self.interval, knots=knots, clock=self.clock)

    def _active_runs(self, query: Floats) -> tuple[Indices, Floats]:
        """The runs that serve each context, and their log weights: (n_query, n_active)."""
        known = _in_bandwidths(self.contexts, self.contexts, self.settings)
        query = _in_bandwidths(self.contexts, query, self.settings)
        log_weight = gaussian_log_weights(known, query)[:, self.run_context]
        n_active = min(self.settings.neighbours, log_weight.shape[1])
        active = np.argsort(-log_weight, axis=1, kind="stable")[:, :n_active]
        return active, np.take_along_axis(log_weight, active, axis=1)

    def labels(self) -> dict[str, Any]:
        """Settings and outcome as JSON knows them."""
        return {
            "settings": asdict(self.settings),
            "clock": self.clock,
            "status": self.status,
            "marginal_error": self.marginal_error,
        }

    def to_arrays(self) -> dict[str, tuple[tuple[str, ...], Any]]:
        """Everything but the contexts and durations, as named arrays with their dimensions."""
        return {
            "total": (("known", "run"), self.total),
            "run_context": (("used",), self.run_context),
            "residual": (("used", "bin", "quantity"), self.residual),
            "points": (("segment", "used", "coordinate"), self.points),
            "lag": (("used", "quantity"), self.lag),
            "potentials": (("side", "pair", "used"), self.potentials),
            "total_residual": (("used",), self.total_residual),
            **_with_dims("trend", self.trend),
            **_with_dims("clock", self.total_trend),
        }

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, NDArray[Any]],
        contexts: Floats,
        duration: Floats,
        interval: float,
        labels: Mapping[str, Any],
    ) -> ProgressLaw:
        """Undo :meth:`to_arrays`; `labels` is what :meth:`labels` returned."""
        own = (
            "total", "run_context", "residual", "points", "lag", "total_residual", "potentials"
        )  # fmt: skip
        return cls(
            settings=ProgressSettings(**labels["settings"]),
            contexts=contexts,
            duration=duration,
            interval=interval,
            clock=labels["clock"],
            trend=_from_arrays("trend", arrays),
            total_trend=_from_arrays("clock", arrays),
            status=labels["status"],
            marginal_error=labels["marginal_error"],
            **{name: arrays[name] for name in own},
        )

    def provenance(self) -> dict[str, Any]:
        """What the attributes of a generated file say of the bridge."""
        return {
            "epsilon": self.settings.epsilon,
            "scaling": "residuals and lags divided by their deviation, contexts by the bandwidth",
            "solver_status": self.status,
            "marginal_error": self.marginal_error,
        }


def _usable(total: Floats, clock: int) -> NDArray[np.bool_]:
    """Runs to learn from: present, and with no counts lost where the clock is a counter.

    Where all runs of a context depart together it is the context that does, not the counting.
    """
    present = total > 0  # False for NaN
    if clock == 0:
        return present
    bad = lost_counts(total)
    return present & ~(bad & (present & ~bad).any(axis=1, keepdims=True))


def _with_dims(name: str, trend: Trend) -> dict[str, tuple[tuple[str, ...], NDArray[Any]]]:
    return {
        f"{name}_{key}": (tuple(f"{name}_{key}_{i}" for i in range(array.ndim)), array)
        for key, array in trend.to_arrays().items()
    }


def _from_arrays(name: str, arrays: Mapping[str, NDArray[Any]]) -> Trend:
    start = f"{name}_"
    return Trend.from_arrays(
        {key.removeprefix(start): a for key, a in arrays.items() if key.startswith(start)}
    )


def _context_means(state: Floats, run_context: Indices) -> Floats:
    """Mean over the runs of each context, (n, bins, k) -> (n_known, bins, k)."""
    first = np.searchsorted(run_context, np.arange(run_context[-1] + 1))
    total = np.add.reduceat(state, first, axis=0)
    return total / np.bincount(run_context)[:, None, None]


def _expected(counts: Floats, duration: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Mean over weighted runs: (q, runs, times, k), (q, runs), (q, runs) -> (q, times, k), (q,).

    A run that has ended counts zero; the mean ends where less than _NEGLIGIBLE still run.
    """
    weight = weight / weight.sum(axis=1, keepdims=True)
    running = np.einsum("qr,qrt->qt", weight, np.isfinite(counts[..., 0]))
    mean = np.einsum("qr,qrtk->qtk", weight, np.nan_to_num(counts))
    mean[running < _NEGLIGIBLE] = np.nan
    return mean, (weight * duration).sum(axis=1)


def _in_bandwidths(known: Floats, contexts: Floats, settings: ProgressSettings) -> Floats:
    unit = to_unit_range(known, known)
    return to_unit_range(known, contexts) / (settings.bandwidth * scott_bandwidth(unit))


def _standardised(values: Floats) -> Floats:
    """Divided by the standard deviation over all runs and segments, quantity by quantity."""
    deviation = values.std(axis=(0, 1))
    return values / np.where(deviation > 0, deviation, 1.0)


def _log_ratio(own: Floats, expected: Floats) -> Floats:
    """Log of measured over fitted amounts, (n, bins, k), both kept from zero.

    The floor is a thousandth of the quantity's mean: below it counts are rounding, and their
    logarithm would be noise without bound.
    """
    floor = 1e-3 * expected.mean(axis=(0, 1))
    return np.log(np.maximum(own, floor) / np.maximum(expected, floor))
