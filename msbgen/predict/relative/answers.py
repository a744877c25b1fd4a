"""What the two halves say of runs, and the times that follow once machines are measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from msbgen.predict.gaussian import conditional_gain

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# What boosting counts beside the trees.  Chosen on four machines (Jaguar, Silvermont, Zen 1,
# Cortex-A55), runs and programs held back, of which benchmarks score none.
_BOOSTING_WEIGHT = 0.7


@dataclass(frozen=True, eq=False)
class Answers:
    """What the halves say, before it is chosen which machines count as measured.

    Attributes
    ----------
    seconds : ndarray, (n, n_machines)
        Time as measured [s], NaN where it was not.
    ratio : ndarray, (n, n_sources, n_machines)
        Log ratio of the times on a machine and on the source, by boosting.
    prior : ndarray, (n, n_sources, n_machines)
        Log time by the trees, which know the counters of the source but no time.
    spread : ndarray, (n, n_sources, n_machines)
        Deviation of the trees from their mean.
    context : ndarray, (n, n_words)
        Configuration of each run, a column each.
    covariance : ndarray, (n_fits, n_machines, n_machines)
        Of what the trees leave.
    fit : ndarray of int, (n,)
        Which of the fits speaks of a run.
    halves : {"both", "boosting", "trees"}
    source_time : bool
        Whether the trees' half looks at the source's time.
    """

    seconds: Floats
    ratio: Floats
    prior: Floats
    spread: Floats
    context: Floats
    covariance: Floats
    fit: Indices
    halves: str
    source_time: bool

    def some(self, rows: NDArray) -> Answers:
        """Those of some runs."""
        names = ("seconds", "ratio", "prior", "spread", "context", "fit")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    @cached_property
    def log(self) -> Floats:
        """Log time as measured [log s], (n, n_machines)."""
        return np.log(self.seconds)

    def times(self, sources: Sequence[int]) -> Floats:
        """Time on every machine [s], (n, n_machines), as measured on the sources."""
        found = np.exp(self.log_times(sources))
        found[:, list(sources)] = self.seconds[:, list(sources)]
        return found

    def log_times(self, sources: Sequence[int]) -> Floats:
        """Log time on every machine (n, n_machines), as measured on the sources."""
        both = self.by_half(sources)
        weights = (_BOOSTING_WEIGHT, 1.0 - _BOOSTING_WEIGHT) if len(both) == 2 else None
        found = np.average(both, axis=0, weights=weights)
        found[:, list(sources)] = self.log[:, list(sources)]
        return found

    def by_half(self, sources: Sequence[int]) -> list[Floats]:
        """Log time on every machine by each of the halves, (n, n_machines) each."""
        there, said = list(sources), []
        if self.halves != "trees":
            said.append((self.log[:, there, None] + self.ratio[:, there]).mean(axis=1))
        if self.halves != "boosting":
            said.append(self._by_trees(there))
        return said

    def _by_trees(self, there: list[int]) -> Floats:
        prior = self.prior[:, there].mean(axis=1)
        left = self.log[:, there] - prior[:, there]
        if not self.source_time:
            return prior + left.mean(axis=1, keepdims=True)
        given = np.zeros(self.log.shape[1], dtype=bool)
        given[there] = True
        # gains take machines in their order, whatever that of the sources
        order = np.argsort(there)
        gain = np.stack([conditional_gain(c, given) for c in self.covariance])
        return prior + np.einsum("nms,ns->nm", gain[self.fit], left[:, order])


def joined(parts: Sequence[Answers]) -> Answers:
    """Answers of several fits as one, their runs one after another."""
    first = parts[0]
    names = ("seconds", "ratio", "prior", "spread", "context")
    return Answers(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in names),
        covariance=np.concatenate([part.covariance for part in parts]),
        fit=np.repeat(np.arange(len(parts)), [len(part.seconds) for part in parts]),
        halves=first.halves,
        source_time=first.source_time,
    )
