"""Time per bin of progress from every sampling interval at once: one law of what time is spent on.

Where a sampling interval holds many bins, the time of a bin is seen in sums only.  But other runs
were read at other offsets, and in other contexts an interval holds other bins; a law that says what
the contexts have to do with each other makes one problem of all of them:

    t(β, p) = E max(u, c·X),    u(β, p) = Σ_r a_r(p)/β_r + Σ_k b_k(p)·counter_k(β, p) + d(p),

the time without a cap in parts that are inverse to a level (work at a clock, lines at a bandwidth),
proportional to a counter (what an event costs) and constant, none negative; c the least time that
the cap of a rate allows and X its unevenness (:mod:`msbgen.trend.caps`), log-normal with a width
for each bin.  An interval that reaches over bins takes Σ overlap·t.

Least squares in steps of the logarithms of a, b, d and the width (Gauss-Newton, damped), robust by
Huber's weights; the noise of every interval is alike, so that short last ones have no more weight.
Bins only meet where an interval holds both: the normal equations are banded.  First all bins share
one law, the times differing by their counts alone; then each has its own, held towards that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, solveh_banded

from msbgen.trend import _kernels
from msbgen.trend.caps import Cap, throttled
from msbgen.trend.folds import Folds

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Precision of a bin's logarithms about those that all bins share, for each window and bin.
_RIDGE = 0.01
# Residuals beyond so many deviations count linearly.
_HUBER = 3.0
# Noise that is always taken for possible, over the mean time of a window.
_LEAST_NOISE = 1e-6
# Iterations at most, and the share of the loss that the last one has to gain.
_MOST_ITERATIONS, _GAIN = 20, 1e-4
_DAMPING, _LEAST_DAMPING, _MOST_TRIALS = 1e-3, 1e-6, 8
# A step moves a logarithm by at most this; a part below e⁻⁶⁰ of its start is none.
_LONGEST_STEP, _LOWEST = 2.0, -60.0
# The width of the knee that the search starts from, and its range.
_FIRST_WIDTH, _WIDTHS = 0.3, (0.02, 2.0)


@dataclass(frozen=True, eq=False)
class Windows:
    """Stretches of progress whose time is known as a whole.

    Attributes
    ----------
    context : ndarray of int, (w,)
    begin, end : ndarray, (w,)
        In bins of progress, begin < end.
    time : ndarray, (w,)
        [s]
    shape : tuple of int
        Contexts, bins.
    """

    context: Indices
    begin: Floats
    end: Floats
    time: Floats
    shape: tuple[int, int]

    @classmethod
    def of_runs(
        cls, position: Floats, time: Floats, context: Indices, shape: tuple[int, int]
    ) -> Windows:
        """The sampling intervals of runs.

        Time in which no progress is made belongs to the window before it, or after it where there
        is none.

        Parameters
        ----------
        position : ndarray, (runs, intervals + 1)
            Progress at the edges of the intervals, from 0 to 1, not decreasing.
        time : ndarray, (runs, intervals)
            [s]
        context : ndarray of int, (runs,)
        shape : tuple of int
        """
        reached = np.concatenate([np.zeros((len(time), 1)), np.cumsum(time, axis=1)], axis=1)
        moves = position[:, 1:] > position[:, :-1]
        edge = np.concatenate([moves, np.ones((len(time), 1), dtype=bool)], axis=1)
        run, place = np.nonzero(edge)
        own = run[1:] == run[:-1]
        first = np.concatenate([[True], ~own])
        # a run starts at zero, whatever passes before it moves
        begin, start = position[run, place], np.where(first, 0.0, reached[run, place])
        begin, end = begin[:-1][own], begin[1:][own]
        spent = reached[run, place][1:][own] - start[:-1][own]
        bins = shape[1]
        return cls(context[run[:-1][own]], begin * bins, np.minimum(end, 1.0) * bins, spent, shape)

    @classmethod
    def of_bins(cls, times: Floats) -> Windows:
        """The bins themselves, (n, bins)."""
        n, bins = times.shape
        begin = np.tile(np.arange(float(bins)), n)
        return cls(np.repeat(np.arange(n), bins), begin, begin + 1, times.ravel(), times.shape)

    def predicted(self, times: Floats) -> Floats:
        """What windows take where the bins do `times` (n, bins), (w,)."""
        out = np.empty(len(self.time))
        _kernels.window_times(self.context, self.begin, self.end, times, out)
        return out

    def sums(self, values: Floats) -> Floats:
        """Values (w,) times their overlaps with the bins, (n, bins)."""
        out = np.zeros(self.shape)
        _kernels.window_sums(self.context, self.begin, self.end, values, out)
        return out

    def products(self, weight: Floats) -> Floats:
        """Weighted sums of overlap with a bin times that with one so many later, (n, bins, b)."""
        first, last = np.floor(self.begin), np.ceil(self.end)
        out = np.zeros((*self.shape, int((last - first).max(initial=1))))
        _kernels.window_products(self.context, self.begin, self.end, weight, out)
        return out

    def error(self, times: Floats, folds: Folds) -> float:
        """Mean |predicted − measured| of windows in contexts that were left out [s].

        times (rows, bins) are those of the rows of the folds; contexts weigh as the rows do.
        """
        count = np.maximum(np.bincount(self.context, minlength=self.shape[0]), 1)
        own, total = np.zeros(self.shape), 0.0
        rows = [slice(0, folds.singles)]
        rows += [slice(folds.singles + g.start, folds.singles + g.stop) for g in folds.groups]
        for some in rows:
            context = folds.index[some]
            own[context] = times[some]
            off = np.bincount(self.context, np.abs(self.predicted(own) - self.time), self.shape[0])
            total += float(folds.weight[some] @ (off / count)[context])
        return total


@dataclass(frozen=True, eq=False)
class Joint:
    """What the time of each bin is spent on.

    Attributes
    ----------
    parts : ndarray, (m + k, bins)
        a [s · level], b [s/event], d [s]; 0 for a resource that does not vary.
    width : ndarray, (bins,)
        Unevenness of the capped counter within a bin; of no meaning where there is no cap.
    common : ndarray, (m + k + 1,)
        The parts and the width that all bins share.
    summed : ndarray, (k − 1,)
        How far the sums of the counters over the bins follow the trend of the sums, from 0 to 1.
    """

    parts: Floats
    width: Floats
    common: Floats
    summed: Floats

    def time(self, levels: Floats, counts: Floats, caps: tuple[Cap, ...]) -> tuple[Floats, Floats]:
        """Time at contexts [s], and the share in it of the unthrottled time, (q, bins) each.

        levels (q, m), counts (q, bins, k − 1).
        """
        m = levels.shape[1]
        free = np.zeros(counts.shape[:2]) + self.parts[-1]
        for level, work in zip(levels.T, self.parts):
            if work.any():  # a level may be zero where it does not matter
                free += work / level[:, None]
        for counted, cost in zip(np.moveaxis(counts, 2, 0), self.parts[m:]):
            free += counted * cost
        for cap in caps:
            return throttled(free, least_time(cap, levels, counts), self.width)
        return free, np.ones_like(free)


def least_time(cap: Cap, levels: Floats, counts: Floats) -> Floats:
    """What a cap demands of counts (q, bins, k − 1), (q, bins) [s]."""
    return counts[..., cap.counter - 1] / (cap.rate * levels[:, cap.resource, None])


def fit_joint(
    windows: Windows,
    levels: Floats,
    counts: Floats,
    caps: tuple[Cap, ...],
    summed: Floats,
    weights: Floats,
) -> Joint:
    """Fit the law to the times of windows.

    Parameters
    ----------
    windows : Windows
    levels : ndarray, (n, m)
    counts : ndarray, (n, bins, k − 1)
        What the counters are taken to count in each bin of the known contexts.
    caps : tuple of Cap
        None or one; its rate is kept.
    summed
        As `Joint.summed`.
    weights : ndarray, (n,)
        Of the contexts.

    Notes
    -----
    O(windows · b² + (n · b + P · b²) · P² · bins) an iteration, b the bins that a window holds and
    P the parts.
    """
    problem = _Problem(windows, levels, counts, caps, weights)
    common = problem.descend(problem.start, problem.start, 0.0, tied=True)
    own = problem.descend(common, common, _RIDGE)
    return problem.joint(own, common, summed)


def refit_joint(
    joint: Joint,
    levels: Floats,
    times: Floats,
    counts: Floats,
    caps: tuple[Cap, ...],
    weights: Floats,
) -> Joint:
    """The law of times of bins (n, bins) [s], starting from another and held to its common part."""
    problem = _Problem(Windows.of_bins(times), levels, counts, caps, weights)
    start, common = problem.parameters(joint)
    return problem.joint(problem.descend(start, common, _RIDGE), common, joint.summed)


def left_out_times(
    joint: Joint,
    levels: Floats,
    times: Floats,
    counts: Floats,
    caps: tuple[Cap, ...],
    weights: Floats,
    folds: Folds,
    counts_left_out: Floats,
) -> Floats:
    """Time of each row of the folds under the law of all other contexts, (rows, bins) [s].

    One step of Newton's method from the law of all of them: exact where it is linear.

    Parameters
    ----------
    joint, levels, times, counts, caps, weights
        As for :func:`refit_joint`.
    folds : Folds
    counts_left_out : ndarray, (rows, bins, k − 1)
        Counts of the rows as predicted from all other contexts.
    """
    problem = _Problem(Windows.of_bins(times), levels, counts, caps, weights)
    own, common = problem.parameters(joint)
    step = problem.steps_without(own, common, folds)
    out = np.empty((len(folds.index), times.shape[1]))
    groups = [np.array([i]) for i in range(folds.singles)]
    groups += [folds.singles + np.arange(g.start, g.stop) for g in folds.groups]
    for rows, change in zip(groups, step):
        moved = problem.joint(own + change, common, joint.summed)
        out[rows] = moved.time(levels[folds.index[rows]], counts_left_out[rows], caps)[0]
    return out


@dataclass(frozen=True, eq=False)
class _State:
    """What the bins take at some logarithms, and what derivatives are made of."""

    time: Floats  # (n, bins)
    free: Floats  # (n, bins), unthrottled
    share: Floats  # (n, bins), of it in the time
    parts: Floats  # (bins, parts)
    width: Floats  # (bins,)
    residual: Floats  # (w,)


class _Problem:
    """Least squares in the logarithms (bins, P) of the parts and, under a cap, the width.

    Parameters
    ----------
    windows, levels, counts, caps, weights
        As for :func:`fit_joint`.
    """

    def __init__(
        self,
        windows: Windows,
        levels: Floats,
        counts: Floats,
        caps: tuple[Cap, ...],
        weights: Floats,
    ) -> None:
        self._windows, self._worth = windows, weights[windows.context]
        n, bins = windows.shape
        self._varies = np.array([np.ptp(level) > 0 and level.min() > 0 for level in levels.T])
        inverse = np.where(self._varies, 1.0 / np.where(self._varies, levels, 1.0), 0.0)
        terms = [np.broadcast_to(inverse[:, None], (n, bins, levels.shape[1])), counts]
        self._terms = np.concatenate([*terms, np.ones((n, bins, 1))], axis=2)
        self._capped = bool(caps)
        self._least = np.zeros((n, bins))
        for cap in caps:
            self._least = least_time(cap, levels, counts)

    @property
    def start(self) -> Floats:
        """Every part an equal share of the mean time, in all bins alike."""
        size = self._terms.mean(axis=(0, 1))
        length = (self._windows.end - self._windows.begin).sum()
        share = self._windows.time.sum() / length / len(size)
        logs = np.log(share / np.where(size > 0, size, 1.0))
        one = np.append(logs, np.log(_FIRST_WIDTH)) if self._capped else logs
        return np.tile(one, (self._windows.shape[1], 1))

    def parameters(self, joint: Joint) -> tuple[Floats, Floats]:
        """A law as logarithms: its own (bins, P), and those that all bins share."""
        parts = np.log(np.maximum(joint.parts.T, np.exp(_LOWEST)))
        shared = np.log(np.maximum(joint.common, np.exp(_LOWEST)))
        if not self._capped:
            return parts, np.tile(shared[:-1], (len(parts), 1))
        own = np.concatenate([parts, np.log(joint.width)[:, None]], axis=1)
        return own, np.tile(shared, (len(parts), 1))

    def joint(self, own: Floats, common: Floats, summed: Floats) -> Joint:
        """Undo :meth:`parameters`."""
        parts, width = self._split(own)
        shared, shared_width = self._split(common)
        return Joint(
            np.ascontiguousarray(parts.T), width, np.append(shared[0], shared_width[0]), summed
        )

    def _split(self, logs: Floats) -> tuple[Floats, Floats]:
        parts = np.exp(logs[:, : self._terms.shape[2]])
        parts[:, : len(self._varies)] *= self._varies
        if not self._capped:
            return parts, np.full(len(parts), _FIRST_WIDTH)
        return parts, np.clip(np.exp(logs[:, -1]), *_WIDTHS)

    def _state(self, logs: Floats) -> _State:
        parts, width = self._split(logs)
        free = np.maximum(np.einsum("nbp,bp->nb", self._terms, parts), 1e-300)
        time, share = free, np.ones_like(free)
        if self._capped:
            time, share = throttled(free, self._least, width)
        residual = self._windows.time - self._windows.predicted(time)
        return _State(time, free, share, parts, width, residual)

    def _deviation(self, residual: Floats) -> float:
        """Of typical residuals [s]."""
        typical = 1.4826 * float(np.median(np.abs(residual)))
        return max(typical, _LEAST_NOISE * float(self._windows.time.mean()), 1e-100)

    def _loss(self, residual: Floats, deviation: float) -> float:
        """Of residuals (w,), linear in the large ones."""
        size = np.abs(residual) / deviation
        loss = np.where(size <= _HUBER, 0.5 * size**2, _HUBER * size - 0.5 * _HUBER**2)
        return float(self._worth @ loss)

    def _weight(self, residual: Floats, deviation: float) -> Floats:
        """Of each window in the normal equations, (w,)."""
        size = np.abs(residual) / deviation
        return self._worth * np.minimum(1.0, _HUBER / np.maximum(size, 1e-9)) / deviation**2

    def _jacobian(self, now: _State) -> Floats:
        """∂ time / ∂ logarithms, (n, bins, P)."""
        m = self._terms.shape[2]
        jacobian = np.empty((*now.time.shape, m + self._capped))
        np.multiply(self._terms, now.parts, out=jacobian[..., :m])
        jacobian[..., :m] *= (now.share * now.time / now.free)[..., None]
        if self._capped:
            # ∂/∂log w of E max(u, cX): c·w·φ(log(c/u)/w + w/2)
            ratio = np.log(np.maximum(self._least, 1e-300) / now.free)
            density = np.exp(-0.5 * (ratio / now.width + 0.5 * now.width) ** 2)
            jacobian[..., m] = self._least * (density / np.sqrt(2 * np.pi)) * now.width
        return jacobian

    def descend(self, start: Floats, prior: Floats, ridge: float, *, tied: bool = False) -> Floats:
        """Logarithms of the least loss near a start; all bins alike where tied."""
        logs, damping = start, _DAMPING
        bins, width = start.shape
        pull = ridge * len(self._windows.time) / bins

        def held(logs: Floats) -> float:
            return 0.5 * float(pull * ((logs - prior) ** 2).sum())

        now = self._state(logs)
        for _ in range(_MOST_ITERATIONS):
            deviation = self._deviation(now.residual)
            weight, jacobian = self._weight(now.residual, deviation), self._jacobian(now)
            least = self._loss(now.residual, deviation) + held(logs)
            back = self._windows.sums(weight * now.residual)
            gradient = np.einsum("nbp,nb->bp", jacobian, back) - pull * (logs - prior)
            products = self._windows.products(weight)
            bands = np.zeros((bins * width, products.shape[2] * width))
            _kernels.add_normal(products, jacobian, bands)
            solve: Any = _Tied(bands, gradient) if tied else _Banded(bands, gradient, pull)
            for _ in range(_MOST_TRIALS):
                step = np.clip(solve(damping), -_LONGEST_STEP, _LONGEST_STEP)
                moved = np.maximum(logs + step, _LOWEST + start)
                if self._capped:
                    moved[:, -1] = np.clip(moved[:, -1], *np.log(_WIDTHS))
                there = self._state(moved)
                loss = self._loss(there.residual, deviation) + held(moved)
                if loss < least:
                    break
                damping *= 5.0
            else:
                break
            logs, now, damping = moved, there, max(damping / 5.0, _LEAST_DAMPING)
            if least - loss < _GAIN * least:
                break
        return logs

    def steps_without(self, logs: Floats, prior: Floats, folds: Folds) -> list[Floats]:
        """How the logarithms move where contexts are left out, (bins, P) a group of the folds.

        Where windows are bins.
        """
        n, bins = self._windows.shape
        now = self._state(logs)
        weight = self._weight(now.residual, self._deviation(now.residual)).reshape(n, bins)
        jacobian = self._jacobian(now)
        slope, pull = weight * now.residual.reshape(n, bins), _RIDGE * n
        every = np.einsum("nb,nbp,nbq->bpq", weight, jacobian, jacobian, optimize=True)
        every += pull * np.eye(logs.shape[1])
        groups = [np.array([i]) for i in range(folds.singles)]
        groups += [folds.members[g] for g in folds.groups]
        steps = []
        for group in groups:
            mine = jacobian[group]
            own = np.einsum("nb,nbp,nbq->bpq", weight[group], mine, mine, optimize=True)
            gone = np.einsum("nb,nbp->bp", slope[group], mine)
            step = np.linalg.solve(every - own, -gone[..., None])[..., 0]
            steps.append(np.clip(step, -_LONGEST_STEP, _LONGEST_STEP))
        return steps


class _Banded:
    """Damped normal equations of all bins; bands (bins · P, b · P): rows of the upper triangle."""

    def __init__(self, bands: Floats, gradient: Floats, pull: float) -> None:
        self._lower = np.ascontiguousarray(bands.T)
        self._lower[0] += pull
        self._diagonal, self._gradient = self._lower[0].copy(), gradient

    def __call__(self, damping: float) -> Floats:
        self._lower[0] = (1.0 + damping) * self._diagonal + 1e-9
        try:
            step = solveh_banded(self._lower, self._gradient.ravel(), lower=True)
        except LinAlgError:
            return np.zeros_like(self._gradient)
        return step.reshape(self._gradient.shape)


class _Tied:
    """The same where all bins move alike: sums over the bins."""

    def __init__(self, bands: Floats, gradient: Floats) -> None:
        bins, width = gradient.shape
        rows = bands.reshape(bins, width, -1)
        sums = np.zeros((width, width))
        for a in range(width):
            # entry d of row (bin, a) is that of column a + d, of which the part is (a + d) % P
            own = rows[:, a].sum(axis=0)
            column = (a + np.arange(len(own))) % width
            np.add.at(sums[a], column, own)
            np.add.at(sums[:, a], column[1:], own[1:])
        self._sums, self._gradient, self._bins = sums, gradient.sum(axis=0), bins

    def __call__(self, damping: float) -> Floats:
        damped = self._sums + np.diag(damping * np.diag(self._sums) + 1e-9)
        step = np.linalg.lstsq(damped, self._gradient, rcond=None)[0]
        return np.tile(step, (self._bins, 1))
