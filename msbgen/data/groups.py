"""Groups of counters for runs, where a core can count only a few at a time."""

import re
from collections.abc import Sequence

from msbgen.core.errors import ArgumentError
from msbgen.data.schema import CPU_TIMES

# Counters that measure progress where none is named: work done first, then CPU time.
_CLOCKS = ("instructions", *CPU_TIMES)
# Perf's software events but CPU time, as names of counters.
_INTERRUPTIONS = re.compile(
    "((page_|minor_|major_|alignment_|emulation_)?faults|(cpu_)?migrations|cs"
    "|(context_|cgroup_)switches)(_|$)"
)


def group_counters(
    counters: Sequence[str], at_once: int, *, clock: str | None = None
) -> tuple[tuple[str, ...], ...]:
    """The fewest groups of at most `at_once` counters; each has the progress counter.

    Counters of one stem, as ``cache_requests`` and ``cache_misses``, share a group where they fit:
    the dependence of two counters is measured only where both are counted together.  Run r of a
    context counts group r modulo the number of groups.  `clock` measures the progress of a run;
    None where time does.  ArgumentError: no counter, a counter twice, or no room beside it.

    Examples
    --------
    >>> group_counters(["cycles", "l2_hits", "tlb_loads", "l2_misses"], 3, clock="instructions")
    (('instructions', 'cycles', 'tlb_loads'), ('instructions', 'l2_hits', 'l2_misses'))
    """
    shared = () if clock is None else (clock,)
    others = [name for name in counters if name not in shared]
    if not counters or len(set(counters)) < len(counters):
        raise ArgumentError(f"counters are {', '.join(counters)}; distinct ones are wanted.")
    room = at_once - len(shared)
    if room < 1:
        raise ArgumentError(
            f"at_once is {at_once}; {1 + len(shared)} or more is wanted"
            + (f", as '{clock}' is in every run." if shared else ".")
        )
    families: dict[str, list[str]] = {}
    for name in others:
        families.setdefault(name.replace("-", "_").rpartition("_")[0] or name, []).append(name)
    groups: list[list[str]] = [[] for _ in range(max(-(-len(others) // room), 1))]
    for family in sorted(families.values(), key=len, reverse=True):
        left = list(family)
        while left:
            # the fullest group that takes all of them, else the emptiest
            fits = [g for g in groups if len(g) + len(left) <= room]
            best = max(fits, key=len) if fits else min(groups, key=len)
            free = room - len(best)
            best += left[:free]
            left = left[free:]
    order = {name: i for i, name in enumerate(others)}
    return tuple(
        (*shared, *sorted(group, key=order.__getitem__))
        for group in sorted(groups, key=lambda g: min((order[n] for n in g), default=0))
    )


def clock_among(counters: Sequence[str], wanted: str | None = None) -> str | None:
    """The counter that measures the progress of a run; None where time does.

    Names may be those of a file or a tool: ``task_clock`` and ``task-clock`` are one.  `wanted` is
    a counter, which may be none of these, or ``time``; default: ``instructions``, else CPU time.

    Examples
    --------
    >>> clock_among(["page-faults", "task-clock"]), clock_among(["task-clock"], "time")
    ('task-clock', None)
    """
    plain = {_plain(name): name for name in reversed(counters)}
    if wanted is not None:
        return None if wanted == "time" else plain.get(_plain(wanted), wanted)
    for first in _CLOCKS:
        for name in counters:
            if _plain(name) == first or _plain(name).startswith(f"{first}_"):
                return name
    return None


def counts_interruptions(counter: str) -> bool:
    """Whether a counter is a software event that interrupts a program, which measures no work.

    Examples
    --------
    >>> counts_interruptions("page_faults_u"), counts_interruptions("requests")
    (True, False)
    """
    return bool(_INTERRUPTIONS.match(counter))


def _plain(name: str) -> str:
    return re.sub(r"[^0-9a-z]+", "_", name.lower()).strip("_")


def describe_groups(groups: Sequence[Sequence[str]]) -> list[str]:
    """Groups in a few lines of text."""
    every = len(groups)
    return [
        f"run {number}, {number + every}, … of each context: {', '.join(group)}"
        for number, group in enumerate(groups)
    ]
