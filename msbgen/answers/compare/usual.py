"""The usual noise of a context: that of the contexts on its side of a level of a resource.

The runs of one context may all be in one mode of the noise, such as a page colouring, so that
their spread is far too small.  Its neighbours show the mode.  Contexts are split in two at the
level of a resource at which the noise changes most, if it clearly does; the mean noise of either
side is the usual one there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Degrees of freedom of the usual noise in that of a context.
PRIOR_FREEDOM = 16.0
# The most levels of a resource at which contexts are split.
_MOST_LEVELS = 8
# Twice the least gain of a split in log-likelihood.
_CLEAR = 10.0
# Degrees of freedom of single runs, which are weighed alike.
_LEAST_FREEDOM = 1e-9


def usual_noise(contexts: Floats, variance: Floats, freedom: Floats) -> Floats:
    """Mean variance (..., n) on each context's side of the best split, or of all contexts.

    Parameters
    ----------
    contexts : (n, m)
        Levels of the resources.
    variance, freedom : (..., n)
        Variances and their degrees of freedom, by which they are weighed.
    """
    return mean_by_side(variance, freedom, sides(contexts, variance, freedom))


def mean_by_side(values: Floats, freedom: Floats, below: Floats) -> Floats:
    """Means of values (..., n) on the side of each context, weighed by degrees of freedom."""
    out = np.zeros(values.shape)
    for side in (below, 1 - below):
        weights = side * np.maximum(freedom, _LEAST_FREEDOM)
        total = np.maximum(weights.sum(axis=-1, keepdims=True), _LEAST_FREEDOM)
        out += side * (weights * values).sum(axis=-1, keepdims=True) / total
    return out


def sides(contexts: Floats, variance: Floats, freedom: Floats) -> Floats:
    """Side of the best split on which each context is, 1 or 0, (..., n); all 1 without a clear one.

    Variances are taken to follow scaled χ² distributions with a common mean on either side; the
    split is that of the largest likelihood.
    """
    below = _splits(contexts)
    free = np.maximum(freedom, _LEAST_FREEDOM)
    loss = np.zeros((*variance.shape[:-1], len(below)))
    for side in (below, 1 - below):
        total = free @ side.T
        mean = (free * variance) @ side.T / np.maximum(total, _LEAST_FREEDOM)
        loss += total * np.log(np.maximum(mean, 1e-300))
    loss[..., 1:] += _CLEAR
    return below[loss.argmin(axis=-1)]


def _splits(contexts: Floats) -> Floats:
    """Whether each context is below a level of a resource, 1 or 0, (splits, n); first: all are."""
    rows = [np.ones(len(contexts))]
    for column in contexts.T:
        levels = np.unique(column)[1:]
        if len(levels) > _MOST_LEVELS:
            places = np.linspace(0, len(levels) - 1, _MOST_LEVELS).round().astype(int)
            levels = levels[places]
        rows += [(column < level).astype(float) for level in levels]
    return np.stack(rows)
