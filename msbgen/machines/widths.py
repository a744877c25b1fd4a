"""How wide an interval of a run should be before it is known how wide intervals are.

Randomised trees learn log distances between what was predicted of programs left out and their
times, from what is known before: how far the parts of the prediction and the trees among
themselves disagree, how unusual the time on the source is, the ratio predicted, the pair of
machines, the configuration.  A width is the geometric mean of the typical distance (the mean in
log) and of the mean one: the former serves intervals that miss a tenth best, the latter those that
miss a hundredth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from msbgen.learn.randomised import Trees, TreesSettings, fit_trees
from msbgen.machines.predictions import Answers

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Distances in log time below this are all alike.
_LEAST = 0.01
# What a distance counts beside its logarithm where trees split.
_PLAIN = 10.0
SETTINGS = TreesSettings(trees=60, columns=0.6, leaf=20, groups=0.7)


@dataclass(frozen=True, eq=False)
class Widths:
    """Log widths of intervals, learned.

    Attributes
    ----------
    trees : Trees
    """

    trees: Trees

    def log_width(self, answers: Answers, sources: Sequence[int]) -> Floats:
        """Mean over the sources of the log width, (n, n_machines)."""
        return np.mean([self._from(answers, s) for s in sources], axis=0)

    def _from(self, answers: Answers, source: int) -> Floats:
        n_machines = answers.seconds.shape[1]
        tables = [_known(answers, source, m) for m in range(n_machines)]
        return np.stack([_log_width(self.trees.predict(t)[0]) for t in tables], axis=1)


def fit_widths(answers: Answers, program: Indices, seed: int) -> tuple[Widths, Floats]:
    """Learn widths from programs that were left out.

    Returns
    -------
    widths : Widths
    honest : ndarray, (n, n_sources, n_machines)
        Log widths of the same runs by trees that did not see their programs; NaN where the run
        did not run on both machines.
    """
    n, n_machines = answers.seconds.shape
    tables, off, rows, pairs = [], [], [], []
    for s in range(n_machines):
        distance = np.abs(answers.log_times([s]) - answers.log)
        for m in range(n_machines):
            own = np.flatnonzero(np.isfinite(distance[:, m]))
            if m != s and len(own):
                tables.append(_known(answers.some(own), s, m))
                off.append(distance[own, m])
                rows.append(own)
                pairs.append((s, m))
    group = np.unique(program, return_inverse=True)[1].reshape(-1)
    row, table = np.concatenate(rows), np.vstack(tables)
    distances = np.concatenate(off)
    outputs = np.stack([np.log(distances + _LEAST), _PLAIN * distances], axis=1)
    trees, seen = fit_trees(table, outputs, group[row], SETTINGS, seed)
    said = _log_width(trees.predict_without(table, seen))
    # a program that every tree saw, of a few: the mean of the others
    said = np.where(np.isfinite(said), said, np.nanmean(said) if np.isfinite(said).any() else 0.0)
    honest = np.full((n, n_machines, n_machines), np.nan)
    for (s, m), own, part in zip(pairs, rows, np.split(said, np.cumsum([*map(len, rows)])[:-1])):
        honest[own, s, m] = part
    return Widths(trees), honest


def _log_width(said: Floats) -> Floats:
    """From the mean of the log distance and the mean distance, (n, 2), as trees tell them."""
    return (said[:, 0] + np.log(np.maximum(said[:, 1], 0.0) / _PLAIN + _LEAST)) / 2.0


def known_columns(parts: Sequence[str], n_machines: int, n_words: int) -> int:
    """How many numbers widths are learned from."""
    return 2 + 2 * comb(len(parts), 2) + 2 * ("trees" in parts) + 2 * n_machines + n_words


def _known(answers: Answers, s: int, m: int) -> Floats:
    """What is known of runs from a source before the time on a machine is, (n, d)."""
    log, n_machines = answers.log, answers.seconds.shape[1]
    said = answers.by_part([s])
    pair = np.zeros((len(log), 2 * n_machines))
    pair[:, [s, n_machines + m]] = 1.0
    columns = [
        log[:, s],
        answers.log_times([s])[:, m] - log[:, s],
    ]
    for one, other in combinations(said.values(), 2):
        apart = np.log(np.abs(one - other) + _LEAST)
        columns += [apart[:, m], apart.mean(axis=1)]
    if "trees" in said:
        spread = np.log(answers.spread[:, s] + _LEAST)
        columns += [spread[:, m], log[:, s] - answers.prior[:, s, s]]
    return np.column_stack([*columns, pair, answers.context])
