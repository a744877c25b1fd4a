"""The law of profiles on a progress clock: a trend over contexts, and a bridge on what it leaves.

Three parts, each fitted on what the one before left: the centre of any context
(:mod:`msbgen.generate.centre`), how the measured runs depart from theirs
(:mod:`msbgen.generate.residuals`), and the bridge between the segments of progress
(:mod:`msbgen.bridge.paths`), a Markov chain over the segments, so that whole coherent paths can be
drawn, and the most likely one found: a path follows, in each segment, the residuals of the run
that it visits there.  Means need no path: the chain is solved when paths are first asked for.

Arrays only; labels are put on in :mod:`msbgen.generate.model`.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.bridge.paths import Chain
from msbgen.core.arrays import StoredArrays
from msbgen.core.contexts import in_tiles
from msbgen.core.errors import ArgumentError, check_positive, check_whole
from msbgen.core.machine import OnProgress, available_cores
from msbgen.data.schema import NEGLIGIBLE
from msbgen.generate import _kernels
from msbgen.generate.centre import Centre
from msbgen.generate.deconvolution import deconvolved_trend
from msbgen.generate.law import Kind
from msbgen.generate.lost import fill_lost
from msbgen.generate.residuals import Residuals
from msbgen.generate.runs import Runs
from msbgen.generate.streams import context_streams, stream_key

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Contexts that one thread answers at a time: enough to share the trend's work, few enough to keep
# all paths in memory; and at most so many samples of them, so that both threads are busy.
_BLOCK, _PATHS = 64, 640

# One chain is solved at a time, with all cores: who asks for the same one meanwhile waits for it.
_SOLVING = threading.Lock()


@dataclass(frozen=True)
class ProgressSettings:
    """How profiles on a progress clock are turned into a trend and a bridge.

    Attributes
    ----------
    clock : str or None
        Counter that tells progress, or ``time``; None for the file's own choice (its attribute
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

    clock: str | None = None
    bins: int = 400
    segments: int = 25
    sharpenings: int = 3
    epsilon: float = 0.1
    bandwidth: float = 0.8
    neighbours: int = 40
    tol: float = 1e-6

    def __post_init__(self) -> None:
        check_positive(self, "epsilon", "bandwidth", "tol")
        check_whole(self, "bins", "segments", "neighbours")
        check_whole(self, "sharpenings", least=0)
        if self.bins % self.segments:
            raise ArgumentError(
                f"bins is {self.bins}; a multiple of segments, {self.segments}, is wanted."
            )
        if self.tol >= 1:
            raise ArgumentError(f"tol is {self.tol}; a number below 1 is wanted.")


