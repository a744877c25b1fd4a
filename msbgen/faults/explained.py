"""The time that a run's counts explain: what is left of it is what a fault shows in.

Per context, the time t of a run that counted q_1 … q_k is close to a sum of terms without sign,

    t ≈ Σ_{a ∈ {1, q_1, …, q_k}} Σ_{g ∈ {1, 1/level_1, …, 1/level_m}} c_{ag} · a · g,   c ≥ 0,

cycles over the clock, misses times their latency, misses over the bandwidth.  The fit is robust: a
context that was slowed down hardly moves it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls

Floats = NDArray[np.float64]

# Runs never differ by less than this share.
EVEN = 0.005
# Steps of reweighting, and the departure in deviations beyond which a context counts less.
_STEPS, _LARGE = 12, 2.0
_NORMAL = 1.4826


def median(values: Floats) -> float:
    """The median of a few finite numbers, of which numpy's takes most of a fit's time."""
    ordered, half = np.sort(values), len(values) // 2
    return float(ordered[half] if len(values) % 2 else 0.5 * (ordered[half - 1] + ordered[half]))


@dataclass(frozen=True, eq=False)
class Explained:
    """The time that counts explain.

    Attributes
    ----------
    size : ndarray, (k,)
        Usual amounts of the counts.
    least : ndarray, (m,)
        Least level of each resource; NaN where it has no reciprocal that differs.
    table : ndarray, (1 + k, 1 + resources)
        Coefficients, not negative [s].
    """

    size: Floats
    least: Floats
    table: Floats

    @classmethod
    def fit(
        cls,
        contexts: Floats,
        time: Floats,
        counts: Floats,
        *,
        excess: ArrayLike = 0.0,
        worth: ArrayLike = 1.0,
    ) -> Explained:
        """From contexts (n, m), positive times (n,) [s] and counts (n, k).

        Of each time `excess` [s] is explained otherwise; a context counts as much as `worth` says.
        """
        varies = (contexts.min(axis=0) > 0) & (np.ptp(contexts, axis=0) > 0)
        least = np.where(varies, contexts.min(axis=0), np.nan)
        size = np.maximum(counts.mean(axis=0), 1e-300)
        none = cls(size, least, np.empty(0))
        amounts, levels = none._amounts(counts), none._levels(contexts)
        terms = (amounts[:, :, None] * levels[:, None]).reshape(len(contexts), -1)
        trusted = np.broadcast_to(np.sqrt(np.asarray(worth, dtype=float)), time.shape)
        other = np.broadcast_to(np.asarray(excess, dtype=float), time.shape)
        weight, share = trusted, np.zeros(terms.shape[1])
        for _ in range(_STEPS):
            scale = weight / time
            share = nnls(terms * scale[:, None], np.maximum(time - other, 0.0) * scale)[0]
            departure = np.log(time / np.maximum(terms @ share + other, 1e-300))
            usual = _NORMAL * median(np.abs(departure[trusted > 0])) + EVEN
            weight = trusted / np.sqrt(1.0 + (departure / (_LARGE * usual)) ** 2)
        return cls(size, least, share.reshape(amounts.shape[1], levels.shape[1]))

    def _amounts(self, counts: Floats) -> Floats:
        """1 and the counts (..., k) in usual amounts, (..., 1 + k)."""
        return np.concatenate([np.ones((*counts.shape[:-1], 1)), counts / self.size], axis=-1)

    def _levels(self, contexts: Floats) -> Floats:
        """1 and the reciprocals of the levels, (n, 1 + resources)."""
        varies = np.isfinite(self.least)
        slowness = self.least[varies] / contexts[:, varies]
        return np.concatenate([np.ones((len(contexts), 1)), slowness], axis=1)

    def at_every_level(self, contexts: Floats, counts: Floats) -> Floats:
        """Time [s] of counts (n, k) (columns) at the levels of contexts (rows), (n, n)."""
        times = self._levels(contexts) @ self.table.T @ self._amounts(counts).T
        return np.maximum(times, 1e-300)

    def of(self, contexts: Floats, counts: Floats) -> Floats:
        """Time [s] of counts (n, ..., k) of contexts (n, m), (n, ...)."""
        rates = self._levels(contexts) @ self.table.T
        return np.maximum(np.einsum("na,n...a->n...", rates, self._amounts(counts)), 1e-300)
