"""Slow, readable references that import nothing of the package."""

from functools import cache

import numpy as np


def dtw(a, b):
    """Dynamic time warping by its recursion, all paths at once."""

    @cache
    def cheapest(i, j):
        here = float(np.linalg.norm(a[i] - b[j]))
        if i == 0 and j == 0:
            return here
        before = [(i - 1, j), (i, j - 1), (i - 1, j - 1)]
        return here + min(cheapest(*p) for p in before if min(p) >= 0)

    return cheapest(len(a) - 1, len(b) - 1)


def atoms(coupling, values, contexts, lam):
    """Every displacement atom between two snapshots: (mass, value, context), rows r then s."""
    mass, value, context = [], [], []
    for r in range(len(values[0])):
        for s in range(len(values[1])):
            mass.append(coupling[r, s])
            value.append(lam * values[0][r] + (1 - lam) * values[1][s])
            context.append(lam * contexts[0][r] + (1 - lam) * contexts[1][s])
    return np.array(mass), np.array(value), np.array(context)


def log_kernel(query, contexts):
    """Log of the unit Gaussian kernel, unnormalised."""
    return np.array([-0.5 * np.sum((query - c) ** 2) for c in contexts])
