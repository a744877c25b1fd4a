"""Which contexts do not belong: the set of faults under which the known data are likeliest.

A beam search over moves (:mod:`msbgen.faults.hypotheses`), through moves that lose, since two
faults may hide each other; then moves are taken back and the rest completed anew.  The noise of
the processes is fitted with the contexts found left aside, in turn, with and without more of it
where neighbours
depart, and in the end also without those that the next moves would find: a fault that nothing else
explains may be what the noise was fitted to.  Of all rounds the likeliest counts.

Faults are single, corners have neighbours: where most contexts along a line of a grid, or most
direct neighbours of a context, would be at fault, none is.  Whoever spends half of its time at the
rate of a cap is as slow as the cap makes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from msbgen.faults.explained import Explained
from msbgen.faults.hypotheses import Board, Move, State
from msbgen.faults.process import Neighbourhoods, Process, fit_process, raise_noise
from msbgen.trend.coordinates import Coordinates, default_names

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.int64]

# States that are followed, moves tried from each, steps without a gain before the search ends.
_WIDTH, _BRANCHES, _PATIENCE = 8, 10, 2
# The most moves, as a share of the contexts; taken back one by one where there are few.
_MOST_MOVES, _FEW_MOVES = 0.25, 12
# Rounds of fitting the noise without the contexts found; of excusing corners.
_ROUNDS, _EXCUSES = 4, 3
# Moves that lose and are tried with the noise fitted without them.
_TRIED = 3
# Counts below this share of their mean are treated additively.
_FLOOR = 0.01
# A line of contexts at least so long, moved to this share, is a corner.
_LINE, _MOVED = 3, 0.75
# Contexts among which direct neighbours are sought.
_CANDIDATES = 14


@dataclass(frozen=True, eq=False)
class Suspects:
    """What was found of the contexts.

    Attributes
    ----------
    moves : tuple of Move
    gains : tuple of float
        Log odds that each is a fault, the others being what they are.
    factor : ndarray, (n,)
        How many times longer each context took than the others say; 1 where nothing is wrong.
    worth : ndarray, (n,)
        What a context counts in a fit, once mended: 1, or less where its time was guessed.
    """

    moves: tuple[Move, ...]
    gains: tuple[float, ...]
    factor: Floats
    worth: Floats


def find_suspects(
    contexts: Floats,
    time: Floats,
    counts: Floats,
    variance: Floats,
    excused: Bools,
    excess: Floats,
    first: Sequence[Move] = (),
) -> Suspects:
    """Find the contexts that were slowed down, went wrong, or changed places.

    Parameters
    ----------
    contexts : ndarray, (n, m)
    time : ndarray, (n,)
        Mean execution time [s].
    counts : ndarray, (n, k)
        Mean totals of the counters, without the one that measures the work.
    variance : ndarray, (n, 1 + k)
        Of the logarithm of these means as runs of a context tell it; 0 where there is one.
    excused : ndarray of bool, (n,)
        Contexts that are as slow as a cap makes them.
    excess : ndarray, (n, n)
        Time [s] that caps add to measurements (columns) at the levels of contexts (rows).
    first : sequence of Move
        Moves to begin with, too, where some are suspected already.

    Notes
    -----
    O(n³) for each of some hundred processes, O(n²) for each move; a third of a second for 125,
    two where several are found.
    """
    order = np.lexsort(contexts.T[::-1])  # ties are broken by the levels, not by the file's order
    every = np.ix_(order, order)
    hunt = _Hunt(
        contexts[order],
        time[order],
        counts[order],
        variance[order],
        excused[order],
        excess[every],
    )
    place = np.argsort(order)
    found = hunt.best(tuple(_placed(move, place) for move in first))
    moves = tuple(_placed(move, order) for move in found.moves)
    factor, worth = np.ones(len(time)), np.ones(len(time))
    factor[order], worth[order] = hunt.remedies(found)
    return Suspects(moves, hunt.each_gain(found), factor, worth)


@dataclass(frozen=True, eq=False)
class _Round:
    """The moves found with the noise fitted in one way, and their likelihood."""

    likelihood: float
    board: Board
    state: State
    raised: bool


class _Hunt:
    """One search; arguments as `find_suspects`."""

    def __init__(
        self,
        contexts: Floats,
        time: Floats,
        counts: Floats,
        variance: Floats,
        excused: Bools,
        excess: Floats,
    ) -> None:
        self._contexts, self._time, self._counts = contexts, time, counts
        self._excess = excess
        z = Coordinates.of(default_names(contexts), contexts).scaled(contexts)
        self._around = Neighbourhoods.of(z)
        self._variance, self._excused = variance.copy(), excused.copy()
        # time has much the same noise everywhere, which is fitted
        self._variance[:, 1:] = self._around.shared(variance[:, 1:])
        ranks = [np.unique(column, return_inverse=True)[1] for column in contexts.T]
        self._beside = _direct_neighbours(
            np.column_stack([rank / max(rank.max(), 1) for rank in ranks])
        )
        self._board = self._fitted((), np.arange(len(time)), raised=True)

    def best(self, first: tuple[Move, ...] = ()) -> State:
        """The likeliest moves, sought from none and from the first."""
        state = self._likeliest(first)
        for _ in range(_EXCUSES):
            corners = self._corners(state)
            if not corners.any():
                break
            self._excused |= corners
            state = self._likeliest(first)
        return state

    def _likeliest(self, first: tuple[Move, ...]) -> State:
        starts = [(), first] if first else [()]
        best = max(
            (self._settled(own, raised=raised) for own in starts for raised in (True, False)),
            key=lambda one: one.likelihood,
        )
        while True:
            # two that changed places may be all the noise there is: what fits without them?
            next_moves = best.board.best_moves(best.state, _TRIED)
            tried = [self._tried((*best.state.moves, m), raised=best.raised) for _, m in next_moves]
            surest = max(tried, key=lambda one: one.likelihood, default=best)
            if surest.likelihood <= best.likelihood:
                break
            settled = self._settled(surest.state.moves, raised=best.raised)
            if settled.likelihood <= best.likelihood:
                break
            best = settled
        self._board = best.board
        return best.state

    def _tried(self, moves: tuple[Move, ...], *, raised: bool) -> _Round:
        """These moves, with the noise fitted without them."""
        board = self._fitted(moves, _relabelled(moves, len(self._time)), raised=raised)
        state = _replayed(board, list(moves))
        return _Round(board.log_density_of_time() + state.gain, board, state, raised)

    def _settled(self, moves: tuple[Move, ...], *, raised: bool) -> _Round:
        """The likeliest of rounds that fit the noise without the contexts that the last moved."""
        best: _Round | None = None
        seen = set[frozenset[Move]]()
        for _ in range(_ROUNDS):
            board = self._fitted(moves, _relabelled(moves, len(self._time)), raised=raised)
            state = _search(board)
            own = _Round(board.log_density_of_time() + state.gain, board, state, raised)
            if best is None or own.likelihood > best.likelihood:
                best = own
            moves = state.moves
            if frozenset(moves) in seen or not (moves or seen):
                break
            seen.add(frozenset(moves))
        assert best is not None
        return best

    def _fitted(self, moves: tuple[Move, ...], label: Indices, *, raised: bool) -> Board:
        """The board with the noise of the contexts that did not move."""
        n = len(self._time)
        slow, bad = np.zeros((2, n), dtype=bool)
        for move in moves:
            if move.kind != "exchanged":
                (slow if move.kind == "slow" else bad)[move.contexts[0]] = True
        used = ~(slow | bad)
        rows, columns = np.flatnonzero(used), label[used]
        model = Explained.fit(
            self._contexts[rows],
            self._time[columns],
            self._counts[columns],
            excess=self._excess[rows, columns],
        )
        explained = model.at_every_level(self._contexts, self._counts) + self._excess
        floor = _FLOOR * self._counts.mean(axis=0)
        logs = np.log(self._counts + np.where(floor > 0, floor, 1.0))
        tables = [np.log(self._time) - np.log(explained)]
        tables += [np.broadcast_to(column, (n, n)) for column in logs.T]
        processes, centred = [], []
        for k, table in enumerate(tables):
            skipped = bad | slow if k == 0 else bad
            values = table[np.arange(n), label]
            middle = np.median(values[~skipped])
            values = values - middle
            process = fit_process(self._around, values, np.ones(n), skipped)
            noise = np.maximum(process.noise, self._variance[:, k])
            process = Process(process.smooth, noise)
            if raised or k > 0:
                process = raise_noise(process, self._around, values, skipped)
            processes.append(process)
            centred.append(table - middle)
        return Board(tuple(processes), tuple(centred), self._beside, self._excused)

    def _corners(self, state: State) -> Bools:
        """Contexts that moved together with what stands around them."""
        moved = np.zeros(len(self._time), dtype=bool)
        moved[[m.contexts[0] for m in state.moves if m.kind != "exchanged"]] = True
        around = (self._beside & moved).sum(axis=1)
        corner = moved & (around >= np.maximum(_LINE, self._beside.sum(axis=1) / 2))
        for r in range(self._contexts.shape[1]):
            rest = np.delete(self._contexts, r, axis=1)
            line = np.unique(rest, axis=0, return_inverse=True)[1].ravel()
            long, share = np.bincount(line), np.bincount(line, moved)
            corner |= moved & ((share >= _LINE) & (share >= _MOVED * long))[line]
        return corner | (moved & (self._beside & corner).any(axis=1))

    def each_gain(self, state: State) -> tuple[float, ...]:
        """What the whole loses without each move."""
        return tuple(
            state.gain - _replayed(self._board, [m for m in state.moves if m != move]).gain
            for move in state.moves
        )

    def remedies(self, state: State) -> tuple[Floats, Floats]:
        """Factors and worths, (n,) each, as `Suspects` has them."""
        board, n = self._board, len(self._time)
        factor, worth = np.ones(n), np.ones(n)
        slow = [m.contexts[0] for m in state.moves if m.kind == "slow"]
        process, precision = board.processes[0], state.precision[0]
        pulled = precision @ state.values[0]
        for i in slow:
            # the time that all other contexts predict, its own departure free
            factor[i] = max(np.exp(pulled[i] / precision[i, i]), 1.0)
            left = max(1.0 / precision[i, i] - process.noise[i] - 0.49, 0.0)
            worth[i] = process.noise[i] / (process.noise[i] + left)
        return factor, worth


def _placed(move: Move, place: Indices) -> Move:
    """The move of the contexts that stand at these places."""
    return Move(move.kind, tuple(sorted(int(place[i]) for i in move.contexts)))


def _relabelled(moves: tuple[Move, ...], n: int) -> Indices:
    """Whose measurements are those of each context after the moves, (n,)."""
    label = np.arange(n)
    for move in moves:
        if move.kind == "exchanged":
            label[list(move.contexts)] = label[list(move.contexts[::-1])]
    return label


def _search(board: Board) -> State:
    """The moves of most gain, by a beam, then by taking each back."""
    beam = [board.start()]
    best, idle = beam[0], 0
    for _ in range(max(3, int(_MOST_MOVES * board.n))):
        tried = [
            (state.gain + gain, state, move, gain)
            for state in beam
            for gain, move in board.best_moves(state, _BRANCHES)
        ]
        tried.sort(key=lambda one: -one[0])
        beam, seen = [], set[frozenset[Move]]()
        for _, state, move, gain in tried:
            key = frozenset((*state.moves, move))
            if key not in seen:
                seen.add(key)
                beam.append(board.after(state, move, gain))
            if len(beam) == _WIDTH:
                break
        if not beam:
            break
        idle = 0 if beam[0].gain > best.gain + 1e-9 else idle + 1
        best = beam[0] if idle == 0 else best
        if idle >= _PATIENCE:
            break
    return _polished(board, best) if len(best.moves) <= _FEW_MOVES else best


def _polished(board: Board, best: State) -> State:
    """Moves taken back and the rest completed without them, as long as it helps.

    Each alone, and each exchange with each other move, since one wrong partner makes two wrong
    moves; two that are slow or bad also give way to their exchange.
    """
    for _ in range(_ROUNDS):
        before = best
        taken: list[tuple[tuple[Move, ...], tuple[Move, ...]]]
        taken = [((move,), ()) for move in before.moves]
        for two in combinations(before.moves, 2):
            if "exchanged" in (two[0].kind, two[1].kind):
                taken.append((two, ()))
            else:
                places = sorted((two[0].contexts[0], two[1].contexts[0]))
                taken.append((two, (Move("exchanged", (places[0], places[1])),)))
        for back, instead in taken:
            state = _replayed(board, [*(m for m in before.moves if m not in back), *instead])
            while len(state.moves) <= len(before.moves):
                if state.gain > best.gain + 1e-6:
                    best = state
                found = board.best_moves(state, 1 + len(back))
                gain, move = next((one for one in found if one[1] not in back), (-1.0, None))
                if move is None or gain < 0:
                    break
                state = board.after(state, move, gain)
        if best is before:
            break
    return best


def _replayed(board: Board, moves: list[Move]) -> State:
    state = board.start()
    for move in moves:
        state = board.after(state, move, board.gain(state, move))
    return state


def _direct_neighbours(places: Floats) -> Bools:
    """Pairs of points (n, m) with none between them (Gabriel's graph), (n, n).

    On a grid they are the neighbours along one axis.
    """
    n = len(places)
    square = ((places[:, None] - places[None]) ** 2).sum(axis=2)
    np.fill_diagonal(square, np.inf)
    near = np.argsort(square, axis=1, kind="stable")[:, : min(_CANDIDATES, n - 1)]
    beside = np.zeros((n, n), dtype=bool)
    for i, others in enumerate(near):
        middle = (places[i] + places[others]) / 2
        apart = ((middle[:, None] - places[others]) ** 2).sum(axis=2)
        np.fill_diagonal(apart, np.inf)
        beside[i, others] = apart.min(axis=1) > square[i, others] / 4 * (1 + 1e-9)
    return beside | beside.T
