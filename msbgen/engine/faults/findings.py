"""Faults that were found in measurements: their description in sentences, and their repair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from msbgen.core.parts import Kinds
from msbgen.engine.faults.drift import drift_slowdowns, slowest_over_fastest

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# The sentence names both changes of a machine's speed if log(slowest / fastest) exceeds this number
# times |log(last / first)|.
_TURNED = 1.25


# A fault of each kind in words, and several.
_KINDS = {
    "slow": ("slow context", "slow contexts"),
    "bad": ("context that fits no other", "contexts that fit no other"),
    "exchanged": ("exchanged pair", "exchanged pairs"),
    "stretched": ("run slowed in part", "runs slowed in part"),
    "count": ("impossible count", "impossible counts"),
    "drift": ("drift of the machine", "drifts of the machine"),
}


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A faulty measurement; each kind is a class of its own, with the place of the fault."""

    contexts: tuple[int, ...]  # rows of the contexts concerned
    factor: float = 1.0  # measured over expected time or count
    weight: float = 1.0  # of the context in a fit after the repair, at most 1
    log_odds: float  # of the fault against chance
    levels: tuple[tuple[float, ...], ...] = ()  # of the resources of these contexts, as labelled
    # whether no independent evidence supports the fault: it is named, and nothing is changed
    is_doubt: bool = False

    kind: ClassVar[str]

    def sentence(self, describe: Callable[[int], str], counters: Sequence[str]) -> str:
        """Fault, repair and remedy in one sentence; `describe` names a context by its row."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class SlowContext(Fault):
    """All runs of a context took too long."""

    kind = "slow"

    def sentence(self, describe: Callable[[int], str], counters: Sequence[str]) -> str:
        """See :meth:`Fault.sentence`."""
        if self.is_doubt:
            return (
                f"{describe(self.contexts[0])} took {self.factor:.2f} times as long as the other "
                f"contexts predict, in a single run. Nothing is changed: measure it again."
            )
        return (
            f"{describe(self.contexts[0])} took {self.factor:.2f} times as long as its counts and "
            f"the other contexts predict. Its time is scaled back: measure it again."
        )


@dataclass(frozen=True, kw_only=True)
class BadContext(Fault):
    """A context agrees with no other context."""

    kind = "bad"

    def sentence(self, describe: Callable[[int], str], counters: Sequence[str]) -> str:
        """See :meth:`Fault.sentence`."""
        return (
            f"{describe(self.contexts[0])} fits none of the other contexts: its settings or its "
            f"runs were different. It is left out: measure it again."
        )


@dataclass(frozen=True, kw_only=True)
class ExchangedContexts(Fault):
    """Two contexts carry each other's label."""

    kind = "exchanged"

    def sentence(self, describe: Callable[[int], str], counters: Sequence[str]) -> str:
        """See :meth:`Fault.sentence`."""
        first, second = (describe(i) for i in self.contexts)
        if self.is_doubt:
            return (
                f"{first} and {second} may be exchanged: each has the duration expected of the "
                f"other. Nothing is changed: check their labels, or measure both again."
            )
        return (
            f"{first} and {second} look exchanged: each has the values expected of the other; "
            f"they are exchanged back: correct their labels, or measure both again."
        )


@dataclass(frozen=True, kw_only=True)
class StretchedRun(Fault):
    """A part of a run took too long: from `begin` to `end`, shares of the run's work."""

    run: int
    begin: float
    end: float

    kind = "stretched"

    def sentence(self, describe: Callable[[int], str], counters: Sequence[str]) -> str:
        """See :meth:`Fault.sentence`."""
        if self.is_doubt:
            return (
                f"run {self.run} of {describe(self.contexts[0])} took {self.factor:.2f} times as "
                f"long as the other runs of its context. Nothing is changed: measure it again."
            )
        return (
            f"run {self.run} of {describe(self.contexts[0])} took {self.factor:.2f} times as long "
            f"as it should between {self.begin:.0%} and {self.end:.0%} of its work. Its time there "
            f"is predicted from the other runs: measure it again."
        )


@dataclass(frozen=True, kw_only=True)
class WrongCount(Fault):
    """A single count, of one sampling interval, is impossibly large."""

    run: int
    interval: int
    counter: int

    kind = "count"

    @property
    def of_run(self) -> tuple[int, int, int]:
        """Context, run and counter."""
        return self.contexts[0], self.run, self.counter

    def sentence(
        self, describe: Callable[[int], str], counters: Sequence[str], more: int = 0
    ) -> str:
        """See :meth:`Fault.sentence`; `more` counts of the run and counter are wrong, too."""
        others = f" and {more} more of this run: they were" if more else ": it was"
        return (
            f"counter '{counters[self.counter]}' is {self.factor:.3g} times the most that other "
            f"runs have, in {describe(self.contexts[0])}, run {self.run}, interval "
            f"{self.interval}{others} read wrongly; the mean of the counts around is taken: "
            f"measure that run again."
        )


