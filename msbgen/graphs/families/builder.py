"""Building blocks of families of graphs: task templates and a builder of graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from msbgen.core.errors import ArgumentError


@dataclass(frozen=True)
class TaskTemplate:
    """Kind and work of the tasks of one operation of a family.

    Attributes
    ----------
    kind : str
        Program whose profile the tasks have.
    work : float
        In runs of the kind.
    loops : int
        Depth of nested loops in the code.
    spread : float
        Standard deviation of the logarithm of the work, if it depends on data.
    """

    kind: str
    work: float
    loops: int = 1
    spread: float = 0.0


@dataclass
class GraphBuilder:
    """Tasks and edges of a graph under construction.

    Attributes
    ----------
    operations : mapping of str to TaskTemplate
    rng : numpy.random.Generator
    most : int
        Most tasks.
    """

    operations: Mapping[str, TaskTemplate]
    rng: np.random.Generator
    most: int
    names: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    works: list[float] = field(default_factory=list)
    loops: list[int] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)
    types: list[str] = field(default_factory=list)

    def add(
        self, name: str, after: Iterable[int] = (), *, by: str = "data", work: float = 1.0
    ) -> int:
        """Add a task; returns its number.

        Parameters
        ----------
        name : str
            Its operation, a dash, and a distinct suffix: ``gemm-0-1-2``.
        after : iterable of int
            Predecessors; duplicates count once.
        by : {"data", "spawn", "join"}
            Type of the edges from them.
        work : float
            Factor of the work of the operation.
        """
        if len(self.names) >= self.most:
            raise ArgumentError(f"size makes more than {self.most} tasks; a smaller one is wanted.")
        operation = self.operations[name.partition("-")[0]]
        factor = np.exp(operation.spread * self.rng.standard_normal()) if operation.spread else 1.0
        number = len(self.names)
        for source in dict.fromkeys(after):
            self.edges.append((source, number))
            self.types.append(by)
        self.names.append(name)
        self.kinds.append(operation.kind)
        self.works.append(operation.work * work * float(factor))
        self.loops.append(operation.loops)
        return number


@dataclass(frozen=True)
class Family:
    """A family of graphs.

    Attributes
    ----------
    name : str
    shape : callable
        Adds the tasks of a size to a builder.
    sizes : tuple of int
        Sizes that make about 10 to 200 tasks, ascending.
    operations : mapping of str to TaskTemplate
    """

    name: str
    shape: Callable[[GraphBuilder, int], None]
    sizes: tuple[int, ...]
    operations: Mapping[str, TaskTemplate]

    def draw(self, size: int, rng: np.random.Generator, most: int) -> GraphBuilder:
        """Draw a graph of a size."""
        program = GraphBuilder(self.operations, rng, most)
        self.shape(program, size)
        return program
