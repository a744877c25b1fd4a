"""A law times what it leaves: terms that cannot be negative × exp(rest).

The rest, the logarithm of truth over terms, is a Gaussian process over a few logarithms where
kernels are few and alike, and randomised trees over everything where they are many: libraries
switch between algorithms, which is smooth in nothing.  What each says of kernels that it was not
shown decides how the two are weighted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.kernels.predictor.process import Process, fit_process, no_process, tell_process
from msbgen.kernels.predictor.terms import fit_terms
from msbgen.learn.randomised import Trees, TreesSettings, fit_trees, no_trees

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Fewer different kernels than this are no forest.
FEWEST_FOR_TREES = 100
# Shares of the trees that left-out kernels choose among, and the parts these are left out in.
_SHARES, _PARTS = (0.0, 0.25, 0.5, 0.75, 1.0), 4
# Every split looks at all features: few of them tell where an algorithm changes.
_TREES = TreesSettings(columns=1.0)
# Rows that a share is chosen by, at most: the process is fitted again for each part.
_MOST_CHOOSING = 2000


@dataclass(frozen=True)
class RestSettings:
    """What the rest is made of; each part can be left out, to see what it is worth.

    Attributes
    ----------
    terms : bool
        Whether there is a law at all; else everything is rest.
    process, trees : bool
    """

    terms: bool = True
    process: bool = True
    trees: bool = True


@dataclass(frozen=True, eq=False)
class Structured:
    """A fitted law and its rest.

    Attributes
    ----------
    weights : ndarray, (d,)
        Of the terms.
    level : float
        Mean logarithm, where there are no terms.
    process : Process
    trees : Trees
    share : float
        Of the trees in the rest.
    """

    weights: Floats
    level: float
    process: Process
    trees: Trees
    share: float

    def law(self, terms: Floats) -> Floats:
        """Logarithm of the terms, (n,)."""
        if not len(self.weights):
            return np.full(len(terms), self.level)
        return np.log(np.maximum(terms @ self.weights, 1e-300))

    def predict(self, terms: Floats, smooth: Floats, rough: Floats) -> Floats:
        """Logarithm, (n,)."""
        rest = np.zeros(len(terms))
        if self.share < 1.0:
            rest += (1.0 - self.share) * self.process.predict(smooth)
        if self.share > 0.0:
            rest += self.share * self.trees.predict(rough)[0][:, 0]
        return self.law(terms) + rest


def fit_structured(
    terms: Floats,
    smooth: Floats,
    rough: Floats,
    target: Floats,
    kernel: Indices,
    settings: RestSettings,
    seed: int,
) -> Structured:
    """Fit the law, then the rest.

    Parameters
    ----------
    terms : ndarray, (n, d)
        Not negative.
    smooth, rough : ndarray, (n, d') and (n, d'')
        What the process and the trees see.
    target : ndarray, (n,)
        Positive.
    kernel : ndarray of int, (n,)
        Which rows are of one kernel, from 0 on.
    settings : RestSettings
    seed : int
    """
    weights = fit_terms(terms, target) if settings.terms else np.empty(0)
    level = float(np.log(target).mean())
    bare = Structured(weights, level, no_process(smooth.shape[1]), no_trees(), 0.0)
    rest = np.log(target) - bare.law(terms)
    n_kernels = int(kernel.max()) + 1
    process = fit_process(smooth, rest, seed) if settings.process else bare.process
    if not settings.trees or n_kernels < FEWEST_FOR_TREES:
        return Structured(weights, level, process, bare.trees, 0.0)
    trees, seen = fit_trees(rough, rest[:, None], kernel, _TREES, seed)
    share = 1.0
    if settings.process:
        unseen = trees.predict_without(rough, seen)[:, 0]
        share = _share(process, smooth, rest, unseen, kernel, seed)
    return Structured(weights, level, process, trees if share > 0 else bare.trees, share)


def _share(
    process: Process, smooth: Floats, rest: Floats, unseen: Floats, kernel: Indices, seed: int
) -> float:
    """Share of the trees under which kernels that were left out are met best.

    The process keeps the lengths of all rows: a few numbers, which remember no kernel.
    """
    rng = np.random.default_rng([5, seed])
    part = rng.permutation(int(kernel.max()) + 1)[kernel] % _PARTS
    said = np.full(len(rest), np.nan)
    for one in range(_PARTS):
        asked = np.flatnonzero(part == one)
        known = np.flatnonzero(part != one)
        known = rng.permutation(known)[:_MOST_CHOOSING]
        told = tell_process(process, smooth[known], rest[known], seed)
        said[asked] = told.predict(smooth[asked])
    told = np.isfinite(unseen)
    errors = [np.abs((1 - s) * said[told] + s * unseen[told] - rest[told]).mean() for s in _SHARES]
    return _SHARES[int(np.argmin(errors))]
