"""Building blocks of families of graphs: task templates and a builder of graphs."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from msbgen.core.errors import ArgumentError

# Edges of a graph; more than these take minutes and gigabytes.
MOST_EDGES = 10**6


@dataclass(frozen=True)
class TaskTemplate:
    """Kind and work of the tasks of one operation of a family.

    The work is in runs of the kind; `loops` is the depth of nested loops in the code, and `spread`
    the standard deviation of the logarithm of the work, if that depends on data.
    """

    kind: str
    work: float
    loops: int = 1
    spread: float = 0.0


@dataclass
class GraphBuilder:
    """Tasks and edges of a graph under construction, with at most `most` tasks."""

    operations: Mapping[str, TaskTemplate]
    rng: np.random.Generator
    most: int
    names: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    works: list[float] = field(default_factory=list)
    loops: list[int] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    _tiles: dict[tuple[int, int], int] = field(default_factory=dict)

    def add(
        self, name: str, after: Iterable[int] = (), *, by: str = "data", work: float = 1.0
    ) -> int:
        """Add a task behind others; returns its number.

        The name is that of the operation, a dash, and a distinct suffix, as ``gemm-0-1-2``.  Edges
        from the tasks `after` have the type `by`; duplicates count once.  `work` is a factor of the
        operation's work.
        """
        if len(self.names) >= self.most:
            raise ArgumentError(f"size makes more than {self.most} tasks; a smaller one is wanted.")
        after = list(dict.fromkeys(after))
        self.check_edges(len(self.edges) + len(after))
        operation = self.operations[name.partition("-")[0]]
        factor = np.exp(operation.spread * self.rng.standard_normal()) if operation.spread else 1.0
        number = len(self.names)
        for source in after:
            self.edges.append((source, number))
            self.types.append(by)
        self.names.append(name)
        self.kinds.append(operation.kind)
        self.works.append(operation.work * work * float(factor))
        self.loops.append(operation.loops)
        return number

    def check_edges(self, count: int) -> None:
        """Raise where so many edges would be too many."""
        if count > MOST_EDGES:
            raise ArgumentError(
                f"size makes more than {MOST_EDGES} edges; a smaller one is wanted."
            )

    def add_tile(self, name: str, tile: tuple[int, int], *reads: tuple[int, int]) -> None:
        """Add a task that writes a tile, behind the last writers of that tile and of those read."""
        after = [self._tiles[t] for t in (tile, *reads) if t in self._tiles]
        self._tiles[tile] = self.add(name, after)


@dataclass(frozen=True)
class Family:
    """A family of graphs: `shape` adds the tasks of a size to a builder; sizes ascend."""

    name: str
    shape: Callable[[GraphBuilder, int], None]
    sizes: tuple[int, ...]
    operations: Mapping[str, TaskTemplate]

    def draw(self, size: int, rng: np.random.Generator, most: int) -> GraphBuilder:
        """Draw a graph of a size, of at most so many tasks."""
        program = GraphBuilder(self.operations, rng, most)
        self.shape(program, size)
        return program
