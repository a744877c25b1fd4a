"""A device as a schedule of profiles sees it: paces and joules of every kind in every state.

A task that runs beside others is given its share of what the context gives: ways of the cache among
those that share it, bandwidth among all that run.  Its pace is what its kind's profile says of that
share, and of a clock of `speed × clock` GHz of the processor that the profiles are of.  Whatever a
sheet does not know is in a few *factors*, fitted to runs of the device (:mod:`.factors`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

import msbgen.predict.graph._kernels as _kernels
from msbgen.data.devices import Device, check_contexts
from msbgen.data.graphs.schema import edges_of, kinds_of, lacking_kind, topological_order
from msbgen.errors import ProfileError
from msbgen.predict.graph.kinds import Kind

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

Arrays = tuple[Floats, Floats, Floats, Floats]

_NO_TRACE = np.empty((0, 0, 3))


@dataclass(frozen=True, eq=False)
class Prepared:
    """A graph as the kernel takes it.

    Attributes
    ----------
    nodes : ndarray of int32, (n + 1, 3)
    successors : ndarray of int32, (n_edges,)
    amounts : ndarray, (n, 2)
        Work, and the rank: minus the heaviest path of work from a task to the end.
    """

    nodes: NDArray[np.int32]
    successors: NDArray[np.int32]
    amounts: Floats

    @property
    def kind(self) -> NDArray[np.int32]:
        """Index of the kind of each task."""
        return self.nodes[:-1, _kernels.KIND]

    @property
    def work(self) -> Floats:
        """Runs of its kind that each task amounts to."""
        return self.amounts[:, _kernels.WORK]


def prepare_graph(graph: xr.Dataset, kinds: Sequence[Kind]) -> Prepared:
    """Graph as the kernel takes it; tasks are ranked as HEFT does, by seconds on the fastest.

    Raises
    ------
    ProfileError
        A kind without profile.
    """
    names = [kind.name for kind in kinds]
    own = kinds_of(graph)
    for name in dict.fromkeys(own):
        if name not in names:
            raise ProfileError(lacking_kind(graph, name, names))
    kind = np.array([names.index(name) for name in own])
    pairs, work = edges_of(graph), graph["work"].values.astype(float)
    n = len(work)
    order = np.argsort(pairs[:, 0], kind="stable")
    successors = pairs[order, 1].astype(np.int32)
    nodes = np.zeros((n + 1, 3), dtype=np.int32)
    nodes[:, _kernels.FIRST] = np.searchsorted(pairs[order, 0], np.arange(n + 1))
    nodes[:n, _kernels.WAITING] = np.bincount(pairs[:, 1], minlength=n)
    nodes[:n, _kernels.KIND] = kind
    seconds = work * np.array([k.seconds[-1, -1, -1] for k in kinds])[kind]
    upward = seconds.copy()
    for task in topological_order(n, pairs)[::-1].tolist():
        after = successors[nodes[task, 0] : nodes[task + 1, 0]]
        if len(after):
            upward[task] += upward[after].max()
    return Prepared(nodes, successors, np.column_stack([work, -upward]))


@dataclass(frozen=True, eq=False)
class Board:
    """A device, and what its sheet and the profiles say of every kind on it.

    Attributes
    ----------
    device : Device
    kinds : sequence of Kind
    """

    device: Device
    kinds: Sequence[Kind]

    @cached_property
    def gifts(self) -> Floats:
        """Ways and bandwidth that may be given, (n_gifts, 2)."""
        device = self.device
        pairs = np.meshgrid(device.cache_ways, device.bandwidth, indexing="ij")
        return np.stack(pairs, axis=-1).reshape(-1, 2)

    @cached_property
    def _tables(self) -> tuple[Floats, Floats, Floats, Floats, NDArray[np.bool_]]:
        """Pace, joules of cores, of stalls and of misses, and whether profiles lack a share."""
        device = self.device
        clusters = device.clusters
        clocks, own = max(len(c.clocks) for c in clusters), max(c.cores for c in clusters)
        most, n_kinds = device.n_cores, len(self.kinds)
        shape = (len(self.gifts), len(clusters), clocks, own + 1, most + 1, n_kinds)
        pace, core, stall, miss = np.ones(shape), *np.zeros((3, *shape))
        outside = np.zeros(shape, dtype=bool)
        ways, bandwidth = self.gifts.T
        for c, cluster in enumerate(clusters):
            clock = np.array(cluster.clocks)
            mine, everyone = np.arange(1, own + 1), np.arange(1, most + 1)
            sharers = (
                mine[:, None] if device.shared_by == "cluster" else everyone[None, :]
            ) + np.zeros((own, most))
            share = ways[:, None, None, None] / sharers
            flow = bandwidth[:, None, None, None] / everyone
            fast = clock[:, None, None] * cluster.speed
            for k, kind in enumerate(self.kinds):
                seconds, misses = kind.at(share, flow, fast)
                cell = (slice(None), c, slice(len(clock)), slice(1, None), slice(1, None), k)
                pace[cell], miss[cell] = seconds, misses * device.miss_energy * 1e-9
                alive = kind.cycles / (clock * cluster.speed)  # seconds that the core never stalls
                power, alive = (cluster.power * cluster.activity(clock)), alive[:, None, None]
                core[cell] = power[:, None, None] * np.minimum(alive, seconds)
                stall[cell] = power[:, None, None] * np.maximum(seconds - alive, 0.0)
                outside[cell] = kind.outside(share, flow, fast)
        return pace, core, stall, miss, outside

    @property
    def pace(self) -> Floats:
        """Seconds of a run, (n_gifts, n_clusters, n_clocks, own + 1, all + 1, n_kinds)."""
        return self._tables[0]

    @property
    def joules(self) -> tuple[Floats, Floats, Floats]:
        """Joules of a run's core cycles, of its stalls if they took as much, of its misses."""
        return self._tables[1:4]

    @cached_property
    def clusters(self) -> Floats:
        """Swiftness [GHz], time to start a task [s], power of a cluster and of a core that waits.

        (4, n_clusters, n_clocks)
        """
        found = np.ones((4, *self.pace.shape[1:3]))
        for c, cluster in enumerate(self.device.clusters):
            clock = np.array(cluster.clocks)
            active = cluster.activity(clock)
            found[:, c, : len(clock)] = (
                cluster.speed * clock,
                cluster.dispatch * clock[-1] / clock,
                cluster.on_power * active,
                cluster.idle_power * active,
            )
        return found

    @cached_property
    def cooling(self) -> Floats:
        """Base power, ambient, resistance, time constant, cap and hysteresis, (6,)."""
        names = ("base_power", "ambient", "resistance", "time_constant", "cap", "hysteresis")
        return np.array([getattr(self.device, name) for name in names])

    def rows(self, contexts: ArrayLike) -> Indices:
        """Contexts as the kernel takes them, (m, 1 + 2 n_clusters).

        Raises
        ------
        ArgumentError
            What is no context of the device.
        """
        table = check_contexts(self.device, contexts)
        levels = list(self.device.levels.values())
        at = np.stack(
            [np.abs(np.subtract.outer(c, v)).argmin(1) for c, v in zip(table.T, levels)], axis=1
        )
        gift = at[:, -2] * len(levels[-1]) + at[:, -1]
        return np.ascontiguousarray(np.column_stack([gift, at[:, :-2]]))

    def outside(self, graph: Prepared, rows: Indices) -> NDArray[np.bool_]:
        """Whether a kind of the graph may be given what its profiles say nothing of, (m,)."""
        own = np.asarray(self._tables[4][..., np.unique(graph.kind)].any(axis=-1))
        found = np.zeros(len(rows), dtype=bool)
        cores = rows[:, 1::2]
        for i, (gift, given) in enumerate(zip(rows[:, 0], cores)):
            for c, mine in enumerate(given):
                if mine:
                    clock = rows[i, 2 + 2 * c]
                    found[i] |= own[gift, c, clock, 1 : mine + 1, 1 : given.sum() + 1].any()
        return found


