"""What may have gone wrong with a context, and how much likelier the known data are if it did.

Under a Gaussian process with precision P the values y have a = Py, and each move a closed form:

- *slow*: the log of the time of context i is too large by δ ~ |N(0, s²)|, so the likelihood gains
  log 2Φ(μ/σ) − ½ log(1 + s²P_ii) + ½ s² a_i² / (1 + s²P_ii), μ and σ those of δ given y;
- *bad*: every quantity of context i departs by N(0, s²): the same without a sign;
- *exchanged*: the labels of contexts i and j changed places, y moves by d on both:
  −(a·d) − ½ d·Pd.

After a move P loses rank one and the next one starts from there.  A move also has to be worth its
prior odds.  What only counters depart, with a time that they explain, may well have happened, where a
working set ceases to fit: of any context all counts may depart by N(0, s²), at odds of their own, and
a move gains what it adds to a likelihood that knows that.
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
# Odds that the counts of a context depart though nothing went wrong.
_REAL = 0.05
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
        pulled = [p @ y for p, y in zip(state.precision, state.values)]
        own = [np.diag(p) for p in state.precision]
        freed = [
            -0.5 * np.log1p(FAULT**2 * d) + 0.5 * (a * FAULT) ** 2 / (1.0 + FAULT**2 * d)
            for a, d in zip(pulled, own)
        ]
        mean = pulled[0] * FAULT**2 / (1.0 + FAULT**2 * own[0])
        deviation = FAULT / np.sqrt(1.0 + FAULT**2 * own[0])
        odds = np.log(_ODDS) - _CROWDED * (self.beside & touched).sum(axis=1)
        slow = freed[0] + np.log(2.0) + log_ndtr(mean / deviation) + odds
        others = np.sum(freed[1:], axis=0) if len(freed) > 1 else np.zeros(n)
        bad = freed[0] + others - np.logaddexp(0.0, np.log(_REAL) + others) + odds + np.log(_BAD)
        barred = touched | self.excused
        slow, bad = np.where(barred, -np.inf, slow), np.where(barred, -np.inf, bad)
        exchanged = self._gain_of_exchanges(state, pulled)
        exchanged[touched[:, None] | touched[None]] = -np.inf
        exchanged[np.tril_indices(n)] = -np.inf
        return slow, bad, exchanged

    def _gain_of_exchanges(self, state: State, pulled: list[Floats]) -> Floats:
        """Of every two contexts, (n, n), symmetric; `pulled` (n,) of each quantity as `gains`."""
        n = self.n
        gain = np.full((n, n), np.log(_ODDS / max(n - 1, 1)))
        before, after = Departures.none(n), Departures.none(n)
        for k, (a, p, table) in enumerate(zip(pulled, state.precision, self.table)):
            own = np.diag(p)[:, None]
            shift = table[:, state.label] - state.values[k][:, None]
            one = a[:, None] * shift + 0.5 * own * shift**2
            gain -= one + one.T + p * shift * shift.T
            if k > 0:
                before.add(np.broadcast_to(a[:, None], (n, n)), p)
                after.add(a[:, None] + own * shift + p * shift.T, p)
        return gain + after.gain() - before.gain()

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
        """Of one move."""
        slow, bad, exchanged = self.gains(state)
        one = {"slow": slow, "bad": bad}.get(move.kind)
        return float(exchanged[move.contexts] if one is None else one[move.contexts[0]])

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


@dataclass(frozen=True, eq=False)
class Departures:
    """What counts gain where those of the one, the other, or both of two contexts depart for real.

    Attributes
    ----------
    one, both : ndarray, (n, n)
        Log likelihood gained, of all quantities, where that of the row may be anything; of both.
    """

    one: Floats
    both: Floats

    @classmethod
    def none(cls, n: int) -> Departures:
        """Of no quantity."""
        return cls(np.zeros((n, n)), np.zeros((n, n)))

    def add(self, pulled: Floats, precision: Floats) -> None:
        """One more quantity: P (n, n), and Py of the row's context for each pair, (n, n)."""
        wide = 1.0 + FAULT**2 * np.diag(precision)[:, None]
        self.one.__iadd__(0.5 * (FAULT * pulled) ** 2 / wide - 0.5 * np.log(wide))
        shared = FAULT**2 * precision
        volume = np.maximum(wide * wide.T - shared**2, 1.0)
        square = pulled**2 * wide.T
        square = square + square.T - 2.0 * shared * pulled * pulled.T
        self.both.__iadd__(0.5 * FAULT**2 * square / volume - 0.5 * np.log(volume))

    def gain(self) -> Floats:
        """Log likelihood gained over none that departs, (n, n)."""
        one = np.log(_REAL) + self.one
        either = np.logaddexp(np.logaddexp(0.0, one), one.T)
        return np.logaddexp(either, 2.0 * np.log(_REAL) + self.both)


def freed_at(precision: Floats, i: int) -> Floats:
    """The precision (n, n) when context i departs by N(0, s²): a rank less, nearly."""
    column = precision[:, i]
    return precision - np.outer(column, column) * (FAULT**2 / (1.0 + FAULT**2 * column[i]))
