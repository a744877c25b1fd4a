"""Aggregates of a graph in a context: what tables of numbers know of it.

Residuals of a schedule, widths of intervals and tabular peers learn from the same columns; peers
do without those that the schedule says (:data:`SCHEDULED`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from msbgen.graphs.boards import FIRST, SPEED, Board, Indices, PreparedGraph
from msbgen.graphs.kinds import Kind

Floats = NDArray[np.float64]

SHAPE = (
    *("log tasks", "edges a task", "depths a task", "widest depth", "parallelism"),
    *("spread of tasks", "largest task", "log work", "log span", "kinds"),
)
CONTEXT = (
    *("cores", "capacity", "swiftest", "swift share", "ways", "bandwidth", "ways a core"),
    *("bandwidth a core", "start", "headroom", "log Brent", "work over span", "stalling"),
    *("contention", "always", "full power"),
)
SCHEDULED = ("log over Brent", "log power", "warming", "spread", "log time", "log energy")


@dataclass(frozen=True, eq=False)
class Shape:
    """What a graph looks like on a board, whatever the context.

    Attributes
    ----------
    graph : PreparedGraph
    board : Board
    """

    graph: PreparedGraph
    board: Board

    @cached_property
    def seconds(self) -> Floats:
        """Of each task alone on the swiftest core with all of cache and memory, (n,)."""
        seconds = self.board.seconds[-1, :, :, 1, 1]
        swift = np.unravel_index(self.board.clusters[SPEED].argmax(), seconds.shape[:2])
        return self.graph.work * seconds[swift][self.graph.kind]

    @cached_property
    def shares(self) -> Floats:
        """Of the seconds that are of each kind, (n_kinds,)."""
        n_kinds = len(self.board.kinds)
        total = np.bincount(self.graph.kind, weights=self.seconds, minlength=n_kinds)
        return total / total.sum()

    @cached_property
    def depth(self) -> NDArray[np.int64]:
        """Edges of the longest path to each task, (n,)."""
        nodes, successors = self.graph.nodes[0], self.graph.successors[0]
        waiting = nodes[:-1, 1].copy()
        depth = np.zeros(len(waiting), dtype=np.int64)
        ready = np.flatnonzero(waiting == 0).tolist()
        for task in ready:  # grows while it is walked
            after = successors[nodes[task, FIRST] : nodes[task + 1, FIRST]]
            np.maximum.at(depth, after, depth[task] + 1)
            np.subtract.at(waiting, after, 1)
            ready.extend(after[waiting[after] == 0].tolist())
        return depth

    @cached_property
    def span(self) -> float:
        """Seconds of the longest path."""
        nodes, successors = self.graph.nodes[0], self.graph.successors[0]
        longest = self.seconds.copy()
        for task in np.argsort(self.depth, kind="stable").tolist():
            after = successors[nodes[task, FIRST] : nodes[task + 1, FIRST]]
            reached = longest[task] + self.seconds[after]
            longest[after] = np.maximum(longest[after], reached)
        return float(longest.max())

    @cached_property
    def row(self) -> Floats:
        """Numbers named by :data:`SHAPE`, then the shares of the kinds."""
        seconds, n = self.seconds, len(self.seconds)
        depths = np.bincount(self.depth)
        shares = self.shares
        own = (
            *(np.log(n), self.graph.successors.shape[1] / n, len(depths) / n, depths.max() / n),
            *(seconds.sum() / self.span, seconds.std() / seconds.mean()),
            *(seconds.max() / seconds.sum(), np.log(seconds.sum()), np.log(self.span)),
            np.exp(-(shares * np.log(np.maximum(shares, 1e-12))).sum()),
        )
        return np.array([*own, *shares])


def columns(kinds: Sequence[Kind]) -> tuple[str, ...]:
    """Names of the columns that do not need a schedule."""
    return (*SHAPE, *(kind.name for kind in kinds), *CONTEXT)


def plain_features(shape: Shape, rows: Indices, temperature: Floats) -> Floats:
    """Aggregates that do not need a schedule, (m, n_columns).

    Parameters
    ----------
    shape : Shape
    rows : ndarray of int, (m, 1 + 2 n_clusters)
    temperature : ndarray, (m,)
        At the start [°C].
    """
    board, device = shape.board, shape.board.device
    gift, cores, clock = rows[:, 0], rows[:, 1::2], rows[:, 2::2]
    cluster = np.arange(cores.shape[1])
    total = cores.sum(axis=1)
    swift = board.clusters[SPEED][cluster, clock]
    given = cores > 0
    swiftest = np.where(given, swift, 0.0).max(axis=1)
    capacity = (cores * swift).sum(axis=1)
    ways, bandwidth = board.allocations[gift].T
    # a task alone, and all cores at once, averaged over kinds by their seconds
    alone = board.seconds[gift[:, None], cluster, clock, 1, 1] @ shape.shares
    mine = np.maximum(cores, 1)
    crowded = board.seconds[gift[:, None], cluster, clock, mine, total[:, None]] @ shape.shares
    busy = cores / np.maximum(total, 1)[:, None]
    alone, crowded = (busy * alone).sum(axis=1), (busy * crowded).sum(axis=1)
    core = board.joules[0][gift[:, None], cluster, clock, mine, total[:, None]] @ shape.shares
    always = board.cooling[0] + (given * board.clusters[2][cluster, clock]).sum(axis=1)
    seconds = board.seconds[gift[:, None], cluster, clock, mine, total[:, None]] @ shape.shares
    power = always + (cores * core / seconds).sum(axis=1)
    reference = board.clusters[SPEED].max()
    span, work = shape.span, shape.seconds.sum()
    brent = span * reference / swiftest + work * reference / capacity
    stalling = 1.0 - (busy * core).sum(axis=1) / (
        busy * np.array([c.power for c in device.clusters]) * _activity(board, clock) * seconds
    ).sum(axis=1)
    own = np.stack(
        [
            *(total, capacity, swiftest, (cores * swift == swift.max(1)[:, None]).mean(1)),
            *(ways, bandwidth, ways / total, bandwidth / total, temperature),
            device.cap - temperature,
            np.log(brent),
            np.log(work / span / np.maximum(total, 1)),
            stalling,
            np.log(crowded / alone),
            *(always, power),
        ],
        axis=1,
    )
    return np.hstack([np.broadcast_to(shape.row, (len(rows), len(shape.row))), own])


def scheduled_features(plain: Floats, names: tuple[str, ...], said: Floats) -> Floats:
    """Aggregates and what the schedule says.

    Parameters
    ----------
    plain : ndarray, (m, n_columns)
    names : tuple of str
        Of the columns.
    said : ndarray, (m, 5)
        Logarithms of time [s] and energy [J], the temperature at the end [°C], how far time spreads
        over orders of the tasks, and the peak, which is not among the aggregates.
    """
    time, energy, last, spread, _ = said.T
    brent, start = plain[:, names.index("log Brent")], plain[:, names.index("start")]
    more = [time - brent, energy - time, last - start, spread, time, energy]
    return np.hstack([plain, np.stack(more, axis=1)])


def _activity(board: Board, clock: Indices) -> Floats:
    """Dynamic power of each cluster at its clock over that at the highest, (m, n_clusters)."""
    found = [c.activity(np.array(c.clocks)[i]) for c, i in zip(board.device.clusters, clock.T)]
    return np.stack(found, axis=1)
