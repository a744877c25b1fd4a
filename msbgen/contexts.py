"""Resource contexts as points: how far apart they are, how much one tells of another."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def to_unit_range(known: Floats, contexts: Floats) -> Floats:
    """Contexts with each resource's known range moved to [0, 1]; a constant resource becomes 0."""
    low, high = known.min(axis=0), known.max(axis=0)
    varies = high > low
    return np.where(varies, (contexts - low) / np.where(varies, high - low, 1.0), 0.0)


def scott_bandwidth(known: Floats) -> Floats:
    """Scott's rule over the distinct known contexts, one bandwidth a resource, (n_resources,).

    h_i = σ_i·n^(−1/(m+4)) with n distinct contexts that vary in m resources; 1 where a
    resource does not vary, so that dividing by it is harmless.
    """
    distinct = np.unique(known, axis=0)
    sigma = distinct.std(axis=0)
    varies = sigma > 0
    return np.where(varies, sigma * len(distinct) ** (-1.0 / (varies.sum() + 4)), 1.0)


def squared_distances(a: Floats, b: Floats) -> Floats:
    """Squared Euclidean distances, (len(a), len(b))."""
    return ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2)


def gaussian_log_weights(known: Floats, query: Floats) -> Floats:
    """Log of the Gaussian kernel between contexts in bandwidths, 0 for the nearest known one.

    (n_known, m), (n_query, m) -> (n_query, n_known); safe to exponentiate however far the
    contexts are.
    """
    exponent = -0.5 * squared_distances(query, known)
    return exponent - exponent.max(axis=1, keepdims=True)


def outside_hull(known: Floats, query: Floats) -> NDArray[np.bool_]:
    """Which contexts are no convex combination of the known ones, (n_query,)."""
    low, high = known.min(axis=0), known.max(axis=0)
    slack = 1e-9 * np.maximum(np.abs(low), np.abs(high))
    outside = np.any((query < low - slack) | (query > high + slack), axis=1)
    known, query = to_unit_range(known, known), to_unit_range(known, query)
    corners = np.array(np.meshgrid(*zip(known.min(axis=0), known.max(axis=0))))
    corners = corners.reshape(known.shape[1], -1).T
    if squared_distances(corners, known).min(axis=1).max() > 1e-18:
        # not every corner of the box was measured: look for the combination itself
        from scipy.optimize import nnls  # here, as it takes as long to import as all the rest

        lifted = np.vstack([known.T, np.ones(len(known))])
        for i in np.flatnonzero(~outside):
            outside[i] = nnls(lifted, np.append(query[i], 1.0))[1] > 1e-6
    return outside
