"""The distribution of profiles in wall time: the paper's conditional bridge between snapshots.

Snapshot j is the cloud of augmented states (ξ, β) of every run at one time since the start.  The
bridge between the snapshots, conditioned on a context by a kernel, gives the state at any time
(Algorithm 1 of the paper).  Arrays only; :mod:`msbgen.engine.generate.model` adds the labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from msbgen.core.arrays import NOT_NEGATIVE, POSITIVE, SHARE, Stored
from msbgen.core.conformal import weighted_quantile
from msbgen.core.contexts import gaussian_log_weights, scott_bandwidth, to_unit_range
from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.core.machine import OnProgress, available_cores
from msbgen.core.records import Positive, Seconds, Share, check_fields
from msbgen.engine.bridge import condition
from msbgen.engine.bridge.solve import SolverConfig, solve_bridge
from msbgen.engine.generate.centre import Centre
from msbgen.engine.generate.distribution import Kind
from msbgen.engine.generate.residuals import Residuals
from msbgen.engine.generate.streams import context_streams, stream_key

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Longest run of a model file over the time up to its last snapshot: samples of it may be lost.
_MOST_BEYOND = 100

_NO_TREND = (
    "the model was fitted with the paper's preset, which has no trend; one that was fitted with "
    "the default preset is wanted."
)


@dataclass(frozen=True)
class ElapsedSettings:
    """Settings of the bridge in wall time.

    The defaults are the settings of the paper's authors, as far as they are known.

    Attributes
    ----------
    epsilon : float
        Weight of the entropy, in squared units of the scaled coordinates.
    scaled_range : float
        Every component of an augmented state (counters and resources) is scaled to
        [0, scaled_range], snapshot by snapshot.
    snapshot_interval : float
        Time between snapshots [s]; rounded to whole sampling intervals, at least one.
    bandwidth : float
        Kernel bandwidth in the context, as a multiple of Scott's rule over the known contexts.
    method : {"pairwise", "multimarginal"}
        Form of the solver (see :func:`msbgen.bridge.solve_bridge`).
    tol : float
        Largest L1 error of the marginals.
    hilbert_tol : float
        Stopping distance of the multimarginal form in Hilbert's metric.
    """

    epsilon: Positive = 0.1
    scaled_range: Positive = 0.1
    snapshot_interval: Seconds = 0.05
    bandwidth: Positive = 1.0
    method: Literal["pairwise", "multimarginal"] = "multimarginal"
    tol: Share = 1e-9
    hilbert_tol: Share = 1e-12

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """All states at one time."""

    row: int  # index of its sampling interval
    context: NDArray[np.int64]  # (n,): known context of each point, not decreasing
    states: Floats  # (n, n_counters): events per interval


@dataclass(frozen=True, eq=False)
class ElapsedDistribution:
    """The fitted bridge in wall time."""

    name: ClassVar[str] = "elapsed"

    settings: ElapsedSettings
    # (n_known, n_resources), with a column for each word
    contexts: Annotated[Floats, Stored(("known", "column"))]
    # (n_known, n_runs): measured execution times [s], NaN where a run is missing
    duration: Annotated[Floats, Stored(("known", "run"), POSITIVE, missing=True)]
    interval: Annotated[float, Stored((), POSITIVE)]  # sampling interval [s]
    # (snapshots,): sampling interval and number of points of each snapshot
    snapshot_row: Annotated[Indices, Stored(("snapshot",), dtype="i8", ascending=True)]
    snapshot_size: Annotated[Indices, Stored(("snapshot",), dtype="i8")]
    # (points,) of all snapshots: known context of each; (points, n_counters): events per interval
    context: Annotated[Indices, Stored(("point",), dtype="i8", below="known")]
    states: Annotated[Floats, Stored(("point", "counter"), NOT_NEGATIVE)]
    # dual potentials f of all snapshots but the last, and g of all but the first
    start_potential: Annotated[Floats, Stored(("start",))]
    end_potential: Annotated[Floats, Stored(("end",))]
    status: str  # how the solver ended
    marginal_error: Annotated[float, Stored((), SHARE)]  # largest L1 error of a marginal

    @classmethod
    def fit(
        cls,
        counts: Floats,
        duration: Floats,
        contexts: Floats,
        interval: float,
        settings: ElapsedSettings,
        *,
        rng: np.random.Generator | int = 0,
        progress: OnProgress | None = None,
    ) -> ElapsedDistribution:
        """Solve the bridge between the snapshots of measured runs (Algorithm 1, lines 1 to 9).

        Snapshot j holds the state of every run that has a whole interval there.  Ended runs and
        partial last intervals are left out.  Counts (n_known, n_runs, n_times,
        n_counters) are events per interval, NaN once a run has ended; durations (n_known, n_runs)
        are NaN where a run is missing [s].  `rng` starts the multimarginal form at random; results
        depend on it within the tolerance only.  MeasurementError where no run has two whole
        intervals; the solver raises NotConvergedError.
        """
        snapshots = _snapshots(counts, duration, interval, settings)
        bridge = solve_bridge(
            [_scaled_points(s, contexts, settings) for s in snapshots],
            epsilon=settings.epsilon,
            method=settings.method,
            config=SolverConfig(tol=settings.tol, hilbert_tol=settings.hilbert_tol),
            rng=rng,
            progress=progress,
        )
        error = float(bridge.marginal_error.max())
        return cls(
            settings,
            contexts,
            duration,
            interval,
            np.array([snapshot.row for snapshot in snapshots]),
            np.array([len(snapshot.context) for snapshot in snapshots]),
            np.concatenate([snapshot.context for snapshot in snapshots]),
            np.concatenate([snapshot.states for snapshot in snapshots]),
            np.concatenate([f for f, _ in bridge.potentials]),
            np.concatenate([g for _, g in bridge.potentials]),
            str(bridge.status),
            error,
        )

    @cached_property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """All snapshots, in order of time."""
        stops = np.cumsum(self.snapshot_size)[:-1]
        parts = np.split(self.context, stops), np.split(self.states, stops)
        return tuple(map(Snapshot, self.snapshot_row.tolist(), *parts))

    @cached_property
    def potentials(self) -> tuple[tuple[Floats, Floats], ...]:
        """Dual potentials f and g of each pair of neighbours."""
        f = np.split(self.start_potential, np.cumsum(self.snapshot_size[:-1])[:-1])
        g = np.split(self.end_potential, np.cumsum(self.snapshot_size[1:])[:-1])
        return tuple(zip(f, g))

    @property
    def centre(self) -> Centre:
        """Always an ArgumentError: wall time has no bins of progress and no trend."""
        raise ArgumentError(_NO_TREND)

    @property
    def residuals(self) -> Residuals:
        """Always an ArgumentError, as :attr:`centre`."""
        raise ArgumentError(_NO_TREND)

    def known_states(self) -> Floats:
        """Always an ArgumentError, as :attr:`centre`."""
        raise ArgumentError(_NO_TREND)

    @property
    def n_counters(self) -> int:
        """Number of counters that are generated."""
        return self.states.shape[1]

    def prepare(self, kind: Kind, progress: OnProgress | None = None) -> None:
        """Do nothing: the fit already solved the bridge."""

    def durations(self, query: Floats) -> Floats:
        """Mean execution times at contexts (q, n_resources) [s], (q,)."""
        weights, ends = self._run_weights(query)
        return _means(weights, ends)

    def longest(self, query: Floats) -> float:
        """Upper limit of the duration of every kind of profile at contexts (q, n_resources) [s]."""
        return float(np.nanmax(self.duration))

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

        The bridge gives atoms at each time: mixtures of one point of either snapshot, with a mass.
        The state is the heaviest atom (max_likelihood), their mean, or a draw (sample).  The
        duration is the kernel-weighted median, the mean, or a draw of the measured durations.
        """
        weights, ends = self._run_weights(query)
        streams: list[np.random.Generator] = []
        if kind == "mean":
            duration = _means(weights, ends)
        elif kind == "max_likelihood":
            duration = weighted_quantile(ends, weights, 0.5)[:, 0]
        else:
            streams = context_streams(stream_key(rng), query)
            quantile = np.stack([stream.random(n_samples) for stream in streams])
            duration = weighted_quantile(ends, weights, quantile)
        n_rows = int(np.ceil(duration.max() / self.interval * (1 - 1e-12)))
        with np.errstate(all="ignore"):  # of an edited model; checked below
            counts = self._interval_counts(query, kind, n_samples, n_rows, streams, progress)
        if not np.isfinite(counts).all():
            row = int(np.argwhere(~np.isfinite(counts))[0][0])
            raise MeasurementError(
                f"counts of context {query[row].tolist()} are not finite; fit the model again."
            )
        share = np.clip(duration[..., None] / self.interval - np.arange(n_rows), 0.0, 1.0)
        share[share < 1e-9] = np.nan  # rounding must not create another row
        counts *= share[..., None].astype(np.float32)
        return counts, duration

    def provenance(self, kind: Kind, *, as_known: bool = False) -> dict[str, Any]:
        """Attributes of generated profiles: settings and outcome of the bridge."""
        return {
            "epsilon": self.settings.epsilon,
            "scaling": f"components moved to [0, {self.settings.scaled_range:g}] per snapshot",
            "solver_status": self.status,
            "marginal_error": self.marginal_error,
        }

    def problems(self) -> Iterator[tuple[str, object, str]]:
        """What is wrong with a stored distribution."""
        rows, size = self.snapshot_row, self.snapshot_size
        if len(rows) < 2 or rows[0] != 0:
            yield "snapshot_row", rows, "two or more rows that ascend from 0"
            return
        # every row from the last snapshot on is computed by itself; few are, of sound models
        most = _MOST_BEYOND * int(rows[-1] + np.diff(rows).max())
        longest = int(np.ceil(np.nanmax(self.duration) / self.interval)) + 1
        if not rows[-1] < longest <= most:
            yield "duration", f"{longest} intervals", f"{rows[-1] + 1} to {most}"
        if not (size > 0).all():
            yield "snapshot_size", 0, "a point or more"
            return
        points = len(self.context), len(self.start_potential), len(self.end_potential)
        wanted = int(size.sum()), int(size[:-1].sum()), int(size[1:].sum())
        if points != wanted:
            yield "snapshot_size", f"that of {wanted} points", f"that of {points}"
            return
        for snapshot in self.snapshots:
            if not (np.diff(snapshot.context) >= 0).all():
                yield "context", f"{snapshot.context} in row {snapshot.row}", "an order by context"

    def _in_bandwidths(self, contexts: Floats) -> Floats:
        known = to_unit_range(self.contexts, self.contexts)
        bandwidth = self.settings.bandwidth * scott_bandwidth(known)
        return to_unit_range(self.contexts, contexts) / bandwidth

    def _run_weights(self, query: Floats) -> tuple[Floats, Floats]:
        """Kernel weight of every measured run at each context, and the runs' durations."""
        kernel = np.exp(
            gaussian_log_weights(self._in_bandwidths(self.contexts), self._in_bandwidths(query))
        )
        present = np.isfinite(self.duration)
        weights = (kernel[:, :, None] * present).reshape(len(query), -1)[:, present.ravel()]
        weights = np.ascontiguousarray(weights)  # so that a result is equal in any batch
        return weights / weights.sum(axis=1, keepdims=True), self.duration[present]

    def _interval_counts(
        self,
        query: Floats,
        kind: Kind,
        n_samples: int,
        n_rows: int,
        streams: Sequence[np.random.Generator],
        progress: OnProgress | None,
    ) -> NDArray[np.float32]:
        """Counts of a whole interval, (n_query[, n_samples], n_rows, n_counters).

        Rows between two snapshots are displacement atoms of the bridge.  The rest after the last
        snapshot, shorter than one snapshot interval, repeats its states.
        """
        shape = (len(query), n_samples) if kind == "sample" else (len(query),)
        counts = np.full((*shape, n_rows, self.n_counters), np.nan, dtype=np.float32)
        scaled = self._in_bandwidths(query)
        interior = [snapshot.row for snapshot in self.snapshots[1:-1]]
        last = int(np.searchsorted(interior, n_rows - 1, side="right"))

        def fill(segment: condition.Segment, row: int, lam: float, uniform: Floats) -> None:
            if kind == "mean":
                counts[..., row, :] = condition.conditional_mean(segment, lam, scaled)[0]
            elif kind == "max_likelihood":
                counts[..., row, :] = condition.conditional_mode(segment, lam, scaled)
            else:
                counts[..., row, :] = condition.conditional_sample(segment, lam, scaled, uniform)

        # Segments are summed in threads, a few at a time.  Means are matrix products, which BLAS
        # spreads over the cores itself: threads around them would only slow them down.
        threads = available_cores()
        # threads do not inherit what numpy ignores
        with ThreadPoolExecutor(threads, initializer=partial(np.seterr, all="ignore")) as pool:
            for first in range(0, last + 1, threads):
                some = range(first, min(first + threads, last + 1))
                rows = [(j, row, lam) for j in some for row, lam in self._rows(j, n_rows)]
                # each context's stream is drawn row after row: its draws do not depend on n_rows
                uniform = np.empty((len(rows), *shape, 3 * (kind == "sample")))
                for i, stream in enumerate(streams):
                    uniform[:, i] = stream.random((len(rows), n_samples, 3))
                segments = dict(zip(some, pool.map(self._segment, some)))
                jobs = [(segments[j], row, lam, u) for (j, row, lam), u in zip(rows, uniform)]
                list((map if kind == "mean" else pool.map)(lambda job: fill(*job), jobs))
                if progress:
                    progress(some[-1] + 1, last + 1)
        return counts

    def _rows(self, j: int, n_rows: int) -> list[tuple[int, float]]:
        """Rows of segment j, each with the share λ of its first snapshot."""
        start, end = self.snapshots[j].row, self.snapshots[j + 1].row
        stop = n_rows if j == len(self.potentials) - 1 else min(end, n_rows)
        return [(row, max((end - row) / (end - start), 0.0)) for row in range(start, stop)]

    def _segment(self, j: int) -> condition.Segment:
        first, second = self.snapshots[j], self.snapshots[j + 1]
        start, end = (_scaled_points(s, self.contexts, self.settings) for s in (first, second))
        return condition.make_segment(
            (start, end),
            self.potentials[j],
            self.settings.epsilon,
            (first.states, second.states),
            (first.context, second.context),
            self._in_bandwidths(self.contexts),
        )


