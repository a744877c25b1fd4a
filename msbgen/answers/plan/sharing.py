"""Plans for programs that will share the cache and the bandwidth (``msbgen beside``).

Beside others, a program may have few ways, where its misses change most: levels of the ways are
dense there.  Its demand must be known: a plan that has room for all of its contexts measures each
of these without a limit of the bandwidth.
Times at other bandwidths follow from the misses, but for little: every other number of ways is
measured at the lowest bandwidth, and the ones between at a middle one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.answers.plan.plan import Plan, plan_contexts
from msbgen.core.contexts import combinations_of
from msbgen.core.errors import ArgumentError
from msbgen.data.sharing import UNREGULATED

Floats = NDArray[np.float64]

# A bandwidth that no program reaches [MB/s].
NO_LIMIT = 1e6
_WAYS, _BANDWIDTHS = 7, 3
# A plan without measurements takes no limit as so many times the highest limited bandwidth.
_BEYOND = 4.0


def plan_for_sharing(
    levels: Mapping[str, ArrayLike],
    budget: str | int,
    *,
    ways: str = "cache_ways",
    bandwidth: str = "bandwidth",
    **options: Any,
) -> Plan:
    """Plan of the first contexts of programs that will share, of :func:`sharing_levels`.

    `budget` and `options` are those of :func:`~msbgen.answers.plan.plan.plan_contexts`; errors as
    there.
    """
    axes = sharing_levels(levels, ways=ways, bandwidth=bandwidth)
    limited = axes[bandwidth][:-1]
    if limited.size:
        axes[bandwidth] = np.append(limited, _BEYOND * limited[-1])
    wanted = sharing_contexts(axes, ways=ways, bandwidth=bandwidth)
    planned = plan_contexts(axes, budget, candidates=wanted, **options)
    column = planned.resources.index(bandwidth)
    contexts = planned.contexts.copy()
    contexts[contexts[:, column] == axes[bandwidth][-1], column] = NO_LIMIT
    return replace(planned, contexts=contexts)


def sharing_contexts(
    axes: Mapping[str, Floats], *, ways: str = "cache_ways", bandwidth: str = "bandwidth"
) -> Floats:
    """Contexts of :func:`sharing_levels` that tell most, (n, n_resources).

    All ways have the highest bandwidth; the lower ones take turns.
    """
    names = list(axes)
    grid = combinations_of(list(axes.values()))
    place = {name: np.searchsorted(axes[name], grid[:, names.index(name)]) for name in names}
    lower = axes[bandwidth].size - 1
    kept = place[bandwidth] == lower
    if lower:
        kept |= place[bandwidth] == place[ways] % lower
    return grid[kept]


def sharing_levels(
    levels: Mapping[str, ArrayLike], *, ways: str = "cache_ways", bandwidth: str = "bandwidth"
) -> dict[str, Floats]:
    """Levels of each resource that tell how a program runs beside others.

    Of `ways`, up to seven of the given levels in geometric steps, from the fewest on; of
    `bandwidth`, the lowest and a middle one, and 1,000,000 MB/s, no limit at all.
    Other resources keep theirs.

    Raises
    ------
    ArgumentError
        There are no levels of ways or bandwidth, or not above 0, or one number of ways only.

    Examples
    --------
    >>> found = sharing_levels({"cache_ways": range(2, 21), "bandwidth": [70, 560, 1400]})
    >>> found["cache_ways"].tolist(), found["bandwidth"].tolist()
    ([2.0, 3.0, 4.0, 6.0, 9.0, 14.0, 20.0], [70.0, 560.0, 1000000.0])
    """
    found = {name: np.unique(np.asarray(own, dtype=float)) for name, own in levels.items()}
    for name in (ways, bandwidth):
        if name not in found or not found[name].size:
            raise ArgumentError(
                f"levels have no '{name}'; those of '{ways}' and '{bandwidth}' are wanted for "
                f"programs that share them."
            )
        if not (found[name][0] > 0 and np.isfinite(found[name]).all()):
            raise ArgumentError(
                f"levels of '{name}' are {found[name].tolist()}; numbers above 0 are wanted."
            )
    if found[ways].size < 2:
        raise ArgumentError(
            f"levels of '{ways}' are {found[ways].tolist()}; two or more numbers are wanted."
        )
    limited = found[bandwidth][found[bandwidth] < UNREGULATED]
    found[ways] = _some(found[ways], _WAYS)
    found[bandwidth] = np.append(_some(limited, _BANDWIDTHS)[:2], NO_LIMIT)
    return found


def _some(levels: Floats, n: int) -> Floats:
    """At most n of the levels, nearest to geometric steps from the first to the last."""
    if not levels.size:
        return levels
    steps = np.geomspace(levels[0], levels[-1], n)
    far = np.abs(np.log(levels[:, None] / steps)).round(9)  # of two as near, the lower one
    return np.unique(levels[far.argmin(axis=0)])
