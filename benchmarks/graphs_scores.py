"""Scores of predictions of graphs: errors of logarithms, rank correlation, tests.

Errors are of logarithms, where .05 is five per cent.  A pooled R² is no good score where runs last
from milliseconds to minutes: Brent's bound alone reaches .98.  Methods are compared over graphs,
not over seeds: the least p of a two-sided signed-rank test of five pairs is .06.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError, MeasurementError

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


def log_errors(predicted: Floats, truth: Floats) -> Floats:
    """Root mean square of log(predicted / truth) of each output, (n_outputs,)."""
    return np.sqrt((np.log(predicted / truth) ** 2).mean(axis=0))


def order_within(predicted: Floats, truth: Floats, graph: Indices) -> float:
    """Mean over graphs of Spearman's correlation of predicted and true times of their runs.

    Graphs with fewer than three runs, or with equal times only, are left out.  If none is left,
    :class:`MeasurementError` is raised.
    """
    from scipy.stats import rankdata

    correlations = []
    for g in np.unique(graph):
        runs = graph == g
        if runs.sum() >= 3 and np.ptp(truth[runs]) > 0:
            ranks = rankdata(predicted[runs]), rankdata(truth[runs])
            constant = np.ptp(predicted[runs]) == 0
            correlations.append(0.0 if constant else float(np.corrcoef(*ranks)[0, 1]))
    if not correlations:
        raise MeasurementError("no graph has three runs; some with three or more are wanted.")
    return float(np.mean(correlations))


def compare_over_graphs(ours: Floats, theirs: Floats, graph: Sequence[str]) -> tuple[float, float]:
    """Wilcoxon's signed-rank test, over graphs, of the errors of two methods; returns p and the
    effect.

    `ours` and `theirs`, (n,), are errors of logarithms of the same runs, of the graphs (n,).  p is
    two-sided.  The effect is the matched-pairs rank-biserial correlation: 1 where ours are smaller
    on every graph, −1 larger.  Fewer than six graphs raise :class:`MeasurementError`: no p below
    .05 is possible with them.
    """
    from scipy.stats import rankdata, wilcoxon

    unit = np.unique(np.asarray(graph), return_inverse=True)[1].reshape(-1)
    count = np.bincount(unit)
    if len(count) < 6:
        raise MeasurementError(f"there are {len(count)} graphs; six or more are wanted.")
    first, second = (np.sqrt(np.bincount(unit, weights=e**2) / count) for e in (ours, theirs))
    difference = second - first
    if not difference.any():
        return 1.0, 0.0
    rank = rankdata(np.abs(difference[difference != 0]))
    sign = np.sign(difference[difference != 0])
    p = float(wilcoxon(first, second)[1])  # type: ignore[arg-type]
    return p, float((rank * sign).sum() / rank.sum())


def holm(p: Mapping[str, float]) -> dict[str, float]:
    """P-values of several comparisons, corrected by Holm's step-down procedure."""
    for name, value in p.items():
        if not 0 <= value <= 1:
            raise ArgumentError(f"p of '{name}' is {value}; a number from 0 to 1 is wanted.")
    corrected, largest = {}, 0.0
    for rank, name in enumerate(sorted(p, key=lambda name: p[name])):
        largest = max(largest, min(1.0, (len(p) - rank) * p[name]))
        corrected[name] = largest
    return {name: corrected[name] for name in p}
