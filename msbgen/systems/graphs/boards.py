"""A device as a list schedule uses it: seconds and joules of every kind of task in every state.

Running tasks share what the context allocates in equal parts: ways among those on one cache,
bandwidth among all.  The profile of a kind gives its time at that share and at a clock of
``speed × clock`` GHz of the processor that the profiles were measured on.  What a device sheet
does not contain is in a few *factors*, fitted to runs of the device (:mod:`.predictor.factors`).
The thermal model is in :mod:`.simulator`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

import msbgen.systems.graphs._kernels as _kernels
from msbgen.core.errors import ProfileError
from msbgen.core.parts import Given
from msbgen.systems.graphs.dataset import edges_of, kinds_of, lacking_kind
from msbgen.systems.graphs.devices import Device, check_contexts
from msbgen.systems.graphs.kinds import Kind
from msbgen.systems.graphs.order import canonical_order, successors_of
from msbgen.systems.phases.grid import STALLED_ACTIVITY

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

Arrays = tuple[Floats, Floats, Floats, Floats, int]

# The kernels' columns, for the files of other folders, which import no kernels: of `nodes`,
# `amounts`, `clusters`, `trace` and `totals`.
FIRST, RANK = _kernels.FIRST, _kernels.RANK
SPEED, DISPATCH = _kernels.SPEED, _kernels.DISPATCH
ON, IDLE = _kernels.ON, _kernels.IDLE
START, END, CLUSTER = _kernels.START, _kernels.END, _kernels.CLUSTER
TOTAL_TIME, TOTAL_LAST = _kernels.TOTAL_TIME, _kernels.TOTAL_LAST
TOTAL_SPREAD, TOTAL_PEAK = _kernels.TOTAL_SPREAD, _kernels.TOTAL_PEAK
TOTAL_ON = _kernels.TOTAL_ON

_NO_TRACE = np.empty((0, 0, 3))
# Change of the logarithm of a clock for the derivative that splits a time into its two parts.
_CLOCK_CHANGE = 0.15
# Schedules are averages over so many orders of the tasks.
_ORDERS = 4


@dataclass(frozen=True, eq=False)
class PreparedGraph:
    """A graph in the arrays of the kernel: its tasks in several orders.

    `order` (n,) has the number in the graph of each task in the first order.  `nodes` are
    (n_orders, n + 1, 3), `successors` (n_orders, n_edges).  `amounts`, (n_orders, n, 2), are the
    work and the rank: minus the length of the longest path of work to the end.
    """

    order: Indices
    nodes: NDArray[np.int32]
    successors: NDArray[np.int32]
    amounts: Floats

    @property
    def kind(self) -> NDArray[np.int32]:
        """Index of the kind of each task, in the first order."""
        return self.nodes[0, :-1, _kernels.KIND]

    @property
    def work(self) -> Floats:
        """Work of each task, in runs of its kind, in the first order."""
        return self.amounts[0, :, _kernels.WORK]


def prepare_graph(graph: xr.Dataset, kinds: Sequence[Kind]) -> PreparedGraph:
    """Graph in the arrays of the kernel; ranks are those of HEFT at the full allocation.

    Which of several tasks that become ready together starts first depends on the run-time system.
    It matters where cores differ.  Schedules are therefore averages over some orders.  Equal graphs
    have the same orders, even if their files list the tasks in other orders.  A kind without
    profile raises :class:`ProfileError`.
    """
    names = [kind.name for kind in kinds]
    task_kinds = kinds_of(graph)
    for name in dict.fromkeys(task_kinds):
        if name not in names:
            raise ProfileError(lacking_kind(graph, name, names))
    order = canonical_order(graph)
    n = len(order)
    pairs = np.argsort(order)[edges_of(graph)]
    kind = np.array([names.index(name) for name in task_kinds])[order]
    work = graph["work"].values.astype(float)[order]
    upward = work * np.array([k.seconds[-1, -1, -1] for k in kinds])[kind]
    first, after = successors_of(n, pairs)
    for task in reversed(range(n)):  # the canonical order is topological
        following = after[first[task] : first[task + 1]]
        if len(following):
            upward[task] += upward[following].max()
    nodes = np.zeros((_ORDERS, n + 1, 3), dtype=np.int32)
    successors = np.empty((_ORDERS, len(pairs)), dtype=np.int32)
    amounts = np.empty((_ORDERS, n, 2))
    waiting = np.bincount(pairs[:, 1], minlength=n)
    orders = _orders(n)
    for i, drawn in enumerate(orders):
        nodes[i, :, _kernels.FIRST], successors[i] = successors_of(n, np.argsort(drawn)[pairs])
        nodes[i, :n, _kernels.WAITING], nodes[i, :n, _kernels.KIND] = waiting[drawn], kind[drawn]
        amounts[i] = np.column_stack([work, -upward])[drawn]
    return PreparedGraph(order[orders[0]], nodes, successors, amounts)


def _orders(n: int) -> list[Indices]:
    """Orders of n tasks: random ones, each with its reverse, so that no task is always first."""
    rng = np.random.default_rng(n)
    shuffled = [rng.permutation(n) for _ in range(0, _ORDERS, 2)]
    return [order[::way] for order in shuffled for way in (1, -1)][:_ORDERS]


@dataclass(frozen=True, eq=False)
class Board:
    """A device with the times and powers of every kind of task on it, by sheet and profiles."""

    device: Device
    kinds: Annotated[Sequence[Kind], Given("kinds_")]

    @cached_property
    def allocations(self) -> Floats:
        """Every pair of cache ways and bandwidth of the device, (n_allocations, 2)."""
        device = self.device
        pairs = np.meshgrid(device.cache_ways, device.bandwidth, indexing="ij")
        return np.stack(pairs, axis=-1).reshape(-1, 2)

    @cached_property
    def _tables(self) -> tuple[Floats, Floats, Floats, Floats, NDArray[np.bool_]]:
        """Seconds in the core's clock, other seconds, watts, joules of misses, extrapolation."""
        device = self.device
        clusters = device.clusters
        clocks, n_own = max(len(c.clocks) for c in clusters), max(c.cores for c in clusters)
        most, n_kinds = device.n_cores, len(self.kinds)
        shape = (len(self.allocations), len(clusters), clocks, n_own + 1, most + 1, n_kinds)
        working, waiting, power, miss = np.ones(shape), *np.zeros((3, *shape))
        outside = np.zeros(shape, dtype=bool)
        ways, bandwidth = self.allocations.T
        for c, cluster in enumerate(clusters):
            clock = np.array(cluster.clocks)
            in_cluster, in_device = np.arange(1, n_own + 1), np.arange(1, most + 1)
            sharers = (
                in_cluster[:, None] if device.shared_by == "cluster" else in_device[None, :]
            ) + np.zeros((n_own, most))
            share = ways[:, None, None, None] / sharers
            flow = bandwidth[:, None, None, None] / in_device
            frequency = clock[:, None, None] * cluster.speed
            for k, kind in enumerate(self.kinds):
                seconds, misses = kind.at(share, flow, frequency)
                slower, faster = (
                    kind.at(share, flow, frequency * np.exp(sign * _CLOCK_CHANGE))[0]
                    for sign in (-1, 1)
                )
                # exact where seconds are cycles / clock + a constant
                in_clock = (slower - faster) / (2.0 * np.sinh(_CLOCK_CHANGE))
                cell = (slice(None), c, slice(len(clock)), slice(1, None), slice(1, None), k)
                working[cell] = np.clip(in_clock, 0.0, seconds)
                waiting[cell] = seconds - working[cell]
                power[cell] = (cluster.power * cluster.activity(clock))[:, None, None]
                miss[cell] = misses * device.miss_energy * 1e-9
                outside[cell] = kind.outside(share, flow, frequency)
        return working, waiting, power, miss, outside

    @property
    def working_and_waiting(self) -> tuple[Floats, Floats]:
        """Seconds of a run in which its core computes, and in which it waits for memory.

        Each (n_allocations, n_clusters, n_clocks, tasks on the cluster + 1, tasks + 1, n_kinds).
        """
        return self._tables[:2]

    @cached_property
    def seconds(self) -> Floats:
        """Seconds of a whole run of each kind, of the shape of :attr:`working_and_waiting`."""
        return self._tables[0] + self._tables[1]

    @cached_property
    def joules(self) -> tuple[Floats, Floats, Floats]:
        """Joules of a run: of its core while computing, while waiting, and of cache misses."""
        working, waiting, power, miss, _ = self._tables
        return power * working, STALLED_ACTIVITY * power * waiting, miss

    @cached_property
    def clusters(self) -> Floats:
        """Speed [GHz], time to start a task [s], power of a cluster and of an idle core [W].

        (4, n_clusters, n_clocks)
        """
        return self.device.cluster_table[:4]

    @property
    def cooling(self) -> Floats:
        """Base power, ambient, resistance, time constant, cap and hysteresis, (6,)."""
        return self.device.cooling

    @cached_property
    def arrays(self) -> Arrays:
        """Arrays of a schedule by the sheet: seconds and joules of runs, clusters, cooling; and how
        tasks share (:attr:`Device.sharing`).
        """
        core, stall, miss = self.joules
        joules = core + stall + miss
        return self.seconds, joules, self.clusters, self.cooling, self.device.sharing

    def rows(self, contexts: ArrayLike) -> Indices:
        """Checked contexts as indices, (m, 1 + 2 n_clusters): allocation, cores and clock of each
        cluster.
        """
        table = check_contexts(self.device, contexts)
        levels = list(self.device.levels.values())
        at = np.stack(
            [np.abs(np.subtract.outer(c, v)).argmin(1) for c, v in zip(table.T, levels)], axis=1
        )
        allocation = at[:, -2] * len(levels[-1]) + at[:, -1]
        return np.ascontiguousarray(np.column_stack([allocation, at[:, :-2]]))

    def outside(self, graph: PreparedGraph, rows: Indices) -> NDArray[np.bool_]:
        """Whether a task of the graph may run outside the levels of its profile, (m,)."""
        extrapolated = np.asarray(self._tables[4][..., np.unique(graph.kind)].any(axis=-1))
        outside = np.zeros(len(rows), dtype=bool)
        for i, (allocation, cores) in enumerate(zip(rows[:, 0], rows[:, 1::2])):
            for c, n in enumerate(cores):
                if n:
                    states = extrapolated[allocation, c, rows[i, 2 + 2 * c]]
                    outside[i] |= states[1 : n + 1, 1 : cores.sum() + 1].any()
        return outside


