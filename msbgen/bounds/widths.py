"""Widths: the expected size of a prediction's error, learned from left-out contexts.

A conformal bound is a prediction plus a quantile of scores times a width.  Any width gives a valid
bound; a width that is large where errors are large gives a tight one.  In logarithms, it is

    width(β)² = noise(β) + error alone(β) + Σ_r growth_r(β) · step_r(β)²

All three are means over the known contexts, with the largest weights for near ones.

- noise: the variance of the runs, as a geometric mean, since it may be a thousand times larger
  where a cache is too small;
- error alone: the mean square error of contexts that were left out alone;
- growth_r: the additional square error of contexts that were left out with their level of
  resource r, per squared step to that level.  The step of a measured level is 0.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from msbgen.bounds.heldout import Features, HeldOut

Floats = NDArray[np.float64]

# Least width, since scores are divided by the width.
LEAST_WIDTH = 1e-9
# Share of the mean over parts in the mean square of each part's errors.
_SHRINKAGE = 0.3
# Weight of the mean over all known contexts beside those nearby, in contexts.
_ALL = 1.0
# Least variance of a context's runs over the mean of all: equal runs are equal by chance.
_LEAST_NOISE = 0.01


@dataclass(frozen=True, eq=False)
class Widths:
    """Widths of a quantity of a run in one or more parts, such as segments of progress.

    A band over all parts of a run uses the largest score of any part.  A part in which the known
    contexts happened to agree has a small width, hence large scores, and would widen the band of
    all parts.  Each mean square is therefore shrunk towards the mean over parts.

    With deconvolution, the error is the same for any new level: sampling intervals of all runs of a
    level end at the same places of the program.  The step to a new level is then 1.  As few levels
    were left out, the new one is counted as one more.  Without deconvolution, the error grows with
    the gap to the measured levels, and the step is that gap.
    """

    held_out: HeldOut
    error: Floats  # (pairs, parts): log of measured over predicted amounts
    measured: NDArray[np.bool_]  # (pairs,): runs in which the quantity was measured
    deconvolved: bool  # whether errors depend on deconvolution within sampling intervals

    def at(self, features: Features) -> Floats:
        """Widths at contexts, (q, parts)."""
        near, steps = features.near, self._steps(features)
        square = self._noise(near) + self._alone(near)
        for r, (excess, step, count) in self._levels.items():
            more = np.maximum(self._mean_near(near, excess, count), 0.0)
            growth = more / np.maximum(self._mean_near(near, step, count), LEAST_WIDTH**2)
            square += steps[:, [r]] * growth
        return np.sqrt(square + _SHRINKAGE * square.mean(axis=1, keepdims=True)) + LEAST_WIDTH

    @cached_property
    def scores(self) -> Floats:
        """Errors of the left-out runs in widths, (pairs, parts)."""
        return self.error / self.at(self.held_out.left_out_rows)[self.held_out.row]

    def _noise(self, near: Floats) -> Floats:
        """Variance of runs from the mean of their context, (q, parts); 0 without repeated runs."""
        variance, repeated = self._variance
        if not repeated.any():
            return np.zeros((len(near), self.error.shape[1]))
        least = np.maximum(_LEAST_NOISE * variance[repeated].mean(axis=0), LEAST_WIDTH**2)
        log = np.log(np.maximum(variance, least))
        return np.exp(self._mean_near(near, log, repeated.astype(float)))

    def _alone(self, near: Floats) -> Floats:
        """Mean square error of the contexts that were left out alone, (q, parts)."""
        held, n_known = self.held_out, len(self.held_out.n_runs)
        rows = held.alone & (self._runs > 0)
        count = np.bincount(held.context[rows], minlength=n_known).astype(float)
        square = _sums(held.context[rows], self._beside_noise[rows], n_known)
        return self._mean_near(near, square / np.maximum(count, 1.0)[:, None], count)

    def _mean_near(self, near: Floats, values: Floats, weight: Floats) -> Floats:
        """Mean of known contexts' values (n_known, parts) around each context, (q, parts).

        Without deconvolution, errors are similar in a neighbourhood: the nearest context has weight
        one, however far it is.  With it, errors are similar within a level: contexts that are far
        from all others get the mean of all.
        """
        near = near * (weight > 0)
        if not self.deconvolved:
            top = near.max(axis=1, keepdims=True)
            near = near / np.where(top > 0, top, 1.0)
        near = near * weight
        mean = weight @ values / weight.sum()
        return (near @ values + _ALL * mean) / (near.sum(axis=1, keepdims=True) + _ALL)

    def _steps(self, features: Features) -> Floats:
        """Squared step to each resource's level, (q, n_resources)."""
        return features.new.astype(float) if self.deconvolved else features.gap**2

    @cached_property
    def _levels(self) -> dict[int, tuple[Floats, Floats, Floats]]:
        """Additional errors of contexts that were left out with their level of a resource.

        By resource: squared errors beyond those alone (n_known, parts), squared steps (n_known, 1),
        and the number of left-out predictions of each known context (n_known,).
        """
        held, n_known = self.held_out, len(self.held_out.n_runs)
        left_out = held.left_out_rows
        steps, excess = self._steps(left_out), self._beside_noise - self._alone(left_out.near)
        found = {}
        for r in sorted({resource for resource, _ in held.levels}):
            levels = [rows for resource, rows in held.levels if resource == r]
            rows = np.concatenate(levels)
            rows = rows[self._runs[rows] > 0]
            if rows.size == 0:
                continue
            context, more = held.context[rows], 1.0 + self.deconvolved / len(levels)
            found[r] = (
                more * _sums(context, excess[rows], n_known),
                _sums(context, steps[rows][:, [r]], n_known),
                np.bincount(context, minlength=n_known).astype(float),
            )
        return found

    @cached_property
    def _runs(self) -> NDArray[np.int64]:
        """Number of runs of each left-out prediction that measured the quantity, (rows,)."""
        held = self.held_out
        return np.bincount(held.row[self.measured], minlength=len(held.context))

    @cached_property
    def _mean(self) -> Floats:
        """Mean error of each left-out prediction over the runs, (rows, parts)."""
        rows = self.held_out.row[self.measured]
        total = _sums(rows, self.error[self.measured], len(self._runs))
        return total / np.maximum(self._runs, 1)[:, None]

    @cached_property
    def _beside_noise(self) -> Floats:
        """Squared mean error minus the variance of the mean of noisy runs, (rows, parts)."""
        noise = self._noise(self.held_out.left_out_rows.near)
        noise = noise / np.maximum(self._runs, 1)[:, None]
        return np.maximum(self._mean**2 - noise, 0.0)

    @cached_property
    def _variance(self) -> tuple[Floats, NDArray[np.bool_]]:
        """Variance of the runs of each known context (n_known, parts), and those with several."""
        held, n_known = self.held_out, len(self.held_out.n_runs)
        pairs = held.alone[held.row] & self.measured
        row = held.row[pairs]
        square = _sums(held.context[row], (self.error[pairs] - self._mean[row]) ** 2, n_known)
        more = np.where(held.alone, np.maximum(self._runs - 1, 0), 0)
        freedom = np.bincount(held.context, more, minlength=n_known)
        return square / np.maximum(freedom, 1)[:, None], freedom > 0


def _sums(index: NDArray[np.int64], values: Floats, count: int) -> Floats:
    """Sums of the rows of values with each index from 0 to count − 1."""
    total = np.zeros((count, values.shape[1]))
    np.add.at(total, index, values)
    return total
