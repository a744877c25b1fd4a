"""The prior covariance over contexts: a Matérn process and a nearly free line.

Between scaled coordinates z and z', of which each spans about one,

    k(z, z') = Π_r matern(|z_r − z'_r| / length_r) + 100·(1 + 12 z·z'),

is a smooth part of unit variance (Matérn, ν = 5/2; Rasmussen and Williams, 2006, equation 4.17)
plus a line.  The variance of the line is so large that it is fitted freely.
"""

from threading import Lock

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Variance of the line over that of the smooth part.
LINEAR = 100.0
# With fewer contexts, finding their common levels takes longer than it saves.
_FEW = 8
# Length scales of a resource whose correlations are cached: a search stays near the best ones.
_CACHED = 4


def matern(step: Floats, length: Floats | float) -> Floats:
    """Correlation at a distance along one resource, elementwise."""
    scaled = np.sqrt(5.0) * np.abs(step) / length
    return (1.0 + scaled + scaled**2 / 3.0) * np.exp(-scaled)


def line(inner: Floats) -> Floats:
    """Covariance of the line, from products z·z'."""
    return LINEAR * (1.0 + 12.0 * inner)


class Pairs:
    """The covariance between scaled coordinates (q, m) and (n, m), for several length scales."""

    def __init__(self, z: Floats, other: Floats) -> None:
        self._z, self._other = z, other
        self._line = line(z @ other.T)
        if len(z) >= _FEW:
            self._lock = Lock()
            self._cached: list[dict[float, Floats]] = [{} for _ in range(z.shape[1])]
            self._levels = [_levels(column, of_other) for column, of_other in zip(z.T, other.T)]

    def covariance(self, lengths: Floats) -> Floats:
        """Covariances with one length scale per resource, (m,) -> (q, n)."""
        if len(self._z) < _FEW:
            return self.covariances(lengths[None])[0]
        smooth = self._correlation(0, float(lengths[0])).copy()
        for r in range(1, len(lengths)):
            smooth *= self._correlation(r, float(lengths[r]))
        smooth += self._line
        return smooth

    def covariances(self, lengths: Floats) -> Floats:
        """Covariances for several sets of length scales, (k, m) -> (k, q, n)."""
        if len(self._z) < _FEW:
            steps = np.abs(self._z[:, None] - self._other)
            scaled = np.sqrt(5.0) * steps / lengths[:, None, None]
            smooth = (1.0 + scaled + scaled * scaled / 3.0).prod(axis=3)
            return smooth * np.exp(-scaled.sum(axis=3)) + self._line
        return np.stack([self.covariance(one) for one in lengths])

    def _correlation(self, r: int, length: float) -> Floats:
        """Correlations along one resource, (q, n)."""
        cached = self._cached[r]
        correlation = cached.get(length)
        if correlation is None:
            steps, places = self._levels[r]
            # grids repeat levels: one value per pair of distinct levels
            correlation = matern(steps, length)[places]
            with self._lock:  # quantities are searched in parallel
                while len(cached) >= _CACHED:
                    del cached[next(iter(cached))]
                cached[length] = correlation
        return correlation


def _levels(column: Floats, other: Floats) -> tuple[Floats, tuple[NDArray[np.intp], ...]]:
    """Steps between distinct levels, and the place of each pair of points among them."""
    levels, i = np.unique(column, return_inverse=True)
    other_levels, j = np.unique(other, return_inverse=True)
    return levels[:, None] - other_levels, np.ix_(i, j)


def prior_covariance(z: Floats, other: Floats, lengths: Floats) -> Floats:
    """Covariance between scaled coordinates (q, m) and (n, m), (q, n)."""
    return Pairs(z, other).covariance(lengths)


def prior_variance(z: Floats) -> Floats:
    """Variance at scaled coordinates (q, m), (q,)."""
    return 1.0 + line((z**2).sum(axis=1))
