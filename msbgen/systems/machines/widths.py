"""Relative widths of intervals, learned from the errors of predictions of left-out programs.

Randomised trees predict the log error of a run's log time.  Their features are known before the
run: how far the parts of the prediction differ, the deviation among the trees, the residual of the
time on the source, the predicted ratio, the pair of machines and the configuration.  A width is
the geometric mean of the typical error (the exponential of the mean log error) and the mean error.
The first suits a miscoverage of 10 %, the second one of 1 %.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from msbgen.core.parts import Sizes
from msbgen.systems.learn.randomised import Trees, TreesSettings, fit_trees
from msbgen.systems.machines.predictions import PartPredictions

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Least error of a log time; smaller ones differ by chance.
_LEAST = 0.01
# Weight of the error beside its logarithm in the splits of trees.
_PLAIN = 10.0
SETTINGS = TreesSettings(trees=60, columns=0.6, leaf=20, groups=0.7)


@dataclass(frozen=True, eq=False)
class IntervalWidths:
    """Learned log widths of intervals."""

    trees: Annotated[Trees, Sizes(output=2)]

    def log_width(self, predictions: PartPredictions, sources: Sequence[int]) -> Floats:
        """Mean over the sources of the log width, (n, n_machines)."""
        machines = range(predictions.seconds.shape[1])

        def width(s: int, m: int) -> Floats:
            return _log_width(self.trees.predict(_width_features(predictions, s, m))[0])

        by_source = [np.stack([width(s, m) for m in machines], axis=1) for s in sources]
        return np.mean(by_source, axis=0)


def fit_widths(
    predictions: PartPredictions, program: Indices, seed: int
) -> tuple[IntervalWidths, Floats]:
    """Widths learned from predictions of left-out programs, and unbiased log widths of these runs.

    The latter, (n, n_sources, n_machines), are from trees grown without the runs' programs; NaN
    where the run was not measured on both machines.
    """
    n, n_machines = predictions.seconds.shape
    tables, errors, rows, pairs = [], [], [], []
    for s in range(n_machines):
        distance = np.abs(predictions.log_times([s]) - predictions.log)
        for m in range(n_machines):
            measured = np.flatnonzero(np.isfinite(distance[:, m]))
            if m != s and len(measured):
                tables.append(_width_features(predictions.some(measured), s, m))
                errors.append(distance[measured, m])
                rows.append(measured)
                pairs.append((s, m))
    group = np.unique(program, return_inverse=True)[1].reshape(-1)
    row, table = np.concatenate(rows), np.vstack(tables)
    distances = np.concatenate(errors)
    outputs = np.stack([np.log(distances + _LEAST), _PLAIN * distances], axis=1)
    trees, seen = fit_trees(table, outputs, group[row], SETTINGS, seed)
    predicted = _log_width(trees.predict_without(table, seen))
    # a program that no tree left out gets the mean of the others
    known = np.isfinite(predicted)
    predicted[~known] = predicted[known].mean() if known.any() else 0.0
    unbiased = np.full((n, n_machines, n_machines), np.nan)
    parts = np.split(predicted, np.cumsum([*map(len, rows)])[:-1])
    for (s, m), measured, part in zip(pairs, rows, parts):
        unbiased[measured, s, m] = part
    return IntervalWidths(trees), unbiased


def _log_width(predicted: Floats) -> Floats:
    """Log width from the predicted mean log error and mean error, (n, 2)."""
    return (predicted[:, 0] + np.log(np.maximum(predicted[:, 1], 0.0) / _PLAIN + _LEAST)) / 2.0


def count_width_features(parts: Sequence[str], n_machines: int, n_words: int) -> int:
    """Number of columns of the features of widths."""
    return 2 + 2 * comb(len(parts), 2) + 2 * ("trees" in parts) + 2 * n_machines + n_words


def _width_features(predictions: PartPredictions, s: int, m: int) -> Floats:
    """Features of the width of runs from source `s` to machine `m`, (n, d)."""
    log, n_machines = predictions.log, predictions.seconds.shape[1]
    predicted = predictions.by_part([s])
    pair = np.zeros((len(log), 2 * n_machines))
    pair[:, [s, n_machines + m]] = 1.0
    columns = [log[:, s], predictions.log_times([s])[:, m] - log[:, s]]
    for one, other in combinations(predicted.values(), 2):
        apart = np.log(np.abs(one - other) + _LEAST)
        columns += [apart[:, m], apart.mean(axis=1)]
    if "trees" in predicted:
        spread = np.log(predictions.spread[:, s] + _LEAST)
        columns += [spread[:, m], log[:, s] - predictions.prior[:, s, s]]
    return np.column_stack([*columns, pair, predictions.context])
