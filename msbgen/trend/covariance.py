"""The prior of a smooth dependence on the context: a Matérn process and a nearly free line.

Between scaled coordinates z and z' (each resource spans about one),

    k(z, z') = Π_r matern(|z_r − z'_r| / length_r) + 100·(1 + 12 z·z'),

a smooth part of unit variance (Matérn, ν = 5/2; Rasmussen and Williams, 2006, equation 4.17) and a
line whose variance is so large that it is fitted freely.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Variance of the line over that of the smooth part.
LINEAR = 100.0
# Fewer contexts than these: finding the levels that they share takes longer than it spares.
_FEW = 8


def matern(step: Floats, length: Floats | float) -> Floats:
    """Correlation at a distance along one resource, elementwise."""
    scaled = np.sqrt(5.0) * np.abs(step) / length
    return (1.0 + scaled + scaled**2 / 3.0) * np.exp(-scaled)


def line(inner: Floats) -> Floats:
    """Covariance of the line, from products z·z'."""
    return LINEAR * (1.0 + 12.0 * inner)


def prior_covariance(z: Floats, other: Floats, lengths: Floats) -> Floats:
    """k between (q, m) and (n, m) scaled coordinates, (q, n)."""
    if len(z) < _FEW:
        smooth = matern(z[:, None] - other, lengths).prod(axis=2)
        return smooth + line(z @ other.T)
    smooth = np.ones((len(z), len(other)))
    for r, length in enumerate(lengths):
        # grids repeat levels: one value per pair of distinct levels
        mine, i = np.unique(z[:, r], return_inverse=True)
        theirs, j = np.unique(other[:, r], return_inverse=True)
        smooth *= matern(mine[:, None] - theirs, length)[np.ix_(i, j)]
    return smooth + line(z @ other.T)


def prior_variance(z: Floats) -> Floats:
    """k(z, z) of (q, m) scaled coordinates, (q,)."""
    return 1.0 + line((z**2).sum(axis=1))
