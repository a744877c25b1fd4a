"""Timing of many calls in turn.

A kernel that is called again and again finds its weights where it left them; in a network others
have run since.  So calls are timed in rounds: each once, in random order, then all once more.  What
drifts while the machine works falls on all of them, and the median over rounds leaves out what
disturbed a few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import check_positive, check_whole

Clock = Callable[[], float]


class Timed(Protocol):
    """What is timed: see :class:`msbgen.kernels.measure.operations.Operation`."""

    @property
    def refresh(self) -> Callable[[], object]:
        """What is done before a call, untimed."""
        ...

    @property
    def call(self) -> Callable[[], object]:
        """What is timed."""
        ...


@dataclass(frozen=True)
class Effort:
    """How thoroughly calls are timed.

    Attributes
    ----------
    repetitions : int
        Rounds that count.
    warmups : int
        Rounds before them that do not: torch prepares each kernel when it first runs.
    patience : float
        A call that has taken so long in all, and was timed three times, is left alone [s].
    burst : float
        Each timing repeats the call until so much time has passed, and takes the mean: under a
        quota a call alone runs at full speed, or waits for the next period [s].
    """

    repetitions: int = 15
    warmups: int = 2
    patience: float = 1.0
    burst: float = 0.0

    def __post_init__(self) -> None:
        check_whole(self, "repetitions")
        check_whole(self, "warmups", least=0)
        check_positive(self, "patience")


# Timings of a slow call before it is left alone.
_LEAST = 3


def time_in_turn(
    timed: Sequence[Timed], effort: Effort, clock: Clock, rng: np.random.Generator
) -> list[NDArray[np.float64]]:
    """Time each of some calls in rounds.

    Parameters
    ----------
    timed : sequence, (n,)
    effort : Effort
    clock : callable
        Tells the time [s].
    rng : Generator
        Of the order in each round.

    Returns
    -------
    list of ndarray, n times (n_repetitions,) or fewer
        Time of a call in every round that counts [s].
    """
    times: list[list[float]] = [[] for _ in timed]
    spent = np.zeros(len(timed))
    for round_number in range(effort.warmups + effort.repetitions):
        for i in rng.permutation(len(timed)):
            if spent[i] > effort.patience and len(times[i]) >= _LEAST:
                continue
            timed[i].refresh()
            calls, start = 0, clock()
            while True:
                timed[i].call()
                calls += 1
                passed = clock() - start
                if passed >= effort.burst:
                    break
            spent[i] += passed
            if round_number >= effort.warmups:
                times[i].append(passed / calls)
    return [np.array(seen) for seen in times]


def groups_of(
    sizes: Sequence[float], most: float, many: int, rng: np.random.Generator
) -> Iterator[list[int]]:
    """Random groups, each of so many at most, and of so much memory together where one fits.

    Parameters
    ----------
    sizes : sequence of float, (n,)
        Bytes of each.
    most : float
        Bytes of a group.
    many : int
        Members of a group.
    rng : Generator

    Yields
    ------
    list of int
        Every index is in one group.
    """
    group: list[int] = []
    held = 0.0
    for i in map(int, rng.permutation(len(sizes))):
        if group and (held + sizes[i] > most or len(group) == many):
            yield group
            group, held = [], 0.0
        group.append(i)
        held += sizes[i]
    if group:
        yield group