def schedule(
    graph: PreparedGraph, board: Arrays, rows: Indices, temperature: Floats, *, ranked: bool = False
) -> Floats:
    """Totals of a list schedule in contexts, (m, 6 + n_clusters); columns are the kernel's
    ``TOTAL_...``.

    The arrays may have factors (:meth:`.predictor.factors.Factors.applied`).  `rows`, (m, 1
    + 2 n_clusters), are of :meth:`Board.rows`, temperatures (m,) those at the start [°C].  Ranked
    tasks start by their ranks (HEFT), others in the order in which they become ready.
    """
    totals = np.empty((len(rows), _kernels.TOTAL_TASKS + board[0].shape[1]))
    packed = graph.nodes, graph.successors, graph.amounts
    start = np.array(temperature)  # contiguous: another layout would compile the kernel again
    _kernels.list_schedules(packed, ranked, board, (rows, start), totals, _NO_TRACE)
    return totals


def placements(graph: PreparedGraph, board: Arrays, row: Indices, start: float) -> Floats:
    """Start [s], end [s] and cluster of each task of the graph in one context, (n, 3)."""
    totals, trace = (
        np.empty((1, _kernels.TOTAL_TASKS + board[0].shape[1])),
        np.empty((1, len(graph.work), 3)),
    )
    contexts = row.reshape(1, -1), np.array([start])
    packed = graph.nodes, graph.successors, graph.amounts
    _kernels.list_schedules(packed, False, board, contexts, totals, trace)
    placed = np.empty_like(trace[0])
    placed[graph.order] = trace[0]
    return placed
