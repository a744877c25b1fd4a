"""The cheapest joint allotment of shared resources to tasks with deadlines; exact.

For n tasks, with costs c_i and uses u_i (one row for each option of task i), this solves

    min Σ_i c_i(x_i)   subject to   Σ_i u_i(x_i) ≤ total   in every resource,

a knapsack with several choices and resources.  Partial choices of the first i tasks are kept as a
Pareto set of cost and uses: of two partial choices, one that is no cheaper and uses no less of
anything cannot be a part of a better whole.  Partial choices that leave later tasks less than their
least are dropped.  On a grid of levels the sets have at most as many members as there are sums of
levels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.answers.choose.context import ContextChoice, PricedContexts
from msbgen.answers.choose.costs import Costs
from msbgen.core.choice import InfeasibleError
from msbgen.core.errors import ArgumentError, is_number, quoted
from msbgen.data.schema import labels_of

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Sums of levels may be above a total by this share, for rounding.
_ROUNDING = 1e-9
# Sums that differ by less than this share of a total are equal.
_EQUAL = 1e-12
# Pairs of partial choices and options that are compared at a time, and members of a set.
_PAIRS, _BLOCK = 1_000_000, 256


@dataclass(frozen=True)
class NextTotal:
    """The cheapest allotment if one shared resource had one step more."""

    resource: str
    total: float
    cost: float


@dataclass(frozen=True, eq=False)
class Allotment:
    """A context for each task, with the least cost within the totals.

    Attributes
    ----------
    choices : tuple of ContextChoice
        In the order of the tasks.
    cost : float
        Sum over the tasks of weight times cost.
    total, used : dict of str to float
        What there is of each shared resource, and the sum of the chosen levels.
    more : tuple of NextTotal
        For each shared resource, what one step more of it buys.
    """

    choices: tuple[ContextChoice, ...]
    cost: float
    total: dict[str, float]
    used: dict[str, float]
    more: tuple[NextTotal, ...]


def share_resources(
    bounds: Sequence[xr.Dataset],
    deadlines: Sequence[float],
    costs: Costs,
    total: Mapping[str, float],
    *,
    weights: Sequence[float] | None = None,
    untested: bool = False,
) -> Allotment:
    """The cheapest contexts of several tasks that keep all deadlines and share resources; exact.

    Parameters
    ----------
    bounds : sequence of xarray.Dataset
        Of each task, as :func:`msbgen.choose_context` takes them.  A task that runs twice stands
        here twice.
    deadlines : sequence of float
        [s]
    costs : str, mapping or array_like
        Prices of the resources, the same for all tasks
        (:func:`msbgen.answers.choose.costs.context_costs`).
    total : mapping of str to float
        How much there is of each shared resource [the resource's unit].  A resource that is not
        named here is private to each task.
    weights : sequence of float
        Factors of the tasks' costs; 1 where not given.
    untested : bool
        As for :func:`msbgen.choose_context`.

    Raises
    ------
    ArgumentError
        Numbers of tasks, deadlines and weights differ, or a total or weight is not positive or of
        no resource of a task.
    InfeasibleError
        A deadline, or all together within the totals, cannot be kept.  The message names what can.
    """
    for name, given in (("bounds", bounds), ("deadlines", deadlines), ("weights", weights)):
        wanted = (Sequence, np.ndarray) if name != "weights" else (Sequence, np.ndarray, type(None))
        if not isinstance(given, wanted):
            raise ArgumentError(
                f"{name} are {quoted(given)}; a list, one for each task, is wanted."
            )
    weights = [1.0] * len(bounds) if weights is None else weights
    if not 0 < len(bounds) == len(deadlines) == len(weights):
        raise ArgumentError(
            f"there are {len(bounds)} tasks, {len(deadlines)} deadlines and {len(weights)} "
            f"weights; one each for one task or more is wanted."
        )
    for name, values in (("weights", weights), ("totals", total.values())):
        for value in values:
            if not (is_number(value) and 0 < value < float("inf")):
                raise ArgumentError(f"{name} hold {quoted(value)}; positive numbers are wanted.")
    if not total:
        raise ArgumentError("totals are empty; one shared resource or more is wanted.")
    tasks = [
        _Task(PricedContexts(each, costs, untested=untested), float(weight), tuple(total))
        for each, weight in zip(bounds, weights)
    ]
    ends = np.asarray(deadlines, dtype=float)
    kept = [task.contexts.within(end) for task, end in zip(tasks, deadlines)]
    there = np.array([float(value) for value in total.values()])
    rows = _cheapest(tasks, kept, there)
    if rows is None:
        raise InfeasibleError(_unreachable(tasks, ends, dict(zip(total, there.tolist()))))
    used = np.sum([task.uses[row] for task, row in zip(tasks, rows)], axis=0)
    return Allotment(
        tuple(task.contexts.choice(row, end) for task, row, end in zip(tasks, rows, deadlines)),
        _cost(tasks, rows),
        dict(zip(total, there.tolist())),
        dict(zip(total, used.tolist())),
        tuple(_more(tasks, kept, there, tuple(total))),
    )


class _Task:
    """Contexts of one task with their uses of the shared resources."""

    def __init__(self, contexts: PricedContexts, weight: float, shared: tuple[str, ...]):
        for name in shared:
            if name not in contexts.resources:
                raise ArgumentError(
                    f"total of {quoted(name)} is of no resource of {contexts.task}; one of "
                    f"{', '.join(contexts.resources)} is wanted."
                )
            if labels_of(contexts.bounds[name].attrs):
                raise ArgumentError(f"levels of '{name}' are words, which have no total; drop it.")
        self.contexts = contexts
        self.cost = weight * contexts.cost
        self.uses: Floats = contexts.contexts[
            :, [contexts.resources.index(name) for name in shared]
        ]


def _cheapest(tasks: Sequence[_Task], kept: Sequence[Indices], total: Floats) -> list[int] | None:
    """Rows of the cheapest allotment among the kept ones, if there is one."""
    options = [(task.cost[rows], task.uses[rows]) for task, rows in zip(tasks, kept)]
    found = cheapest_rows([cost for cost, _ in options], [uses for _, uses in options], total)
    return None if found is None else [int(rows[at]) for rows, at in zip(kept, found)]


def _cost(tasks: Sequence[_Task], rows: Sequence[int]) -> float:
    return float(sum(task.cost[row] for task, row in zip(tasks, rows)))


def _more(
    tasks: Sequence[_Task], kept: Sequence[Indices], total: Floats, names: Sequence[str]
) -> list[NextTotal]:
    """The cheapest allotment with one step more of each shared resource in turn."""
    found = []
    for r, name in enumerate(names):
        steps = [np.diff(np.unique(task.uses[:, r])) for task in tasks]
        step = min((float(each.min()) for each in steps if len(each)), default=0.0)
        if step:
            larger = total.copy()
            larger[r] += step
            rows = _cheapest(tasks, kept, larger)
            assert rows is not None  # what fitted before fits still
            found.append(NextTotal(name, float(larger[r]), _cost(tasks, rows)))
    return found


def _unreachable(tasks: Sequence[_Task], ends: Floats, total: Mapping[str, float]) -> str:
    """One sentence about totals that are too small: what would do."""
    there = np.array([*total.values()])
    needed = np.sum([t.uses[t.contexts.within(e)].min(axis=0) for t, e in zip(tasks, ends)], axis=0)
    words = ", ".join(f"{name}={value:g}" for name, value in total.items())
    lack = [
        f"{name}={least:g}" for (name, value), least in zip(total.items(), needed) if least > value
    ]
    more = f"totals of {', '.join(lack)} or more" if lack else "larger totals"
    bound = [task.contexts.bound[task.contexts.rows] / end for task, end in zip(tasks, ends)]
    factors = np.unique(np.concatenate([[1.0], *bound]))
    factors = factors[factors >= 1.0]

    def fits(factor: float) -> bool:
        kept = [
            task.contexts.within(max(end * factor, bound[task.contexts.rows].min()))
            for task, end in zip(tasks, ends)
            for bound in [task.contexts.bound]
        ]
        return _cheapest(tasks, kept, there) is not None

    low, high = 0, len(factors) - 1  # `low` does not fit
    if not fits(factors[high]):
        return f"totals are {words}, too few for any contexts of all tasks; {more} are wanted."
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(factors[middle]) else (middle, high)
    times = np.ceil(factors[high] * 1e4) / 1e4
    return (
        f"totals are {words}, within which not all deadlines can be kept; {more}, or deadlines "
        f"{times:.5g} times as long, are wanted."
    )


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
        room = 1.0 + _ROUNDING - np.sum(least[i + 1 :], axis=0)
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