@dataclass(frozen=True, kw_only=True)
class MachineDrift(Fault):
    """The machine became slower or faster over the sweep; `factor` compares last and first run."""

    terms: tuple[float, ...]  # of the drift, see `drift_slowdowns`
    contexts: tuple[int, ...] = ()

    kind = "drift"

    def sentence(self, describe: Callable[[int], str], counters: Sequence[str]) -> str:
        """See :meth:`Fault.sentence`."""
        direction = "slower" if self.factor > 1 else "faster"
        if self.is_doubt:
            return (
                f"times became {abs(self.factor - 1):.1%} {direction} from the first to the last "
                f"run, which the machine or the order of the contexts may cause. Nothing is "
                f"changed: measure several runs of each context in random order."
            )
        change = f"became {abs(self.factor - 1):.1%} {direction}"
        span = slowest_over_fastest(self.terms)
        if np.log(span) > _TURNED * abs(np.log(self.factor)):
            change = f"changed its speed by up to {span - 1:.1%}, and {change}"
        return (
            f"the machine {change} from the first to the last run; all times are scaled to the "
            f"mean of the sweep: measure on an idle machine that is warm, in random order."
        )


_CLASSES: dict[str, type[Fault]] = {
    cls.kind: cls
    for cls in (SlowContext, BadContext, ExchangedContexts, StretchedRun, WrongCount, MachineDrift)
}


@dataclass(frozen=True, eq=False)
class Repaired:
    """Measurements to fit, made by :meth:`Findings.repair`."""

    counts: Floats
    duration: Floats
    contexts: Floats
    slowdown: Floats  # (n, runs): how many times too long each run took before the repair
    weights: Floats  # (n,): of the contexts in a fit, at most 1
    estimated: Bools  # (n,): whether the time of a context is predicted from the others
    untimed: Floats  # (n, runs, 2): begin and end of the work whose time is wrong; equal without
    kept: NDArray[np.int64]  # rows of the measured contexts that are left


@dataclass(frozen=True)
class Findings:
    """All faults that were found in a set of measurements, if any."""

    faults: tuple[Annotated[Fault, Kinds(**_CLASSES)], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.faults)

    def __iter__(self) -> Iterator[Fault]:
        return iter(self.faults)

    @property
    def corrected(self) -> Findings:
        """The faults that are repaired or left out; the others are doubts."""
        return Findings(tuple(fault for fault in self.faults if not fault.is_doubt))

    @property
    def to_remeasure(self) -> list[tuple[float, ...]]:
        """Levels of the contexts to measure again, each once, the most certain fault first."""
        order = sorted(self.faults, key=lambda fault: -fault.log_odds)
        return list(dict.fromkeys(level for fault in order for level in fault.levels))

    def sentences(self, describe: Callable[[int], str], counters: Sequence[str]) -> list[str]:
        """One sentence per fault, see :meth:`Fault.sentence`; one for all wrong counts of a run."""
        of_runs = Counter(fault.of_run for fault in self.faults if isinstance(fault, WrongCount))
        found = []
        for fault in self.faults:
            if not isinstance(fault, WrongCount):
                found.append(fault.sentence(describe, counters))
            elif number := of_runs.pop(fault.of_run, 0):
                found.append(fault.sentence(describe, counters, number - 1))
        return found

    def numbers(self) -> str:
        """Number of faults of each kind in words: ``2 slow contexts, 1 impossible count``."""
        counts = Counter(fault.kind for fault in self.faults)
        return ", ".join(
            f"{n} {_KINDS[kind][0 if n == 1 else 1]}" for kind, n in counts.most_common()
        )

    def repair(
        self, counts: Floats, duration: Floats, contexts: Floats, started: Floats | None = None
    ) -> Repaired:
        """Repaired measurements, without those that cannot be repaired.

        Labels are exchanged back, times scaled, and wrong counts replaced.  Counts (n, runs,
        times, k), durations (n, runs) and contexts (n, m) are all measurements, in the order of the
        search.  Without the start of each run (n, runs) [s] a drift is not corrected.
        """
        slowdown, weights = np.ones(duration.shape), np.ones(len(contexts))
        kept, estimated = np.arange(len(contexts)), np.zeros(len(contexts), dtype=bool)
        untimed = np.zeros((*duration.shape, 2))
        if not self.corrected:
            return Repaired(counts, duration, contexts, slowdown, weights, estimated, untimed, kept)
        counts, duration, contexts = counts.copy(), duration.copy(), contexts.copy()
        left_out = np.zeros(len(contexts), dtype=bool)
        for fault in self.corrected:
            match fault:
                case MachineDrift():
                    slowdown *= 1.0 if started is None else drift_slowdowns(fault.terms, started)
                case SlowContext(contexts=(context,)):
                    slowdown[context] *= fault.factor
                    weights[context], estimated[context] = fault.weight, True
                case BadContext(contexts=(context,)):
                    left_out[context] = True
                case ExchangedContexts():
                    pair = list(fault.contexts)
                    contexts[pair] = contexts[pair[::-1]]
                case StretchedRun(contexts=(context,)):
                    untimed[context, fault.run] = fault.begin, fault.end
        repair_counts(counts, [fault for fault in self.faults if isinstance(fault, WrongCount)])
        kept = np.flatnonzero(~left_out)
        return Repaired(
            counts[kept],
            duration[kept] / slowdown[kept],
            contexts[kept],
            slowdown[kept],
            weights[kept],
            estimated[kept],
            untimed[kept],
            kept,
        )


NOTHING = Findings()


def repair_counts(counts: Floats, faults: Sequence[WrongCount]) -> None:
    """Replace wrong counts, in place, by the mean of their neighbours in time."""
    cells = [(fault.contexts[0], fault.run, fault.interval, fault.counter) for fault in faults]
    for cell in cells:
        counts[cell] = np.nan
    for context, run, interval, counter in cells:
        series = counts[context, run, :, counter]
        near = series[max(interval - 1, 0) : interval + 2]
        valid = near[np.isfinite(near)]
        series[interval] = valid.mean() if len(valid) else 0.0
