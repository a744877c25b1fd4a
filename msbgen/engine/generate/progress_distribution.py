"""The distribution of profiles at equal progress: a trend over contexts, a bridge of residuals.

Three parts: the centre, which gives the expected amounts of any context
(:mod:`msbgen.engine.generate.centre`); the residuals of the measured runs from it
(:mod:`msbgen.engine.generate.residuals`); and the bridge that couples the residuals from segment to
segment of progress (:mod:`.bridge.paths`).  The bridge is a Markov chain: whole paths are
drawn from it, and the most likely one is computed.  Means need no path, so the bridge is solved at
the first use of paths.
Arrays only; :mod:`msbgen.engine.generate.model` adds the labels.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from msbgen.core.arrays import POSITIVE, Stored
from msbgen.core.contexts import are_many, in_tiles
from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.core.lazy import lazy_module
from msbgen.core.machine import OnProgress, available_cores
from msbgen.core.parts import Sizes, stored_property
from msbgen.core.records import Count, Positive, Share, Within, check_fields
from msbgen.data.schema import NEGLIGIBLE
from msbgen.engine.bridge.paths import Chain
from msbgen.engine.generate.centre import Centre
from msbgen.engine.generate.context_error import ContextError
from msbgen.engine.generate.deconvolution import deconvolved_trend
from msbgen.engine.generate.distribution import Kind
from msbgen.engine.generate.lost import fill_lost
from msbgen.engine.generate.measurements import Measurements
from msbgen.engine.generate.residuals import Residuals
from msbgen.engine.generate.runs import Runs
from msbgen.engine.generate.streams import context_streams, stream_key

_kernels = lazy_module("msbgen.engine.generate._kernels")

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Contexts that one thread generates at a time: enough to share the trend's work, few enough to keep
# all paths in memory.  At most so many samples of them, so that two threads are busy.
_BLOCK, _PATHS = 64, 640
# Most intervals of a profile: of 1 ms, twelve days.
_MOST_INTERVALS = 10**9

# Errors of the durations of new contexts follow Student's t of so many degrees of freedom, as few
# left-out contexts determine their size; they are at most so many deviations.
_FREEDOM, _LARGEST = 4.0, 6.0

# One chain is solved at a time, with all cores; other threads wait.
_SOLVING = threading.Lock()


@dataclass(frozen=True)
class ProgressSettings:
    """Settings of the trend and the bridge at equal progress.

    Attributes
    ----------
    clock : str or None
        Counter that measures progress, or ``time``; None for the choice of the file (its attribute
        ``progress``), ``instructions``, or else wall time.
    bins : int
        Bins of progress in which states are kept; a multiple of `segments`.
    segments : int
        Segments of progress, one snapshot of the bridge each.
    deconvolutions : int
        Times that counts are deconvolved within their sampling intervals, with the trend as the
        prior (:func:`msbgen.engine.generate.progress.deconvolve`), and the trend is fitted again.
    epsilon : float
        Weight of the entropy, in squared units of the scaled coordinates: residuals and lags
        divided by their standard deviation, contexts by the bandwidth of the kernel.
    bandwidth : float
        Kernel bandwidth in the context, as a multiple of Scott's rule over the known contexts
        in the coordinates of the trend, or of 0.7 times their spacing where that is more.
    neighbours : int
        Measured runs that are used for one context.
    tol : float
        Largest L1 error of the marginals.
    """

    clock: str | None = None
    bins: Count = 400
    segments: Count = 25
    deconvolutions: Annotated[int, Within(0)] = 3
    epsilon: Positive = 0.1
    bandwidth: Positive = 0.8
    neighbours: Count = 40
    tol: Share = 1e-6

    def __post_init__(self) -> None:
        check_fields(self)
        if self.bins % self.segments:
            raise ArgumentError(
                f"bins is {self.bins}; a multiple of segments, {self.segments}, is wanted."
            )


@dataclass(frozen=True, eq=False)
class ProgressDistribution:
    """The fitted trend and, after the first use of paths, the bridge of its residuals."""

    name: ClassVar[str] = "progress"

    settings: ProgressSettings
    # (n_known, n_resources), with a column for each word
    contexts: Annotated[Floats, Stored(("known", "column"))]
    # (n_known, n_runs): measured [s]; NaN where a run is missing, was cut or slowed in part
    duration: Annotated[Floats, Stored(("known", "run"), POSITIVE, missing=True)]
    interval: Annotated[float, Stored((), POSITIVE)]  # sampling interval [s]
    # expected amounts at any context
    centre: Annotated[Centre, Sizes(bin="settings.bins")]
    # of the measured runs from the centre
    residuals: Annotated[
        Residuals,
        Sizes(bin="settings.bins", segment="settings.segments", quantity="centre.n_quantities"),
    ]

    @classmethod
    def fit(
        cls,
        measurements: Measurements,
        settings: ProgressSettings,
        *,
        progress: OnProgress | None = None,
    ) -> ProgressDistribution:
        """ProfileDistribution of measured runs: the trend, the centre and the residuals.

        Runs that lost counts (:func:`msbgen.engine.generate.progress.lost_counts`) are left out.
        Samples that were lost are imputed by a first fit (:mod:`msbgen.engine.generate.lost`).
        `progress` is called with (done, total) stages.  Errors as of
        :meth:`msbgen.engine.generate.runs.Runs.of`; the solver that couples groups of counters
        raises NotConvergedError.
        """
        lost = measurements.is_lost
        fits = (2 if lost.any() else 1) * (2 if are_many(measurements.contexts) else 1)
        stages = 2 + fits * (1 + settings.deconvolutions)
        done = iter(range(1, stages + 1))

        def step() -> None:
            if progress:
                progress(next(done), stages)

        runs = Runs.of(measurements, settings.bins)
        step()
        # with groups of counters or lost samples, time was measured where counts were not
        unequal = bool(lost.any() or (runs.n_measured < runs.n_runs[:, None]).any())
        fitting = settings.segments, settings.deconvolutions, step
        trend, state = deconvolved_trend(runs, *fitting, counters=unequal)
        if lost.any():
            filled = fill_lost(measurements.counts, lost, runs, trend)
            runs = Runs.of(replace(measurements, counts=filled, lost=False), settings.bins)
            trend, state = deconvolved_trend(runs, *fitting, counters=unequal)
        centre = Centre.fit(
            runs,
            state,
            trend,
            measurements,
            segments=settings.segments,
            bandwidth=settings.bandwidth,
        )
        residuals = Residuals.fit(runs, state, centre, epsilon=settings.epsilon, tol=settings.tol)
        step()
        ended = np.where(measurements.is_timed, measurements.duration, np.nan)
        return cls(settings, measurements.contexts, ended, measurements.interval, centre, residuals)

    @property
    def n_counters(self) -> int:
        """Number of counters that are generated."""
        return self.centre.n_quantities

    def prepare(self, kind: Kind, progress: OnProgress | None = None) -> None:
        """Solve the bridge if the kind needs paths and it is not solved yet.

        `progress` is called with (done, total) pairs of segments.  Raises NotConvergedError where
        the solver did not reach its tolerance.
        """
        with nullcontext() if kind == "mean" or "chain" in vars(self) else _SOLVING:
            if kind != "mean" and "chain" not in vars(self):
                epsilon, tol = self.settings.epsilon, self.settings.tol
                chain = Chain.fit(self.points, epsilon=epsilon, tol=tol, progress=progress)
                vars(self)["chain"] = chain
        if kind == "sample":
            _ = self.context_error

    @stored_property
    def context_error(self) -> ContextError:
        """Error of the durations of new contexts, computed at the first use of samples."""
        return ContextError.fit(self.centre)

    @stored_property
    def chain(self) -> Chain:
        """The bridge between the segments, solved at its first use; errors as `prepare`."""
        self.prepare("max_likelihood")
        return vars(self)["chain"]

    @property
    def points(self) -> Floats:
        """Snapshots of the bridge, see :meth:`Residuals.points`."""
        return self.residuals.points(self.centre.scaled_contexts)

    def known_states(self) -> Floats:
        """Mean measured amounts per bin of each known context, (n_known, bins, k)."""
        return self.centre.known_states()

    def profiles(
        self,
        query: Floats,
        kind: Kind,
        *,
        n_samples: int = 1,
        as_known: bool = False,
        rng: np.random.Generator | int = 0,
        progress: OnProgress | None = None,
    ) -> tuple[NDArray[np.float32], Floats]:
        """Counts and durations at contexts, see :mod:`msbgen.engine.generate.distribution`.

        Samples are paths drawn from the bridge, added to the centre and converted to wall time.
        Each sample is as much longer or shorter as a draw of the error of the context's duration
        (:mod:`msbgen.engine.generate.context_error`): so the spread of the samples is that of new
        runs. The other kinds are the expected count of every interval over the measured runs.
        Their weights are those of the kernel (mean), times a kernel of the distance to the most
        likely path (max_likelihood).
        """
        self.prepare(kind)  # before threads start
        block = min(_BLOCK, max(1, _PATHS // n_samples)) if kind == "sample" else _BLOCK
        blocks = [slice(i, i + block) for i in range(0, len(query), block)]
        key = stream_key(rng) if kind == "sample" else 0
        done = 0

        def answer(rows: slice) -> tuple[NDArray[np.float32], Floats]:
            nonlocal done
            centre, clock, active, run_weight = self._around(query[rows])
            if kind == "sample":
                shape = n_samples, self.settings.segments
                streams = context_streams(key, query[rows])
                uniform = [stream.random(shape) for stream in streams]
                path = self.chain.draw(active, run_weight, np.array(uniform))
                slower = np.ones(path.shape[:2])
                if not as_known:
                    drawn = np.array([s.standard_t(_FREEDOM, n_samples) for s in streams])
                    tiles = in_tiles(query[rows])
                    error = self.context_error.at(self.centre, tiles)[: len(centre), None]
                    slower = np.exp(error * np.clip(drawn, -_LARGEST, _LARGEST))
                out = self._played(centre, self._totals(clock, path[..., -1]), path, slower)
            else:
                if kind == "max_likelihood":
                    run_weight = run_weight - 0.5 * self._distance_to_mode(active, run_weight)
                totals = self._totals(clock, active)
                out = self._expected(centre, totals, active, np.exp(run_weight))
            done += 1
            if progress:
                progress(done, len(blocks))
            return out

        if len(blocks) == 1:  # faster than starting a thread
            return answer(blocks[0])
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

    def durations(self, query: Floats) -> Floats:
        """Execution times (q,) [s] of mean profiles at contexts (q, n_resources)."""
        out = np.empty(len(query))
        for start in range(0, len(query), _BLOCK):
            rows = slice(start, start + _BLOCK)
            centre, clock, active, run_weight = self._around(query[rows])
            weight = np.exp(run_weight)
            duration = self._run_durations(centre, self._totals(clock, active), active)
            out[rows] = (weight * duration).sum(axis=1) / weight.sum(axis=1)
        return out

    def longest(self, query: Floats) -> float:
        """Upper limit of the duration of every kind of profile at contexts (q, n_resources) [s]."""
        longest = 0.0
        for start in range(0, len(query), _BLOCK):
            centre, clock, active, _ = self._around(query[start : start + _BLOCK])
            duration = self._run_durations(centre, self._totals(clock, active), active)
            longest = max(longest, float(duration.max()))
            if self.centre.clock != 0:  # the lag at its end gives the duration of a path
                late = np.exp(self.residuals.lag[active, -1, 0])
                error = self.context_error.at(self.centre, query[start : start + _BLOCK])
                slowest = centre[..., 0].sum(axis=1) * np.exp(_LARGEST * error)
                longest = max(longest, float((slowest[:, None] * late).max()))
        return longest

    def _around(self, query: Floats) -> tuple[Floats, Floats, Indices, Floats]:
        """Centre, clock totals, active runs and their log weights at contexts.

        Amounts per bin (q, bins, k), totals (q,), runs and log weights (q, n_active).  Those of a
        context do not depend on the other contexts.
        """
        q, query = len(query), in_tiles(query)
        log_weight = self.centre.log_weights(query)
        active, run_weight = self._active_runs(log_weight[:q])
        amounts, totals = self.centre.amounts(query, log_weight)[:q], self.centre.totals(query)[:q]
        if self.centre.durations:
            # residuals of single runs, whose mean is not 0, must not change the mean duration
            weight = np.exp(run_weight)
            mean = (weight * self._run_durations(amounts, totals, active)).sum(axis=1)
            mean /= weight.sum(axis=1)
            amounts[..., 0] *= (amounts[..., 0].sum(axis=1) / mean)[:, None]
        return amounts, totals, active, run_weight

    def _active_runs(self, log_weight: Floats) -> tuple[Indices, Floats]:
        """Runs that are used for each context, and their log weights: (n_query, n_active)."""
        log_weight = log_weight[:, self.residuals.run_context]
        n_active = min(self.settings.neighbours, log_weight.shape[1])
        active = np.argsort(-log_weight, axis=1, kind="stable")[:, :n_active]
        active = np.ascontiguousarray(active)  # kernels are compiled for each layout
        return active, np.take_along_axis(log_weight, active, axis=1)

    def _distance_to_mode(self, active: Indices, log_weight: Floats) -> Floats:
        """Mean squared distance of the active runs to the most likely path, (q, n_active).

        In the coordinates of the bridge, whose standard deviation is one.
        """
        points = self.chain.points
        dims = points.shape[2] - self.contexts.shape[1]
        path = self.chain.most_likely(active, log_weight, bandwidth=1.0, dims=dims)
        distance = np.zeros(active.shape)
        for j in range(len(points)):
            segment = points[j, :, :dims]
            distance += ((segment[active] - segment[path[:, j], None]) ** 2).sum(axis=2)
        return distance / len(points)

    def _totals(self, clock: Floats, run: Indices) -> Floats:
        """Totals of the progress counter, (q, runs), at contexts with mean totals `clock` (q,)."""
        return clock[:, None] * np.exp(self.residuals.total_residual[run])

    def _run_durations(self, centre: Floats, totals: Floats, active: Indices) -> Floats:
        """Duration of each active run at a centre (q, bins, k) [s], (q, n_active)."""
        if self.centre.clock == 0:
            return totals
        time = np.ascontiguousarray(centre[..., 0])
        return (self.residuals.time_factor[active] @ time[..., None])[..., 0]

    def _expected(
        self, centre: Floats, totals: Floats, active: Indices, weight: Floats
    ) -> tuple[NDArray[np.float32], Floats]:
        """Mean over runs with weights (q, runs): counts (q, times, k), durations (q,).

        A run that has ended counts zero.  The mean ends where the weight of the runs that go on is
        below NEGLIGIBLE; its last interval holds all their remaining counts.
        """
        weight = weight / weight.sum(axis=1, keepdims=True)
        duration = self._run_durations(centre, totals, active)
        last = self._last_interval(duration)
        n_times = int(last.max()) + 1
        running = np.zeros((len(active), n_times))
        np.add.at(running, (np.arange(len(active))[:, None], last), weight)
        running = running[:, ::-1].cumsum(axis=1)[:, ::-1]
        end = (running >= NEGLIGIBLE).sum(axis=1) - 1
        counts = np.empty((len(active), 1, n_times, centre.shape[2]), dtype=np.float32)
        unstretched = np.ones((*active.shape, centre.shape[2]))
        _kernels.play_paths(
            centre, self.residuals.factor, active[:, :, None], unstretched,
            totals, weight, np.minimum(last, end[:, None]), self.centre.clock, self.interval,
            counts,
        )  # fmt: skip
        return counts[:, 0], (weight * duration).sum(axis=1)

    def _played(
        self, centre: Floats, totals: Floats, path: Indices, slower: Floats
    ) -> tuple[NDArray[np.float32], Floats]:
        """Profiles of paths (q, paths, segments): counts (q, paths, times, k), durations.

        Each takes `slower` (q, paths) times as long.
        """
        path = np.ascontiguousarray(path)  # the kernel is compiled for each layout
        end = path[..., -1]
        amounts = np.empty((*end.shape, centre.shape[2]))
        _kernels.path_amounts(centre, self.residuals.factor, path, amounts)
        stretch = self._to_lag(centre, end, amounts)
        if self.centre.clock != 0:
            stretch[..., 0] *= slower
        duration = totals if self.centre.clock == 0 else amounts[..., 0] * stretch[..., 0]
        last = self._last_interval(duration)
        counts = np.empty((*end.shape, int(last.max()) + 1, centre.shape[2]), dtype=np.float32)
        _kernels.play_paths(
            centre, self.residuals.factor, path, stretch, totals, np.ones_like(totals), last,
            self.centre.clock, self.interval, counts,
        )  # fmt: skip
        return counts, duration

    def _to_lag(self, centre: Floats, end: Indices, amounts: Floats) -> Floats:
        """Factors (q, paths, k) on the amounts of paths that end in given runs.

        A path that changes runs loses their lags: it is stretched so that its lag at the end is
        that of the run in which it ends.
        """
        wanted = centre.sum(axis=1)[:, None] * np.exp(self.residuals.lag[end, -1])
        return np.divide(wanted, amounts, out=np.ones_like(amounts), where=amounts > 0)

    def _last_interval(self, duration: Floats) -> Indices:
        if not duration.max() < _MOST_INTERVALS * self.interval:
            raise MeasurementError(
                f"a duration is predicted as {duration.max():.3g} s, of intervals of "
                f"{self.interval:.3g} s; check the durations, and fit the model again."
            )
        return np.maximum(np.ceil(duration / self.interval - 1e-6), 1.0).astype(np.int64) - 1

    def provenance(self, kind: Kind, *, as_known: bool = False) -> dict[str, Any]:
        """Attributes of generated profiles: of the bridge, for kinds that use paths."""
        if kind == "mean":
            return {}
        of_context = {"context_error": "none" if as_known else "one draw a sample"}
        return {
            **(of_context if kind == "sample" else {}),
            "epsilon": self.settings.epsilon,
            "scaling": "residuals and lags divided by their deviation, contexts by the bandwidth",
            "solver_status": self.chain.status,
            "marginal_error": self.chain.marginal_error,
        }