def _means(weights: Floats, values: Floats) -> Floats:
    """Means of values (n,) by rows of weights, (q, n) -> (q,); equal in any batch."""
    return (weights * values).sum(axis=1)


def _snapshots(
    counts: Floats, duration: Floats, interval: float, settings: ElapsedSettings
) -> tuple[Snapshot, ...]:
    whole = np.floor(np.nan_to_num(duration) / interval * (1 + 1e-9)).astype(int)
    whole = np.minimum(whole, np.isfinite(counts[..., 0]).sum(axis=-1))
    longest = int(whole.max())
    if longest < 2:
        raise MeasurementError(
            f"no run has two whole sampling intervals of {interval:g} s, which a bridge needs: "
            f"sample more often."
        )
    step = min(max(round(settings.snapshot_interval / interval), 1), longest - 1)
    snapshots = []
    for row in range(0, longest, step):
        context, run = map(np.ascontiguousarray, np.nonzero(whole > row))
        snapshots.append(Snapshot(row, context, counts[context, run, row]))
    return tuple(snapshots)


def _scaled_points(snapshot: Snapshot, contexts: Floats, settings: ElapsedSettings) -> Floats:
    """Augmented states (ξ, β), every component scaled to [0, scaled_range]."""
    eta = np.hstack([snapshot.states, contexts[snapshot.context]])
    return settings.scaled_range * to_unit_range(eta, eta)
