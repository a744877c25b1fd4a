"""Relative widths of intervals, learned from the errors of predictions of left-out programs.

Randomised trees predict the log error of a run's log time.  Their features are known before the
run: how far the parts of the prediction differ, the deviation among the trees, the residual of the
time on the source, the predicted ratio, the pair of machines and the configuration.  A width is
the geometric mean of the typical error (the exponential of the mean log error) and the mean error.
The first suits a miscoverage of 10 %, the second one of 1 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from msbgen.learn.randomised import Trees, TreesSettings, fit_trees
from msbgen.machines.predictions import PartPredictions

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Least error of a log time; smaller ones differ by chance.
_LEAST = 0.01
# Weight of the error beside its logarithm in the splits of trees.
_PLAIN = 10.0
SETTINGS = TreesSettings(trees=60, columns=0.6, leaf=20, groups=0.7)


@dataclass(frozen=True, eq=False)
class IntervalWidths:
    """Learned log widths of intervals.

    Attributes
    ----------
    trees : Trees
    """

    trees: Trees

    def log_width(self, answers: PartPredictions, sources: Sequence[int]) -> Floats:
        """Mean over the sources of the log width, (n, n_machines)."""
        return np.mean([self._from(answers, s) for s in sources], axis=0)

    def _from(self, answers: PartPredictions, source: int) -> Floats:
        n_machines = answers.seconds.shape[1]
        tables = [_width_features(answers, source, m) for m in range(n_machines)]
        return np.stack([_log_width(self.trees.predict(t)[0]) for t in tables], axis=1)


def fit_widths(
    answers: PartPredictions, program: Indices, seed: int
) -> tuple[IntervalWidths, Floats]:
    """Widths learned from predictions of left-out programs.

    Returns
    -------
    widths : IntervalWidths
    unbiased : ndarray, (n, n_sources, n_machines)
        Log widths of the same runs, from trees grown without their programs; NaN where the run
        was not measured on both machines.
    """
    n, n_machines = answers.seconds.shape
    tables, errors, rows, pairs = [], [], [], []
    for s in range(n_machines):
        distance = np.abs(answers.log_times([s]) - answers.log)
        for m in range(n_machines):
            measured = np.flatnonzero(np.isfinite(distance[:, m]))
            if m != s and len(measured):
                tables.append(_width_features(answers.some(measured), s, m))
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


def _width_features(answers: PartPredictions, s: int, m: int) -> Floats:
    """Features of the width of runs from source `s` to machine `m`, (n, d)."""
    log, n_machines = answers.log, answers.seconds.shape[1]
    predicted = answers.by_part([s])
    pair = np.zeros((len(log), 2 * n_machines))
    pair[:, [s, n_machines + m]] = 1.0
    columns = [
        log[:, s],
        answers.log_times([s])[:, m] - log[:, s],
    ]
    for one, other in combinations(predicted.values(), 2):
        apart = np.log(np.abs(one - other) + _LEAST)
        columns += [apart[:, m], apart.mean(axis=1)]
    if "trees" in predicted:
        spread = np.log(answers.spread[:, s] + _LEAST)
        columns += [spread[:, m], log[:, s] - answers.prior[:, s, s]]
    return np.column_stack([*columns, pair, answers.context])
