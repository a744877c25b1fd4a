"""The law of profiles on a progress clock: a trend over contexts, and a bridge on what it leaves.

At equal progress all runs are in the same phase, so the state (time and events per bin of
progress) depends smoothly on the context: log state = centre(β, bin) + residual.  The centre is
the trend and the local mean of what it leaves: a context's departure, log(mean of its runs/trend),
smoothed by a kernel over the contexts; of a single run's as much as its neighbours confirm.
Progress is cut into segments; the snapshot of a segment is the cloud of all measured runs'
residuals there and of how far each run has got ahead of its centre until there (its lag).  A run
measured at β_r serves context β as exp(centre(β) + residual) (regression adjustment).  The bridge
between the snapshots is a Markov chain over the segments, so that whole coherent paths can be
drawn, and the most likely one found: a path follows, in each segment, the residuals of the run
that it visits there.

Arrays only; labels are put on in :mod:`msbgen.generate.model`.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msbgen.bridge import _kernels as bridge_kernels
from msbgen.bridge.solve import SolverConfig, solve_bridge
from msbgen.contexts import gaussian_log_weights, scott_bandwidth
from msbgen.generate import _kernels
from msbgen.generate.centre import Centre, Residuals
from msbgen.generate.clock import lost_counts, sharpen, to_progress, uniform_knots
from msbgen.generate.law import Kind
from msbgen.machine import OnProgress, available_cores
from msbgen.trend.fit import Trend, fit_trend

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Contexts that one thread answers at a time: enough to share the trend's work, few enough to keep
# all paths in memory; and at most so many samples of them, so that both threads are busy.
_BLOCK, _PATHS = 64, 640

# Corrections of the prior by what all runs have in common, before each refit of the trend.
_SHARED_STEPS = 6

# The least that Scott's rule may say of the kernel over contexts, in spacings of the known ones.
_LEAST_SPACINGS = 0.7

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
        Times that the trend, corrected by what all runs have in common, is used to place the
        counts of a sampling interval within it (`msbgen.generate.clock.sharpen`) and fitted again.
    epsilon : float
        Weight of the entropy, in squared units of the scaled coordinates: residuals and lags
        divided by their standard deviation, contexts by the bandwidth of the kernel.
    bandwidth : float
        Kernel bandwidth in the context, as a multiple of Scott's rule over the known contexts
        in the coordinates of the trend, or of 0.7 times their spacing where that is more.
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
    bandwidth: float = 0.8
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
    departure : ndarray, (n_known, bins, k)
        Log of each context's mean measured amounts over the fitted ones.
    trust : ndarray, (n_known, k)
        How much of a departure the local mean takes: 1, or of a single run, which may be noise,
        the share that its neighbours confirm.
    residual : ndarray, (n, bins, k)
        Log of a run's amounts over its context's mean, with an unbiased variance; over the local
        mean of what surrounds it where the context has no other run.
    points : ndarray, (segments, n, 2k + n_resources)
        Scaled residuals, lags and contexts: the snapshots of the bridge.
    lag : ndarray, (n, k)
        The same of the whole run's amounts.
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
    departure: Floats
    trust: Floats
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

        Runs that lost counts (:func:`msbgen.generate.clock.lost_counts`) are left out.

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
        msbgen.bridge.solve.NotConvergedError
            The solver did not reach its tolerance.
        """
        knots = uniform_knots(settings.bins)
        measured = to_progress(counts, duration, interval, knots=knots, clock=clock)
        used = _usable(measured.total, clock)
        if not used.any(axis=1).all():
            row = int(np.argmin(used.any(axis=1)))
            raise ValueError(
                f"the clock counted nothing in every run of context {row}, "
                f"{contexts[row].tolist()}: measure it again, drop it, or choose another clock "
                f"(attribute 'progress')."
            )
        run_context, run = np.nonzero(used)
        runs = (counts[run_context, run], duration[run_context, run], interval)
        n_runs = np.bincount(run_context)
        own = measured.state[run_context, run]
        states = _context_means(own, run_context)
        # a cap is on a counter per time, which is a state only where time is not the clock
        trend = fit_trend(
            contexts,
            states,
            weights=n_runs,
            find_caps=clock != 0,
            segments=settings.segments,
        )
        for _ in range(settings.sharpenings):
            prior = trend.predict(contexts)[run_context]
            own = sharpen(*runs, prior, knots=knots, clock=clock, shared_steps=_SHARED_STEPS).state
            trend = trend.refit(_context_means(own, run_context), weights=n_runs)
        run_total = measured.total[run_context, run]
        total_trend = fit_trend(
            contexts,
            _context_means(run_total[:, None, None], run_context),
            weights=n_runs,
            find_caps=False,
        )
        place = trend.scaled(contexts) / _bandwidth(trend, settings)
        fitted = trend.predict(contexts)
        departure = _log_ratio(_context_means(own, run_context), fitted)
        alone = n_runs == 1
        trust = np.ones((len(contexts), departure.shape[2]))
        if alone.any():
            size = np.maximum(states.sum(axis=(0, 1)), 1e-300)
            importance = alone[:, None, None] * states / size
            trust[alone] = _confirmed(place, departure, importance)
        base, trusted = departure.copy(), departure * trust[:, None]
        base[alone] = _local_mean(gaussian_log_weights(place, place[alone]), trusted)
        fitted = (fitted * np.exp(base))[run_context]
        parts = (len(own), settings.segments, -1, own.shape[-1])

        def unbiased(own: Floats, fitted: Floats) -> Floats:
            return _unbiased(_log_ratio(own, fitted), run_context)

        residual = unbiased(own, fitted)
        coarse = unbiased(own.reshape(parts).sum(axis=2), fitted.reshape(parts).sum(axis=2))
        lag = unbiased(own.cumsum(axis=1), fitted.cumsum(axis=1))
        points = np.concatenate(
            [
                _standardised(coarse),
                _standardised(lag.reshape(parts)[:, :, -1]),
                np.repeat(place[run_context, None], settings.segments, axis=1),
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
            departure,
            trust,
            residual,
            points,
            lag[:, -1],
            np.log(run_total / total_trend.predict(contexts)[run_context, 0, 0]),
            np.ascontiguousarray(potentials.transpose(1, 0, 2)),
            str(bridge.status),
            float(bridge.marginal_error.max(initial=0.0)),
        )

    @cached_property
    def centre(self) -> Centre:
        """Where the profiles of a context lie."""
        return Centre(
            self.clock,
            self.settings.segments,
            self.total,
            self.trend,
            self.total_trend,
            self.departure,
            self.trust,
        )

    @cached_property
    def residuals(self) -> Residuals:
        """How the measured runs depart from the centre."""
        return Residuals(self.run_context, self.residual, self.lag, self.total_residual)

    def known_states(self) -> Floats:
        """Mean measured amounts per bin of each known context, (n_known, bins, k)."""
        return self.centre.known_states()

    def prepare(self, kind: Kind, progress: OnProgress | None = None) -> None:
        """Nothing: the bridge is solved by the fit."""

    def durations(self, query: Floats) -> Floats:
        """Mean execution times at contexts (q, n_resources) [s], (q,)."""
        return self.profiles(query, "mean", rng=np.random.default_rng(0))[1]

    def check(self, query: Floats) -> None:
        """Raise ValueError where a context has no place in the coordinates of the trends."""
        for trend in (self.trend, self.total_trend):
            trend.scaled(query)

    def profiles(
        self,
        query: Floats,
        kind: Kind,
        *,
        n_samples: int = 1,
        rng: np.random.Generator | int = 0,
        progress: OnProgress | None = None,
    ) -> tuple[NDArray[np.float32], Floats]:
        """Counts per interval and durations at contexts.

        Paths of the bridge over the centre, taken to wall time: drawn ones (sample), or the
        expected count of every interval over the measured runs in their kernel weights (mean),
        or over those near the most likely path (max_likelihood).  Samples come from one child of
        `rng` a context, in order: contexts may be asked for in several calls.

        Returns
        -------
        counts : ndarray, (n_query[, n_samples], n_times, n_counters)
            NaN after the end; the last interval holds the share that the duration covers.
        duration : ndarray, (n_query[, n_samples])
            [s]
        """
        block = min(_BLOCK, max(1, _PATHS // n_samples)) if kind == "sample" else _BLOCK
        blocks = [slice(i, i + block) for i in range(0, len(query), block)]
        streams = np.random.default_rng(rng).spawn(len(query)) if kind == "sample" else []
        done = 0

        def answer(rows: slice) -> tuple[NDArray[np.float32], Floats]:
            nonlocal done
            uniform = [s.random((n_samples, self.settings.segments)) for s in streams[rows]]
            place = self.trend.scaled(query[rows]) / self._bandwidth
            log_weight = gaussian_log_weights(self._known, place)
            counts, duration = self._answer(
                self.trend.predict(query[rows]) * np.exp(_local_mean(log_weight, self._trusted)),
                self.total_trend.predict(query[rows])[:, 0, 0],
                log_weight,
                kind,
                np.array(uniform),
            )
            done += 1
            if progress:
                progress(done, len(blocks))
            return counts.astype(np.float32), duration

        if len(blocks) == 1:  # an allocator's question, answered sooner than a thread starts
            answers = [answer(blocks[0])]
        else:
            with ThreadPoolExecutor(available_cores()) as pool:
                answers = list(pool.map(answer, blocks))
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
        centre: Floats,
        total: Floats,
        log_weight: Floats,
        kind: Kind,
        uniform: Floats,
    ) -> tuple[Floats, Floats]:
        active, log_weight = self._active_runs(log_weight)
        if kind == "sample":
            return self._sampled(centre, total, active, log_weight, uniform)
        if kind == "max_likelihood":
            log_weight = log_weight - 0.5 * self._distance_to_mode(active, log_weight)
        return self._expected(centre, total, active, np.exp(log_weight))

    def _active_runs(self, log_weight: Floats) -> tuple[Indices, Floats]:
        """The runs that serve each context, and their log weights: (n_query, n_active)."""
        log_weight = log_weight[:, self.run_context]
        n_active = min(self.settings.neighbours, log_weight.shape[1])
        active = np.argsort(-log_weight, axis=1, kind="stable")[:, :n_active]
        return active, np.take_along_axis(log_weight, active, axis=1)

    def _distance_to_mode(self, active: Indices, log_weight: Floats) -> Floats:
        """Mean squared distance of the active runs to the most likely path, (q, n_active).

        In the coordinates of the bridge, which have unit deviation: one bandwidth.
        """
        segments = self.settings.segments
        dims = self.points.shape[2] - self.contexts.shape[1]
        path = np.empty((len(active), segments), dtype=np.int64)
        f, g = self.potentials
        bridge_kernels.most_likely_paths(
            self.points, f, g, self.settings.epsilon, active, log_weight, 1.0, dims, path
        )
        visited = self.points[np.arange(segments), path][:, :, None, :dims]
        around = self.points[np.arange(segments)[:, None], active[:, None]][..., :dims]
        return ((around - visited) ** 2).sum(axis=-1).mean(axis=1)

    def _expected(
        self, centre: Floats, total: Floats, active: Indices, weight: Floats
    ) -> tuple[Floats, Floats]:
        """Mean over weighted runs, (q, runs): counts (q, times, k), durations (q,).

        A run that has ended counts zero.  The mean ends where less than _NEGLIGIBLE still run;
        its last interval takes the rest of what they count.
        """
        weight = weight / weight.sum(axis=1, keepdims=True)
        totals = total[:, None] * np.exp(self.total_residual[active])
        path = active[:, :, None]
        amounts = np.empty((*active.shape, centre.shape[2]))
        _kernels.path_amounts(centre, self._factor, path, amounts)
        duration = totals if self.clock == 0 else amounts[..., 0]
        last = self._last_interval(duration)
        n_times = int(last.max()) + 1
        running = np.zeros((len(active), n_times))
        np.add.at(running, (np.arange(len(active))[:, None], last), weight)
        running = running[:, ::-1].cumsum(axis=1)[:, ::-1]
        end = (running >= _NEGLIGIBLE).sum(axis=1) - 1
        counts = np.zeros((len(active), n_times, centre.shape[2]))
        _kernels.expected_counts(
            centre, self._factor, path, np.ones_like(amounts), totals, weight,
            self.clock, self.interval, np.minimum(last, end[:, None]), counts,
        )  # fmt: skip
        counts[np.arange(n_times) > end[:, None]] = np.nan
        return counts, (weight * duration).sum(axis=1)

    def _sampled(
        self,
        centre: Floats,
        total: Floats,
        active: Indices,
        log_weight: Floats,
        uniform: Floats,
    ) -> tuple[Floats, Floats]:
        """Drawn paths: counts (q, n_samples, times, k), durations (q, n_samples)."""
        path = np.empty(uniform.shape, dtype=np.int64)
        f, g = self.potentials
        bridge_kernels.draw_paths(
            self.points, f, g, self.settings.epsilon, active, log_weight, uniform, path
        )
        end = path[..., -1]
        totals = total[:, None] * np.exp(self.total_residual[end])
        amounts = np.empty((*end.shape, centre.shape[2]))
        _kernels.path_amounts(centre, self._factor, path, amounts)
        scale = self._to_lag(centre, end, amounts)
        duration = totals if self.clock == 0 else amounts[..., 0] * scale[..., 0]
        last = self._last_interval(duration)
        counts = np.empty((*end.shape, last.max() + 1, centre.shape[2]))
        _kernels.path_counts(
            centre, self._factor, path, scale, totals, self.clock, self.interval, last, counts
        )
        return counts, duration

    def _to_lag(self, centre: Floats, end: Indices, amounts: Floats) -> Floats:
        """Factors (q, paths, k) on the amounts of paths that end in given runs.

        A path that changes runs forgets how far each of them was ahead: it is scaled so that the
        whole of it is as far ahead as the run in which it ends.
        """
        wanted = centre.sum(axis=1)[:, None] * np.exp(self.lag[end])
        return np.divide(wanted, amounts, out=np.ones_like(amounts), where=amounts > 0)

    def _last_interval(self, duration: Floats) -> Indices:
        return np.maximum(np.ceil(duration / self.interval - 1e-6), 1.0).astype(np.int64) - 1

    @cached_property
    def _bandwidth(self) -> Floats:
        return _bandwidth(self.trend, self.settings)

    @cached_property
    def _known(self) -> Floats:
        """Known contexts in bandwidths, (n_known, n_resources)."""
        return self.trend.scaled(self.contexts) / self._bandwidth

    @cached_property
    def _trusted(self) -> Floats:
        """Departures as the local mean takes them, (n_known, bins, k)."""
        return self.departure * self.trust[:, None]

    @cached_property
    def _factor(self) -> Floats:
        """Measured over centre, (n, bins, k)."""
        return np.exp(self.residual)

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
            "departure": (("known", "bin", "quantity"), self.departure),
            "trust": (("known", "quantity"), self.trust),
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
            "total", "run_context", "departure", "trust", "residual", "points", "lag",
            "total_residual", "potentials",
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

    def provenance(self, kind: Kind) -> dict[str, Any]:
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


def _unbiased(residual: Floats, run_context: Indices) -> Floats:
    """Log residuals (n, bins, k) about a context's own mean, for draws of new runs there.

    Spread by √(R/(R−1)), R its number of runs, and shifted so that the mean of the exponentials
    is one.  A single run's residual is as it is.
    """
    n_runs = np.bincount(run_context)[run_context, None, None]
    spread = residual * np.sqrt(n_runs / np.maximum(n_runs - 1.0, 1.0))
    excess = np.log(_context_means(np.exp(spread), run_context))[run_context]
    return np.where(n_runs > 1, spread - excess, residual)


def _bandwidth(trend: Trend, settings: ProgressSettings) -> Floats:
    """Of the kernel over contexts, in the coordinates of the trend: one a resource.

    Few contexts lie farther apart than Scott's rule reaches: a kernel much narrower than their
    spacing would know the nearest one only.
    """
    known = trend.scaled(trend.contexts)
    varies = np.ptp(known, axis=0) > 0
    per_resource = len(known) ** (1.0 / max(varies.sum(), 1))
    least = np.where(varies, _LEAST_SPACINGS / max(per_resource - 1.0, 1.0), 0.0)
    return settings.bandwidth * np.maximum(scott_bandwidth(known), least)


def _local_mean(log_weight: Floats, departure: Floats) -> Floats:
    """Kernel mean of the departures (n_known, bins, k), log weights (q, n_known): (q, bins, k)."""
    weight = np.exp(log_weight)
    weight /= weight.sum(axis=1, keepdims=True)
    mean = weight @ departure.reshape(len(departure), -1)
    return mean.reshape(len(weight), *departure.shape[1:])


def _confirmed(place: Floats, departure: Floats, weight: Floats) -> Floats:
    """Share of single runs' departures that is their context's and not noise, (k,).

    What the local mean of all other contexts has to be multiplied by to predict a departure best,
    in least squares with the given weights (n_known, bins, k); from 0 to 1.
    """
    if len(place) == 1:
        return np.ones(departure.shape[2])
    log_weight = gaussian_log_weights(place, place)
    np.fill_diagonal(log_weight, -np.inf)
    others = _local_mean(log_weight - log_weight.max(axis=1, keepdims=True), departure)
    agreement = (weight * departure * others).sum(axis=(0, 1))
    return np.clip(agreement / np.maximum((weight * others**2).sum(axis=(0, 1)), 1e-300), 0, 1)


def _standardised(values: Floats) -> Floats:
    """Divided by the standard deviation over all runs and segments, quantity by quantity."""
    deviation = values.std(axis=(0, 1))
    return values / np.where(deviation > 0, deviation, 1.0)


def _log_ratio(own: Floats, expected: Floats) -> Floats:
    """Log of measured over fitted amounts, (n, bins, k), both kept from zero.

    The floor is a thousandth of the quantity's mean: below it counts are rounding, and their
    logarithm would be noise without bound.
    """
    floor = np.maximum(1e-3 * expected.mean(axis=(0, 1)), 1e-300)
    return np.log(np.maximum(own, floor) / np.maximum(expected, floor))
