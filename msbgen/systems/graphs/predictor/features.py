"""Features of a graph in a context, as one row of numbers.

The residual of the schedule, the widths of intervals, and tabular peers use the same columns.
Peers do not use those that a schedule computes (:data:`SCHEDULED`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from msbgen.systems.graphs.boards import FIRST, ON, SPEED, Board, Indices, PreparedGraph
from msbgen.systems.graphs.kinds import Kind

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
class GraphShape:
    """Features of a graph on a device that are the same in every context."""

    graph: PreparedGraph
    board: Board

    @cached_property
    def seconds(self) -> Floats:
        """Seconds of each task alone on the fastest core with all of cache and memory, (n,)."""
        seconds = self.board.seconds[-1, :, :, 1, 1]
        fastest = np.unravel_index(self.board.clusters[SPEED].argmax(), seconds.shape[:2])
        return self.graph.work * seconds[fastest][self.graph.kind]

    @cached_property
    def shares(self) -> Floats:
        """Share of each kind in the seconds of all tasks, (n_kinds,)."""
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
        for task in ready:  # the list grows during the loop
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
        """The features of :data:`SHAPE`, then the shares of the kinds, (10 + n_kinds,)."""
        seconds, n = self.seconds, len(self.seconds)
        depths = np.bincount(self.depth)
        shares = self.shares
        features = (
            *(np.log(n), self.graph.successors.shape[1] / n, len(depths) / n, depths.max() / n),
            *(seconds.sum() / self.span, seconds.std() / seconds.mean()),
            *(seconds.max() / seconds.sum(), np.log(seconds.sum()), np.log(self.span)),
            np.exp(-(shares * np.log(np.maximum(shares, 1e-12))).sum()),
        )
        return np.array([*features, *shares])


def columns(kinds: Sequence[Kind]) -> tuple[str, ...]:
    """Names of the columns that do not need a schedule."""
    return (*SHAPE, *(kind.name for kind in kinds), *CONTEXT)


def plain_features(shape: GraphShape, rows: Indices, temperature: Floats) -> Floats:
    """Features that do not need a schedule, (m, n_columns), from rows and temperatures [°C] of
    contexts.
    """
    board, device = shape.board, shape.board.device
    allocation, cores, clock = rows[:, 0], rows[:, 1::2], rows[:, 2::2]
    cluster = np.arange(cores.shape[1])
    total = cores.sum(axis=1)
    speed = board.clusters[SPEED][cluster, clock]
    used = cores > 0
    fastest = np.where(used, speed, 0.0).max(axis=1)
    capacity = (cores * speed).sum(axis=1)
    ways, bandwidth = board.allocations[allocation].T
    # seconds of a task alone, and with a task on every core, averaged over kinds and cores
    one, full = (1, 1), (np.maximum(cores, 1), total[:, None])
    state = allocation[:, None], cluster, clock
    core_share = cores / np.maximum(total, 1)[:, None]
    alone = (core_share * (board.seconds[(*state, *one)] @ shape.shares)).sum(axis=1)
    seconds = board.seconds[(*state, *full)] @ shape.shares
    crowded = (core_share * seconds).sum(axis=1)
    core_joules = board.joules[0][(*state, *full)] @ shape.shares
    always = board.cooling[0] + (used * board.clusters[ON][cluster, clock]).sum(axis=1)
    power = always + (cores * core_joules / seconds).sum(axis=1)
    reference = board.clusters[SPEED].max()
    span, work = shape.span, shape.seconds.sum()
    brent = span * reference / fastest + work * reference / capacity
    watts = np.array([c.power for c in device.clusters]) * _activity(board, clock)
    stalling = 1.0 - (core_share * core_joules).sum(axis=1) / (core_share * watts * seconds).sum(
        axis=1
    )
    of_context = np.stack(
        [
            *(total, capacity, fastest, (cores * speed == speed.max(1)[:, None]).mean(1)),
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
    return np.hstack([np.broadcast_to(shape.row, (len(rows), len(shape.row))), of_context])


def scheduled_features(plain: Floats, names: tuple[str, ...], estimates: Floats) -> Floats:
    """Features without a schedule (m, n_columns), with these names, followed by those of the
    schedule.

    `estimates`, (m, 5), are as of :func:`.factors.estimate`, with logarithms of time and energy.
    The peak is no feature.
    """
    time, energy, last, spread, _ = estimates.T
    brent, start = plain[:, names.index("log Brent")], plain[:, names.index("start")]
    more = [time - brent, energy - time, last - start, spread, time, energy]
    return np.hstack([plain, np.stack(more, axis=1)])


def _activity(board: Board, clock: Indices) -> Floats:
    """Dynamic power of each cluster at its clock over that at the highest, (m, n_clusters)."""
    pairs = zip(board.device.clusters, clock.T)
    return np.stack([c.activity(np.array(c.clocks)[i]) for c, i in pairs], axis=1)
