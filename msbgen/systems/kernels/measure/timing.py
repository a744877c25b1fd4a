"""Timing of many calls in turn.

A kernel that is called repeatedly finds its weights in the caches; in a network other kernels run
in between.  So calls are timed in rounds: each once, in random order, then all once more.  A drift
of the machine affects all calls alike, and the median over rounds removes single disturbances.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from msbgen.core.records import Count, NotNegative, Seconds, Within, check_fields
from msbgen.systems.kernels.measure.operations import Operation

Clock = Callable[[], float]


@dataclass(frozen=True)
class Effort:
    """Number and length of timings."""

    # Rounds that count.
    repetitions: Count = 15
    # Rounds before them that do not count, as torch prepares each kernel in its first run.
    warmups: Annotated[int, Within(0)] = 2
    # A call is not timed again after so much time in all and three timings [s].
    patience: Seconds = 1.0
    # Each timing repeats the call for so long and takes the mean [s].  Under a quota a single call
    # would run at full speed or wait for the next period.
    burst: NotNegative = 0.0

    def __post_init__(self) -> None:
        check_fields(self)


# Fewest timings of a slow call.
_LEAST = 3


def time_in_turn(
    timed: Sequence[Operation], effort: Effort, clock: Clock, rng: np.random.Generator
) -> list[NDArray[np.float64]]:
    """Time each of n calls in rounds, in a random order each.

    Returns the times [s] of each call in the rounds that count: `repetitions` of them, or fewer for
    a slow call.
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
    return [np.array(one) for one in times]


def groups_of(
    sizes: Sequence[float], most: float, many: int, rng: np.random.Generator
) -> Iterator[list[int]]:
    """Random groups of at most `many` members and `most` bytes; every index is in one group.

    A member that is larger than the limit is a group of one.
    """
    group: list[int] = []
    size = 0.0
    for i in map(int, rng.permutation(len(sizes))):
        if group and (size + sizes[i] > most or len(group) == many):
            yield group
            group, size = [], 0.0
        group.append(i)
        size += sizes[i]
    if group:
        yield group
