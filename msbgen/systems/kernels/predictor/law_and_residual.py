"""A law times its residual: non-negative terms × exp(residual).

The residual is the logarithm of target over law.  It is a Gaussian process over a few logarithms.
With many kernels it is a weighted mean with randomised trees over all features, because libraries
switch between algorithms and such steps are not smooth.  The weight of the trees has the least
error on left-out kernels.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from msbgen.core.arrays import NOT_NEGATIVE, SHARE, Stored
from msbgen.core.conformal import group_folds
from msbgen.core.parts import Sizes
from msbgen.systems.kernels.predictor.gaussian_process import (
    ResidualProcess,
    condition,
    fit_gaussian_process,
    no_process,
)
from msbgen.systems.kernels.predictor.terms import fit_terms
from msbgen.systems.learn.randomised import Trees, TreesSettings, fit_trees, no_trees

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Trees are used from so many different kernels on.
FEWEST_FOR_TREES = 100
# Weights of the trees to choose from, and folds of kernels that are left out to choose.
_SHARES, _FOLDS = (0.0, 0.25, 0.5, 0.75, 1.0), 4
# Every split considers all features: only few of them show where an algorithm changes.
_TREES = TreesSettings(columns=1.0)
# Rows of a fold's fit at most, as the process is fitted again for each fold.
_MOST_ROWS = 2000


@dataclass(frozen=True)
class ModelParts:
    """Which parts a model has; leaving one out shows how much it contributes.

    Without `terms`, the law, everything is residual; `process` and `trees` are its two models.
    """

    terms: bool = True
    process: bool = True
    trees: bool = True


@dataclass(frozen=True, eq=False)
class LawAndResidual:
    """A fitted law and its residual.

    `weights` (d,) are those of the terms, `level` is the mean logarithm where there are no terms,
    and `share` the weight of the trees in the residual.
    """

    weights: Annotated[Floats, Stored(("weight",), NOT_NEGATIVE)]
    level: Annotated[float, Stored((), (-700.0, 700.0))]
    process: ResidualProcess
    trees: Annotated[Trees, Sizes(output=1)]
    share: Annotated[float, Stored((), SHARE)]

    def problems(self) -> Iterator[tuple[str, object, str]]:
        """What is wrong with a stored law."""
        if self.share > 0 and not len(self.trees.nodes.root):
            yield "share", self.share, "0, without trees,"

    def misfits(self, terms: int, smooth: int, rough: int) -> Iterator[tuple[str, object, str]]:
        """What does not fit so many terms, and features of the process and of the trees."""
        if len(self.weights) not in (0, terms):
            yield "model.weights", f"of {len(self.weights)}", f"0 or {terms}"
        if len(self.process.centre) != smooth:
            yield "model.process.centre", f"of {len(self.process.centre)}", str(smooth)
        if len(self.trees.nodes.root) and self.trees.nodes.n_features != rough:
            yield "model.trees.nodes.n_features", self.trees.nodes.n_features, str(rough)

    def log_law(self, terms: Floats) -> Floats:
        """Logarithm of the law, (n,)."""
        if not len(self.weights):
            return np.full(len(terms), self.level)
        return np.log(np.maximum(terms @ self.weights, 1e-300))

    def predict(self, terms: Floats, smooth: Floats, rough: Floats) -> Floats:
        """Logarithm of the target, (n,)."""
        residual = np.zeros(len(terms))
        if self.share < 1.0:
            residual += (1.0 - self.share) * self.process.predict(smooth)
        if self.share > 0.0:
            residual += self.share * self.trees.predict(rough)[0][:, 0]
        return self.log_law(terms) + residual


def fit_law_and_residual(
    terms: Floats,
    smooth: Floats,
    rough: Floats,
    target: Floats,
    kernel: Indices,
    parts: ModelParts,
    seed: int,
) -> LawAndResidual:
    """Fit the law, then the residual.

    Terms (n, d) are not negative, the target (n,) is positive. The features of the process are
    `smooth`, those of the trees `rough`. Kernels are numbered from 0 on.
    """
    weights = fit_terms(terms, target) if parts.terms else np.empty(0)
    level = float(np.log(target).mean())
    law = LawAndResidual(weights, level, no_process(smooth.shape[1]), no_trees(), 0.0)
    residual = np.log(target) - law.log_law(terms)
    n_kernels = int(kernel.max()) + 1
    process = fit_gaussian_process(smooth, residual, seed) if parts.process else law.process
    if not parts.trees or n_kernels < FEWEST_FOR_TREES:
        return LawAndResidual(weights, level, process, law.trees, 0.0)
    trees, in_bag = fit_trees(rough, residual[:, None], kernel, _TREES, seed)
    share = 1.0
    if parts.process:
        by_trees = trees.predict_without(rough, in_bag)[:, 0]
        share = _best_share(process, smooth, residual, by_trees, kernel, seed)
    return LawAndResidual(weights, level, process, trees if share > 0 else law.trees, share)


def _best_share(
    process: ResidualProcess,
    smooth: Floats,
    residual: Floats,
    by_trees: Floats,
    kernel: Indices,
    seed: int,
) -> float:
    """Weight of the trees with the least error on left-out kernels.

    Each fold keeps the lengths that were fitted to all rows: a few numbers, shared by all kernels.
    """
    rng = np.random.default_rng([5, seed])
    fold = group_folds(kernel, _FOLDS, rng)
    by_process = np.full(len(residual), np.nan)
    for k in range(_FOLDS):
        test = np.flatnonzero(fold == k)
        train = rng.permutation(np.flatnonzero(fold != k))[:_MOST_ROWS]
        fitted = condition(process, smooth[train], residual[train], seed)
        by_process[test] = fitted.predict(smooth[test])
    scored = np.isfinite(by_trees)
    errors = [
        np.abs((1 - s) * by_process[scored] + s * by_trees[scored] - residual[scored]).mean()
        for s in _SHARES
    ]
    return _SHARES[int(np.argmin(errors))]
