"""Who hurts whom: how much less each program would take without another, and through what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from msbgen.data.sharing import Sharing
from msbgen.systems.beside.course import LawSettings, play_durations
from msbgen.systems.beside.table import ProgramTable

Floats = NDArray[np.float64]
_LAW = LawSettings()
# Differences of durations below this share of them are of floating-point sums.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Harm:
    """Seconds that programs cost each other, n programs.

    Attributes
    ----------
    by : ndarray, (n, n)
        ``by[i, j]``: seconds that program i takes more than without program j [s].
    cache, bandwidth : ndarray, (n,)
        Seconds that a program takes more as it shares its cache only, or its bandwidth only [s].
        They need not add up to the whole: a program with fewer ways needs more bandwidth.
    """

    by: Floats
    cache: Floats
    bandwidth: Floats


def find_harm(tables: Sequence[ProgramTable], sharing: Sharing, *, law: LawSettings = _LAW) -> Harm:
    """Who hurts whom among programs that run side by side; errors as :func:`play`.

    Each program is left out once, and each resource is shared alone once: n + 2 plays.
    """
    n = len(tables)
    whole = play_durations(tables, sharing, law=law)
    by = np.zeros((n, n))
    for j in range(n):
        rest = [i for i in range(n) if i != j]
        if rest:
            without = play_durations([tables[i] for i in rest], sharing.only(rest), law=law)
            by[rest, j] = whole[rest] - without
    every = tuple(range(n))
    alone = np.array(
        [
            play_durations([tables[i]], replace(sharing.only([i]), starts=(0.0,)), law=law)[0]
            for i in every
        ]
    )
    # each program with a partition, or a pool, as large as the shared one
    apart = replace(sharing, ways=tuple(sharing.ways[c] for c in sharing.cache), cache=every)
    pools = tuple(sharing.bandwidth[m] for m in sharing.memory)
    bandwidth = play_durations(tables, apart, law=law) - alone
    pooled = replace(sharing, bandwidth=pools, memory=every)
    cache = play_durations(tables, pooled, law=law) - alone
    return Harm(*(_no_rounding(part, whole) for part in (by, cache, bandwidth)))


def _no_rounding(seconds: Floats, whole: Floats) -> Floats:
    """Differences of durations `whole` (n,), with those from rounding as 0."""
    scale = whole.reshape(-1, *[1] * (seconds.ndim - 1))
    return np.where(np.abs(seconds) < _ROUNDING * scale, 0.0, seconds)
