"""Exact search for the cheapest joint choice under totals, on arrays.

For n tasks, with costs c_i and uses u_i (one row for each option of task i), this solves

    min Σ_i c_i(x_i)   subject to   Σ_i u_i(x_i) ≤ total   in every resource,

a knapsack with several choices and resources.  Partial choices of the first i tasks are kept as a
Pareto set of cost and uses: of two partial choices, one that is no cheaper and uses no less of
anything cannot be a part of a better whole.  Partial choices that leave later tasks less than their
least are dropped.  The result is optimal; on a grid of levels the sets have at most as many members
as there are sums of levels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Sums of levels may be above a total by this share, for rounding.
ROUNDING = 1e-9
# Sums that differ by less than this share of a total are equal.
_EQUAL = 1e-12
# Pairs of partial choices and options that are compared at a time, and members of a set.
_PAIRS, _BLOCK = 1_000_000, 256


def cheapest_rows(
    costs: Sequence[Floats], uses: Sequence[Floats], total: Floats
) -> list[int] | None:
    """One row for each task with the least sum of costs within the totals; None if there is none.

    Parameters
    ----------
    costs : sequence of ndarray, (n_options,) each
    uses : sequence of ndarray, (n_options, n_resources) each
        Not negative.
    total : ndarray, (n_resources,)
        Positive.

    Examples
    --------
    >>> cost = np.array([3.0, 1.0])
    >>> cheapest_rows([cost, cost], [np.array([[1.0], [2.0]])] * 2, np.array([3.0]))
    [0, 1]
    """
    shares = [use / total for use in uses]
    least = [share.min(axis=0) if len(share) else np.inf for share in shares]
    cost, used = np.zeros(1), np.zeros((1, len(total)))
    trail: list[tuple[Indices, Indices]] = []
    for i, (more, share) in enumerate(zip(costs, shares)):
        room = 1.0 + ROUNDING - np.sum(least[i + 1 :], axis=0)
        options = non_dominated(more, share)
        states, rows = _extended(cost, used, more[options], share[options], room)
        rows = options[rows]
        if not len(states):
            return None
        trail.append((states, rows))
        cost, used = cost[states] + more[rows], used[states] + share[rows]
    at, chosen = int(cost.argmin()), []
    for states, rows in reversed(trail):
        chosen.append(int(rows[at]))
        at = int(states[at])
    return chosen[::-1]


def _extended(
    cost: Floats, used: Floats, more: Floats, share: Floats, room: Floats
) -> tuple[Indices, Indices]:
    """Pairs (partial choice, option) of the Pareto set with one task more."""
    states, rows = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    at_once = max(1, _PAIRS // max(len(more), 1))
    for start in range(0, len(cost), at_once):
        part = np.arange(start, min(start + at_once, len(cost)))
        one, other = (side.ravel() for side in np.meshgrid(part, np.arange(len(more))))
        within = (used[one] + share[other] <= room).all(axis=1)
        states = np.concatenate([states, one[within]])
        rows = np.concatenate([rows, other[within]])
        kept = non_dominated(cost[states] + more[rows], used[states] + share[rows])
        states, rows = states[kept], rows[kept]
    return states, rows


def non_dominated(cost: Floats, used: Floats) -> Indices:
    """Rows that no other row dominates, the cheapest first; of equal ones the first."""
    order = np.lexsort((*used.T[::-1], cost))
    steps = np.round(used[order] / _EQUAL)
    order = order[np.sort(np.unique(steps, axis=0, return_index=True)[1])]
    kept = np.empty(0, dtype=np.int64)
    for start in range(0, len(order), _BLOCK):
        block = order[start : start + _BLOCK]
        block = block[~_below(used[kept], used[block]).any(axis=1)]
        earlier = np.tril(_below(used[block], used[block]), -1)
        kept = np.concatenate([kept, block[~earlier.any(axis=1)]])
    return kept


def _below(some: Floats, others: Floats) -> NDArray[np.bool_]:
    """Whether each of `others` uses at least as much of everything as each of `some`."""
    return np.all(some[None] <= others[:, None], axis=2)
