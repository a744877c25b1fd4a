"""Faulty contexts: the set of hypotheses under which the measured data are likeliest.

A beam search over hypotheses (:mod:`msbgen.engine.faults.hypotheses`) also follows those that lower
the likelihood, since two faults may hide each other.  Then hypotheses are withdrawn one by one and
in pairs, and the rest is completed anew.

Fits of the noise without the contexts found alternate with searches, both with and without
more noise where neighbours deviate.  In the end it is also fitted without the contexts of the next
best hypotheses, because a fault may have determined the noise.  The likeliest result is returned.

Faults concern single contexts.  So if most contexts along a line of a grid, or most direct
neighbours of a context, would be faulty, none of them is.  A context that is capped for more than
half of its time runs at the cap's rate, and is exempt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from msbgen.engine.faults.hypotheses import Explanation, FaultModel, Hypothesis
from msbgen.engine.faults.process import Neighbourhoods, Process, ProcessSearch, raise_noise
from msbgen.engine.faults.regression import TimeRegression
from msbgen.engine.trend.coordinates import Coordinates, default_names

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.int64]

# Width of the beam, hypotheses tried from each explanation, steps without a gain before the end.
_WIDTH, _BRANCHES, _PATIENCE = 8, 10, 2
# The most hypotheses, as a share of the contexts; the most that are withdrawn one by one.
_MOST_FAULTS, _MOST_WITHDRAWN = 0.25, 12
# Rounds of fitting the noise without the contexts found, and of exempting corners.
_ROUNDS, _EXEMPTIONS = 4, 3
# Next best hypotheses that are tried with the noise fitted without their contexts.
_NEXT = 3
# Number of fits that are kept by their hypotheses, and of searches by the contexts left out.
_LAST = 4
# Counts below this share of their mean are treated additively.
_FLOOR = 0.01
# Totals of a counter are limited to this multiple of the largest one outside of this share of the
# contexts: a few far above all others are errors of reading, or properties of these contexts.
_LIMIT, _LIMITED_SHARE = 8.0, 0.05
# A line of at least so many contexts, of which this share is faulty, is a corner.
_LINE, _FAULTY_SHARE = 3, 0.75
# Nearest contexts among which direct neighbours are sought.
_CANDIDATES = 14


@dataclass(frozen=True, eq=False)
class FaultyContexts:
    """The hypotheses found."""

    hypotheses: tuple[Hypothesis, ...]
    log_odds: tuple[float, ...]  # of each, conditional on the others
    factor: Floats  # (n,): measured over predicted time of slow contexts; 1 for others
    weight: Floats  # (n,): in a fit after the repair, below 1 where the time is predicted


def find_faulty_contexts(
    contexts: Floats,
    time: Floats,
    counts: Floats,
    variance: Floats,
    exempt: Bools,
    excess: Floats,
    suspected: Sequence[Hypothesis] = (),
) -> FaultyContexts:
    """The contexts that were slowed down, agree with no other, or were exchanged.

    `time` (n,) is the mean execution time [s], `counts` (n, k) are the mean totals of the counters
    without the one that measures the work.  `variance` (n, 1 + k) is that of the logarithms of
    these means, from the runs of a context; 0 where there is one.  Contexts that run at a cap's
    rate are `exempt` (n,).  `excess` (n, n) is the time [s] that caps add to measurements
    (columns) at the levels of contexts (rows).  The search starts from no hypothesis, and from
    those `suspected`.

    O(n³) for each of some hundred processes, O(n²) for each hypothesis; a third of a second for
    125 contexts, two seconds where several faults are found.
    """
    order = np.lexsort(contexts.T[::-1])  # ties are broken by the levels, not by the file's order
    pairs = np.ix_(order, order)
    search = _Search(
        contexts[order],
        time[order],
        _limited(counts[order]),
        variance[order],
        exempt[order],
        excess[pairs],
    )
    place = np.argsort(order)
    found = search.best(tuple(_renumbered(one, place) for one in suspected))
    hypotheses = tuple(_renumbered(one, order) for one in found.hypotheses)
    factor, weight = np.ones(len(time)), np.ones(len(time))
    factor[order], weight[order] = search.repairs(found)
    return FaultyContexts(hypotheses, search.each_log_odds(found), factor, weight)


@dataclass(frozen=True, eq=False)
class _Fitted:
    """An explanation, the model it was found under, and its likelihood."""

    likelihood: float
    model: FaultModel
    explanation: Explanation
    raised: bool

    @classmethod
    def of(cls, model: FaultModel, explanation: Explanation, raised: bool) -> _Fitted:
        likelihood = model.log_density_of_times() + explanation.log_odds
        return cls(likelihood, model, explanation, raised)


@dataclass(frozen=True, eq=False)
class _Fit:
    """The noise of all quantities, time first, fitted without the contexts of some hypotheses."""

    processes: tuple[Process, ...]
    tables: tuple[Floats, ...]  # (n, n) each: as of `FaultModel`
    times: Floats  # (n,): logarithms, centred
    untimely: Bools  # (n,): contexts whose times the noise is fitted without


class _Search:
    """One search; arguments as of `find_faulty_contexts`."""

    def __init__(
        self,
        contexts: Floats,
        time: Floats,
        counts: Floats,
        variance: Floats,
        exempt: Bools,
        excess: Floats,
    ) -> None:
        self._contexts, self._time, self._counts = contexts, time, counts
        self._excess = excess
        z = Coordinates.of(default_names(contexts), contexts).scaled(contexts)
        self._neighbourhoods = Neighbourhoods.of(z)
        self._without = _searches(self._neighbourhoods)
        self._variance, self._exempt = variance.copy(), exempt.copy()
        # the noise of time is much the same everywhere, and is fitted
        self._variance[:, 1:] = self._neighbourhoods.floored(variance[:, 1:])
        ranks = [np.unique(column, return_inverse=True)[1] for column in contexts.T]
        self._neighbours = _direct_neighbours(
            np.column_stack([rank / max(rank.max(), 1) for rank in ranks])
        )
        self._fits: dict[frozenset[Hypothesis], _Fit] = {}

    def best(self, suspected: tuple[Hypothesis, ...] = ()) -> Explanation:
        """The likeliest explanation, searched from none and from the suspected hypotheses."""
        found = self._likeliest(suspected)
        for _ in range(_EXEMPTIONS):
            corners = self._corners(found)
            if not corners.any():
                break
            self._exempt |= corners
            found = self._likeliest(suspected)
        return found

    def _likeliest(self, suspected: tuple[Hypothesis, ...]) -> Explanation:
        starts = [(), suspected] if suspected else [()]
        best = max(
            (self._settle(start, raised=raised) for start in starts for raised in (True, False)),
            key=lambda one: one.likelihood,
        )
        while True:
            # an exchange may have determined the noise: fit it without each next hypothesis
            further = best.model.best(best.explanation, _NEXT)
            accepted = best.explanation.hypotheses
            tried = [self._with((*accepted, one), raised=best.raised) for _, one in further]
            likeliest = max(tried, key=lambda one: one.likelihood, default=best)
            if likeliest.likelihood <= best.likelihood:
                break
            settled = self._settle(likeliest.explanation.hypotheses, raised=best.raised)
            if settled.likelihood <= best.likelihood:
                break
            best = settled
        self._model = best.model
        return best.explanation

    def _with(self, hypotheses: tuple[Hypothesis, ...], *, raised: bool) -> _Fitted:
        """These hypotheses, with the noise fitted without their contexts."""
        model = self._fitted_model(hypotheses, raised=raised)
        return _Fitted.of(model, _accepted(model, list(hypotheses)), raised)

    def _settle(self, hypotheses: tuple[Hypothesis, ...], *, raised: bool) -> _Fitted:
        """The likeliest of rounds that fit the noise without the contexts found by the last."""
        best: _Fitted | None = None
        visited = set[frozenset[Hypothesis]]()
        for _ in range(_ROUNDS):
            model = self._fitted_model(hypotheses, raised=raised)
            fitted = _Fitted.of(model, _beam_search(model), raised)
            if best is None or fitted.likelihood > best.likelihood:
                best = fitted
            hypotheses = fitted.explanation.hypotheses
            if frozenset(hypotheses) in visited or not (hypotheses or visited):
                break
            visited.add(frozenset(hypotheses))
        assert best is not None
        return best

    def _fitted_model(self, hypotheses: tuple[Hypothesis, ...], *, raised: bool) -> FaultModel:
        """The model whose noise is fitted to the contexts without a fault."""
        key = frozenset(hypotheses)
        if key not in self._fits:
            if len(self._fits) == _LAST:
                del self._fits[next(iter(self._fits))]
            self._fits[key] = self._fit(hypotheses)
        fit = self._fits[key]
        of_time, *of_counts = fit.processes
        if raised:
            of_time = raise_noise(of_time, self._neighbourhoods, fit.times, fit.untimely)
        return FaultModel((of_time, *of_counts), fit.tables, self._neighbours, self._exempt)

    def _fit(self, hypotheses: tuple[Hypothesis, ...]) -> _Fit:
        """The noise of all quantities, raised for counts where neighbours deviate together."""
        n = len(self._time)
        slow, bad = np.zeros((2, n), dtype=bool)
        for one in hypotheses:
            if one.kind != "exchanged":
                (slow if one.kind == "slow" else bad)[one.contexts[0]] = True
        source, untimely = _sources(hypotheses, n), bad | slow
        used = ~untimely
        rows, columns = np.flatnonzero(used), source[used]
        regression = TimeRegression.fit(
            self._contexts[rows],
            self._time[columns],
            self._counts[columns],
            excess=self._excess[rows, columns],
        )
        predicted = regression.predict_every_pair(self._contexts, self._counts) + self._excess
        floor = _FLOOR * self._counts.mean(axis=0)
        logs = np.log(self._counts + np.where(floor > 0, floor, 1.0))
        tables = [np.log(self._time) - np.log(predicted)]
        tables += [np.broadcast_to(column, (n, n)) for column in logs.T]
        processes, centred, of_contexts = [], [], []
        of_counts, of_time = self._without(bad.tobytes()), self._without(untimely.tobytes())
        for k, table in enumerate(tables):
            skipped, search = (untimely, of_time) if k == 0 else (bad, of_counts)
            values = table[np.arange(n), source]
            middle = np.median(values[~skipped])
            values = values - middle
            process = search.fit(values)
            noise = np.maximum(process.noise, self._variance[:, k])
            process = Process(process.smooth, noise)
            if k > 0:
                process = raise_noise(process, self._neighbourhoods, values, skipped)
            processes.append(process)
            centred.append(table - middle)
            of_contexts.append(values)
        return _Fit(tuple(processes), tuple(centred), of_contexts[0], untimely)

    def _corners(self, found: Explanation) -> Bools:
        """Contexts that would be faulty together with those around them."""
        faulty = np.zeros(len(self._time), dtype=bool)
        faulty[[one.contexts[0] for one in found.hypotheses if one.kind != "exchanged"]] = True
        count = (self._neighbours & faulty).sum(axis=1)
        corner = faulty & (count >= np.maximum(_LINE, self._neighbours.sum(axis=1) / 2))
        for r in range(self._contexts.shape[1]):
            rest = np.delete(self._contexts, r, axis=1)
            line = np.unique(rest, axis=0, return_inverse=True)[1].ravel()
            length, count = np.bincount(line), np.bincount(line, faulty)
            corner |= faulty & ((count >= _LINE) & (count >= _FAULTY_SHARE * length))[line]
        return corner | (faulty & (self._neighbours & corner).any(axis=1))

    def each_log_odds(self, found: Explanation) -> tuple[float, ...]:
        """Log odds of each hypothesis, conditional on the others."""
        return tuple(
            found.log_odds
            - _accepted(self._model, [o for o in found.hypotheses if o != one]).log_odds
            for one in found.hypotheses
        )

    def repairs(self, found: Explanation) -> tuple[Floats, Floats]:
        """Factors and weights, (n,) each, as `FaultyContexts` has them."""
        n = len(self._time)
        factor, weight = np.ones(n), np.ones(n)
        process, precision = self._model.processes[0], found.precision[0]
        alpha = precision @ found.values[0]
        for i in (one.contexts[0] for one in found.hypotheses if one.kind == "slow"):
            # measured time over that which all other contexts predict
            factor[i] = max(np.exp(alpha[i] / precision[i, i]), 1.0)
            # of the free variance of i, s² = .49 is that of the fault
            left = max(1.0 / precision[i, i] - process.noise[i] - 0.49, 0.0)
            weight[i] = process.noise[i] / (process.noise[i] + left)
        return factor, weight


def _limited(counts: Floats) -> Floats:
    """Totals (n, k), limited where a few are far above all others: they identify no label."""
    largest = np.sort(counts, axis=0)[-1 - max(1, int(_LIMITED_SHARE * len(counts)))]
    return np.minimum(counts, _LIMIT * largest)


def _renumbered(hypothesis: Hypothesis, numbers: Indices) -> Hypothesis:
    """The hypothesis with other numbers of its contexts."""
    return Hypothesis(hypothesis.kind, tuple(sorted(int(numbers[i]) for i in hypothesis.contexts)))


def _searches(neighbourhoods: Neighbourhoods) -> Callable[[bytes], ProcessSearch]:
    """Searches for processes without some contexts, (n,) truth values; the last ones are kept."""
    ones = np.ones(len(neighbourhoods.z))

    @lru_cache(_LAST)
    def search(skipped: bytes) -> ProcessSearch:
        return ProcessSearch(neighbourhoods, ones, np.frombuffer(skipped, dtype=bool))

    return search


def _sources(hypotheses: tuple[Hypothesis, ...], n: int) -> Indices:
    """The row of measurements of each context under the hypotheses, (n,)."""
    source = np.arange(n)
    for one in hypotheses:
        if one.kind == "exchanged":
            source[list(one.contexts)] = source[list(one.contexts[::-1])]
    return source


def _beam_search(model: FaultModel) -> Explanation:
    """The likeliest explanation by a beam search, then by withdrawing hypotheses."""
    beam = [model.no_faults()]
    best, idle = beam[0], 0
    for _ in range(max(3, int(_MOST_FAULTS * model.n))):
        tried = [
            (explanation.log_odds + log_odds, explanation, one, log_odds)
            for explanation in beam
            for log_odds, one in model.best(explanation, _BRANCHES)
        ]
        tried.sort(key=lambda candidate: -candidate[0])
        beam, visited = [], set[frozenset[Hypothesis]]()
        for _, explanation, one, log_odds in tried:
            key = frozenset((*explanation.hypotheses, one))
            if key not in visited:
                visited.add(key)
                beam.append(model.accept(explanation, one, log_odds))
            if len(beam) == _WIDTH:
                break
        if not beam:
            break
        idle = 0 if beam[0].log_odds > best.log_odds + 1e-9 else idle + 1
        best = beam[0] if idle == 0 else best
        if idle >= _PATIENCE:
            break
    return _refined(model, best) if len(best.hypotheses) <= _MOST_WITHDRAWN else best


def _refined(model: FaultModel, best: Explanation) -> Explanation:
    """The explanation after withdrawing hypotheses and completing the rest, while that gains.

    Each hypothesis is withdrawn alone, and each exchange with each other hypothesis, since one
    wrong partner makes two wrong hypotheses.  Two contexts that are slow or bad are also replaced
    by their exchange.
    """
    for _ in range(_ROUNDS):
        before = best
        changes: list[tuple[tuple[Hypothesis, ...], tuple[Hypothesis, ...]]]
        changes = [((one,), ()) for one in before.hypotheses]
        for two in combinations(before.hypotheses, 2):
            if "exchanged" in (two[0].kind, two[1].kind):
                changes.append((two, ()))
            else:
                places = sorted((two[0].contexts[0], two[1].contexts[0]))
                changes.append((two, (Hypothesis("exchanged", (places[0], places[1])),)))
        for withdrawn, instead in changes:
            rest = [one for one in before.hypotheses if one not in withdrawn]
            explanation = _accepted(model, [*rest, *instead])
            while len(explanation.hypotheses) <= len(before.hypotheses):
                if explanation.log_odds > best.log_odds + 1e-6:
                    best = explanation
                found = model.best(explanation, 1 + len(withdrawn))
                others = (one for one in found if one[1] not in withdrawn)
                log_odds, hypothesis = next(others, (-1.0, None))
                if hypothesis is None or log_odds < 0:
                    break
                explanation = model.accept(explanation, hypothesis, log_odds)
        if best is before:
            break
    return best


def _accepted(model: FaultModel, hypotheses: list[Hypothesis]) -> Explanation:
    explanation = model.no_faults()
    for one in hypotheses:
        explanation = model.accept(explanation, one, model.log_odds_of(explanation, one))
    return explanation


def _direct_neighbours(places: Floats) -> Bools:
    """Pairs of points (n, m) with none between them (Gabriel's graph), (n, n).

    On a grid they are the neighbours along one axis.
    """
    n = len(places)
    square = ((places[:, None] - places[None]) ** 2).sum(axis=2)
    np.fill_diagonal(square, np.inf)
    near = np.argsort(square, axis=1, kind="stable")[:, : min(_CANDIDATES, n - 1)]
    neighbours = np.zeros((n, n), dtype=bool)
    for i, others in enumerate(near):
        middle = (places[i] + places[others]) / 2
        distance = ((middle[:, None] - places[others]) ** 2).sum(axis=2)
        np.fill_diagonal(distance, np.inf)
        neighbours[i, others] = distance.min(axis=1) > square[i, others] / 4 * (1 + 1e-9)
    return neighbours | neighbours.T
