"""Faults of durations alone, where no counter says how long a context should take.

Saturation, power caps and cliffs look like slow contexts, so contexts are not compared with each
other for slowness.  Two faults remain:

- *exchanged*: two contexts carry each other's label.  Durations are likelier with both exchanged
  under :mod:`msbgen.engine.trend.durations`.  Start times add evidence: a sweep may visit its
  levels in order, but for these two contexts.
- *departing*: the only run of a context took far longer than the runs on both sides of each
  resource predict.

Both are doubts, and nothing is changed: two contexts may have been visited out of order, and a
departure may be a property of the task.
"""

from collections.abc import Iterator
from itertools import combinations, permutations, product
from math import lgamma

import numpy as np
from numpy.typing import NDArray

from msbgen.engine.faults.findings import ExchangedContexts, Fault, SlowContext
from msbgen.engine.faults.hypotheses import FAULT_SCALE, PRIOR_ODDS
from msbgen.engine.trend.durations import Durations

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Contexts of the largest left-out errors, whose exchanges are compared.
_SUSPECTS = 12
# Resources whose orders of visits are tried.
_MOST_RESOURCES = 4


def find_duration_faults(
    contexts: Floats, time: Floats, n_runs: Indices, started: Floats
) -> list[Fault]:
    """Doubts about mean durations (n,) [s] of contexts (n, m): an exchange, or a departing run.

    Runs started at `started` (n, runs) [s]; NaN where that is unknown.  Exchanges are looked for
    where every context has a start time, as durations alone are too weak evidence.
    """
    model = Durations.fit(contexts, np.log(time), n_runs.astype(float), has_line=True)
    errors = np.abs(model.departure - model.left_out)
    suspects = np.sort(np.argsort(-errors, kind="stable")[:_SUSPECTS])
    found: list[Fault] = []
    if np.isfinite(started).any(axis=1).all():
        found += _exchange(model, suspects, started)
    return found or _departing(model, suspects, n_runs)


def _exchange(model: Durations, suspects: Indices, started: Floats) -> list[Fault]:
    n = len(started)
    pairs = list(combinations(suspects.tolist(), 2))
    out_of_order = exchange_in_order(model.contexts, started)
    if out_of_order:
        pairs = list(dict.fromkeys([out_of_order, *pairs]))
    exchanged = np.tile(model.departure, (1 + len(pairs), 1))
    for row, pair in zip(exchanged[1:], pairs):
        row[list(pair)] = row[list(pair[::-1])]
    evidence = model.log_evidence(exchanged)
    gain = evidence[1:] - evidence[0]
    log_odds = gain + np.log(PRIOR_ODDS / (n - 1))
    if out_of_order:
        # visits of a regular sweep have one of few orders, those of an irregular one any of n!
        orders = sum(1 for _ in _orders(model.contexts))
        log_odds[0] += lgamma(n + 1) - np.log(orders)
    best = int(np.argmax(np.where(gain > 0.0, log_odds, -np.inf)))
    if not (gain[best] > 0.0 and log_odds[best] > 0.0):
        return []
    contexts = tuple(sorted(pairs[best]))
    return [ExchangedContexts(contexts=contexts, log_odds=float(log_odds[best]), is_doubt=True)]


def exchange_in_order(contexts: Floats, started: Floats) -> tuple[int, int] | None:
    """The pair of contexts (n, m) whose exchange puts all visits in order, if there is one.

    Visits are in order where, sorted by start times (n, runs), contexts are sorted by the levels of
    the resources in turn, each upwards or downwards.  All runs must have the same order.
    """
    rows = np.argsort(started[:, np.isfinite(started).all(axis=0)], axis=0, kind="stable")
    if rows.shape[1] == 0 or (rows != rows[:, :1]).any():
        return None
    row = rows[:, 0]
    visited = contexts[row]
    for keys in _orders(visited):
        place = np.empty(len(visited), dtype=np.int64)
        place[np.lexsort(keys)] = np.arange(len(visited))
        moved = np.flatnonzero(place != np.arange(len(visited)))
        if len(moved) == 0:
            return None
        if len(moved) == 2:
            first, second = sorted(row[moved].tolist())
            return first, second
    return None


def _orders(contexts: Floats) -> Iterator[tuple[Floats, ...]]:
    """Sort keys of all orders of visits: resources that vary, in turn, upwards or downwards."""
    varying = [column for column in contexts.T if np.ptp(column) > 0][:_MOST_RESOURCES]
    for columns in permutations(varying):
        for signs in product((1.0, -1.0), repeat=len(columns)):
            yield tuple(sign * column for sign, column in zip(signs, columns))


def _departing(model: Durations, suspects: Indices, n_runs: Indices) -> list[Fault]:
    """The single run between others that took far longer than these predict, as a doubt."""
    contexts, log, n = model.contexts, model.departure, len(model.departure)
    varies = np.ptp(contexts, axis=0) > 0
    low, high = contexts.min(axis=0), contexts.max(axis=0)
    inner = ((contexts > low) & (contexts < high))[:, varies].all(axis=1)
    best: list[Fault] = []
    for i in suspects[inner[suspects] & (n_runs[suspects] == 1)].tolist():
        rest = np.delete(np.arange(n), i)
        others = Durations.fit(contexts[rest], log[rest], model.weight[rest], has_line=True)
        excess = float(log[i] - others.predict(contexts[[i]])[0])
        if excess <= 0.0:
            continue
        # density of an excess |N(0, s²)| over the prediction of the others
        slow = 0.5 * np.log(2.0 / np.pi) - np.log(FAULT_SCALE) - 0.5 * (excess / FAULT_SCALE) ** 2
        evidence = others.log_evidence(log[rest][None])[0] - model.log_evidence(log[None])[0]
        log_odds = float(slow + evidence + np.log(PRIOR_ODDS))
        if log_odds > (best[0].log_odds if best else 0.0):
            factor = float(np.exp(excess))
            best = [SlowContext(contexts=(i,), factor=factor, log_odds=log_odds, is_doubt=True)]
    return best