@dataclass(frozen=True, eq=False)
class ProgressLaw:
    """The fitted trend and, once paths were asked for, the bridge on its residuals.

    Attributes
    ----------
    settings : ProgressSettings
    contexts : ndarray, (n_known, n_resources)
    duration : ndarray, (n_known, n_runs)
        Measured execution times [s], NaN where a run is missing or was cut.
    interval : float
        Sampling interval [s].
    centre : Centre
        What the runs of a context vary about.
    residuals : Residuals
        How the measured runs do.
    """

    name: ClassVar[str] = "progress"

    settings: ProgressSettings
    contexts: Floats
    duration: Floats
    interval: float
    centre: Centre
    residuals: Residuals

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
        pace: ArrayLike = 1.0,
        worth: ArrayLike = 1.0,
        guessed: ArrayLike = False,
        complete: ArrayLike = True,
        lost: ArrayLike = False,
        progress: OnProgress | None = None,
    ) -> ProgressLaw:
        """Fit the trend, and measure the runs from it.

        Runs that lost counts (:func:`msbgen.generate.clock.lost_counts`) are left out.

        Parameters
        ----------
        counts : ndarray, (n_known, n_runs, n_times, n_counters)
            Events per interval, NaN once a run has ended or was cut, and throughout a run that
            does not hold the counter; every run holds the clock.
        duration : ndarray, (n_known, n_runs)
            [s], NaN where a run is missing; until the cut of a run that was cut.
        contexts : ndarray, (n_known, n_resources)
        interval : float
            [s]
        clock : int
            0 for wall time, 1 + k for counter k.
        settings : ProgressSettings
        pace : array_like, broadcastable to (n_known, n_runs)
            How many times longer each run was measured to take than `duration` says.
        worth : array_like, broadcastable to (n_known,)
            What a run of each context counts in a trend, at most 1.
        guessed : array_like of bool, broadcastable to (n_known,)
            Contexts whose time is what the others say of it.
        complete : array_like of bool, broadcastable to (n_known, n_runs)
            Which runs went on to their end.
        lost : array_like of bool, broadcastable to the counts
            Samples that were lost, and filled in somehow: a first fit says what happened there
            (:mod:`msbgen.generate.lost`).
        progress : callable
            Called with (done, total) stages.

        Raises
        ------
        MeasurementError
            The clock counted nothing in every run of a context; no run went on to its end.
        msbgen.bridge.solve.NotConvergedError
            The solver that couples groups of counters did not reach its tolerance.
        """
        gaps = np.broadcast_to(np.asarray(lost, dtype=bool), counts.shape)
        fits = 2 if gaps.any() else 1
        stages = 2 + fits * (1 + settings.sharpenings)
        done = iter(range(1, stages + 1))

        def step() -> None:
            if progress:
                progress(next(done), stages)

        paces = np.broadcast_to(np.asarray(pace, dtype=float), duration.shape)
        # a run that took f times as long counted in f times as long intervals
        steps = interval / paces if (paces != 1.0).any() else interval
        measured = duration, contexts, steps, clock, settings.bins, worth, complete
        runs = Runs.of(counts, *measured, guessed=gaps.any(axis=(2, 3)))
        step()
        # of groups and of lost samples time is known where counts are not
        unequal = bool(gaps.any() or (runs.holders < runs.n_runs[:, None]).any())
        placing = settings.segments, settings.sharpenings, step
        trend, state = deconvolved_trend(runs, *placing, counters=unequal)
        if gaps.any():
            counts = fill_lost(counts, gaps, runs, trend)
            runs = Runs.of(counts, *measured)
            trend, state = deconvolved_trend(runs, *placing, counters=unequal)
        centre = Centre.fit(
            runs,
            state,
            trend,
            segments=settings.segments,
            bandwidth=settings.bandwidth,
            pace=paces,
            guessed=guessed,
        )
        residuals = Residuals.fit(runs, state, centre, epsilon=settings.epsilon, tol=settings.tol)
        step()
        ended = np.where(complete, duration, np.nan)
        return cls(settings, contexts, ended, interval, centre, residuals)

    def check(self, query: Floats) -> None:
        """Raise ArgumentError where a context has no place in the coordinates of the trends."""
        for trend in (self.centre.trend, self.centre.total_trend):
            trend.scaled(query)

    @property
    def n_counters(self) -> int:
        """Counters that are generated."""
        return self.centre.departure.shape[2]

    def prepare(self, kind: Kind, progress: OnProgress | None = None) -> None:
        """Solve the bridge where a kind asks for paths and it was not solved yet.

        Parameters
        ----------
        kind : {"max_likelihood", "mean", "sample"}
        progress : callable
            Called with (done, total) pairs of segments.

        Raises
        ------
        msbgen.bridge.solve.NotConvergedError
            The solver did not reach its tolerance.
        """
        if kind != "mean":
            self._chain(progress)

    @property
    def chain(self) -> Chain:
        """The bridge between the segments; solved where it was not yet, errors as `prepare`."""
        return self._chain(None)

    def _chain(self, progress: OnProgress | None) -> Chain:
        known = vars(self)  # as functools.cached_property keeps what it worked out
        if "_solved" not in known:
            with _SOLVING:
                if "_solved" not in known:
                    known["_solved"] = Chain.fit(
                        self.residuals.points(self.centre.place),
                        epsilon=self.settings.epsilon,
                        tol=self.settings.tol,
                        progress=progress,
                    )
        return known["_solved"]

    def known_states(self) -> Floats:
        """Mean measured amounts per bin of each known context, (n_known, bins, k)."""
        return self.centre.known_states()

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
        or over those near the most likely path (max_likelihood).  What a context gets depends
        neither on its place nor on the others: samples come from one stream a context
        (:func:`msbgen.generate.streams.context_streams`).

        Returns
        -------
        counts : ndarray, (n_query[, n_samples], n_times, n_counters)
            NaN after the end; the last interval holds the share that the duration covers.
        duration : ndarray, (n_query[, n_samples])
            [s]

        Raises
        ------
        msbgen.bridge.solve.NotConvergedError
            As :meth:`prepare`.
        """
        self.prepare(kind)  # before there are threads
        block = min(_BLOCK, max(1, _PATHS // n_samples)) if kind == "sample" else _BLOCK
        blocks = [slice(i, i + block) for i in range(0, len(query), block)]
        key = stream_key(rng) if kind == "sample" else 0
        done = 0

        def answer(rows: slice) -> tuple[NDArray[np.float32], Floats]:
            nonlocal done
            centre, clock, active, run_weight = self._around(query[rows])
            if kind == "sample":
                shape = n_samples, self.settings.segments
                uniform = [stream.random(shape) for stream in context_streams(key, query[rows])]
                path = self.chain.draw(active, run_weight, np.array(uniform))
                out = self._played(centre, self._totals(clock, path[..., -1]), path)
            else:
                if kind == "max_likelihood":
                    run_weight = run_weight - 0.5 * self._distance_to_mode(active, run_weight)
                totals = self._totals(clock, active)
                out = self._expected(centre, totals, active, np.exp(run_weight))
            done += 1
            if progress:
                progress(done, len(blocks))
            return out

        if len(blocks) == 1:  # an allocator's question, answered sooner than a thread starts
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
        """Execution times (q,) [s] that mean profiles have at contexts (q, n_resources)."""
        out = np.empty(len(query))
        for start in range(0, len(query), _BLOCK):
            rows = slice(start, start + _BLOCK)
            centre, clock, active, run_weight = self._around(query[rows])
            weight = np.exp(run_weight)
            duration = self._run_durations(centre, self._totals(clock, active), active)
            out[rows] = (weight * duration).sum(axis=1) / weight.sum(axis=1)
        return out

    def longest(self, query: Floats) -> float:
        """Execution time that no profile at contexts (q, n_resources) exceeds, of any kind [s]."""
        longest = 0.0
        for start in range(0, len(query), _BLOCK):
            centre, clock, active, _ = self._around(query[start : start + _BLOCK])
            duration = self._run_durations(centre, self._totals(clock, active), active)
            longest = max(longest, float(duration.max()))
            if self.centre.clock != 0:  # a path takes as long as it is ahead at its end
                ahead = np.exp(self.residuals.lag[active, -1, 0])
                longest = max(longest, float((centre[..., 0].sum(axis=1)[:, None] * ahead).max()))
        return longest

    def _around(self, query: Floats) -> tuple[Floats, Floats, Indices, Floats]:
        """What contexts are answered from, each the same whatever its company.

        Amounts per bin (q, bins, k), what the clock counts (q,), the runs that serve, and their
        log weights (q, n_active).
        """
        q, query = len(query), in_tiles(query)
        log_weight = self.centre.log_weights(query)
        active, run_weight = self._active_runs(log_weight[:q])
        amounts = self.centre.amounts(query, log_weight)[:q]
        return amounts, self.centre.totals(query)[:q], active, run_weight

    def _active_runs(self, log_weight: Floats) -> tuple[Indices, Floats]:
        """The runs that serve each context, and their log weights: (n_query, n_active)."""
        log_weight = log_weight[:, self.residuals.run_context]
        n_active = min(self.settings.neighbours, log_weight.shape[1])
        active = np.argsort(-log_weight, axis=1, kind="stable")[:, :n_active]
        active = np.ascontiguousarray(active)  # kernels are compiled for each layout
        return active, np.take_along_axis(log_weight, active, axis=1)

    def _distance_to_mode(self, active: Indices, log_weight: Floats) -> Floats:
        """Mean squared distance of the active runs to the most likely path, (q, n_active).

        In the coordinates of the bridge, which have unit deviation: one bandwidth.
        """
        points = self.chain.points
        dims = points.shape[2] - self.contexts.shape[1]
        path = self.chain.most_likely(active, log_weight, bandwidth=1.0, dims=dims)
        distance = np.zeros(active.shape)
        for j in range(len(points)):
            own = points[j, :, :dims]
            distance += ((own[active] - own[path[:, j], None]) ** 2).sum(axis=2)
        return distance / len(points)

    def _totals(self, clock: Floats, run: Indices) -> Floats:
        """What the clock counts in runs taken to contexts of mean totals (q,), (q, runs)."""
        return clock[:, None] * np.exp(self.residuals.total_residual[run])

    def _run_durations(self, centre: Floats, totals: Floats, active: Indices) -> Floats:
        """How long each active run takes about a centre (q, bins, k) [s], (q, n_active)."""
        if self.centre.clock == 0:
            return totals
        time = np.ascontiguousarray(centre[..., 0])
        return (self.residuals.time_factor[active] @ time[..., None])[..., 0]

    def _expected(
        self, centre: Floats, totals: Floats, active: Indices, weight: Floats
    ) -> tuple[NDArray[np.float32], Floats]:
        """Mean over weighted runs, (q, runs): counts (q, times, k), durations (q,).

        A run that has ended counts zero.  The mean ends where less than NEGLIGIBLE still run;
        its last interval takes the rest of what they count.
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
        as_it_is = np.ones((*active.shape, centre.shape[2]))
        _kernels.play_paths(
            centre, self.residuals.factor, active[:, :, None], as_it_is,
            totals, weight, np.minimum(last, end[:, None]), self.centre.clock, self.interval,
            counts,
        )  # fmt: skip
        return counts[:, 0], (weight * duration).sum(axis=1)

    def _played(
        self, centre: Floats, totals: Floats, path: Indices
    ) -> tuple[NDArray[np.float32], Floats]:
        """Paths (q, paths, segments) one by one: counts (q, paths, times, k), durations."""
        path = np.ascontiguousarray(path)  # a stride would compile the kernel anew
        end = path[..., -1]
        amounts = np.empty((*end.shape, centre.shape[2]))
        _kernels.path_amounts(centre, self.residuals.factor, path, amounts)
        stretch = self._to_lag(centre, end, amounts)
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

        A path that changes runs forgets how far each of them was ahead: it is stretched so that
        the whole of it is as far ahead as the run in which it ends.
        """
        wanted = centre.sum(axis=1)[:, None] * np.exp(self.residuals.lag[end, -1])
        return np.divide(wanted, amounts, out=np.ones_like(amounts), where=amounts > 0)

    def _last_interval(self, duration: Floats) -> Indices:
        return np.maximum(np.ceil(duration / self.interval - 1e-6), 1.0).astype(np.int64) - 1

    def provenance(self, kind: Kind) -> dict[str, Any]:
        """What the attributes of generated profiles say: of the bridge where paths were asked."""
        if kind == "mean":
            return {}
        return {
            "epsilon": self.settings.epsilon,
            "scaling": "residuals and lags divided by their deviation, contexts by the bandwidth",
            "solver_status": self.chain.status,
            "marginal_error": self.chain.marginal_error,
        }

    def labels(self) -> dict[str, Any]:
        """Settings and outcome as JSON knows them; the bridge is solved for it."""
        return {
            "settings": asdict(self.settings),
            "clock": self.centre.clock,
            **self.chain.labels(),
        }

    def to_arrays(self) -> dict[str, tuple[tuple[str, ...], Any]]:
        """Everything but the contexts and durations; the bridge is solved for it."""
        return {
            **self.centre.to_arrays(),
            **self.residuals.to_arrays(),
            **self.chain.to_arrays(),
        }

    @classmethod
    def from_arrays(
        cls,
        stored: StoredArrays,
        contexts: Floats,
        duration: Floats,
        interval: float,
        labels: Mapping[str, Any],
    ) -> ProgressLaw:
        """Undo :meth:`to_arrays`; `labels` is what :meth:`labels` returned.

        Raises
        ------
        ProfileError
            Settings or an array that no law can have.
        """
        settings = stored.record(ProgressSettings, labels.get("settings"), "settings")
        clock = labels.get("clock")
        stored.want(type(clock) is int, "clock", clock, "a whole number")
        assert isinstance(clock, int)
        centre = Centre.from_arrays(
            stored,
            contexts,
            duration,
            clock=clock,
            bins=settings.bins,
            segments=settings.segments,
            bandwidth=settings.bandwidth,
        )
        residuals = Residuals.from_arrays(stored, centre)
        law = cls(settings, contexts, duration, interval, centre, residuals)
        points = residuals.points(centre.place)
        vars(law)["_solved"] = Chain.from_arrays(stored, labels, points, settings.epsilon)
        return law
