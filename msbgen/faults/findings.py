"""What was found wrong, in sentences, and the measurements mended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msbgen.faults.drift import drift_paces, drift_span

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# A pace that moved so many times farther than from its first to its last, in logarithms, turned.
_TURNED = 1.25

KINDS = ("slow", "bad", "exchanged", "stretched", "count", "drift")


@dataclass(frozen=True)
class Fault:
    """Something that was measured wrongly.

    Attributes
    ----------
    kind : str
        "slow": a context took too long throughout; "bad": a context fits none of the others;
        "exchanged": two contexts changed places; "stretched": a part of a run took too long;
        "count": one count is absurd; "drift": the machine changed its pace over the sweep.
    contexts : tuple of int
        One, or the two that changed places; none of a drift.
    where : tuple of float
        stretched: run, begin and end as shares of the work; count: run, interval, counter; drift:
        its terms (:func:`msbgen.faults.drift.drift_paces`).
    factor : float
        How many times too long, or too large; 1 where nothing is.  Drift: of its last run over its
        first.
    worth : float
        What the context counts in a fit, once mended; at most 1.
    gain : float
        Log odds that it is no chance.
    levels : tuple of tuple of float
        Levels of the resources of these contexts, as they were labelled.
    """

    kind: str
    contexts: tuple[int, ...]
    where: tuple[float, ...]
    factor: float
    worth: float
    gain: float
    levels: tuple[tuple[float, ...], ...] = ()

    @property
    def of_a_run(self) -> bool:
        """Whether it is in one run: others of the context stay as they are."""
        return self.kind in ("stretched", "count")

    def sentence(self, describe: Callable[[int], str], counters: Sequence[str]) -> str:
        """What is wrong, what is done about it, and what to do; `describe` names a context."""
        names = [describe(i) for i in self.contexts]
        if self.kind == "slow":
            return (
                f"{names[0]} took {self.factor:.2f} times as long as its counts and the other "
                f"contexts say: something slowed it down; its time is scaled back: measure it "
                f"again."
            )
        if self.kind == "bad":
            return (
                f"{names[0]} fits none of the other contexts: its settings or its runs were "
                f"others; it is left out: measure it again."
            )
        if self.kind == "exchanged":
            return (
                f"{names[0]} and {names[1]} look exchanged: each runs as the other should; they "
                f"are exchanged back: mend their labels, or measure both again."
            )
        if self.kind == "drift":
            how = "slower" if self.factor > 1 else "faster"
            grew = f"grew {abs(self.factor - 1):.1%} {how}"
            span = drift_span(self.where)
            if np.log(span) > _TURNED * abs(np.log(self.factor)):  # it went there and back
                grew = f"changed its pace by up to {span - 1:.1%}, and {grew}"
            return (
                f"the machine {grew} from the first to the last run; all times are scaled to the "
                f"mean of the sweep: let it warm up before, and measure in random order."
            )
        run = int(self.where[0])
        if self.kind == "stretched":
            return (
                f"run {run} of {names[0]} took {self.factor:.2f} times as long as it should "
                f"between {self.where[1]:.0%} and {self.where[2]:.0%} of its work: something "
                f"slowed it down meanwhile; it is left out: measure it again."
            )
        return (
            f"counter '{counters[int(self.where[2])]}' is {self.factor:.3g} times the most that "
            f"other runs have, in {names[0]}, run {run}, interval {int(self.where[1])}: it was "
            f"read wrongly; the mean of its neighbours is taken: measure that run again."
        )


@dataclass(frozen=True, eq=False)
class Mended:
    """Measurements to fit, after :meth:`Findings.mend`.

    Attributes
    ----------
    counts : ndarray, (n, runs, times, k)
    duration : ndarray, (n, runs)
        [s], as it would have been.
    contexts : ndarray, (n, m)
    pace : ndarray, (n, runs)
        How many times longer each run took: `duration` is what was measured over it.
    worth : ndarray, (n,)
        What a context counts in a fit, at most 1.
    guessed : ndarray of bool, (n,)
        Contexts whose time is what the others say.
    kept : ndarray of int, (n,)
        Contexts among those that were measured.
    """

    counts: Floats
    duration: Floats
    contexts: Floats
    pace: Floats
    worth: Floats
    guessed: Bools
    kept: NDArray[np.int64]


@dataclass(frozen=True)
class Findings:
    """Everything that was found wrong with a set of measurements; empty where nothing was.

    Attributes
    ----------
    faults : tuple of Fault
    """

    faults: tuple[Fault, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.faults)

    def __iter__(self) -> Iterator[Fault]:
        return iter(self.faults)

    @property
    def again(self) -> list[tuple[float, ...]]:
        """Levels of the contexts that are worth measuring again, each once, the surest first."""
        order = sorted(self.faults, key=lambda fault: -fault.gain)
        return list(dict.fromkeys(level for fault in order for level in fault.levels))

    def sentences(self, describe: Callable[[int], str], counters: Sequence[str]) -> list[str]:
        """One a fault; see :meth:`Fault.sentence`."""
        return [fault.sentence(describe, counters) for fault in self.faults]

    def mend(
        self, counts: Floats, duration: Floats, contexts: Floats, started: Floats | None = None
    ) -> Mended:
        """Exchange labels back, scale times, mend counts; leave out what cannot be mended.

        Parameters
        ----------
        counts : ndarray, (n, runs, times, k)
        duration : ndarray, (n, runs)
        contexts : ndarray, (n, m)
            All that was measured, in the order in which it was searched.
        started : ndarray, (n, runs), optional
            When each run began [s]; without it times that drifted stay as they are.
        """
        pace, worth = np.ones(duration.shape), np.ones(len(contexts))
        kept, guessed = np.arange(len(contexts)), np.zeros(len(contexts), dtype=bool)
        if not self.faults:
            return Mended(counts, duration, contexts, pace, worth, guessed, kept)
        counts, duration, contexts = counts.copy(), duration.copy(), contexts.copy()
        left_out = np.zeros(len(contexts), dtype=bool)
        for fault in self.faults:
            if fault.kind == "drift":
                pace *= 1.0 if started is None else drift_paces(fault.where, started)
                continue
            first = fault.contexts[0]
            if fault.kind == "slow":
                pace[first] *= fault.factor
                worth[first], guessed[first] = fault.worth, True
            elif fault.kind == "bad":
                left_out[first] = True
            elif fault.kind == "exchanged":
                pair = list(fault.contexts)
                contexts[pair] = contexts[pair[::-1]]
            elif fault.kind == "stretched":
                counts[first, int(fault.where[0])] = np.nan
                duration[first, int(fault.where[0])] = np.nan
        mend_counts(counts, [fault for fault in self.faults if fault.kind == "count"])
        left_out |= ~np.isfinite(duration).any(axis=1)
        kept = np.flatnonzero(~left_out)
        return Mended(
            counts[kept],
            duration[kept] / pace[kept],
            contexts[kept],
            pace[kept],
            worth[kept],
            guessed[kept],
            kept,
        )

    def to_plain(self) -> list[dict[str, Any]]:
        """As JSON knows it."""
        return [asdict(fault) for fault in self.faults]

    @classmethod
    def from_plain(cls, plain: Sequence[Mapping[str, Any]]) -> Findings:
        """Undo :meth:`to_plain`; a ValueError where a fault is of no known kind."""
        return cls(
            tuple(
                Fault(
                    KINDS[KINDS.index(one["kind"])],
                    tuple(int(i) for i in one["contexts"]),
                    tuple(float(w) for w in one["where"]),
                    float(one["factor"]),
                    float(one["worth"]),
                    float(one["gain"]),
                    tuple(tuple(float(v) for v in level) for level in one["levels"]),
                )
                for one in plain
            )
        )


NOTHING = Findings()


def mend_counts(counts: Floats, faults: Sequence[Fault]) -> None:
    """Put the mean of the neighbours in time in the place of absurd counts, in place."""
    places = []
    for fault in faults:
        run, interval, counter = map(int, fault.where)
        places.append((fault.contexts[0], run, interval, counter))
        counts[places[-1]] = np.nan
    for context, run, interval, counter in places:
        own = counts[context, run, :, counter]
        beside = own[max(interval - 1, 0) : interval + 2]
        good = beside[np.isfinite(beside)]
        own[interval] = good.mean() if len(good) else 0.0
