"""How far the predicted duration of a new context may be off, from left-out contexts.

Samples of a new context are predictive only if they include this error: a new run departs from the
samples' centre by its own deviation and by the error of the centre.  Each known context is left out
alone, and each inner level of a resource with all its contexts (:mod:`msbgen.engine.trend.folds`).
The squared errors e² of the logarithm of the duration are modelled as

    e² ≈ a · min(1, d²/d₁²) + b · d²,    a, b ≥ 0,

with d the deviation of the trend's Gaussian process, a distance to the other contexts in the
learned metric, and d₁ that of a context left out alone.  Where no counter explains time, the
deviation is that of :mod:`msbgen.engine.trend.durations`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from msbgen.core.arrays import NOT_NEGATIVE, POSITIVE, Stored
from msbgen.engine.generate.centre import Centre
from msbgen.engine.trend.folds import Folds

Floats = NDArray[np.float64]

_TINY = 1e-300


@dataclass(frozen=True)
class ContextError:
    """Model of the variance of the log duration's error; :meth:`fit` makes it."""

    alone: Annotated[float, Stored((), NOT_NEGATIVE)]  # a
    growth: Annotated[float, Stored((), NOT_NEGATIVE)]  # b
    spacing: Annotated[float, Stored((), POSITIVE)]  # d₁²

    @classmethod
    def fit(cls, centre: Centre) -> ContextError:
        """The model of a centre with durations; no error where no context can be left out."""
        contexts = centre.trend.contexts
        durations = centre.durations
        if durations is None or durations.has_line or len(contexts) < 2:
            return cls(0.0, 0.0, 1.0)
        from scipy.optimize import nnls  # imported here, as only samples need it

        folds = Folds.of(contexts)
        groups = [np.array([i]) for i in range(folds.singles)]
        groups += [folds.members[group] for group in folds.groups]
        distance = np.maximum(centre.variance.left_out(groups), _TINY)
        spacing = float(np.median(distance[: folds.singles]))
        known = centre.known_log_times(durations)[folds.index]
        square = (centre.left_out_log_times(durations, folds) - known) ** 2
        columns = np.stack([np.minimum(distance / spacing, 1.0), distance], axis=1)
        # errors are larger where contexts are farther
        weight = np.sqrt(folds.weight / (1.0 + distance / distance.mean()))
        size = np.maximum((columns * weight[:, None]).max(axis=0), _TINY)
        parts = nnls(columns * weight[:, None] / size, square * weight)[0] / size
        return cls(float(parts[0]), float(parts[1]), spacing)

    def at(self, centre: Centre, query: Floats) -> Floats:
        """Standard deviation of the error of the log duration at contexts (q, m), (q,)."""
        durations = centre.durations
        if durations and durations.has_line:
            # repeated runs have residuals; those of single runs are part of the error
            return durations.deviation(query, of_run=bool((centre.n_runs <= 1).all()))
        if self.alone == self.growth == 0.0:
            return np.zeros(len(query))
        distance = centre.variance.at(centre.trend.scaled(query))
        near = np.minimum(distance / self.spacing, 1.0)
        return np.sqrt(self.alone * near + self.growth * distance)
