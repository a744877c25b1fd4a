"""How good predictions of graphs are: errors of logarithms, order, coverage, and who is better.

Pooled R² says little where runs last from milliseconds to minutes: Brent's bound alone has .98.
Errors are of logarithms, where .05 is five per cent.  Methods are compared over graphs: five seeds
alone cannot make a difference significant, whatever it is (the least p of a two-sided signed-rank
test of five pairs is .06).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError, MeasurementError

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


def log_errors(said: Floats, truth: Floats) -> Floats:
    """Root mean square of log(said / truth) of each output, (n_outputs,).

    Parameters
    ----------
    said, truth : ndarray, (n, n_outputs)
        Positive.
    """
    return np.sqrt((np.log(said / truth) ** 2).mean(axis=0))


def order_within(said: Floats, truth: Floats, graph: Indices) -> float:
    """Spearman's correlation of said and true times over the runs of one graph, the mean of them.

    Graphs with fewer than three runs, or whose runs all took equally long, do not count.

    Raises
    ------
    MeasurementError
        No graph counts.
    """
    found = []
    for g in np.unique(graph):
        own = graph == g
        if own.sum() >= 3 and np.ptp(truth[own]) > 0:
            found.append(_spearman(said[own], truth[own]))
    if not found:
        raise MeasurementError("no graph has three runs; some with three or more are wanted.")
    return float(np.mean(found))


def _spearman(a: Floats, b: Floats) -> float:
    from scipy.stats import rankdata

    if np.ptp(a) == 0:
        return 0.0
    return float(np.corrcoef(rankdata(a), rankdata(b))[0, 1])


def coverage(truth: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Share of runs inside their intervals, and mean widths of their logarithms, (n_outputs,)."""
    inside = (low <= truth) & (truth <= high)
    return inside.mean(axis=0), np.log(high / low).mean(axis=0)


def compare_over_graphs(ours: Floats, theirs: Floats, graph: Sequence[str]) -> tuple[float, float]:
    """Whether one method errs less than another over graphs: Wilcoxon's signed-rank test.

    Parameters
    ----------
    ours, theirs : ndarray, (n,)
        Errors of logarithms of the same runs.
    graph : sequence of str, (n,)

    Returns
    -------
    p : float
        Two-sided.
    effect : float
        Matched-pairs rank-biserial correlation: 1 where ours err less on every graph, −1 more.

    Raises
    ------
    MeasurementError
        Fewer than six graphs, with which no p below .05 is possible.
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
    """P-values of several comparisons, corrected by Holm's step-down procedure.

    Raises
    ------
    ArgumentError
        What is no p-value.
    """
    for name, value in p.items():
        if not 0 <= value <= 1:
            raise ArgumentError(f"p of '{name}' is {value}; a number from 0 to 1 is wanted.")
    found, largest = {}, 0.0
    for rank, name in enumerate(sorted(p, key=lambda name: p[name])):
        largest = max(largest, min(1.0, (len(p) - rank) * p[name]))
        found[name] = largest
    return {name: found[name] for name in p}


def split_families(
    family: Sequence[str], parts: int, rng: np.random.Generator | int = 0
) -> list[NDArray[np.bool_]]:
    """Which runs are held back in each of several splits, whole families at a time, (n,) each.

    Raises
    ------
    MeasurementError
        Fewer families than parts.
    """
    names, unit = np.unique(np.asarray(family), return_inverse=True)
    if len(names) < parts:
        raise MeasurementError(
            f"there are {len(names)} families for {parts} parts; as many are wanted."
        )
    part = np.random.default_rng(rng).permutation(len(names)) % parts
    return [part[unit.reshape(-1)] == k for k in range(parts)]
