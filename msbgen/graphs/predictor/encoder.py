"""A graph in a context as the network sees it: tasks, cores, memories, and the edges between them.

Tasks know what static analysis would tell of them (the kinds' least and longest times, cycles and
misses, depth, distance to the end, degrees); cores their clock, cluster, powers and headroom;
memories what is given of them.  Edges between tasks are those of the graph, of both directions; a
task is placed on the core that a list schedule by the sheet puts it on; cores share a cluster or
the device; they use their cache and the memory (GraphPerf-RT, Appendices C and N.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.graphs.boards import (
    CLUSTER,
    END,
    RANK,
    SPEED,
    START,
    Board,
    Indices,
    PreparedGraph,
    placements,
    prepare_graph,
)
from msbgen.graphs.dataset import EDGE_TYPES, edges_of
from msbgen.graphs.predictor.features import Shape
from msbgen.graphs.predictor.network import Batch

Floats = NDArray[np.float64]

# Columns of cores that tell of the device as it runs, which an ablation leaves out.
TELEMETRY = (6, 7)


@dataclass(frozen=True, eq=False)
class GraphEncoder:
    """A graph on a board, ready to be put into any context.

    Attributes
    ----------
    dataset : xarray.Dataset
        ``msbgen-graph/1``.
    board : Board
    """

    dataset: xr.Dataset
    board: Board

    @cached_property
    def graph(self) -> PreparedGraph:
        """The graph as schedules take it."""
        return prepare_graph(self.dataset, self.board.kinds)

    @cached_property
    def tasks(self) -> Floats:
        """What is known of each task whatever the context, (n, 16)."""
        graph, kinds = self.graph, self.board.kinds
        shape = Shape(graph, self.board)
        place, n = np.argsort(graph.order), len(graph.order)
        kind, work = graph.kind[place], graph.work[place]
        table = np.array(
            [
                [k.seconds.max(), k.seconds.min(), k.cycles, k.misses.max() + 1, k.misses.min() + 1]
                for k in kinds
            ]
        )
        amounts = np.log(table[kind] * work[:, None])
        pairs = edges_of(self.dataset)
        into = np.bincount(pairs[:, 1], minlength=n)
        out = np.bincount(pairs[:, 0], minlength=n)
        depth = self.dataset["depth"].values.astype(float)
        sink = self.dataset["distance_to_sink"].values.astype(float)
        loops = self.dataset["loops"].values if "loops" in self.dataset else np.zeros(n)
        whole = [n, shape.seconds.sum(), shape.span]
        rank = np.log(-graph.amounts[0, place, RANK])
        return np.column_stack(
            [
                *(amounts, rank, depth, sink, depth / (depth + sink + 1), np.log1p(into)),
                *(np.log1p(out), np.sqrt(np.bincount(depth.astype(int))[depth.astype(int)])),
                *(loops, np.broadcast_to(np.log(whole), (n, 3))),
            ]
        )

    @cached_property
    def links(self) -> tuple[Indices, Floats]:
        """Edges between tasks, (2, n_edges), and what is known of them, (n_edges, 5)."""
        types = self.dataset["type"].values.astype(str)
        known = [types == name for name in EDGE_TYPES]
        critical, hops = (self.dataset[n].values.astype(float) for n in ("critical", "hops"))
        weights = np.column_stack([*known, critical, np.log1p(hops)]).astype(float)
        return edges_of(self.dataset).T, weights.reshape(-1, len(EDGE_TYPES) + 2)

    @cached_property
    def home(self) -> Indices:
        """Cluster of each core."""
        return np.repeat(
            np.arange(len(self.board.device.clusters)),
            [c.cores for c in self.board.device.clusters],
        )

    def batch(self, row: Indices, temperature: float, *, telemetry: bool = True) -> Batch:
        """The graph in one context.

        Parameters
        ----------
        row : ndarray of int, (1 + 2 n_clusters,)
            As :meth:`~msbgen.graphs.boards.Board.rows` has it.
        temperature : float
            At the start [°C].
        telemetry : bool
            Whether cores know the temperature.
        """
        board, device, home = self.board, self.board.device, self.home
        place = np.arange(len(home)) - np.searchsorted(home, home)
        given, clock = row[1::2], row[2::2]
        active = place < given[home]
        at = clock[home]
        swift = board.clusters[SPEED][home, at]
        clusters = [device.clusters[c] for c in home]
        activity = np.array([float(c.activity(c.clocks[i])) for c, i in zip(clusters, at)])
        power = np.array([c.power for c in clusters]) * activity
        top = np.array([len(c.clocks) - 1 for c in clusters])
        total = given.sum()
        cores = np.column_stack(
            [
                *(active, swift, np.log(swift), at / np.maximum(top, 1), home, power),
                *np.broadcast_to([[temperature], [device.cap - temperature]], (2, len(home))),
                *(board.clusters[2][home, at], given[home], np.full(len(home), total)),
                np.full(
                    len(home),
                    np.log((given * board.clusters[SPEED][np.arange(len(given)), clock]).sum()),
                ),
            ]
        ).astype(float)
        if not telemetry:
            cores[:, TELEMETRY] = 0.0
        ways, bandwidth = board.allocations[row[0]]
        caches = len(given) if device.shared_by == "cluster" else 1
        cache_of = home if device.shared_by == "cluster" else np.zeros_like(home)
        sharers = given if device.shared_by == "cluster" else np.array([total])
        memory = np.zeros((caches + 1, 5))
        memory[:caches] = np.column_stack(
            [
                np.ones(caches),
                np.full(caches, ways),
                ways / np.maximum(sharers, 1),
                np.zeros((caches, 2)),
            ]
        )
        memory[caches, 3:] = np.log(bandwidth), np.log(bandwidth / total)
        links, weights = self.links
        placed, share = self._placed(row, temperature, active)
        on = np.stack([np.arange(len(placed)), placed])
        affinity = np.column_stack([share, swift[placed] / swift[active].max()])
        alive = np.flatnonzero(active)
        one, other = (x.ravel() for x in np.meshgrid(alive, alive, indexing="ij"))
        one, other = one[one != other], other[one != other]
        near = (home[one] == home[other]).astype(float)
        uses = np.concatenate(
            [np.stack([alive, cache_of[alive]]), np.stack([alive, np.full_like(alive, caches)])],
            axis=1,
        )
        flow = np.repeat([[1.0, 0.0], [0.0, 1.0]], len(alive), axis=0)
        sizes = {"task": len(placed), "resource": len(home), "memory": len(memory)}
        return Batch(
            features={"task": self.tasks, "resource": cores, "memory": memory},
            member={name: np.zeros(size, dtype=np.int64) for name, size in sizes.items()},
            edges={
                "precedes": links,
                "follows": links[::-1],
                "runs on": on,
                "hosts": on[::-1],
                "shares": np.stack([one, other]),
                "uses": uses,
                "serves": uses[::-1],
            },
            weights={
                "precedes": weights,
                "follows": weights,
                "runs on": affinity,
                "hosts": affinity,
                "shares": np.column_stack([near, 1.0 - near]),
                "uses": flow,
                "serves": flow,
            },
            n=1,
        )

    def _placed(
        self, row: Indices, temperature: float, active: NDArray[np.bool_]
    ) -> tuple[Indices, Floats]:
        """Core of each task by a list schedule, and the share of the time that it takes."""
        trace = placements(self.graph, self.board.arrays, row, temperature)
        free = np.where(active, 0.0, np.inf)
        placed = np.empty(len(trace), dtype=np.int64)
        for task in np.argsort(trace[:, START], kind="stable"):
            mine = np.where(self.home == trace[task, CLUSTER], free, np.inf)
            core = int(mine.argmin())
            placed[task], free[core] = core, trace[task, END]
        return placed, (trace[:, END] - trace[:, START]) / trace[:, END].max()
