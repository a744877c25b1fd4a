"""Gaussian process regression of a residual on a few columns.

The covariance is v·exp(−½ Σ_d (x_d − x'_d)²/l_d²) + noise.  The variance v, the lengths l and the
noise maximise the posterior density given a sample of the rows.  Beyond :data:`MOST_POINTS` rows
the posterior uses a subset of regressors (Quiñonero-Candela and Rasmussen 2005).
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from msbgen.core.arrays import NOT_NEGATIVE, POSITIVE, Stored
from msbgen.core.draws import generator
from msbgen.core.gaussian_process import SeenCovariance, gaussian_kernel

Floats = NDArray[np.float64]

# Rows at most to fit lengths to, and rows at most of the posterior.
_MOST_FITTED, MOST_POINTS = 400, 1000
_MAX_ITER = 60
# So few rows determine no lengths.
_FEWEST = 3
# Share of the variance that is added to the diagonal, as points may almost coincide.
_JITTER = 1e-6
# Bounds of the logarithms of deviation, lengths and noise, in standardised units.
_BOUNDS = ((-4.0, 3.0), (-3.0, 5.0), (-5.0, 1.0))
# Mean and standard deviation of the prior of the logarithm of a length.
_LENGTH, _LENGTH_SPREAD = 0.5, 2.0


@dataclass(frozen=True, eq=False)
class ResidualProcess:
    """A fitted process over d columns.

    The columns are standardised by centre and scale (d,). The points (n, d) are in units of the
    lengths; `inverse` (n, n) is the matrix of posterior variances.
    """

    centre: Annotated[Floats, Stored(("d",))]
    scale: Annotated[Floats, Stored(("d",), POSITIVE)]
    points: Annotated[Floats, Stored(("n", "d"))]
    weights: Annotated[Floats, Stored(("n",))]
    inverse: Annotated[Floats, Stored(("n", "n"))]
    variance: Annotated[float, Stored((), NOT_NEGATIVE)]
    noise: Annotated[float, Stored((), NOT_NEGATIVE)]

    def predict(self, columns: Floats) -> Floats:
        """Posterior mean, (n,)."""
        if not len(self.weights):
            return np.zeros(len(columns))
        return self.variance * gaussian_kernel(self._scaled(columns), self.points) @ self.weights

    def deviation(self, columns: Floats) -> Floats:
        """Posterior standard deviation of a new row with its noise, (n,)."""
        if not len(self.weights):
            return np.full(len(columns), np.sqrt(self.noise))
        cross = self.variance * gaussian_kernel(self._scaled(columns), self.points)
        explained = np.einsum("ij,jk,ik->i", cross, self.inverse, cross)
        return np.sqrt(np.maximum(self.variance - explained, 0.0) + self.noise)

    def predict_product(self, rows: Floats, others: Floats) -> Floats:
        """Posterior mean for every pair of a row and another, (n, m).

        The first columns of the process are those of `rows`, the rest those of `others`.  The
        kernel is a product over columns, so the factor of each row is computed once.
        """
        if not len(self.weights):
            return np.zeros((len(rows), len(others)))
        d = rows.shape[1]
        parts = []
        for table, at in ((rows, slice(0, d)), (others, slice(d, None))):
            scaled = (table - self.centre[at]) / self.scale[at]
            parts.append(gaussian_kernel(scaled, self.points[:, at]))
        return (self.variance * parts[0] * self.weights) @ parts[1].T

    def _scaled(self, columns: Floats) -> Floats:
        return (columns - self.centre) / self.scale


def fit_gaussian_process(
    columns: Floats, target: Floats, rng: np.random.Generator | int = 0
) -> ResidualProcess:
    """Posterior of a target (n,) given columns (n, d), with fitted variance, lengths and noise.

    It tends to 0 far from all rows. `rng` draws the rows to fit lengths to, where there are many.
    """
    from scipy.optimize import minimize

    size = float(target.std()) if len(target) > _FEWEST else 0.0
    if columns.shape[1] == 0 or size == 0:
        return no_process(columns.shape[1], float((target**2).mean()) if len(target) else 0.0)
    centre, scale = columns.mean(axis=0), columns.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    standard, scaled_target = (columns - centre) / scale, target / size
    draw = generator(rng)
    some = np.sort(draw.permutation(len(target))[:_MOST_FITTED])
    d = columns.shape[1]
    start = np.concatenate([[0.0], np.full(d, _LENGTH), [np.log(0.3)]])
    bounds = [_BOUNDS[0], *[_BOUNDS[1]] * d, _BOUNDS[2]]
    squares = (standard[some].T[:, :, None] - standard[some].T[:, None, :]) ** 2
    optimum = minimize(
        _negative_log_posterior, start, args=(squares, scaled_target[some]), jac=True,
        method="L-BFGS-B", bounds=bounds, options={"maxiter": _MAX_ITER},
    ).x  # fmt: skip
    length = np.exp(optimum[1:-1])
    variance, noise = float(np.exp(2 * optimum[0])), float(np.exp(2 * optimum[-1]))
    variance, noise = variance * size**2, noise * size**2
    return _posterior(centre, scale * length, columns, target, variance, noise, draw)


def condition(
    process: ResidualProcess, columns: Floats, target: Floats, rng: np.random.Generator | int = 0
) -> ResidualProcess:
    """Posterior given other rows, with the lengths, variance and noise of a fitted process.

    It takes a fiftieth of the time of a fit.
    """
    if not len(process.weights):
        return process
    parts = (process.centre, process.scale, columns, target, process.variance, process.noise)
    return _posterior(*parts, generator(rng))


def _posterior(
    centre: Floats,
    scale: Floats,
    columns: Floats,
    target: Floats,
    variance: float,
    noise: float,
    draw: np.random.Generator,
) -> ResidualProcess:
    points = (columns - centre) / scale
    if len(target) <= MOST_POINTS:
        inner = variance * gaussian_kernel(points, points)
        seen = SeenCovariance.of(inner + noise * np.eye(len(target)))
        weights, inverse = seen.weights(target), seen.precision
    else:
        few = points[np.sort(draw.permutation(len(target))[:MOST_POINTS])]
        inner, across = (variance * gaussian_kernel(few, other) for other in (few, points))
        chosen = SeenCovariance.of(inner + _JITTER * variance * np.eye(len(few)))
        across = chosen.whitened(across)
        seen = SeenCovariance.of(noise * np.eye(len(few)) + across @ across.T)
        back = np.linalg.inv(chosen.lower)
        weights = back.T @ seen.weights(across @ target)
        left = np.eye(len(few)) - noise * seen.precision
        inverse, points = back.T @ left @ back, few
    return ResidualProcess(centre, scale, points, weights, inverse, variance, noise)


def no_process(d: int, noise: float = 0.0) -> ResidualProcess:
    """A process over d columns that is 0 everywhere."""
    none = np.empty((0, d))
    return ResidualProcess(np.zeros(d), np.ones(d), none, np.empty(0), np.empty((0, 0)), 0.0, noise)


def _negative_log_posterior(
    parameters: Floats, squares: Floats, target: Floats
) -> tuple[float, Floats]:
    """Negative log posterior density of log deviation, lengths and noise; and its gradient."""
    n = len(target)
    weight = np.exp(-2.0 * parameters[1:-1])
    part = np.exp(2 * parameters[0] - 0.5 * np.tensordot(weight, squares, 1))
    noise = np.exp(2 * parameters[-1])
    try:
        seen = SeenCovariance.of(part + (noise + 1e-9) * np.eye(n))
    except np.linalg.LinAlgError:  # lengths so long that rows coincide
        return 1e10, np.zeros_like(parameters)
    inverse = seen.precision
    solved = inverse @ target
    value = 0.5 * target @ solved + seen.half_log_determinant
    slope = inverse - np.outer(solved, solved)
    gradient = np.empty_like(parameters)
    gradient[0] = (slope * part).sum()
    gradient[1:-1] = 0.5 * weight * np.tensordot(squares, slope * part, 2)
    gradient[-1] = np.trace(slope) * noise
    off = (parameters[1:-1] - _LENGTH) / _LENGTH_SPREAD
    gradient[1:-1] += off / _LENGTH_SPREAD
    return float(value + 0.5 * (off**2).sum()), gradient
