"""Predictions of the parts for runs, and the times that follow from the machines measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from msbgen.core.arrays import LOG_TIMES, POSITIVE, Stored
from msbgen.systems.learn.gaussian import conditional_gain, is_covariance

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Weight of each part in the mean.  Chosen with left-out runs and programs on two sets of four
# machines that no benchmark scores: Jaguar, Silvermont, Zen 1 and Cortex-A55; a Cortex-A55 and
# three Cortex-A53.
WEIGHTS = {"boosting": 0.3, "kriging": 0.6, "trees": 0.1}
_PAIRS = Stored(("n", "machine", "machine"), LOG_TIMES, missing=True)
_OF_RUNS = ("seconds", "ratio", "kriged", "prior", "spread", "context")


@dataclass(frozen=True, eq=False)
class PartPredictions:
    """Predictions of n runs by the parts from every source, before sources are chosen."""

    # (n, n_machines), measured time [s], NaN where missing
    seconds: Annotated[Floats, Stored(("n", "machine"), POSITIVE, missing=True)]
    # (n, n_sources, n_machines), log ratio of the time on a machine to that on the source, from
    # boosting
    ratio: Annotated[Floats, _PAIRS]
    kriged: Annotated[Floats, _PAIRS]  # (n, n_sources, n_machines), the same from kriging
    # (n, n_sources, n_machines), log time from the trees, which use the source's counters but no
    # time
    prior: Annotated[Floats, _PAIRS]
    # (n, n_sources, n_machines), deviation of the trees from their mean
    spread: Annotated[
        Floats, Stored(("n", "machine", "machine"), (0.0, LOG_TIMES[1]), missing=True)
    ]
    # (n, n_words), indicator of each run's configuration
    context: Annotated[Floats, Stored(("n", "configuration"))]
    # (n_fits, n_machines, n_machines), of the trees' residuals, for each fit
    covariance: Annotated[Floats, Stored(("fit", "machine", "machine"))]
    # (n,), fit that predicted each run
    fit: Annotated[Indices, Stored(("n",), dtype="i8", below="fit")]
    parts: tuple[str, ...]  # parts used: boosting, kriging, trees
    source_time: bool  # whether predictions use the time on the source

    def problems(self) -> Iterator[tuple[str, object, str]]:
        """What is wrong with stored predictions."""
        if not is_covariance(self.covariance):
            yield "covariance", "another matrix", "a symmetric positive definite one"
        if not {*self.parts} <= {*WEIGHTS}:
            yield "parts", self.parts, f"some of {', '.join(WEIGHTS)}"

    def some(self, rows: NDArray) -> PartPredictions:
        """Predictions of some runs."""
        names = (*_OF_RUNS, "fit")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    @cached_property
    def log(self) -> Floats:
        """Measured log time [log s], (n, n_machines)."""
        return np.log(self.seconds)

    def times(self, sources: Sequence[int]) -> Floats:
        """Time on every machine [s], (n, n_machines); on the sources the measured one."""
        times = np.exp(self.log_times(sources))
        times[:, list(sources)] = self.seconds[:, list(sources)]
        return times

    def log_times(self, sources: Sequence[int]) -> Floats:
        """Log time on every machine, (n, n_machines); on the sources the measured one."""
        predicted = self.by_part(sources)
        weights = [WEIGHTS[name] for name in predicted]
        times = np.average(list(predicted.values()), axis=0, weights=weights)
        times[:, list(sources)] = self.log[:, list(sources)]
        return times

    def by_part(self, sources: Sequence[int]) -> dict[str, Floats]:
        """Log time on every machine by each of the parts, (n, n_machines) each."""
        sources = list(sources)
        ratios = {"boosting": self.ratio, "kriging": self.kriged}
        predicted = {
            name: (self.log[:, sources, None] + ratio[:, sources]).mean(axis=1)
            for name, ratio in ratios.items()
            if name in self.parts
        }
        if "trees" in self.parts:
            predicted["trees"] = self._by_trees(sources)
        return predicted

    def _by_trees(self, sources: list[int]) -> Floats:
        prior = self.prior[:, sources].mean(axis=1)
        residual = self.log[:, sources] - prior[:, sources]
        if not self.source_time:
            return prior + residual.mean(axis=1, keepdims=True)
        measured = np.zeros(self.log.shape[1], dtype=bool)
        measured[sources] = True
        # the columns of gains are in the order of machines, those of residuals in that of sources
        order = np.argsort(sources)
        gain = np.stack([conditional_gain(c, measured) for c in self.covariance])
        return prior + np.einsum("nms,ns->nm", gain[self.fit], residual[:, order])


def joined(parts: Sequence[PartPredictions]) -> PartPredictions:
    """PartPredictions of several fits as one, their runs one after another."""
    first = parts[0]
    return PartPredictions(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in _OF_RUNS),
        covariance=np.concatenate([part.covariance for part in parts]),
        fit=np.repeat(np.arange(len(parts)), [len(part.seconds) for part in parts]),
        parts=first.parts,
        source_time=first.source_time,
    )
