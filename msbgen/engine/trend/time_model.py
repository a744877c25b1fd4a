"""The time model: the time of all bins of progress, fitted to every sampling interval at once.

A sampling interval that covers many bins gives only the sum of their times.  But other runs are
sampled at other offsets, and in other contexts an interval covers other bins.  One model for all
contexts combines them:

    t(β, p) = E max(u, c·X),    u(β, p) = Σ_i a_i(p)/β_i + Σ_k b_k(p)·counter_k(β, p) + d(p).

The time u without a cap has parts that are inverse to a level (work at a clock, lines at a
bandwidth), proportional to a counter (the cost of an event), and constant.  None is negative.  c is
the least time that the rate of a cap allows.  X is the unevenness of the capped counter within a
bin, log-normal with a width per bin (:mod:`msbgen.engine.trend.caps`).  An interval takes Σ
overlap·t.

The fit is a damped Gauss-Newton method in the logarithms of a, b, d and the width, robust by
Huber's weights.  All intervals have equal noise, so that short last ones get no more weight.  Only
bins within one interval interact, so that the normal equations are banded.  First all bins share
the parameters, and differ by their counts alone.  Then each bin has parameters of its own, shrunk
to the shared ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from msbgen.core.arrays import NOT_NEGATIVE, POSITIVE, SHARE, Stored
from msbgen.core.lazy import lazy_module
from msbgen.engine.trend.caps import Cap, throttled
from msbgen.engine.trend.folds import Folds

_kernels = lazy_module("msbgen.engine.trend._kernels")
linalg = lazy_module("scipy.linalg")

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.int64]

# The most counters whose events cost time: more say little that these do not.
_MOST_COUNTERS = 8

# Shrinkage of a bin's logarithms to those that all bins share, per window and bin.
_RIDGE = 0.01
# Residuals beyond so many deviations enter the loss linearly.
_HUBER = 3.0
# Least noise, over the mean time of a window.
_LEAST_NOISE = 1e-6
# The most iterations, and the least share of the loss that an iteration must gain.
_MOST_ITERATIONS, _GAIN = 20, 1e-4
_DAMPING, _LEAST_DAMPING, _MOST_TRIALS = 1e-3, 1e-6, 8
# Longest step of a logarithm; least logarithm of a part relative to its start.
_LONGEST_STEP, _LOWEST = 2.0, -60.0
# First width of the knee, and its range.
_FIRST_WIDTH, _WIDTHS = 0.3, (0.02, 2.0)


@dataclass(frozen=True, eq=False)
class Windows:
    """Intervals of progress with the time of each, of runs in several contexts."""

    context: Indices  # (w,)
    begin: Floats  # (w,) in bins of progress
    end: Floats  # (w,) in bins, above begin
    time: Floats  # (w,) [s]
    shape: tuple[int, int]  # number of contexts and bins
    are_bins: bool = False  # whether each window is a bin, in their order

    @classmethod
    def of_runs(
        cls,
        position: Floats,
        time: Floats,
        context: Indices,
        shape: tuple[int, int],
        untimed: Floats | None = None,
    ) -> Windows:
        """The sampling intervals of runs, from the progress at their edges and their times [s].

        Progress (runs, intervals + 1) goes from 0 to 1 without decreasing; times are (runs,
        intervals).  Time without progress belongs to the window before it; at the start, to the
        window after it.  Intervals between the progress `untimed` (runs, 2) are left out.
        """
        reached = np.concatenate([np.zeros((len(time), 1)), np.cumsum(time, axis=1)], axis=1)
        moves = position[:, 1:] > position[:, :-1]
        edge = np.concatenate([moves, np.ones((len(time), 1), dtype=bool)], axis=1)
        run, place = np.nonzero(edge)
        same = run[1:] == run[:-1]
        first = np.concatenate([[True], ~same])
        # a run starts at time zero, also before its progress does
        begin, start = position[run, place], np.where(first, 0.0, reached[run, place])
        begin, end = begin[:-1][same], begin[1:][same]
        spent = reached[run, place][1:][same] - start[:-1][same]
        bins, run = shape[1], run[:-1][same]
        if untimed is not None:
            middle = 0.5 * (begin + end)
            timed = (middle <= untimed[run, 0]) | (middle >= untimed[run, 1])
            run, begin, end, spent = run[timed], begin[timed], end[timed], spent[timed]
        return cls(context[run], begin * bins, np.minimum(end, 1.0) * bins, spent, shape)

    @classmethod
    def of_bins(cls, times: Floats) -> Windows:
        """One window per bin, from the times (n, bins) of bins [s]."""
        n, bins = times.shape
        begin = np.tile(np.arange(float(bins)), n)
        context = np.repeat(np.arange(n), bins)
        return cls(context, begin, begin + 1, times.ravel(), times.shape, are_bins=True)

    def predicted(self, times: Floats) -> Floats:
        """Time of the windows (w,) from the times (n, bins) of bins [s]."""
        if self.are_bins:
            return times.ravel()
        out = np.empty(len(self.time))
        _kernels.window_times(self.context, self.begin, self.end, times, out)
        return out

    def sums(self, values: Floats) -> Floats:
        """Sums over windows of a value (w,) times the overlap with each bin, (n, bins)."""
        if self.are_bins:
            return values.reshape(self.shape)
        out = np.zeros(self.shape)
        _kernels.window_sums(self.context, self.begin, self.end, values, out)
        return out

    def products(self, weight: Floats) -> Floats:
        """Weighted sums over windows of the overlaps with bins j and j + o, (n, o, bins)."""
        n, bins = self.shape
        if self.are_bins:
            return weight.reshape(n, 1, bins)
        first, last = np.floor(self.begin), np.ceil(self.end)
        out = np.zeros((n, int((last - first).max(initial=1)), bins))
        _kernels.window_products(self.context, self.begin, self.end, weight, out)
        return out

    def error(self, times: Floats, folds: Folds) -> float:
        """Weighted mean |predicted − measured| of windows in left-out contexts [s].

        times (rows, bins) are predictions for the rows of the folds, which also have the weights.
        """
        count = np.maximum(np.bincount(self.context, minlength=self.shape[0]), 1)
        bins, total = np.zeros(self.shape), 0.0
        rows = [slice(0, folds.singles)]
        rows += [slice(folds.singles + g.start, folds.singles + g.stop) for g in folds.groups]
        for part in rows:
            context = folds.index[part]
            bins[context] = times[part]
            error = np.abs(self.predicted(bins) - self.time)
            sums = np.bincount(self.context, error, self.shape[0])
            total += float(folds.weight[part] @ (sums / count)[context])
        return total


@dataclass(frozen=True, eq=False)
class TimeModel:
    """The parts of the time of each bin."""

    # (m + k, bins): a [s · level], b [s/event], d [s]; 0 for constant resources
    parts: Annotated[Floats, Stored(("part", "bin"), NOT_NEGATIVE)]
    # (bins,): unevenness of the capped counter in a bin, unused without a cap
    width: Annotated[Floats, Stored(("bin",), POSITIVE)]
    # (m + k + 1,): the parts and the width that all bins share
    common: Annotated[Floats, Stored(("shared",), NOT_NEGATIVE)]
    # (k − 1,): weight of the sums' own trend in the predicted sums, 0 to 1
    summed: Annotated[Floats, Stored(("counter",), SHARE)]

    @property
    def costly(self) -> Bools:
        """The counters whose events cost time, (k − 1,)."""
        return self.common[-2 - len(self.summed) : -2] > 0

    def time(self, levels: Floats, counts: Floats, caps: tuple[Cap, ...]) -> tuple[Floats, Floats]:
        """Time at contexts [s] and its derivative by the free time, in logarithms, (q, bins) each.

        levels (q, m), counts (q, bins, k − 1).
        """
        m = levels.shape[1]
        free, term = np.empty(counts.shape[:2]), np.empty(counts.shape[:2])
        free[:] = self.parts[-1]
        for level, work in zip(levels.T, self.parts):
            if work.any():  # a level may be zero where its part is
                free += np.divide(work, level[:, None], out=term)
        for counted, cost in zip(np.moveaxis(counts, 2, 0), self.parts[m:]):
            if cost.any():
                free += np.multiply(counted, cost, out=term)
        for cap in caps:
            return throttled(free, least_time(cap, levels, counts), self.width)
        return free, np.ones_like(free)


def least_time(cap: Cap, levels: Floats, counts: Floats) -> Floats:
    """Least time under a cap of counts (q, bins, k − 1), (q, bins) [s]."""
    return counts[..., cap.counter - 1] / (cap.rate * levels[:, cap.resource, None])


def costly_counters(counts: Floats) -> Bools:
    """The counters (k − 1,) of counts (n, bins, k − 1) that vary most and least alike.

    All of a few; of many those of a QR decomposition with pivoting of the logarithms.
    """
    costly = np.ones(counts.shape[2], dtype=bool)
    if len(costly) > _MOST_COUNTERS:
        logs = np.log(np.maximum(counts, 1e-6 * counts.mean(axis=(0, 1)) + 1e-300))
        logs = (logs - logs.mean(axis=(0, 1))).reshape(-1, len(costly))
        factors: Any = linalg.qr(logs, mode="r", pivoting=True, check_finite=False)
        costly[factors[1][_MOST_COUNTERS:]] = False
    return costly


def fit_time_model(problem: TimeProblem, summed: Floats) -> TimeModel:
    """Fit the model to the times of windows; `summed` as in `TimeModel`.

    O(windows · b² + (n · b + P · b²) · P² · bins) an iteration, b the bins that a window holds and
    P the parts.
    """
    common = problem.descend(problem.start, problem.start, 0.0, tied=True)
    return problem.model(problem.descend(common, common, _RIDGE), common, summed)


def refit_time_model(model: TimeModel, problem: TimeProblem) -> TimeModel:
    """The model of other times of bins, started from a model and shrunk to its common part."""
    start, common = problem.parameters(model)
    return problem.model(problem.descend(start, common, _RIDGE), common, model.summed)


def left_out_times(
    model: TimeModel, problem: TimeProblem, folds: Folds, left_out_counts: Floats
) -> Floats:
    """Time of each row of the folds under the model of all other contexts, (rows, bins) [s].

    One step of Newton's method from the model of all contexts: exact where the model is linear.
    The problem has one window per bin; the counts (rows, bins, k − 1) are predictions of all
    others.
    """
    logs, common = problem.parameters(model)
    steps = problem.steps_without(logs, common, folds)
    out = np.empty(left_out_counts.shape[:2])
    groups = [np.array([i]) for i in range(folds.singles)]
    groups += [folds.singles + np.arange(g.start, g.stop) for g in folds.groups]
    for rows, step in zip(groups, steps):
        moved = problem.model(logs + step, common, model.summed)
        levels = problem.levels[folds.index[rows]]
        out[rows] = moved.time(levels, left_out_counts[rows], problem.caps)[0]
    return out


@dataclass(frozen=True, eq=False)
class _Evaluation:
    """The times of bins at some logarithms, and the factors of their derivatives."""

    time: Floats  # (n, bins)
    free: Floats  # (n, bins), without caps
    share: Floats  # (n, bins): ∂ log time / ∂ log free
    parts: Floats  # (bins, parts)
    width: Floats  # (bins,)
    residual: Floats  # (w,)


class TimeProblem:
    """Least squares in the logarithms (bins, P) of the parts and, under a cap, the width.

    `levels` (n, m) and `weights` (n,) are of the contexts, `counts` (n, bins, k − 1) of each bin
    there; the rate of the cap, if there is one, is kept.  The events of the `costly` counters
    (k − 1,), by default :func:`costly_counters`, take time; P counts only these.
    """

    def __init__(
        self,
        windows: Windows,
        levels: Floats,
        counts: Floats,
        caps: tuple[Cap, ...],
        weights: Floats,
        costly: Bools | None = None,
    ) -> None:
        self.levels, self.caps = levels, caps
        costly = costly_counters(counts) if costly is None else costly
        self._used = np.concatenate([np.ones(levels.shape[1], dtype=bool), costly, [True]])
        self._windows, self._weights = windows, weights[windows.context]
        n, bins = windows.shape
        self._varies = np.array([np.ptp(level) > 0 and level.min() > 0 for level in levels.T])
        inverse = np.where(self._varies, 1.0 / np.where(self._varies, levels, 1.0), 0.0)
        steady = np.broadcast_to(inverse[:, None], (n, bins, levels.shape[1]))
        terms = np.concatenate([steady, counts[..., costly], np.ones((n, bins, 1))], axis=2)
        self._terms = np.ascontiguousarray(np.moveaxis(terms, 2, 0))  # (parts, n, bins)
        self._capped = bool(caps)
        self._least = np.zeros((n, bins))
        for cap in caps:
            self._least = least_time(cap, levels, counts)

    @property
    def start(self) -> Floats:
        """Logarithms of parts that have equal shares of the mean time, equal in all bins."""
        size = self._terms.mean(axis=(1, 2))
        length = (self._windows.end - self._windows.begin).sum()
        share = self._windows.time.sum() / length / len(size)
        logs = np.log(share / np.where(size > 0, size, 1.0))
        one = np.append(logs, np.log(_FIRST_WIDTH)) if self._capped else logs
        return np.tile(one, (self._windows.shape[1], 1))

    def parameters(self, model: TimeModel) -> tuple[Floats, Floats]:
        """Logarithms (bins, P) of a model: of each bin, and those that all bins share."""
        parts = np.log(np.maximum(model.parts[self._used].T, np.exp(_LOWEST)))
        common = np.append(model.common[:-1][self._used], model.common[-1])
        shared = np.log(np.maximum(common, np.exp(_LOWEST)))
        if not self._capped:
            return parts, np.tile(shared[:-1], (len(parts), 1))
        logs = np.concatenate([parts, np.log(model.width)[:, None]], axis=1)
        return logs, np.tile(shared, (len(parts), 1))

    def model(self, logs: Floats, common: Floats, summed: Floats) -> TimeModel:
        """The model of given logarithms; the inverse of :meth:`parameters`."""
        (own, width), (shared, shared_width) = self._split(logs), self._split(common)
        parts, every = np.zeros((len(self._used), len(own))), np.zeros(len(self._used))
        parts[self._used], every[self._used] = own.T, shared[0]
        return TimeModel(parts, width, np.append(every, shared_width[0]), summed)

    def _split(self, logs: Floats) -> tuple[Floats, Floats]:
        parts = np.exp(logs[:, : len(self._terms)])
        parts[:, : len(self._varies)] *= self._varies
        if not self._capped:
            return parts, np.full(len(parts), _FIRST_WIDTH)
        return parts, np.clip(np.exp(logs[:, -1]), *_WIDTHS)

    def _evaluate(self, logs: Floats) -> _Evaluation:
        parts, width = self._split(logs)
        free, one = np.zeros(self._terms.shape[1:]), np.empty(self._terms.shape[1:])
        for term, part in zip(self._terms, parts.T):
            free += np.multiply(term, part, out=one)
        np.maximum(free, 1e-300, out=free)
        time, share = free, np.ones_like(free)
        if self._capped:
            time, share = throttled(free, self._least, width)
        residual = self._windows.time - self._windows.predicted(time)
        return _Evaluation(time, free, share, parts, width, residual)

    def _deviation(self, residual: Floats) -> float:
        """Robust standard deviation of residuals [s]."""
        typical = 1.4826 * float(np.median(np.abs(residual)))
        return max(typical, _LEAST_NOISE * float(self._windows.time.mean()), 1e-100)

    def _loss(self, residual: Floats, deviation: float) -> float:
        """Weighted Huber loss of residuals (w,)."""
        size = np.abs(residual)
        size /= deviation
        squared = np.minimum(size, _HUBER)
        return float(self._weights @ ((size - 0.5 * squared) * squared))

    def _weight(self, residual: Floats, deviation: float) -> Floats:
        """Weight of each window in the normal equations, (w,)."""
        size = np.abs(residual) / deviation
        return self._weights * np.minimum(1.0, _HUBER / np.maximum(size, 1e-9)) / deviation**2

    def _jacobian(self, at: _Evaluation) -> Floats:
        """∂ time / ∂ logarithms, (P, n, bins)."""
        m = len(self._terms)
        jacobian = np.empty((m + self._capped, *at.time.shape))
        np.multiply(self._terms, at.parts.T[:, None], out=jacobian[:m])
        if self._capped:
            jacobian[:m] *= at.share * at.time / at.free
            # ∂/∂log w of E max(u, cX): c·w·φ(log(c/u)/w + w/2)
            ratio = np.log(np.maximum(self._least, 1e-300) / at.free)
            density = np.exp(-0.5 * (ratio / at.width + 0.5 * at.width) ** 2)
            jacobian[m] = self._least * (density / np.sqrt(2 * np.pi)) * at.width
        return jacobian

    def descend(self, start: Floats, prior: Floats, ridge: float, *, tied: bool = False) -> Floats:
        """Logarithms of the least loss near a start; equal in all bins if `tied`."""
        logs, damping = start, _DAMPING
        bins, width = start.shape
        precision = ridge * len(self._windows.time) / bins

        def penalty(logs: Floats) -> float:
            return 0.5 * float(precision * ((logs - prior) ** 2).sum())

        at = self._evaluate(logs)
        for _ in range(_MOST_ITERATIONS):
            deviation = self._deviation(at.residual)
            weight, jacobian = self._weight(at.residual, deviation), self._jacobian(at)
            least = self._loss(at.residual, deviation) + penalty(logs)
            slope = self._windows.sums(weight * at.residual)
            gradient = np.einsum("pnb,nb->bp", jacobian, slope) - precision * (logs - prior)
            products = self._windows.products(weight)
            normal = np.zeros((products.shape[1], width, width, bins))
            _kernels.add_normal(products, jacobian, normal)
            solve: Any = _Tied(normal, gradient) if tied else _Banded(normal, gradient, precision)
            for _ in range(_MOST_TRIALS):
                step = np.clip(solve(damping), -_LONGEST_STEP, _LONGEST_STEP)
                moved = np.maximum(logs + step, _LOWEST + start)
                if self._capped:
                    moved[:, -1] = np.clip(moved[:, -1], *np.log(_WIDTHS))
                trial = self._evaluate(moved)
                loss = self._loss(trial.residual, deviation) + penalty(moved)
                if loss < least:
                    break
                damping *= 5.0
            else:
                break
            logs, at, damping = moved, trial, max(damping / 5.0, _LEAST_DAMPING)
            if least - loss < _GAIN * least:
                break
        return logs

    def steps_without(self, logs: Floats, prior: Floats, folds: Folds) -> list[Floats]:
        """Newton steps of the logarithms where contexts are left out, (bins, P) per group.

        For one window per bin.
        """
        n, bins = self._windows.shape
        at = self._evaluate(logs)
        weight = self._weight(at.residual, self._deviation(at.residual)).reshape(n, bins)
        jacobian = np.ascontiguousarray(np.moveaxis(self._jacobian(at), 0, 2))
        slope, precision = weight * at.residual.reshape(n, bins), _RIDGE * n
        every = np.einsum("nb,nbp,nbq->bpq", weight, jacobian, jacobian, optimize=True)
        every += precision * np.eye(logs.shape[1])
        steps = []
        if folds.singles:
            # one context is of rank one in each bin: by Sherman and Morrison
            inverse = np.linalg.inv(every)
            for one, amount, factor in zip(jacobian[: folds.singles], slope, weight):
                towards = np.matmul(inverse, one[..., None])[..., 0]
                left = 1.0 - factor * (one * towards).sum(axis=1)
                step = -(amount / left)[:, None] * towards
                steps.append(np.clip(step, -_LONGEST_STEP, _LONGEST_STEP))
        for group in (folds.members[g] for g in folds.groups):
            part = jacobian[group]
            normal = np.einsum("nb,nbp,nbq->bpq", weight[group], part, part, optimize=True)
            gradient = np.einsum("nb,nbp->bp", slope[group], part)
            step = np.linalg.solve(every - normal, -gradient[..., None])[..., 0]
            steps.append(np.clip(step, -_LONGEST_STEP, _LONGEST_STEP))
        return steps


class _Banded:
    """Damped normal equations of all bins; `normal` (b, P, P, bins) as of `add_normal`."""

    def __init__(self, normal: Floats, gradient: Floats, precision: float) -> None:
        bins, width = gradient.shape
        # row j · P + a, column d holds the product of a in bin j with the element d farther on
        lower = np.zeros((bins, width, len(normal) * width))
        for o, blocks in enumerate(normal):
            for a, row in enumerate(blocks):
                for b in range(0 if o else a, width):
                    lower[:, a, o * width + b - a] = row[b]
        lower[..., 0] += precision
        self._lower, self._gradient = lower.reshape(bins * width, -1), gradient

    def __call__(self, damping: float) -> Floats:
        lower, step = self._lower.copy(), self._gradient.flatten()
        lower[:, 0] = (1.0 + damping) * lower[:, 0] + 1e-9
        if not _kernels.solve_banded(lower, step):
            return np.zeros_like(self._gradient)
        return step.reshape(self._gradient.shape)


class _Tied:
    """Damped normal equations where all bins have equal steps: sums over the bins."""

    def __init__(self, normal: Floats, gradient: Floats) -> None:
        bins, sums = len(gradient), normal[0].sum(axis=2)
        sums = np.triu(sums) + np.triu(sums, 1).T
        for block in normal[1:].sum(axis=3):
            sums += block + block.T
        self._sums, self._gradient, self._bins = sums, gradient.sum(axis=0), bins

    def __call__(self, damping: float) -> Floats:
        damped = self._sums + np.diag(damping * np.diag(self._sums) + 1e-9)
        step = np.linalg.lstsq(damped, self._gradient, rcond=None)[0]
        return np.tile(step, (self._bins, 1))
