"""Gaussian process regression on a few columns: what is left of a structured model.

The covariance is v·exp(−½ Σ_d (x_d − x'_d)²/l_d²) + noise; v, the lengths l and the noise maximise
the marginal likelihood of a part of the rows.  Beyond :data:`MOST_POINTS` rows the posterior is
that of as many of them (subset of regressors; Quiñonero-Candela and Rasmussen 2005).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Rows that lengths are learned from, and those that the posterior rests on.
_LEARNED, MOST_POINTS = 400, 1000
_STEPS = 60
# Rows that say nothing of lengths.
_FEWEST = 3
# Share of the variance that keeps points which are almost one apart.
_JITTER = 1e-6
# Bounds of the logarithms of deviation, lengths and noise, in standardised units.
_BOUNDS = ((-4.0, 3.0), (-3.0, 5.0), (-5.0, 1.0))
# Lengths are a priori about this long, within a factor of e².
_LENGTH, _LENGTH_SPREAD = 0.5, 2.0


@dataclass(frozen=True, eq=False)
class Process:
    """A fitted process.

    Attributes
    ----------
    centre, scale : ndarray, (d,)
        What columns are standardised by.
    points : ndarray, (n, d)
        Standardised, in lengths.
    weights : ndarray, (n,)
    inverse : ndarray, (n, n)
        From which variances follow.
    variance, noise : float
        Of the process and of a row beside it.
    """

    centre: Floats
    scale: Floats
    points: Floats
    weights: Floats
    inverse: Floats
    variance: float
    noise: float

    def predict(self, columns: Floats) -> Floats:
        """Posterior mean, (n,)."""
        if not len(self.weights):
            return np.zeros(len(columns))
        return self.variance * _likeness(self._placed(columns), self.points) @ self.weights

    def deviation(self, columns: Floats) -> Floats:
        """Posterior deviation of a new row, its noise included, (n,)."""
        if not len(self.weights):
            return np.full(len(columns), np.sqrt(self.noise))
        near = self.variance * _likeness(self._placed(columns), self.points)
        told = np.einsum("ij,jk,ik->i", near, self.inverse, near)
        return np.sqrt(np.maximum(self.variance - told, 0.0) + self.noise)

    def predict_product(self, rows: Floats, others: Floats) -> Floats:
        """Posterior means of rows × others, whose columns stand one behind the other, (n, m).

        The kernel is a product over columns: what rows and what others add is computed once each.
        """
        if not len(self.weights):
            return np.zeros((len(rows), len(others)))
        d = rows.shape[1]
        parts = []
        for table, own in ((rows, slice(0, d)), (others, slice(d, None))):
            placed = (table - self.centre[own]) / self.scale[own]
            parts.append(_likeness(placed, self.points[:, own]))
        return (self.variance * parts[0] * self.weights) @ parts[1].T

    def _placed(self, columns: Floats) -> Floats:
        return (columns - self.centre) / self.scale


def fit_process(columns: Floats, target: Floats, rng: np.random.Generator | int = 0) -> Process:
    """Learn lengths and noise, and what the rows say.

    Parameters
    ----------
    columns : ndarray, (n, d)
    target : ndarray, (n,)
        About 0 far from all rows.
    rng : Generator or int
        Draws the rows that lengths are learned from, where there are many.
    """
    from scipy.optimize import minimize

    size = float(target.std()) if len(target) > _FEWEST else 0.0
    if columns.shape[1] == 0 or size == 0:
        return no_process(columns.shape[1], float((target**2).mean()) if len(target) else 0.0)
    centre, scale = columns.mean(axis=0), columns.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    placed, told = (columns - centre) / scale, target / size
    draw = np.random.default_rng(rng)
    some = np.sort(draw.permutation(len(told))[:_LEARNED])
    d = columns.shape[1]
    start = np.concatenate([[0.0], np.full(d, _LENGTH), [np.log(0.3)]])
    bounds = [_BOUNDS[0], *[_BOUNDS[1]] * d, _BOUNDS[2]]
    squares = (placed[some].T[:, :, None] - placed[some].T[:, None, :]) ** 2
    found = minimize(
        _surprise,
        start,
        args=(squares, told[some]),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": _STEPS},
    ).x
    length = np.exp(found[1:-1])
    variance, noise = float(np.exp(2 * found[0])), float(np.exp(2 * found[-1]))
    variance, noise = variance * size**2, noise * size**2
    return _posterior(centre, scale * length, columns, target, variance, noise, draw)


def tell_process(
    process: Process, columns: Floats, target: Floats, rng: np.random.Generator | int = 0
) -> Process:
    """What other rows say under the lengths, the variance and the noise of a process.

    A fiftieth of the work of learning them again.
    """
    if not len(process.weights):
        return process
    parts = (process.centre, process.scale, columns, target, process.variance, process.noise)
    return _posterior(*parts, np.random.default_rng(rng))


def _posterior(
    centre: Floats,
    scale: Floats,
    columns: Floats,
    target: Floats,
    variance: float,
    noise: float,
    draw: np.random.Generator,
) -> Process:
    from scipy.linalg import cho_factor, cho_solve, solve_triangular

    points = (columns - centre) / scale
    if len(target) <= MOST_POINTS:
        inner = variance * _likeness(points, points)
        factor = cho_factor(inner + noise * np.eye(len(target)))
        weights, inverse = cho_solve(factor, target), cho_solve(factor, np.eye(len(target)))
    else:
        few = points[np.sort(draw.permutation(len(target))[:MOST_POINTS])]
        inner, across = (variance * _likeness(few, other) for other in (few, points))
        lower = np.linalg.cholesky(inner + _JITTER * variance * np.eye(len(few)))
        across = solve_triangular(lower, across, lower=True)
        factor = cho_factor(noise * np.eye(len(few)) + across @ across.T)
        weights = solve_triangular(lower.T, cho_solve(factor, across @ target))
        left = np.eye(len(few)) - noise * cho_solve(factor, np.eye(len(few)))
        back = np.linalg.inv(lower)
        inverse, points = back.T @ left @ back, few
    return Process(centre, scale, points, weights, inverse, variance, noise)


def no_process(d: int, noise: float = 0.0) -> Process:
    """One over d columns that says 0 everywhere."""
    none = np.empty((0, d))
    return Process(np.zeros(d), np.ones(d), none, np.empty(0), np.empty((0, 0)), 0.0, noise)


def _likeness(a: Floats, b: Floats) -> Floats:
    """Gaussian kernel, (len(a), len(b))."""
    square = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2.0 * a @ b.T
    return np.exp(-0.5 * np.maximum(square, 0.0))


def _surprise(found: Floats, squares: Floats, target: Floats) -> tuple[float, Floats]:
    """Negative log posterior of the parameters, and its gradient."""
    from scipy.linalg import cho_solve

    n = len(target)
    weight = np.exp(-2.0 * found[1:-1])
    part = np.exp(2 * found[0] - 0.5 * np.tensordot(weight, squares, 1))
    noise = np.exp(2 * found[-1])
    try:
        lower = np.linalg.cholesky(part + (noise + 1e-9) * np.eye(n))
    except np.linalg.LinAlgError:  # the search went where rows are one
        return 1e10, np.zeros_like(found)
    inverse = cho_solve((lower, True), np.eye(n))
    solved = inverse @ target
    value = 0.5 * target @ solved + np.log(np.diag(lower)).sum()
    slope = inverse - np.outer(solved, solved)
    gradient = np.empty_like(found)
    gradient[0] = (slope * part).sum()
    gradient[1:-1] = 0.5 * weight * np.tensordot(squares, slope * part, 2)
    gradient[-1] = np.trace(slope) * noise
    off = (found[1:-1] - _LENGTH) / _LENGTH_SPREAD
    gradient[1:-1] += off / _LENGTH_SPREAD
    return float(value + 0.5 * (off**2).sum()), gradient
