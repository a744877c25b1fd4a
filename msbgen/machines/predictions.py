"""What the parts of a prediction say of runs, and the times that follow from machines measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from msbgen.learn.gaussian import conditional_gain

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# What each part counts beside the others.  Chosen on two times four machines of which benchmarks
# score none (Jaguar, Silvermont, Zen 1, Cortex-A55; a Cortex-A55 and three Cortex-A53), runs and
# programs held back.
WEIGHTS = {"boosting": 0.3, "kriging": 0.6, "trees": 0.1}
_OF_RUNS = ("seconds", "ratio", "kriged", "prior", "spread", "context")


@dataclass(frozen=True, eq=False)
class Answers:
    """What the parts say, before it is chosen which machines count as measured.

    Attributes
    ----------
    seconds : ndarray, (n, n_machines)
        Time as measured [s], NaN where it was not.
    ratio : ndarray, (n, n_sources, n_machines)
        Log ratio of the times on a machine and on the source, by boosting.
    kriged : ndarray, (n, n_sources, n_machines)
        The same by kriging.
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
    parts : tuple of str
        Those that there are, of boosting, kriging and trees.
    source_time : bool
        Whether the trees look at the source's time.
    """

    seconds: Floats
    ratio: Floats
    kriged: Floats
    prior: Floats
    spread: Floats
    context: Floats
    covariance: Floats
    fit: Indices
    parts: tuple[str, ...]
    source_time: bool

    def some(self, rows: NDArray) -> Answers:
        """Those of some runs."""
        names = (*_OF_RUNS, "fit")
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
        said = self.by_part(sources)
        weights = [WEIGHTS[name] for name in said]
        found = np.average(list(said.values()), axis=0, weights=weights)
        found[:, list(sources)] = self.log[:, list(sources)]
        return found

    def by_part(self, sources: Sequence[int]) -> dict[str, Floats]:
        """Log time on every machine by each of the parts, (n, n_machines) each."""
        there = list(sources)
        ratios = {"boosting": self.ratio, "kriging": self.kriged}
        said = {
            name: (self.log[:, there, None] + ratio[:, there]).mean(axis=1)
            for name, ratio in ratios.items()
            if name in self.parts
        }
        return {**said, "trees": self._by_trees(there)} if "trees" in self.parts else said

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
    return Answers(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in _OF_RUNS),
        covariance=np.concatenate([part.covariance for part in parts]),
        fit=np.repeat(np.arange(len(parts)), [len(part.seconds) for part in parts]),
        parts=first.parts,
        source_time=first.source_time,
    )
