"""The prior of a smooth dependence on the context: a Matérn process and a nearly free line.

Between scaled coordinates z and z' (each resource spans about one),

    k(z, z') = Π_r matern(|z_r − z'_r| / length_r) + 100·(1 + 12 z·z'),

a smooth part of unit variance (Matérn, ν = 5/2; Rasmussen and Williams, 2006, equation 4.17) and a
line whose variance is so large that it is fitted freely.
"""

from __future__ import annotations

from threading import Lock

import numpy as np
from numpy.typing import NDArray

from msbgen.trend import _kernels

Floats = NDArray[np.float64]

# Variance of the line over that of the smooth part.
LINEAR = 100.0
# Fewer contexts than these: finding the levels that they share takes longer than it spares.
_FEW = 8
# Length scales of a resource whose correlations are kept: a search tries neighbours of the best.
_KEPT = 4


def matern(step: Floats, length: Floats | float) -> Floats:
    """Correlation at a distance along one resource, elementwise."""
    scaled = np.sqrt(5.0) * np.abs(step) / length
    return (1.0 + scaled + scaled**2 / 3.0) * np.exp(-scaled)


def line(inner: Floats) -> Floats:
    """Covariance of the line, from products z·z'."""
    return LINEAR * (1.0 + 12.0 * inner)


class Pairs:
    """The covariance between given points, for many length scales.

    Parameters
    ----------
    z, other : ndarray, (q, m) and (n, m)
        Scaled coordinates.
    """

    def __init__(self, z: Floats, other: Floats) -> None:
        self._z, self._other = z, other
        self._line = line(z @ other.T)
        if len(z) >= _FEW:
            self._lock = Lock()
            self._kept: list[dict[float, Floats]] = [{} for _ in range(z.shape[1])]
            self._levels = [_levels(mine, theirs) for mine, theirs in zip(z.T, other.T)]

    def covariance(self, lengths: Floats) -> Floats:
        """Covariances with one length scale a resource, (m,) -> (q, n)."""
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
            out = np.empty((len(lengths), *self._line.shape))
            out[:] = self._line
            few, others, scales = map(np.ascontiguousarray, (self._z, self._other, lengths))
            _kernels.add_matern(few, others, scales, out)
            return out
        return np.stack([self.covariance(one) for one in lengths])

    def _correlation(self, r: int, length: float) -> Floats:
        """Along one resource, (q, n)."""
        kept = self._kept[r]
        found = kept.get(length)
        if found is None:
            steps, places = self._levels[r]
            # grids repeat levels: one value per pair of distinct levels
            found = matern(steps, length)[places]
            with self._lock:  # quantities are searched side by side
                while len(kept) >= _KEPT:
                    del kept[next(iter(kept))]
                kept[length] = found
        return found


def _levels(mine: Floats, theirs: Floats) -> tuple[Floats, tuple[NDArray[np.intp], ...]]:
    """Steps between distinct levels, and where those of each pair of points stand among them."""
    levels, i = np.unique(mine, return_inverse=True)
    other_levels, j = np.unique(theirs, return_inverse=True)
    return levels[:, None] - other_levels, np.ix_(i, j)


def prior_covariance(z: Floats, other: Floats, lengths: Floats) -> Floats:
    """k between (q, m) and (n, m) scaled coordinates, (q, n)."""
    return Pairs(z, other).covariance(lengths)


def prior_variance(z: Floats) -> Floats:
    """k(z, z) of (q, m) scaled coordinates, (q,)."""
    return 1.0 + line((z**2).sum(axis=1))
