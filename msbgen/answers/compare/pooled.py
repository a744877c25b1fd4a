"""The mean over contexts of differences between two versions, weighed by their noise.

With the difference d_c = δ_c + noise in context c, the mean is D = Σ w_c δ_c.  Given weights w are
kept: D = Σ w_c d_c.  Without them w is equal, and δ_c varies between contexts with a variance τ²
(random effects): the best linear prediction of D weighs contexts alike, but those whose noise is
far above τ² less, so that they do not decide.  There, the noise of a context is at least the usual
one of its neighbours (`usual.py`): few runs miss modes of the noise that none of them has (page
colourings).  Degrees of freedom are Satterthwaite's, without their bias.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.answers.compare.usual import usual_noise
from msbgen.answers.compare.variances import KNOWN

Floats = NDArray[np.float64]

# Least variance of the true differences between contexts, over the usual noise of one.
_LEAST_APART = 10.0
# Least variance: that of equal runs is rounding.
_LEAST_VARIANCE = 1e-32


@dataclass(frozen=True, eq=False)
class Pooled:
    """Means over contexts, (...).

    Attributes
    ----------
    value : (...)
        The mean.
    noise : (...)
        Its standard deviation by the noise of the runs.
    error : (...)
        Its standard error: by the noise, and as noisy contexts count less than others.
    freedom : (...)
        Degrees of freedom of `error`.
    weights : (..., n)
        Weights of the contexts, which sum to 1.
    """

    value: Floats
    noise: Floats
    error: Floats
    freedom: Floats
    weights: Floats


def equal_weights(n: int) -> Floats:
    """Weights of n contexts that count alike, (n,)."""
    return np.full(n, 1.0 / n)


def pool(
    contexts: Floats,
    value: Floats,
    variance: Floats,
    freedom: Floats,
    added_freedom: Floats,
    weights: Floats | None,
) -> Pooled:
    """Mean over contexts (n, m) of values (..., n).

    Parameters
    ----------
    contexts : (n, m)
        Levels of the resources.
    value, variance : (..., n)
        Differences of the contexts, and their variances by the noise of the runs.
    freedom : (..., n)
        Degrees of freedom of the spread of each context's runs.
    added_freedom : (...)
        Those that a common variance adds to each.
    weights : (n,) or None
        Weights that sum to 1; None: alike, but noisy contexts less.
    """
    free = freedom + added_freedom[..., None]
    if weights is not None:
        gain = np.broadcast_to(weights, value.shape)
        extra = np.zeros(value.shape[:-1])
    else:
        even = equal_weights(value.shape[-1])
        noise = np.maximum(variance, usual_noise(contexts, variance, free))
        noise = np.maximum(noise, _LEAST_VARIANCE)
        apart = _heterogeneity(value, noise)[..., None]
        precision = 1 / (apart + noise)
        gain = precision / precision.sum(axis=-1, keepdims=True)
        extra = apart[..., 0] * ((gain - even) ** 2).sum(axis=-1)
    parts = gain**2 * variance
    total = parts.sum(axis=-1)
    # estimated squares are larger than those of the variances by (f + 2)/f
    known = np.maximum((parts**2 / (free + 2)).sum(axis=-1), 1e-300)
    found = np.where(total > 0, total**2 / known - 2, KNOWN)
    found = np.clip(found, free.min(axis=-1), freedom.sum(axis=-1))
    return Pooled(
        value=(gain * value).sum(axis=-1),
        noise=np.sqrt(total),
        error=np.sqrt(total + extra),
        freedom=np.where(total > 0, np.maximum(found, 1.0), KNOWN),
        weights=gain,
    )


def _heterogeneity(value: Floats, noise: Floats) -> Floats:
    """Variance of the true differences between contexts, (...), from values and noise (..., n).

    DerSimonian and Laird (1986); at least a multiple of the usual noise, which cannot be told from
    it.
    """
    least = _LEAST_APART * np.median(noise, axis=-1)
    n = value.shape[-1]
    if n == 1:
        return least
    precision = 1 / noise
    total = precision.sum(axis=-1)
    centre = (precision * value).sum(axis=-1) / total
    beyond = (precision * (value - centre[..., None]) ** 2).sum(axis=-1) - (n - 1)
    # the total less Σp²/total, which rounding would lose where one context is far more precise
    others = (precision * (1 - precision / total[..., None])).sum(axis=-1)
    return np.maximum(beyond / others, least)
