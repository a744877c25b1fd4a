"""Duration of few contexts: a + Σ b_i / level_i, stacked with the sum of the bins.

A mean of logarithms of bins is too low if bins of equal progress hold other work in other runs, as
where threads wait in a loop.  Outside of the known levels these logarithms are limited.  Neither
holds for the duration.  Its parts are not negative, and have the least squared relative error in
the known contexts.

The time t of all bins together becomes t^(1 − s) · duration^s.  The share s is that of the trend in
the sum of both squared errors in left-out contexts.  It is 0 if the fit is far off there, as levels
have joint effects, and 1 outside of the known levels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from msbgen.core.arrays import NOT_NEGATIVE, SHARE, Stored
from msbgen.engine.trend.folds import Folds

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# Error of the fit in left-out contexts, a mean logarithm, beyond which it has no share: levels of
# several resources have joint effects, by which five contexts over three err twice as much.
_MOST_ERROR = 0.15


@dataclass(frozen=True, eq=False)
class WholeTime:
    """Fitted parts of the duration, and their share in it."""

    # (m + 1,) [s, s · level]: constant, and inverse to the level of each resource; not negative
    parts: Annotated[Floats, Stored(("part",), NOT_NEGATIVE)]
    share: Annotated[float, Stored((), SHARE)]  # within the known levels, 0 to 1

    @classmethod
    def fit(
        cls, contexts: Floats, duration: Floats, weights: Floats, share: float = 1.0
    ) -> WholeTime:
        """Parts for durations (n,) [s] in contexts (n, m) with weights (n,).

        A resource with one level has no part.
        """
        from scipy.optimize import nnls  # imported here, as few fits need it

        kept = np.concatenate([[True], _varies(contexts)])
        columns = np.column_stack([np.ones(len(contexts)), 1.0 / contexts[:, kept[1:]]])
        least = 1e-12 * duration.max()
        columns *= (np.sqrt(weights) / np.maximum(duration, least))[:, None]
        size = columns.max(axis=0)
        parts = np.zeros(len(kept))
        parts[kept] = nnls(columns / size, np.sqrt(weights))[0] / size
        return cls(parts, share)

    @staticmethod
    def spare(contexts: Floats, coordinates: tuple[str, ...]) -> int:
        """Number of contexts (n, m) less that of the parts; negative where there is no such fit.

        Levels that vary need a reciprocal, which those with a linear coordinate may lack.
        """
        varies = _varies(contexts)
        if not varies.any() or (np.array(coordinates)[varies] == "linear").any():
            return -1
        return len(contexts) - 1 - int(varies.sum())

    def predict(self, contexts: Floats) -> Floats:
        """Durations (q,) [s] at contexts (q, m)."""
        has_part = self.parts[1:] > 0
        return self.parts[0] + (self.parts[1:][has_part] / contexts[:, has_part]).sum(axis=1)

    def scale(self, time: Floats, contexts: Floats, known: Floats) -> None:
        """Scale times of bins (q, bins) [s] at contexts (q, m), in place.

        The fit and the trend of the times are of the contexts `known` (n, m).
        """
        beyond = (contexts < known.min(axis=0)) | (contexts > known.max(axis=0))
        share = np.where(beyond.any(axis=1), 1.0, self.share)
        present = np.maximum(time.sum(axis=1), 1e-300)
        time *= ((self.predict(contexts) / present) ** share)[:, None]

    def scale_left_out(
        self, time: Floats, contexts: Floats, duration: Floats, weights: Floats, folds: Folds
    ) -> None:
        """Scale times of bins (rows of the folds, bins) of left-out contexts, in place.

        The fit to the durations (n,) of the contexts (n, m) is repeated for each fold.
        """
        for row, left, kept in folds.splits(len(contexts)):
            fitted = WholeTime.fit(contexts[kept], duration[kept], weights[kept], self.share)
            fitted.scale(time[row], contexts[left], contexts[kept])


def stacked_share(trend: float, whole: float) -> float:
    """Share of the fit of the duration, by mean errors of both in left-out contexts."""
    if whole > _MOST_ERROR:
        return 0.0
    return trend**2 / max(trend**2 + whole**2, 1e-300)


def _varies(contexts: Floats) -> Bools:
    """Resources with several levels in the contexts (n, m), (m,)."""
    return np.asarray(np.ptp(contexts, axis=0) > 0)
