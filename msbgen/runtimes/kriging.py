"""Kriging of what the towers leave: correlated errors of like workloads on like platforms.

The residual e of a run of workload i on platform j beside the workloads K is taken for

    e = a_ij + [K not empty] b_ij + Σ_{k in K} c_kj + noise,

three independent Gaussian processes over the cells of the table: what the runs of a cell share,
what they share beside others, and what a neighbour does to others there.  The covariance of each
is a sum of Kronecker products,

    v·(s_1 I⊗I + s_2 F_w⊗I + s_3 I⊗F_p + s_4 F_w⊗F_p),

I the identity (this very workload, platform) and F a Gaussian kernel over features (those like
it).  The posterior mean solves one positive definite system over the runs, by conjugate gradients:
a product with the covariance is a few products of small matrices, of single precision, which is
more than the tolerance needs.  Everything is relative to a
robust variance of the residuals, so that their scale does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.runtimes.runs import Observations

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

# Shares of variance s_1 to s_4 of the processes a, b and c, in robust variances of the residual.
_SHARES = ((1.3, 0.65, 0.65, 0.3), (0.5, 0.5, 0.5, 0.3), (0.5, 0.5, 0.5, 0.3))
# Noise of a run alone, and of one beside others.
_NOISE = (1.6, 3.3)
# Length of the kernels over standardised features, in root mean squares over the features.
_LENGTH = 0.7
# Residuals beyond so many robust deviations are outliers: no farther do they pull.
_OUTLIER = 12.0
_TOL, _MOST_STEPS = 1e-4, 80


@dataclass(frozen=True, eq=False)
class Fields:
    """Posterior means of the three processes, each (n_workloads, n_platforms).

    Attributes
    ----------
    cell : ndarray
        a, for every run of the cell.
    beside : ndarray
        b, for runs beside others.
    neighbour : ndarray
        c, for runs beside this workload.
    """

    cell: Singles
    beside: Singles
    neighbour: Singles

    def at(self, runs: Observations) -> Floats:
        """Correction of the log residual of each run, (n,)."""
        total = self.cell.ravel()[runs.cell].astype(float)
        if len(runs.felt):
            near = np.bincount(
                runs.neighbour[0], self.neighbour.ravel()[runs.neighbour_cell], len(runs.felt)
            )
            total[runs.felt] += self.beside.ravel()[runs.cell[runs.felt]] + near
        return total


def fit_fields(
    runs: Observations,
    residual: Floats,
    features: tuple[Floats, Floats],
    noise: tuple[float, float] = _NOISE,
) -> Fields:
    """Posterior mean of the fields given the residuals of some runs.

    Parameters
    ----------
    runs : Observations
    residual : ndarray, (n,)
    features : pair of ndarray, (n_workloads, d) and (n_platforms, d')
    noise : pair of float
        Variances of the noise alone and beside others, in robust variances of the residual.

    Notes
    -----
    At most 80 steps of O(n + n_workloads·n_platforms·(n_workloads + n_platforms)).
    """
    covariance = _Covariance(runs, tuple(likeness(f) for f in features), noise)
    deviation = 1.4826 * float(np.median(np.abs(residual)))
    if deviation == 0:
        return no_fields(runs.shape)
    x = _solve(covariance, np.clip(residual / deviation, -_OUTLIER, _OUTLIER))
    return Fields(*(np.float32(deviation) * field for field in covariance.fields(x)))


def no_fields(shape: tuple[int, int]) -> Fields:
    """Those that correct nothing."""
    return Fields(*np.zeros((3, *shape), dtype=np.float32))


class _Covariance:
    """The covariance matrix of the runs, as an operator."""

    def __init__(
        self, runs: Observations, likeness: tuple[Singles, ...], noise: tuple[float, float]
    ) -> None:
        self._runs, self._likeness = runs, likeness
        self._noise = np.where(runs.degree > 0, noise[1], noise[0])
        self.diagonal = self._noise + sum(_SHARES[0]) + (runs.degree > 0) * sum(_SHARES[1])
        self.diagonal += runs.degree * sum(_SHARES[2])

    def times(self, x: Floats) -> Floats:
        """Covariance of the runs times x (n,)."""
        return Fields(*self.fields(x)).at(self._runs) + self._noise * x

    def fields(self, x: Floats) -> list[Singles]:
        """Covariance of the three processes with the runs, times x (n,)."""
        runs = self._runs
        mine = x[runs.felt]
        size = runs.shape[0] * runs.shape[1]
        given = (
            (runs.cell, x),
            (runs.cell[runs.felt], mine),
            (runs.neighbour_cell, mine[runs.neighbour[0]]),
        )
        tables = (np.bincount(cell, y, size).astype(np.float32) for cell, y in given)
        return [self._smooth(t.reshape(runs.shape), shares) for t, shares in zip(tables, _SHARES)]

    def _smooth(self, table: Singles, shares: tuple[float, ...]) -> Singles:
        workloads, platforms = self._likeness
        same, like_workload, like_platform, like_both = np.array(shares, dtype=np.float32)
        across = workloads @ table
        return (
            same * table
            + like_workload * across
            + (like_platform * table + like_both * across) @ platforms
        )


def _solve(covariance: _Covariance, right: Floats) -> Floats:
    """Conjugate gradients with the diagonal as preconditioner."""
    x, r = np.zeros_like(right), right.copy()
    z = r / covariance.diagonal
    p, rz = z.copy(), float(r @ z)
    goal = _TOL**2 * rz
    for _ in range(_MOST_STEPS):
        if rz <= goal:
            break
        q = covariance.times(p)
        step = rz / float(p @ q)
        x += step * p
        r -= step * q
        z = r / covariance.diagonal
        rz, before = float(r @ z), rz
        p = z + (rz / before) * p
    return x


def likeness(features: Floats) -> Singles:
    """Gaussian kernel over standardised features, (n, n)."""
    deviation = features.std(axis=0)
    varies = deviation > 0
    scaled = features[:, varies] / deviation[varies]
    if scaled.shape[1] == 0:
        return np.eye(len(features), dtype=np.float32)
    length = _LENGTH * np.sqrt(scaled.shape[1])
    scaled = (scaled / length).astype(np.float32)
    square = (scaled**2).sum(axis=1)
    likeness = scaled @ scaled.T
    likeness -= 0.5 * square[:, None]
    likeness -= 0.5 * square
    return np.exp(np.minimum(likeness, 0.0, out=likeness), out=likeness)
