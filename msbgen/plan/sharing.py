"""Levels of a plan for programs that will share the cache and the bandwidth (``msbgen beside``).

Beside others, a program may have few ways, where its misses change most: levels of the ways are
dense there.  Its demand must be known: one level of the bandwidth has no limit.  Times at other
bandwidths follow from the misses, so that two more levels are enough.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import ArgumentError
from msbgen.data.sharing import UNREGULATED

Floats = NDArray[np.float64]

# A bandwidth that no program reaches [MB/s].
NO_LIMIT = 1e6
_WAYS, _BANDWIDTHS = 7, 2


def sharing_levels(
    levels: Mapping[str, ArrayLike], *, ways: str = "cache_ways", bandwidth: str = "bandwidth"
) -> dict[str, Floats]:
    """Levels of each resource that tell how a program runs beside others.

    Of `ways`, up to seven of the given levels in geometric steps, from the fewest on; of
    `bandwidth`, the lowest and the highest limited one, and 1,000,000 MB/s, no limit at all.
    Other resources keep theirs.

    Raises
    ------
    ArgumentError
        There are no levels of ways or bandwidth, or one number of ways only.

    Examples
    --------
    >>> found = sharing_levels({"cache_ways": range(2, 21), "bandwidth": [70, 560, 1400]})
    >>> found["cache_ways"].tolist(), found["bandwidth"].tolist()
    ([2.0, 3.0, 4.0, 6.0, 9.0, 14.0, 20.0], [70.0, 1400.0, 1000000.0])
    """
    found = {name: np.unique(np.asarray(own, dtype=float)) for name, own in levels.items()}
    for name in (ways, bandwidth):
        if name not in found or not found[name].size:
            raise ArgumentError(
                f"levels have no '{name}'; those of '{ways}' and '{bandwidth}' are wanted for "
                f"programs that share them."
            )
    if found[ways].size < 2 or found[ways][0] <= 0:
        raise ArgumentError(f"levels of '{ways}' are {found[ways].tolist()}; two or more numbers "
                            f"of ways, from 1 on, are wanted.")  # fmt: skip
    limited = found[bandwidth][found[bandwidth] < UNREGULATED]
    found[ways] = _some(found[ways], _WAYS)
    found[bandwidth] = np.append(_some(limited, _BANDWIDTHS), NO_LIMIT)
    return found


def _some(levels: Floats, n: int) -> Floats:
    """At most n of the levels, nearest to geometric steps from the first to the last."""
    if not levels.size:
        return levels
    steps = np.geomspace(levels[0], levels[-1], n)
    return np.unique(levels[np.abs(levels[:, None] - steps).argmin(axis=0)])
