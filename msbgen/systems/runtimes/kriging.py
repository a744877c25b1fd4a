"""Kriging of the towers' residual: correlated errors of similar workloads on similar platforms.

The residual e of a run of workload i on platform j beside the workloads K is modelled as

    e = a_ij + [K not empty] b_ij + Σ_{k in K} c_kj + noise.

The three are independent Gaussian processes over the cells of the table: a for all runs of a cell,
b for its runs beside others, c for the effect of a neighbour there.  The covariance of each is a
sum of Kronecker products,

    v·(s_1 I⊗I + s_2 F_w⊗I + s_3 I⊗F_p + s_4 F_w⊗F_p),

with the identity I and a Gaussian kernel F over features.  The posterior mean is the solution of
one positive definite system over the runs, by conjugate gradients.  A product with the covariance
is a few products of small matrices, in single precision, which suffices for the tolerance.
Variances are relative to a robust variance of the residuals, so that their scale does not matter.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from msbgen.core.arrays import LOG_TIMES, Stored
from msbgen.systems.runtimes.runs import Observations

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

# Variances s_1 to s_4 of the processes a, b and c, in robust variances of the residual.
_SHARES = ((1.3, 0.65, 0.65, 0.3), (0.5, 0.5, 0.5, 0.3), (0.5, 0.5, 0.5, 0.3))
# Noise of a run alone, and of one beside others.
_NOISE = (1.6, 3.3)
# Length of the kernels over standardised features, in root mean squares over the features.
_LENGTH = 0.7
# Residuals are clipped to so many robust standard deviations.
_OUTLIER = 12.0
_TOL, _MAX_ITER = 1e-4, 80
_STORED = Stored(("workload", "platform"), LOG_TIMES, "f4")


@dataclass(frozen=True, eq=False)
class Fields:
    """Posterior means of the three processes, each (n_workloads, n_platforms).

    They are a for every run of the cell, b for runs beside others, c for runs beside this workload.
    """

    cell: Annotated[Singles, _STORED]
    beside: Annotated[Singles, _STORED]
    neighbour: Annotated[Singles, _STORED]

    def at(self, runs: Observations) -> Floats:
        """Correction of the log residual of each run, (n,)."""
        total = self.cell.ravel()[runs.cell].astype(float)
        if len(runs.interfered):
            from_neighbours = np.bincount(
                runs.neighbour[0], self.neighbour.ravel()[runs.neighbour_cell], len(runs.interfered)
            )
            total[runs.interfered] += (
                self.beside.ravel()[runs.cell[runs.interfered]] + from_neighbours
            )
        return total


def fit_fields(
    runs: Observations,
    residual: Floats,
    features: tuple[Floats, Floats],
    noise: tuple[float, float] = _NOISE,
) -> Fields:
    """Posterior mean of the fields given the residuals (n,) of some runs.

    `noise` has the variances alone and beside others, in robust variances of the residual. The cost
    is at most 80 steps of O(n + n_workloads·n_platforms·(n_workloads + n_platforms)).
    """
    covariance = _Covariance(runs, tuple(feature_kernel(f) for f in features), noise)
    deviation = 1.4826 * float(np.median(np.abs(residual)))
    if deviation == 0:
        return no_fields(runs.shape)
    x = _solve(covariance, np.clip(residual / deviation, -_OUTLIER, _OUTLIER))
    return Fields(*(np.float32(deviation) * field for field in covariance.fields(x)))


def no_fields(shape: tuple[int, int]) -> Fields:
    """Fields of zeros."""
    return Fields(*np.zeros((3, *shape), dtype=np.float32))


class _Covariance:
    """The covariance matrix of the runs, as an operator."""

    def __init__(
        self, runs: Observations, kernels: tuple[Singles, ...], noise: tuple[float, float]
    ) -> None:
        self._runs, self._kernels = runs, kernels
        self._noise = np.where(runs.n_neighbours > 0, noise[1], noise[0])
        self.diagonal = self._noise + sum(_SHARES[0]) + (runs.n_neighbours > 0) * sum(_SHARES[1])
        self.diagonal += runs.n_neighbours * sum(_SHARES[2])

    def times(self, x: Floats) -> Floats:
        """Covariance of the runs times x (n,)."""
        return Fields(*self.fields(x)).at(self._runs) + self._noise * x

    def fields(self, x: Floats) -> list[Singles]:
        """Covariance of the three processes with the runs, times x (n,)."""
        runs = self._runs
        beside = x[runs.interfered]
        size = runs.shape[0] * runs.shape[1]
        parts = (
            (runs.cell, x),
            (runs.cell[runs.interfered], beside),
            (runs.neighbour_cell, beside[runs.neighbour[0]]),
        )
        tables = (np.bincount(cell, y, size).astype(np.float32) for cell, y in parts)
        return [self._smooth(t.reshape(runs.shape), shares) for t, shares in zip(tables, _SHARES)]

    def _smooth(self, table: Singles, shares: tuple[float, ...]) -> Singles:
        workloads, platforms = self._kernels
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
    for _ in range(_MAX_ITER):
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


def feature_kernel(features: Floats) -> Singles:
    """Gaussian kernel over standardised features, (n, n)."""
    deviation = features.std(axis=0)
    varies = deviation > 0
    scaled = features[:, varies] / deviation[varies]
    if scaled.shape[1] == 0:
        return np.eye(len(features), dtype=np.float32)
    length = _LENGTH * np.sqrt(scaled.shape[1])
    scaled = (scaled / length).astype(np.float32)
    square = (scaled**2).sum(axis=1)
    kernel = scaled @ scaled.T
    kernel -= 0.5 * square[:, None]
    kernel -= 0.5 * square
    return np.exp(np.minimum(kernel, 0.0, out=kernel), out=kernel)
