"""What caps add to the time that counts explain.

A bin of progress takes the time u that its counts explain (:mod:`msbgen.faults.explained`), unless
a counter q would exceed the rate R of a cap: then E max(u, X q / (R · level)), X the unevenness of
the counter within the bin (:func:`msbgen.trend.caps.throttled`).  A sum of terms cannot follow that
corner, and what is left of it would look like a fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.faults.explained import EVEN, Explained
from msbgen.trend.caps import Rate, throttled

Floats = NDArray[np.float64]

# A bin whose counter runs at this share of a cap's rate, or above, does not tell what it would
# take without: the less the closer, and never quite nothing.
_BLIND, _LEAST_WORTH = (0.4, 0.85), 1e-4
# Widths of the knee that are tried.
_WIDTHS = (0.03, 0.1, 0.2, 0.4)
# What caps add is known to this share: a rate is that of no single bin.
_UNSURE = 0.1


@dataclass(frozen=True, eq=False)
class Roofline:
    """Time of bins under caps.

    Attributes
    ----------
    rates : sequence of Rate
        Counter, resource, and rate per level of each cap; nothing is added without.
    models : list of Explained
        Time of each bin that no cap reaches.
    width : float
        Of the knee, under which times of whole contexts are met best.
    """

    rates: Sequence[Rate]
    models: Sequence[Explained]
    width: float

    @classmethod
    def fit(cls, rates: Sequence[Rate], contexts: Floats, state: Floats) -> Roofline:
        """From contexts (n, m) and amounts (n, bins, 1 + k) in bins of equal work, time first."""
        if not rates:
            return cls((), (), _WIDTHS[0])
        time = state[..., 0]
        near = _demanded(rates, contexts, state) / time
        worth = np.clip((_BLIND[1] - near) / (_BLIND[1] - _BLIND[0]), _LEAST_WORTH, 1.0)
        models = [
            Explained.fit(contexts, own[:, 0] + EVEN * own[:, 0].mean(), own[:, 1:], worth=its)
            for own, its in zip(np.moveaxis(state, 1, 0), worth.T)
        ]
        tried = [cls(rates, models, width) for width in _WIDTHS]
        whole = time.sum(axis=1)
        errors = [np.abs(np.log(one._whole(contexts, state) / whole)).sum() for one in tried]
        return tried[int(np.argmin(errors))]

    def excess(self, contexts: Floats, state: Floats) -> Floats:
        """Time [s] that caps add to each bin of contexts, (n, bins)."""
        if not self.rates:
            return np.zeros(state.shape[:2])
        free, least = self._free(contexts, state), _demanded(self.rates, contexts, state)
        return np.maximum(throttled(free, least, self.width)[0] - free, 0.0)

    def excess_at_every_level(self, contexts: Floats, state: Floats) -> Floats:
        """That of all bins of measurements (columns) at the levels of contexts (rows), (n, n)."""
        if not self.rates:
            return np.zeros((len(contexts), len(contexts)))
        levels = np.broadcast_to(contexts[:, None], (len(contexts), *contexts.shape))
        every = [model.at_every_level(contexts, q) for model, q in self._bins(state)]
        free = np.stack(every, axis=-1)
        least = _demanded(self.rates, levels, state[None])
        return np.maximum(throttled(free, least, self.width)[0] - free, 0.0).sum(axis=2)

    def variance(self, contexts: Floats, state: Floats) -> Floats:
        """Of the logarithm of each context's whole time, by what is not known of caps, (n,)."""
        if not self.rates:
            return np.zeros(len(contexts))
        share = self.excess(contexts, state).sum(axis=1) / self._whole(contexts, state)
        # the width of one context need not be that of another
        knees = [Roofline(self.rates, self.models, width) for width in _WIDTHS]
        tried = np.log([knee._whole(contexts, state) for knee in knees])
        return tried.var(axis=0) + (_UNSURE * share) ** 2

    def _bins(self, state: Floats) -> list[tuple[Explained, Floats]]:
        """The model of each bin, and its counts (n, k)."""
        return list(zip(self.models, np.moveaxis(state[..., 1:], 1, 0)))

    def _free(self, contexts: Floats, state: Floats) -> Floats:
        """Time [s] of each bin if no cap reached it, (n, bins)."""
        return np.stack([model.of(contexts, q) for model, q in self._bins(state)], axis=1)

    def _whole(self, contexts: Floats, state: Floats) -> Floats:
        """Time [s] of each context, (n,)."""
        least = _demanded(self.rates, contexts, state)
        return throttled(self._free(contexts, state), least, self.width)[0].sum(axis=1)


def _demanded(rates: Sequence[Rate], contexts: Floats, state: Floats) -> Floats:
    """Least time [s] of bins (..., bins, 1 + k) at contexts (..., m), (..., bins)."""
    needed = [
        state[..., counter] / (rate * contexts[..., resource, None])
        for counter, resource, rate in rates
    ]
    return np.max(needed, axis=0)
