"""What families of graphs are made with: operations, and tasks that wait for tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from msbgen.core.errors import ArgumentError


@dataclass(frozen=True)
class TaskTemplate:
    """What a task of a family does.

    Attributes
    ----------
    kind : str
        The program whose profile it runs as.
    work : float
        Runs of it.
    loops : int
        Loops nested in its code.
    spread : float
        Standard deviation of the logarithm of its work, where that depends on data.
    """

    kind: str
    work: float
    loops: int = 1
    spread: float = 0.0


@dataclass
class GraphBuilder:
    """A graph while it is being drawn.

    Attributes
    ----------
    operations : mapping of str to TaskTemplate
    rng : numpy.random.Generator
    most : int
        Tasks that it may have.
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
            Its operation, then what tells it from others behind a dash: ``gemm-0-1-2``.
        after : iterable of int
            What it waits for; who is named twice counts once.
        by : {"data", "spawn", "join"}
            Type of those edges.
        work : float
            Times that of its operation.
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
    """A sort of graphs.

    Attributes
    ----------
    name : str
    shape : callable
        Adds the tasks of a size to a program.
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
