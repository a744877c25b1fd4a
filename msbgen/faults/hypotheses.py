"""What may have gone wrong with a context, and how much likelier the known data are if it did.

Under a Gaussian process with precision P the values y have a = Py, and each move a closed form:

- *slow*: the log of the time of context i is too large by δ ~ |N(0, s²)|, so the likelihood gains
  log 2Φ(μ/σ) − ½ log(1 + s²P_ii) + ½ s² a_i² / (1 + s²P_ii), μ and σ those of δ given y;
- *bad*: every quantity of context i departs by N(0, s²): the same without a sign;
- *exchanged*: the labels of contexts i and j changed places, y moves by d on both:
  −(a·d) − ½ d·Pd.

After a move P loses rank one and the next one starts from there.  A move also has to be worth its
prior odds.  What only counters depart, with a time that they explain, may well have happened: a
working set ceases to fit.  So of any context all counts may depart by N(0, s²), at odds of their
own, and a move gains what it adds to a likelihood that knows that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from msbgen.faults.process import Process

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.int64]

# Deviation of the logarithm of what a fault does to an amount.
FAULT = 0.7
# Odds that the counts of a context depart though nothing went wrong, by as much or by a little: a
# context is bad where they depart by much.
_REAL, _LITTLE = 0.05, 0.05
# Odds of a slow context, of a bad one over it, and what each move of a neighbour takes off a gain.
_ODDS, _BAD, _CROWDED = 0.002, 0.2, 2.3

Kind = Literal["slow", "bad", "exchanged"]


@dataclass(frozen=True)
class Move:
    """What went wrong with one context, or with two that changed places."""

    kind: Kind
    contexts: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class State:
    """The contexts after some moves.

    Attributes
    ----------
    precision : tuple of ndarray, (n, n)
        Of each quantity, time first.
    values : tuple of ndarray, (n,)
    label : ndarray of int, (n,)
        Whose measurements are taken to be those of each context.
    gain : float
        Log odds of the moves.
    moves : tuple of Move
    """

    precision: tuple[Floats, ...]
    values: tuple[Floats, ...]
    label: Indices
    gain: float
    moves: tuple[Move, ...]

    def touched(self, n: int) -> Bools:
        """Contexts that moved, (n,)."""
        out = np.zeros(n, dtype=bool)
        out[[i for move in self.moves for i in move.contexts]] = True
        return out


@dataclass(frozen=True, eq=False)
class Board:
    """Where moves are made.

    Attributes
    ----------
    processes : tuple of Process
        Of each quantity, time first.
    table : tuple of ndarray, (n, n)
        Values of each quantity: the row gives the levels, the column whose measurements they are.
    beside : ndarray of bool, (n, n)
        Direct neighbours.
    excused : ndarray of bool, (n,)
        Contexts that are neither slow nor bad, whatever they depart.
    """

    processes: tuple[Process, ...]
    table: tuple[Floats, ...]
    beside: Bools
    excused: Bools

    @property
    def n(self) -> int:
        """Contexts."""
        return len(self.excused)

    def start(self) -> State:
        """No move made."""
        precision = tuple(process.precision() for process in self.processes)
        values = tuple(np.diag(table).copy() for table in self.table)
        return State(precision, values, np.arange(self.n), 0.0, ())

    def gains(self, state: State) -> tuple[Floats, Floats, Floats]:
        """Gain of every move: slow (n,), bad (n,), exchanged (n, n) above the diagonal."""
        n, touched = self.n, state.touched(self.n)
        pulled = self._pulled(state)
        exchanged = np.full((n, n), -np.inf)
        free = np.flatnonzero(~touched)
        first, second = np.triu_indices(len(free), 1)
        pairs = free[first], free[second]
        exchanged[pairs] = self._exchanged(state, pulled, *pairs)
        return *self._alone(state, pulled), exchanged

    def _alone(self, state: State, pulled: list[Floats]) -> tuple[Floats, Floats]:
        """Gains where a context was slow, or bad, (n,) each."""
        touched = state.touched(self.n)
        own = [np.diag(p) for p in state.precision]
        freed = _freed(pulled[0], own[0])
        mean = pulled[0] * FAULT**2 / (1.0 + FAULT**2 * own[0])
        deviation = FAULT / np.sqrt(1.0 + FAULT**2 * own[0])
        odds = np.log(_ODDS) - _CROWDED * (self.beside & touched).sum(axis=1)
        slow = freed + np.log(2.0) + log_ndtr(mean / deviation) + odds
        counts, little = np.zeros((2, self.n))
        for a, d in zip(pulled[1:], own[1:]):
            counts += _freed(a, d)
            little += _freed(a, d, _LITTLE)
        real = np.logaddexp(0.0, np.log(_REAL) + np.logaddexp(counts, little))
        bad = freed + counts - real + odds + np.log(_BAD)
        barred = touched | self.excused
        return np.where(barred, -np.inf, slow), np.where(barred, -np.inf, bad)

    def _pulled(self, state: State) -> list[Floats]:
        return [p @ y for p, y in zip(state.precision, state.values)]

    def _exchanged(self, state: State, pulled: list[Floats], i: Indices, j: Indices) -> Floats:
        """Gains (pairs,) where contexts i and j (pairs,) change places."""
        gain = np.full(len(i), np.log(_ODDS / max(self.n - 1, 1)))
        before, after = np.zeros((2, 3, len(i)))
        for k, (a, p, table) in enumerate(zip(pulled, state.precision, self.table)):
            y, label = state.values[k], state.label
            own_i, own_j, both = p[i, i], p[j, j], p[i, j]
            d_i, d_j = table[i, label[j]] - y[i], table[j, label[i]] - y[j]
            gain -= a[i] * d_i + a[j] * d_j + both * d_i * d_j
            gain -= 0.5 * (own_i * d_i**2 + own_j * d_j**2)
            if k > 0:
                moved = a[i] + own_i * d_i + both * d_j, a[j] + own_j * d_j + both * d_i
                before += _freed_of_two(a[i], a[j], own_i, own_j, both)
                after += _freed_of_two(*moved, own_i, own_j, both)
        return gain + _really(after) - _really(before)

    def log_density_of_time(self) -> float:
        """Of the times given all counts, nothing moved; a constant aside.

        With the gain of its moves it tells states apart whose noise was fitted otherwise: of other
        quantities they may say different things, of the times all say something.
        """
        state = self.start()
        precision, values = state.precision[0], state.values[0]
        fit = 0.5 * np.linalg.slogdet(precision)[1] - 0.5 * float(values @ precision @ values)
        return float(fit)

    def best_moves(self, state: State, count: int) -> list[tuple[float, Move]]:
        """The moves that gain most, best first."""
        slow, bad, exchanged = self.gains(state)
        every = np.concatenate([slow, bad, exchanged.ravel()])
        top = np.argsort(-every, kind="stable")[:count]
        return [(float(every[t]), self._move(int(t))) for t in top if np.isfinite(every[t])]

    def _move(self, t: int) -> Move:
        n = self.n
        if t < n:
            return Move("slow", (t,))
        return Move("bad", (t - n,)) if t < 2 * n else Move("exchanged", divmod(t - 2 * n, n))

    def gain(self, state: State, move: Move) -> float:
        """Of one move of contexts that did not move yet."""
        if move.kind == "exchanged":
            i, j = np.array(move.contexts)[:, None]
            return float(self._exchanged(state, self._pulled(state), i, j)[0])
        slow, bad = self._alone(state, self._pulled(state))
        return float((slow if move.kind == "slow" else bad)[move.contexts[0]])

    def after(self, state: State, move: Move, gain: float) -> State:
        """The state after a move of that gain."""
        precision, values, label = list(state.precision), list(state.values), state.label
        if move.kind == "exchanged":
            i, j = move.contexts
            label = label.copy()
            label[[i, j]] = label[[j, i]]
            for k, table in enumerate(self.table):
                values[k] = values[k].copy()
                values[k][[i, j]] = table[[i, j], label[[i, j]]]
        else:
            for k in range(1 if move.kind == "slow" else len(precision)):
                precision[k] = freed_at(precision[k], move.contexts[0])
        moves = (*state.moves, move)
        return State(tuple(precision), tuple(values), label, state.gain + gain, moves)


def _freed(pulled: Floats, precision: Floats, deviation: float = FAULT) -> Floats:
    """Log likelihood gained where a context departs by N(0, s²), by its a = Py and P_ii."""
    wide = 1.0 + deviation**2 * precision
    return 0.5 * (deviation * pulled) ** 2 / wide - 0.5 * np.log(wide)


def _freed_of_two(a_i: Floats, a_j: Floats, own_i: Floats, own_j: Floats, both: Floats) -> Floats:
    """The same where the one, the other, or both may be anything, (3, pairs); `both` is P_ij."""
    wide_i, wide_j, shared = 1.0 + FAULT**2 * own_i, 1.0 + FAULT**2 * own_j, FAULT**2 * both
    volume = np.maximum(wide_i * wide_j - shared**2, 1.0)
    square = a_i**2 * wide_j + a_j**2 * wide_i - 2.0 * shared * a_i * a_j
    two = 0.5 * FAULT**2 * square / volume - 0.5 * np.log(volume)
    return np.array([_freed(a_i, own_i), _freed(a_j, own_j), two])


def _really(freed: Floats) -> Floats:
    """Log likelihood gained where counts of two contexts may depart for real; (3, pairs)."""
    one, other, both = freed + np.log(_REAL) * np.array([[1.0], [1.0], [2.0]])
    return np.logaddexp(np.logaddexp(0.0, one), np.logaddexp(other, both))


def freed_at(precision: Floats, i: int) -> Floats:
    """The precision (n, n) when context i departs by N(0, s²): a rank less, nearly."""
    column = precision[:, i]
    return precision - np.outer(column, column) * (FAULT**2 / (1.0 + FAULT**2 * column[i]))
