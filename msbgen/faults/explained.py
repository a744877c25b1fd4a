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

from msbgen.trend.coordinates import Coordinates, default_names

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

# Runs never differ by less than this share.
EVEN = 0.005
# Steps of reweighting, and the departure in deviations beyond which a context counts less.
_STEPS, _LARGE = 12, 2.0
# Of looking for the law of a rate.
_ROUNDS = 3
_NORMAL = 1.4826
# A counter goes with time where its rate departs from the levels by less than this share of what
# the counter departs by; of eleven programs no counter of events comes below 0.9.
_GOES_WITH_TIME = 0.5


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


def goes_with_time(contexts: Floats, counts: Floats, rates: Floats) -> Bools:
    """Which counters grow because time goes by, as cycles at a clock do, (k,).

    Such a counter explains whatever time a run takes, and hides that it was slowed down: that many
    a second is a plain law of the levels, and the counter itself is not.

    Parameters
    ----------
    contexts : ndarray, (n, m)
    counts : ndarray, (n, k)
    rates : ndarray, (n, k)
        Counts a second.
    """
    z = Coordinates.of(default_names(contexts), contexts).scaled(contexts)
    law = np.column_stack([np.ones(len(z)), z])

    def departure(values: Floats) -> float:
        """Usual departure from the law of the levels; those far from it do not settle the law."""
        left, usual = np.zeros(len(values)), np.inf
        for _ in range(_ROUNDS):
            near = np.abs(left) <= 3.0 * usual + 1e-12
            left = values - law @ np.linalg.lstsq(law[near], values[near], rcond=None)[0]
            usual = _NORMAL * median(np.abs(left))
        return usual

    def goes(count: Floats, rate: Floats) -> bool:
        if count.min() <= 0.0:
            return False
        own = departure(np.log(count))
        return own > EVEN and departure(np.log(rate)) < _GOES_WITH_TIME * own

    return np.array([goes(*one) for one in zip(counts.T, rates.T)], dtype=bool)
