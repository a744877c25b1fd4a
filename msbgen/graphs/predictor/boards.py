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

import msbgen.graphs.predictor._kernels as _kernels
from msbgen.core.errors import ProfileError
from msbgen.graphs.dataset import edges_of, kinds_of, lacking_kind
from msbgen.graphs.devices import Device, check_contexts
from msbgen.graphs.order import canonical_order
from msbgen.graphs.predictor.kinds import Kind

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

Arrays = tuple[Floats, Floats, Floats, Floats]

_NO_TRACE = np.empty((0, 0, 3))
# By how much of its logarithm a clock is moved to see what part of a time follows it.
_AROUND = 0.15
# Orders of the tasks that schedules are averages over.
_ORDERS = 4
# Share of its full power that a core that stalls draws, before anything is known.
_STALLED = 0.5


@dataclass(frozen=True, eq=False)
class Prepared:
    """A graph as the kernel takes it: its tasks in several orders.

    Attributes
    ----------
    order : ndarray of int, (n,)
        Number in the graph of each task in the first order.
    nodes : ndarray of int32, (n_orders, n + 1, 3)
    successors : ndarray of int32, (n_orders, n_edges)
    amounts : ndarray, (n_orders, n, 2)
        Work, and the rank: minus the heaviest path of work from a task to the end.
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
        """Runs of its kind that each task amounts to, in the first order."""
        return self.amounts[0, :, _kernels.WORK]


def prepare_graph(graph: xr.Dataset, kinds: Sequence[Kind]) -> Prepared:
    """Graph as the kernel takes it; tasks are ranked as HEFT does, by seconds on the fastest.

    Which of several tasks that get ready together starts first is up to a run-time system and may
    matter where cores differ: schedules are averages over some orders, drawn alike for equal graphs
    whatever their files' order.

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
    order = canonical_order(graph)
    n = len(order)
    pairs = np.argsort(order)[edges_of(graph)]
    kind = np.array([names.index(name) for name in own])[order]
    work = graph["work"].values.astype(float)[order]
    upward = work * np.array([k.seconds[-1, -1, -1] for k in kinds])[kind]
    first, after = _successors(n, pairs)
    for task in reversed(range(n)):  # the canonical order is topological
        mine = after[first[task] : first[task + 1]]
        if len(mine):
            upward[task] += upward[mine].max()
    nodes = np.zeros((_ORDERS, n + 1, 3), dtype=np.int32)
    successors = np.empty((_ORDERS, len(pairs)), dtype=np.int32)
    amounts = np.empty((_ORDERS, n, 2))
    waiting = np.bincount(pairs[:, 1], minlength=n)
    orders = _orders(n)
    for i, drawn in enumerate(orders):
        nodes[i, :, _kernels.FIRST], successors[i] = _successors(n, np.argsort(drawn)[pairs])
        nodes[i, :n, _kernels.WAITING], nodes[i, :n, _kernels.KIND] = waiting[drawn], kind[drawn]
        amounts[i] = np.column_stack([work, -upward])[drawn]
    return Prepared(order[orders[0]], nodes, successors, amounts)


def _successors(n: int, pairs: Indices) -> tuple[Indices, Indices]:
    """Where the successors of each task begin, (n + 1,), and all of them, (n_edges,)."""
    pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    return np.searchsorted(pairs[:, 0], np.arange(n + 1)), pairs[:, 1]


def _orders(n: int) -> list[Indices]:
    """Orders of n tasks: shuffled, and the same from the back, which evens out who is first."""
    rng = np.random.default_rng(n)
    shuffled = [rng.permutation(n) for _ in range(0, _ORDERS, 2)]
    return [order[::way] for order in shuffled for way in (1, -1)][:_ORDERS]


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
        """Seconds that follow the core and others, its power, joules of misses, what is lacking."""
        device = self.device
        clusters = device.clusters
        clocks, own = max(len(c.clocks) for c in clusters), max(c.cores for c in clusters)
        most, n_kinds = device.n_cores, len(self.kinds)
        shape = (len(self.gifts), len(clusters), clocks, own + 1, most + 1, n_kinds)
        working, waiting, power, miss = np.ones(shape), *np.zeros((3, *shape))
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
                slower, faster = (
                    kind.at(share, flow, fast * np.exp(sign * _AROUND))[0] for sign in (-1, 1)
                )
                # exact where seconds are a sum of cycles over the clock and of what waits
                follows = (slower - faster) / (2.0 * np.sinh(_AROUND))
                cell = (slice(None), c, slice(len(clock)), slice(1, None), slice(1, None), k)
                working[cell] = np.clip(follows, 0.0, seconds)
                waiting[cell] = seconds - working[cell]
                power[cell] = (cluster.power * cluster.activity(clock))[:, None, None]
                miss[cell] = misses * device.miss_energy * 1e-9
                outside[cell] = kind.outside(share, flow, fast)
        return working, waiting, power, miss, outside

    @property
    def paces(self) -> tuple[Floats, Floats]:
        """Seconds of a run that its core works, a faster one fewer, and that it waits.

        (n_gifts, n_clusters, n_clocks, own + 1, all + 1, n_kinds)
        """
        return self._tables[:2]

    @cached_property
    def pace(self) -> Floats:
        """Seconds of a run, of the shape of :attr:`paces`."""
        return self._tables[0] + self._tables[1]

    @cached_property
    def joules(self) -> tuple[Floats, Floats, Floats]:
        """Joules of a run's core while it works, of the core while it waits, of misses."""
        working, waiting, power, miss, _ = self._tables
        return power * working, _STALLED * power * waiting, miss

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

    @cached_property
    def arrays(self) -> Arrays:
        """What schedules by the sheet take: seconds and joules of runs, clusters, cooling."""
        core, stall, miss = self.joules
        return self.pace, core + stall + miss, self.clusters, self.cooling

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
    """What a schedule comes to in contexts: columns of totals, as the kernel names them.

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
    ndarray, (m, 6 + n_clusters)
    """
    totals = np.empty((len(rows), _kernels.JOULES + board[0].shape[1]))
    packed = graph.nodes, graph.successors, graph.amounts
    heat = np.array(temperature)  # of one layout: what is broadcast would compile the kernel anew
    _kernels.list_schedules(packed, ranked, board, (rows, heat), totals, _NO_TRACE)
    return totals


def placements(graph: Prepared, board: Arrays, row: Indices, start: float) -> Floats:
    """Start [s], end [s] and cluster of each task of the graph in one context, (n, 3)."""
    totals, trace = (
        np.empty((1, _kernels.JOULES + board[0].shape[1])),
        np.empty((1, len(graph.work), 3)),
    )
    contexts = row.reshape(1, -1), np.array([start])
    packed = graph.nodes, graph.successors, graph.amounts
    _kernels.list_schedules(packed, False, board, contexts, totals, trace)
    found = np.empty_like(trace[0])
    found[graph.order] = trace[0]
    return found