def schedule(
    graph: Prepared, board: Arrays, rows: Indices, temperature: Floats, *, ranked: bool = False
) -> Floats:
    """Time [s], joules of clusters, of waiting cores, last temperature, joules on each cluster.

    Parameters
    ----------
    graph : Prepared
    board : tuple of ndarray
        A board with its factors (:meth:`.factors.Factors.applied`).
    rows : ndarray of int, (m, 1 + 2 n_clusters)
        :meth:`Board.rows`.
    temperature : ndarray, (m,)
        At the start [°C].
    ranked : bool
        Whether tasks start by their ranks, as HEFT has it, or in the order in which they get ready.

    Returns
    -------
    ndarray, (m, 4 + n_clusters)
    """
    totals = np.empty((len(rows), 4 + board[0].shape[1]))
    packed = graph.nodes, graph.successors, graph.amounts
    _kernels.list_schedules(packed, ranked, board, (rows, temperature), totals, _NO_TRACE)
    return totals


def placements(graph: Prepared, board: Arrays, row: Indices, start: float) -> Floats:
    """Start [s], end [s] and cluster of each task in one context, (n, 3)."""
    totals, trace = np.empty((1, 4 + board[0].shape[1])), np.empty((1, len(graph.work), 3))
    contexts = row.reshape(1, -1), np.array([start])
    packed = graph.nodes, graph.successors, graph.amounts
    _kernels.list_schedules(packed, False, board, contexts, totals, trace)
    return trace[0]
