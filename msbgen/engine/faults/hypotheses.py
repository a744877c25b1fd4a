"""Hypotheses about faulty contexts, and how much likelier each makes the measured data.

Under a Gaussian process with precision P the values y have α = Py.  Each hypothesis changes their
log likelihood by a closed form; s is the standard deviation of the logarithm of a fault's effect.

- *slow*: the log time of context i is too large by δ ~ |N(0, s²)|.  The change is
  log 2Φ(μ/σ) − ½ log(1 + s²P_ii) + ½ s² α_i² / (1 + s²P_ii).
  Here μ and σ are the mean and the deviation of δ conditional on y.
- *bad*: every quantity of context i deviates by N(0, s²).  The change is the same without a sign.
- *exchanged*: contexts i and j carry each other's label, and y changes by d at both.  The change is
  −(α·d) − ½ d·Pd.

An accepted hypothesis lowers the rank of P by one, and the next is compared under the new P.  Each
hypothesis also has prior odds.

Counts may deviate without a fault, where a working set no longer fits into a cache.  This has prior
odds of its own, for a deviation of N(0, s²) in any context.  A hypothesis is compared with this
possibility, too, not only with no deviation.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from msbgen.core.lazy import lazy_module
from msbgen.engine.faults.process import Process

special = lazy_module("scipy.special")

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.int64]

# Standard deviation s of the logarithm of the effect of a fault.
FAULT_SCALE = 0.7
# Prior odds that the counts of a context deviate without a fault; deviation of a small deviation.
# A context is bad only where its counts deviate by much.
_REAL_ODDS, _SMALL_SCALE = 0.05, 0.05
# Prior odds of a slow context, those of a bad one over it, and what each faulty neighbour takes off
# the log odds: faults are single, and neighbours that deviate together are a property of the task.
PRIOR_ODDS, _BAD_ODDS, _NEIGHBOUR_PENALTY = 0.002, 0.2, 2.3

Kind = Literal["slow", "bad", "exchanged"]


@dataclass(frozen=True)
class Hypothesis:
    """A fault of one context, or of two that were exchanged."""

    kind: Kind
    contexts: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Explanation:
    """Some accepted hypotheses, and the data under them."""

    precision: tuple[Floats, ...]  # (n, n) of each quantity, time first
    values: tuple[Floats, ...]  # (n,) of each quantity
    source: Indices  # (n,): the row of measurements taken to be those of each context
    log_odds: float  # of the hypotheses
    hypotheses: tuple[Hypothesis, ...]

    def involved(self, n: int) -> Bools:
        """Contexts that a hypothesis concerns, (n,)."""
        out = np.zeros(n, dtype=bool)
        out[[i for one in self.hypotheses for i in one.contexts]] = True
        return out


@dataclass(frozen=True, eq=False)
class FaultModel:
    """The processes under which hypotheses are compared."""

    processes: tuple[Process, ...]  # of each quantity, time first
    # (n, n) values of each quantity: rows are levels of contexts, columns rows of measurements
    tables: tuple[Floats, ...]
    neighbours: Bools  # (n, n): direct neighbours
    exempt: Bools  # (n,): contexts that are neither slow nor bad, however far they deviate

    @property
    def n(self) -> int:
        """Number of contexts."""
        return len(self.exempt)

    def no_faults(self) -> Explanation:
        """The explanation without a hypothesis."""
        precision = tuple(process.precision() for process in self.processes)
        values = tuple(np.diag(table).copy() for table in self.tables)
        return Explanation(precision, values, np.arange(self.n), 0.0, ())

    def log_odds(self, explanation: Explanation) -> tuple[Floats, Floats, Floats]:
        """Log odds of each further hypothesis: slow (n,), bad (n,), exchanged (n, n).

        Those of exchanges stand above the diagonal.
        """
        n, involved = self.n, explanation.involved(self.n)
        alpha = self._alpha(explanation)
        exchanged = np.full((n, n), -np.inf)
        free = np.flatnonzero(~involved)
        first, second = np.triu_indices(len(free), 1)
        pairs = free[first], free[second]
        exchanged[pairs] = self._exchanged(explanation, alpha, *pairs)
        return *self._single(explanation, alpha), exchanged

    def _single(self, explanation: Explanation, alpha: list[Floats]) -> tuple[Floats, Floats]:
        """Log odds that a context is slow, or bad, (n,) each."""
        involved = explanation.involved(self.n)
        diagonal = [np.diag(p) for p in explanation.precision]
        free_time = _deviation(alpha[0], diagonal[0])
        mean = alpha[0] * FAULT_SCALE**2 / (1.0 + FAULT_SCALE**2 * diagonal[0])
        deviation = FAULT_SCALE / np.sqrt(1.0 + FAULT_SCALE**2 * diagonal[0])
        prior = np.log(PRIOR_ODDS) - _NEIGHBOUR_PENALTY * (self.neighbours & involved).sum(axis=1)
        slow = free_time + np.log(2.0) + special.log_ndtr(mean / deviation) + prior
        free_counts, small = np.zeros((2, self.n))
        for a, p in zip(alpha[1:], diagonal[1:]):
            free_counts += _deviation(a, p)
            small += _deviation(a, p, _SMALL_SCALE)
        real = np.logaddexp(0.0, np.log(_REAL_ODDS) + np.logaddexp(free_counts, small))
        bad = free_time + free_counts - real + prior + np.log(_BAD_ODDS)
        barred = involved | self.exempt
        return np.where(barred, -np.inf, slow), np.where(barred, -np.inf, bad)

    def _alpha(self, explanation: Explanation) -> list[Floats]:
        return [p @ y for p, y in zip(explanation.precision, explanation.values)]

    def _exchanged(
        self, explanation: Explanation, alpha: list[Floats], i: Indices, j: Indices
    ) -> Floats:
        """Log odds (pairs,) that contexts i and j (pairs,) were exchanged."""
        log_odds = np.full(len(i), np.log(PRIOR_ODDS / max(self.n - 1, 1)))
        before, after = np.zeros((2, 3, len(i)))
        for k, (a, p, table) in enumerate(zip(alpha, explanation.precision, self.tables)):
            y, source = explanation.values[k], explanation.source
            p_ii, p_jj, p_ij = p[i, i], p[j, j], p[i, j]
            d_i, d_j = table[i, source[j]] - y[i], table[j, source[i]] - y[j]
            log_odds -= a[i] * d_i + a[j] * d_j + p_ij * d_i * d_j
            log_odds -= 0.5 * (p_ii * d_i**2 + p_jj * d_j**2)
            if k > 0:
                moved = a[i] + p_ii * d_i + p_ij * d_j, a[j] + p_jj * d_j + p_ij * d_i
                before += _deviation_of_two(a[i], a[j], p_ii, p_jj, p_ij)
                after += _deviation_of_two(*moved, p_ii, p_jj, p_ij)
        return log_odds + _faultless_deviation(after) - _faultless_deviation(before)

    def log_density_of_times(self) -> float:
        """Log density of the times conditional on all counts, without a fault, up to a constant.

        Added to the log odds of hypotheses it compares explanations whose noise was fitted
        differently.  It takes the times only, because each fit may treat the counts differently.
        """
        start = self.no_faults()
        precision, values = start.precision[0], start.values[0]
        fit = 0.5 * np.linalg.slogdet(precision)[1] - 0.5 * float(values @ precision @ values)
        return float(fit)

    def best(self, explanation: Explanation, count: int) -> list[tuple[float, Hypothesis]]:
        """The further hypotheses of largest log odds, best first."""
        slow, bad, exchanged = self.log_odds(explanation)
        every = np.concatenate([slow, bad, exchanged.ravel()])
        last = np.partition(-every, min(count, len(every)) - 1)[:count].max()
        largest = np.flatnonzero(-every <= last)
        top = largest[np.argsort(-every[largest], kind="stable")][:count]
        return [(float(every[t]), self._hypothesis(int(t))) for t in top if np.isfinite(every[t])]

    def _hypothesis(self, t: int) -> Hypothesis:
        n = self.n
        if t < n:
            return Hypothesis("slow", (t,))
        if t < 2 * n:
            return Hypothesis("bad", (t - n,))
        return Hypothesis("exchanged", divmod(t - 2 * n, n))

    def log_odds_of(self, explanation: Explanation, hypothesis: Hypothesis) -> float:
        """Log odds of one hypothesis about contexts that no other concerns."""
        if hypothesis.kind == "exchanged":
            i, j = np.array(hypothesis.contexts)[:, None]
            return float(self._exchanged(explanation, self._alpha(explanation), i, j)[0])
        slow, bad = self._single(explanation, self._alpha(explanation))
        return float((slow if hypothesis.kind == "slow" else bad)[hypothesis.contexts[0]])

    def accept(
        self, explanation: Explanation, hypothesis: Hypothesis, log_odds: float
    ) -> Explanation:
        """The explanation with one more hypothesis, of these log odds."""
        precision, values = list(explanation.precision), list(explanation.values)
        source = explanation.source
        if hypothesis.kind == "exchanged":
            i, j = hypothesis.contexts
            source = source.copy()
            source[[i, j]] = source[[j, i]]
            for k, table in enumerate(self.tables):
                values[k] = values[k].copy()
                values[k][[i, j]] = table[[i, j], source[[i, j]]]
        else:
            for k in range(1 if hypothesis.kind == "slow" else len(precision)):
                precision[k] = precision_with_deviation(precision[k], hypothesis.contexts[0])
        hypotheses = (*explanation.hypotheses, hypothesis)
        total = explanation.log_odds + log_odds
        return Explanation(tuple(precision), tuple(values), source, total, hypotheses)


def _deviation(alpha: Floats, precision: Floats, scale: float = FAULT_SCALE) -> Floats:
    """Change of log likelihood where a context deviates by N(0, scale²), from α_i and P_ii."""
    ratio = 1.0 + scale**2 * precision
    return 0.5 * (scale * alpha) ** 2 / ratio - 0.5 * np.log(ratio)


def _deviation_of_two(a_i: Floats, a_j: Floats, p_ii: Floats, p_jj: Floats, p_ij: Floats) -> Floats:
    """Change of log likelihood where i, j, or both deviate by N(0, s²), (3, pairs)."""
    ratio_i, ratio_j = 1.0 + FAULT_SCALE**2 * p_ii, 1.0 + FAULT_SCALE**2 * p_jj
    cross = FAULT_SCALE**2 * p_ij
    volume = np.maximum(ratio_i * ratio_j - cross**2, 1.0)
    square = a_i**2 * ratio_j + a_j**2 * ratio_i - 2.0 * cross * a_i * a_j
    both = 0.5 * FAULT_SCALE**2 * square / volume - 0.5 * np.log(volume)
    return np.array([_deviation(a_i, p_ii), _deviation(a_j, p_jj), both])


def _faultless_deviation(deviations: Floats) -> Floats:
    """Change of log likelihood where counts of two contexts may deviate without a fault.

    From the changes (3, pairs) where the one, the other, or both deviate.
    """
    one, other, both = deviations + np.log(_REAL_ODDS) * np.array([[1.0], [1.0], [2.0]])
    return np.logaddexp(np.logaddexp(0.0, one), np.logaddexp(other, both))


def precision_with_deviation(precision: Floats, i: int) -> Floats:
    """The precision (n, n) where context i deviates by N(0, s²): nearly one rank less."""
    column = precision[:, i]
    factor = FAULT_SCALE**2 / (1.0 + FAULT_SCALE**2 * column[i])
    return precision - np.outer(column, column) * factor
