"""Predictions of known contexts from the others, beside what was measured there.

What conformal bounds learn from: each row is one known context, predicted from the contexts
outside the group that it was left out with.  How far it was from those is its *doubt*: the
deviation of the trend's Gaussian process there, a distance in the learned metric that knows the
geometry of the neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.contexts import inner_levels
from msbgen.data.arrays import StoredArrays
from msbgen.data.schema import same_level
from msbgen.errors import ArgumentError, MeasurementError
from msbgen.generate.clock import sharpen, uniform_knots
from msbgen.generate.law import Law
from msbgen.machine import OnProgress
from msbgen.trend.covariance import prior_covariance, prior_variance
from msbgen.trend.fit import Trend, fit_trend

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Weight of the whole levels among what is left out: new contexts mostly lie between levels.
_LEVELS = 0.75
# Radius of neighbourhoods, in median distances of a known context to its nearest.
_RADIUS = 1.5
# Weight of far contexts in a neighbourhood: where no context is near, all are alike.
_FAR = 1e-6


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Left-out predictions beside the measured runs; made by :func:`leave_out`.

    Attributes
    ----------
    trend : Trend
        Fitted to all known contexts; it predicts the mean at new ones.
    context : ndarray of int, (rows,)
        Known context that each left-out prediction is for.
    left_out : ndarray of bool, (rows, n_known)
        The contexts that were left out with it.
    weight : ndarray, (rows,)
        Sums to 1.
    doubt : ndarray, (rows,)
        Deviation of the trend's Gaussian process at the left-out context, given the rest.
    predicted : ndarray, (rows, segments, k)
        Left-out prediction of the amounts per segment of progress.
    run_context : ndarray of int, (runs,)
    duration : ndarray, (runs,)
        Measured execution times [s].
    state : ndarray, (pairs, segments, k)
        Measured amounts per segment of progress of every run of every left-out prediction,
        placed within the sampling intervals by that prediction (`clock.sharpen`).
    bounded : int
        The quantity whose total over a run is bounded: 0 for the execution time.  Of another one
        (:meth:`of_total`) `duration` holds the totals.
    """

    trend: Trend
    context: Indices
    left_out: NDArray[np.bool_]
    weight: Floats
    doubt: Floats
    predicted: Floats
    run_context: Indices
    duration: Floats
    state: Floats
    bounded: int = 0

    def of_total(self, quantity: int) -> HeldOut:
        """The same for bounds on the total of another quantity: energy, say.

        Of the runs that hold it.

        Raises
        ------
        MeasurementError
            Some run, or some prediction, has nothing of it.
        """
        total = np.full(len(self.duration), np.nan)
        total[self._pairs[1]] = self.state[..., quantity].sum(axis=1)
        mine = np.isfinite(total)
        told = np.all(total[mine] > 0) and mine.any()
        if not (told and np.all(self.predicted[..., quantity].sum(axis=1) > 0)):
            raise MeasurementError(
                "some run counted nothing of what is bounded; drop it, or measure it again."
            )
        if mine.all():
            return replace(self, duration=total, bounded=quantity)
        rows = np.isin(self.context, self.run_context[mine])
        return replace(
            self,
            context=self.context[rows],
            left_out=self.left_out[rows],
            weight=self.weight[rows] / self.weight[rows].sum(),
            doubt=self.doubt[rows],
            predicted=self.predicted[rows],
            run_context=self.run_context[mine],
            duration=total[mine],
            state=self.state[mine[self._pairs[1]]],
            bounded=quantity,
        )

    @property
    def segments(self) -> int:
        """Segments of progress."""
        return self.predicted.shape[1]

    @cached_property
    def n_contexts(self) -> int:
        """Different contexts among the rows."""
        return len(np.unique(self.context))

    # Pairs are left-out predictions × runs of their contexts.

    @cached_property
    def _pairs(self) -> tuple[Indices, Indices]:
        row, run = np.nonzero(self.context[:, None] == self.run_context)
        return row, run

    @property
    def row(self) -> Indices:
        """Left-out prediction of each pair, (pairs,)."""
        return self._pairs[0]

    @cached_property
    def share(self) -> Floats:
        """What each pair counts, (pairs,): a row's weight in equal parts for its runs."""
        return (self.weight / self.n_runs[self.context])[self.row]

    def holding(self, quantity: int) -> tuple[NDArray[np.bool_], Floats]:
        """Pairs whose run holds a quantity, (pairs,), and what each of these counts."""
        holds = np.asarray(np.isfinite(self.state[..., quantity]).any(axis=1))
        if holds.all():
            return holds, self.share
        many = np.bincount(self.row[holds], minlength=len(self.context))
        share = (self.weight / np.maximum(many, 1))[self.row[holds]]
        return holds, share / share.sum()

    @cached_property
    def n_runs(self) -> Indices:
        """Runs of each known context, (n_known,)."""
        return np.bincount(self.run_context, minlength=len(self.trend.contexts))

    @cached_property
    def log_time(self) -> Floats:
        """Log of the measured execution time, or other total, (pairs,)."""
        return np.log(self.duration)[self._pairs[1]]

    @cached_property
    def floor(self) -> Floats:
        """Amounts per segment (k,) below which the trend is additive."""
        return self.trend.offset * (self.trend.mean.shape[1] // self.segments)

    # What is asked, and what was left out, in the same terms.

    def at(self, contexts: ArrayLike) -> Asked:
        """What there is to know of (q, n_resources) contexts."""
        return Asked(self, np.asarray(contexts, dtype=np.float64))

    @cached_property
    def rows(self) -> LeftOut:
        """What there was to know of the left-out contexts."""
        return LeftOut(self)

    @cached_property
    def known(self) -> Floats:
        """Known contexts in the coordinates of the trend, (n_known, n_resources)."""
        return self.trend.scaled(self.trend.contexts)

    @cached_property
    def radii(self) -> Floats:
        """Of a neighbourhood along each resource, in these coordinates, (n_resources,)."""
        apart = self.trend.distance(self.trend.contexts)
        np.fill_diagonal(apart, np.inf)
        return self.trend.mean_lengths * _RADIUS * max(float(np.median(apart.min(axis=1))), 1e-12)

    @cached_property
    def precision(self) -> Floats:
        """Inverse covariance of the known contexts, (n_known, n_known)."""
        return np.asarray(np.linalg.inv(_prior(self.trend)), dtype=np.float64)

    # What was never tried: left-out predictions tell nothing of it.

    def untried(self, contexts: ArrayLike) -> NDArray[np.bool_]:
        """Where (q, n_resources) contexts want a step that no left-out prediction had to make.

        A level of a resource is new to the known contexts, yet none that was left out had a level
        of that resource that was new to the rest; or it lies farther outside their range than any
        left-out one lay outside that of the rest.  (On a grid the neighbours of a context left out
        alone share its levels.)  Not so at a known level, whatever its resource.

        Returns
        -------
        ndarray of bool, (q,)
        """
        values, known = np.asarray(contexts, dtype=np.float64), self.trend.contexts
        outside = np.maximum(np.abs(self.trend.scaled(values)) - 0.5, 0.0)
        tried, reach = self._tried
        untried = np.zeros(len(values), dtype=bool)
        for r, column in enumerate(known.T):
            levels = np.unique(column)
            new = ~same_level(values[:, r, None], levels).any(axis=1)
            untried |= new & (~tried[r] | (outside[:, r] > reach[r] * (1 + 1e-9)))
        return untried

    @cached_property
    def _tried(self) -> tuple[NDArray[np.bool_], Floats]:
        """Whether a left-out level was new to the rest, and how far out one lay, (n_resources,)."""
        kept = ~self.left_out
        tried, reach = np.zeros(self.known.shape[1], dtype=bool), np.zeros(self.known.shape[1])
        for r, column in enumerate(self.trend.contexts.T):
            same = same_level(column[:, None], column)
            tried[r] = not (kept & same[self.context]).any(axis=1).all()
            z = self.known[:, r]
            lowest = np.where(kept, z, np.inf).min(axis=1)
            highest = np.where(kept, z, -np.inf).max(axis=1)
            mine = z[self.context]
            reach[r] = np.maximum(lowest - mine, mine - highest).max(initial=0.0)
        return tried, reach

    # In a file, beside the law.

    def to_arrays(self) -> dict[str, tuple[tuple[str, ...], NDArray]]:
        """What the law does not hold, as named arrays with their dimensions."""
        amounts = ("segment", "quantity")
        return {
            "context": (("row",), self.context),
            "left_out": (("row", "known"), self.left_out.astype(np.int8)),
            "weight": (("row",), self.weight),
            "doubt": (("row",), self.doubt),
            "predicted": (("row", *amounts), self.predicted),
            "state": (("pair", *amounts), self.state),
        }

    @classmethod
    def from_arrays(cls, law: Law, stored: StoredArrays) -> HeldOut:
        """What :meth:`to_arrays` described, beside the law that was calibrated.

        Raises
        ------
        ProfileError
            A name, shape, type or value that no left-out predictions of this law have.
        """
        centre, n = law.centre, len(law.contexts)
        used = _ended(law)
        n_runs = used.sum(axis=1)
        context = stored.indices("context", (None,), below=n)
        rows, amounts = len(context), (centre.segments, len(centre.trend.offset))
        stored.want(rows > 0, f"number of {stored.named('context')}", 0, "one or more")
        left_out = stored.indices("left_out", (rows, n), below=2).astype(bool)
        stored.want(
            left_out[np.arange(rows), context].all() and not left_out.all(axis=1).any(),
            stored.named("left_out"), "all of them or not a row's own", "a context and not all",
        )  # fmt: skip
        weight = stored.numbers("weight", (rows,), within=(0.0, 1.0))
        good = abs(weight.sum() - 1.0) < 1e-6
        stored.want(good, f"sum of {stored.named('weight')}", f"{weight.sum():g}", "1")
        predicted = stored.numbers("predicted", (rows, *amounts), within=_AMOUNTS)
        timed = np.all(predicted[..., 0].sum(axis=1) > 0)
        stored.want(timed, f"time in {stored.named('predicted')}", 0, "a positive number")
        pairs = int(n_runs[context].sum())
        state = stored.numbers("state", (pairs, *amounts), within=_AMOUNTS, missing=True)
        timed = not np.isnan(state[..., 0]).any()
        stored.want(timed, f"time in {stored.named('state')}", "NaN", "a number")
        return cls(
            trend=centre.trend,
            context=context,
            left_out=left_out,
            weight=weight,
            doubt=stored.numbers("doubt", (rows,), within=_DOUBTS),
            predicted=predicted,
            run_context=np.nonzero(used)[0],
            duration=law.duration[used],
            state=state,
        )


# Ranges in a file: seconds and events in a part of a run, and lengths of the metric.
_AMOUNTS, _DOUBTS = (0.0, 1e18), (0.0, 1e6)


@dataclass(frozen=True, eq=False)
class Asked:
    """Contexts that bounds are asked for; each answer is worked out where it is wanted.

    Attributes
    ----------
    held : HeldOut
    contexts : ndarray, (q, n_resources)
    """

    held: HeldOut
    contexts: Floats

    @cached_property
    def _z(self) -> Floats:
        return self.held.trend.scaled(self.contexts)

    @cached_property
    def near(self) -> Floats:
        """Weights of the known contexts around each, (q, n_known)."""
        radii = self.held.radii
        steps = self._z[:, None] / radii - self.held.known / radii
        return np.exp(-0.5 * np.einsum("qnm,qnm->qn", steps, steps)) + _FAR

    @cached_property
    def doubt(self) -> Floats:
        """How far each is from the known contexts, (q,).

        The deviation of the trend's Gaussian process, relative to that of its smooth part: a
        distance in the learned metric to all known contexts together.
        """
        held, z = self.held, self._z
        across = prior_covariance(z, held.known, held.trend.lengths[0])
        told = np.einsum("qn,qn->q", across @ held.precision, across)
        return np.sqrt(np.maximum(prior_variance(z) - told, 0.0))

    @cached_property
    def _state(self) -> Floats:
        return self.held.trend.predict(self.contexts)

    @cached_property
    def log_time(self) -> Floats:
        """Log of the predicted execution time, or other total, (q,)."""
        total = self._state[..., self.held.bounded].sum(axis=1)
        return np.log(np.maximum(total, np.finfo(float).tiny))

    @cached_property
    def predicted(self) -> Floats:
        """Predicted amounts per segment of progress, (q, segments, k)."""
        return _in_segments(self._state, self.held.segments)


@dataclass(frozen=True, eq=False)
class LeftOut:
    """The contexts that were left out, as they looked from the rest.

    Attributes
    ----------
    held : HeldOut
    """

    held: HeldOut

    @cached_property
    def near(self) -> Floats:
        """Weights of the known contexts around each, 0 for those left out with it, (rows, n)."""
        near = self.held.at(self.held.trend.contexts).near[self.held.context]
        return np.where(self.held.left_out, 0.0, near)

    @property
    def doubt(self) -> Floats:
        """How far each is from the contexts that were left, (rows,)."""
        return self.held.doubt

    @cached_property
    def log_time(self) -> Floats:
        """Log of the predicted execution time, or other total, (rows,)."""
        return np.log(self.held.predicted[..., self.held.bounded].sum(axis=1))


# Contexts to be bounded, and what the heads ask of them.
Places = Asked | LeftOut


def leave_out(
    law: Law,
    counts: Floats,
    *,
    folds: int | None = None,
    rng: np.random.Generator | int = 0,
    progress: OnProgress | None = None,
) -> HeldOut:
    """Predict the known contexts of a law from one another.

    Parameters
    ----------
    law : Law
        With a trend over contexts, on a progress clock.
    counts : ndarray, (n_known, n_runs, n_times, n_counters)
        Events per interval, that it was fitted to.
    folds : int, optional
        K ≥ 2: K random groups of contexts, with every choice of the trend made anew without them.
        Otherwise each context alone in closed form, and each inner level of a resource, with the
        parameters of the trend kept.
    rng : numpy.random.Generator or int
        Forms the groups.
    progress : callable
        Called with (done, total) groups.

    Raises
    ------
    ArgumentError
        A law without a trend; a number of folds that the contexts do not make.
    MeasurementError
        The clock is wall time; a single context.
    """
    centre, n = law.centre, len(law.contexts)
    if centre.clock == 0:
        raise MeasurementError(
            "the clock is wall time; bounds want a counter that counts work: name one in the "
            "attribute 'progress'."
        )
    if n == 1:
        raise MeasurementError(
            "there is 1 context; bounds want at least 2, as each is predicted from the others."
        )
    if folds is not None and not (folds == folds // 1 and 2 <= folds <= n):
        raise ArgumentError(f"folds is {folds}; 2 to {n}, the number of contexts, is wanted.")
    if folds is None:
        groups, weight = _singles_and_levels(law.contexts)
    else:
        groups, weight = _random_groups(n, int(folds), np.random.default_rng(rng))
    # a time that was scaled back by what the others say tells nothing of how far they err
    rows = np.concatenate(groups)
    weight = np.where(centre.mended[rows], 0.0, weight)
    weight = weight / weight.sum() if centre.mended.any() else weight
    used, means = _ended(law), law.known_states()
    # nor does a context of which every run was cut
    kept = np.asarray(used.any(axis=1))[rows]
    weight = np.where(kept, weight, 0.0) / weight[kept].sum() if not kept.all() else weight
    predicted, state = [], []
    for done, group in enumerate(groups):
        prior = _left_out_prediction(law, means, used, group, anew=folds is not None)
        predicted.append(_in_segments(prior, centre.segments))
        place, run = np.nonzero(used[group])
        if progress:
            progress(done + 1, len(groups))
        if len(run) == 0:
            continue
        mine = group[place], run
        steps = law.interval / centre.pace[mine] if centre.mended.any() else law.interval
        runs = (counts[mine], law.duration[mine], steps)
        own = sharpen(*runs, prior[place], knots=uniform_knots(prior.shape[1]), clock=centre.clock)
        state.append(_in_segments(own.state, centre.segments))
    left_out = np.repeat([np.isin(np.arange(n), g) for g in groups], [*map(len, groups)], axis=0)
    return HeldOut(
        trend=centre.trend,
        context=rows[kept],
        left_out=left_out[kept],
        weight=weight[kept],
        doubt=_doubt(centre.trend, groups)[kept],
        predicted=np.concatenate(predicted)[kept],
        run_context=np.nonzero(used)[0],
        duration=law.duration[used],
        state=np.concatenate(state),
    )


def _ended(law: Law) -> NDArray[np.bool_]:
    """Runs that were learned from and went on to their end, (n_known, n_runs).

    How long the others would have gone on is not known: they say nothing of bounds.
    """
    return np.isfinite(law.centre.total) & np.isfinite(law.duration)


def _left_out_prediction(
    law: Law, means: Floats, used: NDArray[np.bool_], group: Indices, *, anew: bool
) -> Floats:
    """Amounts per bin of a group of known contexts from all others, (group, bins, k)."""
    trend = law.centre.trend
    if len(group) == 1 and not anew:
        return trend.held_out[group]
    kept = np.setdiff1d(np.arange(len(law.contexts)), group)
    worth = trend.weights[kept]
    if anew:
        segments = law.centre.segments
        trend = fit_trend(law.contexts[kept], means[kept], weights=worth, segments=segments)
    else:
        known = law.contexts[kept]
        whole = tuple(replace(one, contexts=known) for one in trend.whole)
        trend = replace(trend, contexts=known, whole=whole)
        trend = trend.refit(means[kept], weights=worth)
    return trend.predict(law.contexts[group])


def _random_groups(n: int, folds: int, rng: np.random.Generator) -> tuple[list[Indices], Floats]:
    groups = [np.sort(group) for group in np.array_split(rng.permutation(n), folds)]
    return groups, np.full(n, 1.0 / n)


def _singles_and_levels(contexts: Floats) -> tuple[list[Indices], Floats]:
    """Each context alone and each level of a resource that lies between others; their weights."""
    n, levels = len(contexts), [rows for _, rows in inner_levels(contexts)]
    count = sum(map(len, levels))
    share = _LEVELS if levels else 0.0
    weight = np.repeat([(1.0 - share) / n, share / max(count, 1)], [n, count])
    return [np.array([i]) for i in range(n)] + levels, weight


def _doubt(trend: Trend, groups: Sequence[Indices]) -> Floats:
    """`Asked.doubt` of every context in every group, given the contexts outside it."""
    inverse, nugget = np.linalg.inv(_prior(trend)), trend.nugget[0]
    variance = [np.diag(np.linalg.inv(inverse[np.ix_(g, g)])) - nugget for g in groups]
    return np.sqrt(np.maximum(np.concatenate(variance), 0.0))


def _in_segments(state: Floats, segments: int) -> Floats:
    """Amounts per bin (n, bins, k) as amounts per segment, (n, segments, k)."""
    return state.reshape(len(state), segments, -1, state.shape[2]).sum(axis=2)


def _prior(trend: Trend) -> Floats:
    known = trend.scaled(trend.contexts)
    return prior_covariance(known, known, trend.lengths[0]) + trend.nugget[0] * np.eye(len(known))
