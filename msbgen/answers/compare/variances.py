"""Variances of few runs, shrunk to a common one."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

Floats = NDArray[np.float64]

# The most degrees of freedom: those of a known variance.
KNOWN = 1e9


def _trigamma(x: Floats) -> Floats:
    """The second derivative of log Γ at x > 0, as Hurwitz' zeta function."""
    return np.asarray(special.zeta(2.0, x))


# Logarithms of halves of degrees of freedom, and the trigamma function of these.
_LOG_HALVES = np.linspace(np.log(1e-6), np.log(KNOWN / 2), 2000)
_TRIGAMMA = _trigamma(np.exp(_LOG_HALVES))


def shrink(
    variance: Floats, freedom: ArrayLike, common: ArrayLike, common_freedom: ArrayLike
) -> Floats:
    """Variances s² with f degrees of freedom, shrunk to a common s₀² that counts as f₀ of them.

    They are (f s² + f₀ s₀²) / (f + f₀): the inverse of the posterior mean of 1/σ² if σ² is drawn
    from s₀² f₀ / χ²(f₀) (Smyth, Stat. Appl. Genet. Mol. Biol. 3, 2004, section 3).  The common
    variance is returned where f + f₀ is 0.  All arguments are broadcast.
    """
    total = np.add(freedom, common_freedom)
    known = total > 0
    sums = np.multiply(freedom, variance) + np.multiply(common_freedom, common)
    return np.where(known, sums / np.where(known, total, 1.0), common)


def shrink_alike(variance: Floats, freedom: Floats) -> tuple[Floats, Floats]:
    """Variances (..., n) with degrees of freedom (..., n), shrunk as far as they look alike.

    The true ones are taken to be a common one times a/χ²(a), where a is matched to the spread of
    the logarithms (Smyth, section 6.2); a is returned, too, (...).
    """
    seen = (freedom > 0) & (variance > 0)
    n = seen.sum(axis=-1)
    half = np.where(seen, freedom, 2.0) / 2
    logs = np.log(np.where(seen, variance, 1.0)) - special.digamma(half) + np.log(half)
    usual = np.where(seen, logs, 0.0).sum(axis=-1) / np.maximum(n, 1)
    square = np.where(seen, (logs - usual[..., None]) ** 2, 0.0).sum(axis=-1)
    expected = np.where(seen, _trigamma(half), 0.0).sum(axis=-1) / np.maximum(n, 1)
    beyond = square / np.maximum(n - 1, 1) - expected
    are_alike = beyond <= _TRIGAMMA[-1]
    # trigamma falls with its argument
    log_half = np.interp(-np.log(np.maximum(beyond, 1e-300)), -np.log(_TRIGAMMA), _LOG_HALVES)
    added = np.where(are_alike, KNOWN, 2 * np.exp(log_half))
    added = np.where(n > 1, added, 0.0)
    plain = np.where(seen, variance * half, 0.0).sum(axis=-1) / np.maximum(
        np.where(seen, half, 0.0).sum(axis=-1), 1e-300
    )
    a = np.maximum(added, 1e-6) / 2
    common = np.where(are_alike | (n < 2), plain, np.exp(usual + special.digamma(a) - np.log(a)))
    # a variance of 0 is that of equal runs, or of a single one
    shrunk = shrink(np.where(seen, variance, 0.0), freedom, common[..., None], added[..., None])
    return np.where(n[..., None] > 0, shrunk, 0.0), added
