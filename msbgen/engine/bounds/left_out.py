"""Left-out predictions of known contexts, beside the runs measured there.

Conformal bounds are calibrated on these.  Each row is one known context, predicted from the
contexts outside the group that it was left out with: by the trend and the local mean of the context
residuals, as in a model without the group.  Counts at a left-out level are those of
:mod:`msbgen.engine.bounds.levels`.  The *deviation* of a row is the standard deviation of
the trend's Gaussian process there: a distance to the other contexts in the learned metric.  Its
*gap* is the distance of its level of one resource to theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.arrays import POSITIVE, SHARE, Stored
from msbgen.core.contexts import (
    are_many,
    inner_levels,
    nearest_distances,
    representative_contexts,
)
from msbgen.core.draws import generator, numbers_of
from msbgen.core.errors import ArgumentError, MeasurementError
from msbgen.core.machine import OnProgress
from msbgen.core.parts import Given
from msbgen.data.schema import same_level
from msbgen.engine.bounds.levels import OtherLevels
from msbgen.engine.generate.centre import Centre
from msbgen.engine.generate.distribution import ProfileDistribution
from msbgen.engine.generate.progress import deconvolve, uniform_knots
from msbgen.engine.trend.coordinates import names_for_all
from msbgen.engine.trend.deviations import Variance, level_gaps
from msbgen.engine.trend.fit import Trend, fit_trend
from msbgen.engine.trend.folds import Folds
from msbgen.engine.trend.time_model import Windows

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Radius of neighbourhoods, in median distances of a known context to its nearest.
_RADIUS = 1.5
# Weight of far contexts in a neighbourhood: where no context is near, all have equal weights.
_FAR = 1e-6
# Levels of at most this share of the contexts have few of the runs by which the counts of others
# are deconvolved.  Designs that visit every level have dozens, each as slow as a large one.
_SMALL_LEVEL = 0.1
# Of many contexts, so many are predicted and scored.
_MOST_SCORED = 1000
# Ranges in a file: seconds and events in a part of a run, and deviations.
AMOUNTS, _DEVIATIONS = (0.0, 1e18), (0.0, 1e6)


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Left-out predictions beside the measured runs; made by :func:`leave_out`.

    Pairs are left-out predictions × runs of their contexts.
    """

    # fitted to all known contexts; it predicts the mean at new ones
    centre: Annotated[Centre, Given("distribution.centre")]
    # (rows,): known context that each left-out prediction is for
    context: Annotated[Indices, Stored(("row",), dtype="i8", below="known")]
    # (rows, n_known): the contexts that were left out with it
    lacks: Annotated[NDArray[np.bool_], Stored(("row", "known"), dtype="bool")]
    # (rows,): sums to 1, in equal parts for each group that was left out as a whole
    weight: Annotated[Floats, Stored(("row",), SHARE)]
    # (rows,): of the trend's Gaussian process at the left-out context, given the rest
    deviation: Annotated[Floats, Stored(("row",), _DEVIATIONS)]
    # (rows, segments, k): left-out prediction of the amounts per segment of progress
    predicted: Annotated[Floats, Stored(("row", "segment", "quantity"), AMOUNTS)]
    # (runs,)
    run_context: Annotated[Indices, Stored(("run",), dtype="i8", below="known")]
    # (runs,): measured execution times [s], or totals of the quantity `bounded`
    duration: Annotated[Floats, Stored(("run",), POSITIVE)]
    # (pairs, segments, k): measured amounts per segment of progress, deconvolved within the
    # sampling intervals with the left-out prediction (`progress.deconvolve`)
    state: Annotated[Floats, Stored(("pair", "segment", "quantity"), AMOUNTS, missing=True)]
    bounded: int = 0  # quantity whose total over a run is bounded: 0 for the execution time

    def of_total(self, quantity: int) -> LeftOut:
        """Predictions for bounds on the total of another quantity, of the runs that hold it.

        MeasurementError where the total of some run, or of some prediction, is zero.
        """
        total = np.full(len(self.duration), np.nan)
        total[self._pairs[1]] = self.state[..., quantity].sum(axis=1)
        held = np.isfinite(total)
        positive = np.all(total[held] > 0) and held.any()
        if not (positive and np.all(self.predicted[..., quantity].sum(axis=1) > 0)):
            raise MeasurementError(
                "some run counted nothing of what is bounded; drop it, or measure it again."
            )
        if held.all():
            return replace(self, duration=total, bounded=quantity)
        rows = np.isin(self.context, self.run_context[held])
        return replace(
            self,
            context=self.context[rows],
            lacks=self.lacks[rows],
            weight=self.weight[rows] / self.weight[rows].sum(),
            deviation=self.deviation[rows],
            predicted=self.predicted[rows],
            run_context=self.run_context[held],
            duration=total[held],
            state=self.state[held[self._pairs[1]]],
            bounded=quantity,
        )

    @property
    def trend(self) -> Trend:
        """Trend of the centre."""
        return self.centre.trend

    @property
    def segments(self) -> int:
        """Segments of progress."""
        return self.predicted.shape[1]

    @cached_property
    def n_contexts(self) -> int:
        """Number of different contexts among the rows."""
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
        """Weight of each pair, (pairs,): that of its row in equal parts for the runs."""
        return (self.weight / self.n_runs[self.context])[self.row]

    def measuring(self, quantity: int) -> tuple[NDArray[np.bool_], Floats]:
        """Pairs whose run holds a quantity, (pairs,), and the weights of these."""
        measured = np.asarray(np.isfinite(self.state[..., quantity]).any(axis=1))
        if measured.all():
            return measured, self.share
        n_runs = np.bincount(self.row[measured], minlength=len(self.context))
        share = (self.weight / np.maximum(n_runs, 1))[self.row[measured]]
        return measured, share / share.sum()

    def like_new(self, quantity: int) -> tuple[NDArray[np.bool_], Floats]:
        """As :meth:`measuring`, with the weights that left-out contexts have among new ones.

        Contexts that were left out alone weigh by their `prevalence`.  All levels together weigh
        twice as much as all of these: new contexts are mostly at new levels.
        """
        measured, share = self.measuring(quantity)
        row = self.row[measured]
        alone = self.alone[row]
        share = np.where(alone, share * self.prevalence[self.context[row]], share)
        levels = share[~alone].sum()
        if levels > 0 and alone.any():
            share = np.where(alone, share, 2.0 * share * share[alone].sum() / levels)
        return measured, share / share.sum()

    @cached_property
    def prevalence(self) -> Floats:
        """Number of new contexts that each known context stands for, (n_known,), relative.

        By the trapezoidal rule: half of it for each resource that is at an end of its range.
        """
        known = self.trend.contexts
        return 0.5 ** ((known == known.min(axis=0)) | (known == known.max(axis=0))).sum(axis=1)

    @cached_property
    def n_runs(self) -> Indices:
        """Number of runs of each known context, (n_known,)."""
        return np.bincount(self.run_context, minlength=len(self.trend.contexts))

    @cached_property
    def log_time(self) -> Floats:
        """Log of the measured execution time, or other total, (pairs,)."""
        return np.log(self.duration)[self._pairs[1]]

    @cached_property
    def floor(self) -> Floats:
        """Amounts per segment (k,) below which the trend is additive."""
        return self.trend.offset * (self.trend.mean.shape[1] // self.segments)

    # Groups that were left out together.

    @cached_property
    def groups(self) -> list[Indices]:
        """Rows of each group of contexts that were left out together."""
        _, group = np.unique(self.lacks, axis=0, return_inverse=True)
        return [np.flatnonzero(group.ravel() == g) for g in range(group.max() + 1)]

    @cached_property
    def levels(self) -> list[tuple[int, Indices]]:
        """Groups that are a whole level: the resource, and the rows with a weight."""
        found = []
        for rows in self.groups:
            contexts = self.trend.contexts[self.context[rows]]
            one = same_level(contexts, contexts[0]).all(axis=0)
            one &= self.left_out_rows.new[rows].all(axis=0)
            rows = rows[self.weight[rows] > 0]
            if len(np.unique(self.context[rows])) > 1:
                found += [(int(r), rows) for r in np.flatnonzero(one)]
        return found

    @cached_property
    def alone(self) -> NDArray[np.bool_]:
        """Rows with a weight that are of no level that was left out as a whole, (rows,)."""
        alone = self.weight > 0
        for _, rows in self.levels:
            alone[rows] = False
        return alone

    def measured(self, contexts: Floats) -> Indices:
        """Known context of each of contexts (q, n_resources); -1 for those without runs, (q,)."""
        place = {key: i for i, key in enumerate(_keys(self.trend.contexts)) if self.n_runs[i] > 0}
        return np.array([place.get(key, -1) for key in _keys(contexts)], dtype=np.int64)

    # Queried contexts and left-out contexts have the same features.

    def query(self, contexts: ArrayLike) -> Query:
        """Features of contexts (q, n_resources)."""
        return Query(self, numbers_of(contexts, "contexts"))

    @cached_property
    def left_out_rows(self) -> RowFeatures:
        """Features of the left-out contexts."""
        return RowFeatures(self)

    @cached_property
    def known(self) -> Floats:
        """Known contexts in the coordinates of the trend, (n_known, n_resources)."""
        return self.trend.scaled(self.trend.contexts)

    @cached_property
    def radii(self) -> Floats:
        """Radius of a neighbourhood along each resource, in these coordinates, (n_resources,)."""
        nearest = nearest_distances(self.known / self.trend.mean_lengths)
        return self.trend.mean_lengths * _RADIUS * max(float(np.median(nearest)), 1e-12)

    @cached_property
    def variance(self) -> Variance:
        """Variances of the trend's Gaussian process of time."""
        return self.centre.variance

    # Steps that left-out predictions did not test.

    def untested(self, contexts: ArrayLike) -> NDArray[np.bool_]:
        """Contexts (q, n_resources) at a step that no left-out prediction tested, (q,).

        A level of a resource is new to the known contexts, but no left-out context had a level of
        that resource that was new to the rest.  Or the level is farther outside the known range
        than any left-out one was outside that of the rest.  (On a grid the neighbours of a context
        left out alone share its levels.)  A known level is no such step.
        """
        query = self.query(contexts)
        outside = np.maximum(np.abs(self.trend.scaled(query.contexts)) - 0.5, 0.0)
        tested, reach = self._tested
        return np.asarray((query.new & (~tested | (outside > reach * (1 + 1e-9)))).any(axis=1))

    @cached_property
    def _tested(self) -> tuple[NDArray[np.bool_], Floats]:
        """Resources with a left-out new level, and its largest distance outside, (n_resources,)."""
        kept, reach = ~self.lacks, np.zeros(self.known.shape[1])
        for r, z in enumerate(self.known.T):
            lowest = np.where(kept, z, np.inf).min(axis=1)
            highest = np.where(kept, z, -np.inf).max(axis=1)
            level = z[self.context]
            reach[r] = np.maximum(lowest - level, level - highest).max(initial=0.0)
        return np.asarray(self.left_out_rows.new.any(axis=0)), reach

    def problems(self) -> Iterator[tuple[str, object, str]]:
        """What is wrong with stored predictions."""
        rows, n = self.lacks.shape
        amounts = self.centre.segments, self.centre.n_quantities
        if n != len(self.centre.trend.contexts) or self.predicted.shape[1:] != amounts:
            yield "predicted", "of other contexts or quantities", "those of the distribution"
            return
        if self.bounded:
            yield "bounded", self.bounded, "0, the execution time"
        if not np.isin(self.context, self.run_context).all():
            yield "context", "one without a run", "one with a run"
        if len(self.state) != len(self.row):
            yield "state", f"of {len(self.state)} pairs", str(len(self.row))
        if np.isnan(self.state[..., 0]).any():
            yield "state", "NaN for a time", "a number"
        if rows == 0 and n == 1:  # a single context has no left-out predictions
            return
        if rows == 0:
            yield "context", "empty", "one or more"
        if not (self.predicted[..., 0].sum(axis=1) > 0).all():
            yield "predicted", "0 for the time of a row", "a positive number"
        own = self.lacks[np.arange(rows), self.context]
        if not own.all() or self.lacks.all(axis=1).any():
            yield "lacks", "all of them or not a row's own", "a context and not all"
        if not abs(self.weight.sum() - 1.0) < 1e-6:
            yield "weight", f"of sum {self.weight.sum():g}", "a sum of 1"


@dataclass(frozen=True, eq=False)
class Query:
    """Features of contexts to be bounded (q, n_resources), each computed at its first use."""

    left_out: LeftOut
    contexts: Floats

    @cached_property
    def _z(self) -> Floats:
        return self.left_out.trend.scaled(self.contexts)

    @cached_property
    def near(self) -> Floats:
        """Weights of the known contexts around each, (q, n_known)."""
        radii = self.left_out.radii
        steps = self._z[:, None] / radii - self.left_out.known / radii
        return np.exp(-0.5 * np.einsum("qnm,qnm->qn", steps, steps)) + _FAR

    @cached_property
    def deviation(self) -> Floats:
        """Standard deviation of the trend's Gaussian process at each context, (q,).

        Relative to that of its smooth part: a distance in the learned metric to all known contexts
        together.
        """
        return np.sqrt(self.left_out.variance.at(self._z))

    @cached_property
    def new(self) -> NDArray[np.bool_]:
        """Whether the level of a resource is new to the known contexts, (q, n_resources)."""
        return _new_levels(self.contexts, self.left_out.trend.contexts)

    @cached_property
    def gap(self) -> Floats:
        """Deviation given the known levels of each resource alone, (q, n_resources).

        0 at a known level.
        """
        return level_gaps(self.new, self._z, self.left_out.known, self.left_out.trend.lengths[0])

    def _amounts(self, only: slice = slice(None)) -> Floats:
        """Predicted amounts per bin of the quantities `only`, (q, bins, k)."""
        centre = self.left_out.centre
        return centre.amounts(self.contexts, centre.log_weights(self.contexts), only)

    @cached_property
    def log_time(self) -> Floats:
        """Log of the predicted execution time, or other total, (q,)."""
        quantity = self.left_out.bounded
        total = self._amounts(slice(quantity, quantity + 1)).sum(axis=(1, 2))
        return np.log(np.maximum(total, np.finfo(float).tiny))

    @cached_property
    def predicted(self) -> Floats:
        """Predicted amounts per segment of progress, (q, segments, k)."""
        return in_segments(self._amounts(), self.left_out.segments)


@dataclass(frozen=True, eq=False)
class RowFeatures:
    """Features of the left-out contexts, given the contexts that were kept."""

    left_out: LeftOut

    @cached_property
    def near(self) -> Floats:
        """Weights of the known contexts around each, 0 for those left out with it, (rows, n)."""
        left_out = self.left_out
        contexts, place = np.unique(left_out.context, return_inverse=True)
        near = left_out.query(left_out.trend.contexts[contexts]).near[place]
        return np.where(left_out.lacks, 0.0, near)

    @property
    def deviation(self) -> Floats:
        """Deviation of the Gaussian process given the kept contexts, (rows,)."""
        return self.left_out.deviation

    @cached_property
    def new(self) -> NDArray[np.bool_]:
        """Whether the level of a resource is new to the kept contexts, (rows, n_resources)."""
        left_out, contexts = self.left_out, self.left_out.trend.contexts
        new = np.zeros((len(left_out.context), left_out.known.shape[1]), bool)
        for rows in left_out.groups:
            new[rows] = _new_levels(
                contexts[left_out.context[rows]], contexts[~left_out.lacks[rows[0]]]
            )
        return new

    @cached_property
    def gap(self) -> Floats:
        """Deviation given the kept levels of each resource alone, (rows, n_resources)."""
        left_out, gap = self.left_out, np.zeros(self.new.shape)
        for rows in left_out.groups:
            z, kept = (
                left_out.known[left_out.context[rows]],
                left_out.known[~left_out.lacks[rows[0]]],
            )
            gap[rows] = level_gaps(self.new[rows], z, kept, left_out.trend.lengths[0])
        return gap

    @cached_property
    def log_time(self) -> Floats:
        """Log of the predicted execution time, or other total, (rows,)."""
        return np.log(self.left_out.predicted[..., self.left_out.bounded].sum(axis=1))


# Features that widths and bounds are computed from.
Features = Query | RowFeatures


def leave_out(
    distribution: ProfileDistribution,
    counts: Floats,
    *,
    folds: int | None = None,
    rng: np.random.Generator | int = 0,
    progress: OnProgress | None = None,
) -> LeftOut:
    """Left-out predictions of the known contexts of a distribution with a trend.

    The distribution was fitted to `counts` (n_known, n_runs, n_times, n_counters).  The other
    arguments and the errors are those of :func:`msbgen.engine.bounds.model.calibrate_model`.
    """
    centre, n = distribution.centre, len(distribution.contexts)
    if centre.clock == 0:
        raise MeasurementError(
            "the clock is wall time; bounds want a counter that counts work: name one by --clock "
            "of msbgen import, or in the attribute 'progress'."
        )
    if n == 1:
        return _of_single_context(distribution)
    if folds is not None and not (folds == folds // 1 and 2 <= folds <= n):
        raise ArgumentError(f"folds is {folds}; 2 to {n}, the number of contexts, is wanted.")
    many = are_many(distribution.contexts) and folds is None
    # of many contexts, representative ones are scored; levels are left out as a whole all the same
    scored = representative_contexts(distribution.contexts, _MOST_SCORED) if many else np.arange(n)
    if folds is None:
        whole = [np.array([i]) for i in scored]
        whole += [rows for _, rows in inner_levels(distribution.contexts)]
    else:
        order = generator(rng).permutation(n)
        whole = [np.sort(group) for group in np.array_split(order, int(folds))]
    whole = [group for group in whole if np.isin(group, scored).any()]
    groups = [group[np.isin(group, scored)] for group in whole]
    # a time that was scaled to the prediction of the others has no independent error
    rows = np.concatenate(groups)
    # each group has the same weight; those alone that are scored stand for all
    share = [n / len(scored) if len(group) == 1 else 1.0 for group in whole]
    weight = np.concatenate([np.full(len(g), s / len(g)) for g, s in zip(groups, share)])
    weight = np.where(centre.time_imputed[rows], 0.0, weight)
    weight /= weight.sum()
    used, means = _ended(distribution), distribution.known_states()
    # nor has a context of which every run was cut
    kept = np.asarray(used.any(axis=1))[rows]
    weight = np.where(kept, weight, 0.0) / weight[kept].sum()
    predicted, state, n_bins = [], [], means.shape[1]
    ahead = _left_out_of_many(centre, scored) if many else None
    # of many contexts, levels are close
    large = [len(group) > max(1, _SMALL_LEVEL * n) for group in groups]
    exact = folds is None and not many and any(large)
    levels = OtherLevels.of(distribution, counts, used) if exact else None
    for done, group in enumerate(groups):
        if ahead is not None:
            prior = next(ahead)
        else:
            prior = left_out_prediction(distribution, means, group, anew=folds is not None)
        if levels is not None and large[done]:
            prior = levels.predicted(group, prior)
        predicted.append(in_segments(prior, centre.segments))
        member, run = np.nonzero(used[group])
        if progress:
            progress(done + 1, len(groups))
        if len(run) == 0:
            continue
        rows_of = group[member], run
        interval = (
            distribution.interval / centre.slowdown[rows_of]
            if centre.is_corrected
            else distribution.interval
        )
        runs, knots = (
            (counts[rows_of], distribution.duration[rows_of], interval),
            uniform_knots(n_bins),
        )
        sharp = deconvolve(*runs, prior[member], knots=knots, clock=centre.clock)
        state.append(in_segments(sharp.state, centre.segments))
    lacks = np.repeat([np.isin(np.arange(n), g) for g in whole], [*map(len, groups)], axis=0)
    of_scored = np.concatenate([np.isin(group, scored) for group in whole])
    deviation = np.sqrt(centre.variance.left_out(whole))[of_scored]
    return LeftOut(
        centre=centre,
        context=rows[kept],
        lacks=lacks[kept],
        weight=weight[kept],
        deviation=deviation[kept],
        predicted=np.concatenate(predicted)[kept],
        run_context=np.nonzero(used)[0],
        duration=distribution.duration[used],
        state=np.concatenate(state),
    )


def _of_single_context(distribution: ProfileDistribution) -> LeftOut:
    """No left-out predictions, beside the runs of the only context."""
    centre, used = distribution.centre, _ended(distribution)
    amounts = centre.segments, len(centre.trend.offset)
    return LeftOut(
        centre=centre,
        context=np.empty(0, dtype=np.int64),
        lacks=np.empty((0, 1), dtype=bool),
        weight=np.empty(0),
        deviation=np.empty(0),
        predicted=np.empty((0, *amounts)),
        run_context=np.nonzero(used)[0],
        duration=distribution.duration[used],
        state=np.empty((0, *amounts)),
    )


def _keys(contexts: Floats) -> list[tuple[str, ...]]:
    """Levels of contexts (q, m) to six digits: equal for levels that are the same."""
    return [tuple(f"{level:.6g}" for level in row) for row in contexts.tolist()]


def _ended(distribution: ProfileDistribution) -> NDArray[np.bool_]:
    """Complete runs that the distribution was fitted to, (n_known, n_runs).

    The duration of the others is not known.
    """
    return np.isfinite(distribution.centre.total) & np.isfinite(distribution.duration)


def left_out_prediction(
    distribution: ProfileDistribution, means: Floats, group: Indices, *, anew: bool
) -> Floats:
    """Amounts per bin of a group of known contexts from all others, (group, bins, k)."""
    centre, contexts = distribution.centre, distribution.contexts
    if len(group) == 1 and not anew:
        return centre.left_out_alone[group]
    kept = np.setdiff1d(np.arange(len(contexts)), group)
    weights, trend = centre.trend.weights[kept], centre.trend
    if anew:
        trend = fit_trend(
            contexts[kept], means[kept], weights=weights, segments=centre.segments,
            coordinates=names_for_all(contexts[kept], contexts),
        )  # fmt: skip
        if centre.trend.time_model:
            trend = trend.with_time_model(Windows.of_bins(means[kept][..., 0]))
    else:
        trend = trend.refit(means[kept], weights=weights, contexts=contexts[kept])
    others = centre.of_others(kept, means[kept], trend, anew=anew)
    return others.amounts(contexts[group], others.log_weights(contexts[group]))


def _left_out_of_many(centre: Centre, scored: Indices) -> Iterator[Floats]:
    """Amounts per bin of scored contexts alone, then of those of each level, from all others.

    The residuals of the others are those of the trend of all contexts.
    """
    folds = Folds.of(centre.trend.contexts)
    predicted = centre.left_out(folds)
    yield from predicted[scored][:, None]
    for group in folds.groups:
        members = np.isin(folds.members[group], scored)
        if members.any():
            yield predicted[folds.singles + np.arange(group.start, group.stop)[members]]


def _new_levels(values: Floats, known: Floats) -> NDArray[np.bool_]:
    """Whether levels (q, n_resources) differ from all known ones (n, n_resources)."""
    levels = [np.unique(column) for column in known.T]
    new = [~same_level(v[:, None], levels[r]).any(axis=1) for r, v in enumerate(values.T)]
    return np.stack(new, axis=1)


def in_segments(state: Floats, segments: int) -> Floats:
    """Amounts per bin (n, bins, k) as amounts per segment, (n, segments, k)."""
    return state.reshape(len(state), segments, -1, state.shape[2]).sum(axis=2)
