"""Sums of non-negative terms, fitted in relative error.

Times and powers are sums of contributions that cannot be negative, and a kernel of a microsecond
counts as much as one of a second.  So the coefficients minimise Σ (Σ_j w_j x_ij / y_i − 1)²
subject to w ≥ 0.
"""

from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
# With more resources than this, there are no products of several.
MOST_PRODUCTS = 3
# Powers of the clock's share that multiply a rate; most coefficients are fitted to 0.
POWERS = (0.5, 1.0, 2.0, 3.0)


def fit_terms(columns: Floats, target: Floats) -> Floats:
    """Coefficients (d,) of columns (n, d) that are not negative, for a positive target (n,)."""
    from scipy.optimize import nnls

    relative = columns / target[:, None]
    size = relative.max(axis=0)
    some = size > 0
    scaled = relative[:, some] / size[some]
    weight, _ = nnls(scaled, np.ones(len(target)), maxiter=30 * max(scaled.shape[1], 10))
    weights = np.zeros(columns.shape[1])
    weights[some] = weight / size[some]
    return weights


def inverse_products(configurations: Floats) -> Floats:
    """Factors of time in every configuration, (m, d): 1, 1/r of each resource, their products."""
    inverse = 1.0 / np.maximum(configurations, 1e-300)
    n_resources = configurations.shape[1]
    most = n_resources if n_resources <= MOST_PRODUCTS else 1
    columns = [np.ones(len(configurations))]
    for size in range(1, most + 1):
        for chosen in combinations(range(n_resources), size):
            columns.append(inverse[:, chosen].prod(axis=1))
    return np.stack(columns, axis=1)


def count_inverse_products(n_resources: int) -> int:
    """Number of columns of :func:`inverse_products`."""
    most = n_resources if n_resources <= MOST_PRODUCTS else 1
    return sum(comb(n_resources, size) for size in range(most + 1))


def powers_of_clocks(shares: Floats) -> Floats:
    """Factors of power, (m, d): 1, and r and r³ of every clock as a share of its highest.

    The power of a chip is a constant plus V²·f; the voltage V rises with the clock f.
    """
    columns = [np.ones(len(shares))]
    for clock in shares.T:
        columns += [clock, clock**3]
    return np.stack(columns, axis=1)


def column_products(a: Floats, b: Floats) -> Floats:
    """Products of each column of a with each of b, (n, d_a·d_b)."""
    return (a[:, :, None] * b[:, None, :]).reshape(len(a), -1)
