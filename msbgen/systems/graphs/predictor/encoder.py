"""Inputs of the network for a graph in a context: tasks, cores, memories, and typed edges.

- Tasks have the features of static analysis: shortest and longest time, cycles and misses of their
  kind; depth, distance to the end, degrees.
- Cores have their clock, cluster, powers and headroom; memories have their allocation.
- Edges between tasks are those of the graph, in both directions.  A task has an edge to the core on
  which a list schedule by the device sheet runs it.  Cores have edges to each other, to their cache
  and to the memory (GraphPerf-RT, Appendices C and N.2).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.systems.graphs import boards
from msbgen.systems.graphs.dataset import EDGE_TYPES, edges_of
from msbgen.systems.graphs.predictor.features import GraphShape
from msbgen.systems.graphs.predictor.network import Batch

Floats = NDArray[np.float64]

# Columns of cores with the temperature at the start, which an ablation sets to 0.
TELEMETRY = (6, 7)


@dataclass(frozen=True, eq=False)
class GraphEncoder:
    """A graph on a board, to be encoded in any context."""

    dataset: xr.Dataset
    board: boards.Board

    @cached_property
    def graph(self) -> boards.PreparedGraph:
        """The graph in the arrays of a schedule."""
        return boards.prepare_graph(self.dataset, self.board.kinds)

    @cached_property
    def tasks(self) -> Floats:
        """Features of each task, the same in every context, (n, 16)."""
        graph, kinds = self.graph, self.board.kinds
        shape = GraphShape(graph, self.board)
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
        rank = np.log(-graph.amounts[0, place, boards.RANK])
        return np.column_stack(
            [
                *(amounts, rank, depth, sink, depth / (depth + sink + 1), np.log1p(into)),
                *(np.log1p(out), np.sqrt(np.bincount(depth.astype(int))[depth.astype(int)])),
                *(loops, np.broadcast_to(np.log(whole), (n, 3))),
            ]
        )

    @cached_property
    def links(self) -> tuple[boards.Indices, Floats]:
        """Edges between tasks, (2, n_edges), and their features, (n_edges, 5)."""
        types = self.dataset["type"].values.astype(str)
        one_hot = [types == name for name in EDGE_TYPES]
        critical, hops = (self.dataset[n].values.astype(float) for n in ("critical", "hops"))
        weights = np.column_stack([*one_hot, critical, np.log1p(hops)]).astype(float)
        return edges_of(self.dataset).T, weights.reshape(-1, len(EDGE_TYPES) + 2)

    @cached_property
    def cluster(self) -> boards.Indices:
        """Cluster of each core."""
        clusters = self.board.device.clusters
        return np.repeat(np.arange(len(clusters)), [c.cores for c in clusters])

    def batch(self, row: boards.Indices, temperature: float, *, telemetry: bool = True) -> Batch:
        """Encode the graph in one context, a row of :meth:`.boards.Board.rows`.

        Without telemetry, cores do not have the temperature at the start [°C] as a feature.
        """
        place = np.arange(len(self.cluster)) - np.searchsorted(self.cluster, self.cluster)
        active = place < row[1::2][self.cluster]
        cores = self._cores(row, temperature, active)
        if not telemetry:
            cores[:, TELEMETRY] = 0.0
        memory, cache_of = self._memories(row)
        caches = len(memory) - 1
        links, weights = self.links
        placed, share = self._placed(row, temperature, active)
        on = np.stack([np.arange(len(placed)), placed])
        speed = cores[:, 1]
        affinity = np.column_stack([share, speed[placed] / speed[active].max()])
        alive = np.flatnonzero(active)
        one, other = (x.ravel() for x in np.meshgrid(alive, alive, indexing="ij"))
        one, other = one[one != other], other[one != other]
        near = (self.cluster[one] == self.cluster[other]).astype(float)
        uses = np.concatenate(
            [np.stack([alive, cache_of[alive]]), np.stack([alive, np.full_like(alive, caches)])],
            axis=1,
        )
        flow = np.repeat([[1.0, 0.0], [0.0, 1.0]], len(alive), axis=0)
        sizes = {"task": len(placed), "resource": len(cores), "memory": len(memory)}
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

    def _cores(self, row: boards.Indices, temperature: float, active: NDArray[np.bool_]) -> Floats:
        """Features of each core, (n_cores, 12)."""
        board, device, home = self.board, self.board.device, self.cluster
        n_cores, clock = row[1::2], row[2::2]
        at = clock[home]
        speed = board.clusters[boards.SPEED][home, at]
        clusters = [device.clusters[c] for c in home]
        activity = np.array([float(c.activity(c.clocks[i])) for c, i in zip(clusters, at)])
        power = np.array([c.power for c in clusters]) * activity
        top = np.array([len(c.clocks) - 1 for c in clusters])
        capacity = (n_cores * board.clusters[boards.SPEED][np.arange(len(n_cores)), clock]).sum()
        return np.column_stack(
            [
                *(active, speed, np.log(speed), at / np.maximum(top, 1), home, power),
                *np.broadcast_to([[temperature], [device.cap - temperature]], (2, len(home))),
                *(board.clusters[boards.ON][home, at], n_cores[home]),
                *(np.full(len(home), n_cores.sum()), np.full(len(home), np.log(capacity))),
            ]
        ).astype(float)

    def _memories(self, row: boards.Indices) -> tuple[Floats, boards.Indices]:
        """Features of each cache and of the memory, (n_caches + 1, 5); the cache of each core."""
        device, n_cores = self.board.device, row[1::2]
        total = n_cores.sum()
        ways, bandwidth = self.board.allocations[row[0]]
        by_cluster = device.shared_by == "cluster"
        sharers = n_cores if by_cluster else np.array([total])
        caches = len(sharers)
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
        return memory, self.cluster if by_cluster else np.zeros_like(self.cluster)

    def _placed(
        self, row: boards.Indices, temperature: float, active: NDArray[np.bool_]
    ) -> tuple[boards.Indices, Floats]:
        """Core of each task by a list schedule, and the task's share of the makespan."""
        trace = boards.placements(self.graph, self.board.arrays, row, temperature)
        free_at = np.where(active, 0.0, np.inf)
        placed = np.empty(len(trace), dtype=np.int64)
        for task in np.argsort(trace[:, boards.START], kind="stable"):
            candidates = np.where(self.cluster == trace[task, boards.CLUSTER], free_at, np.inf)
            core = int(candidates.argmin())
            placed[task], free_at[core] = core, trace[task, boards.END]
        return placed, (trace[:, boards.END] - trace[:, boards.START]) / trace[:, boards.END].max()
