"""Tasks and edges of a file, by name, each with its place in the file for messages."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xarray as xr

from msbgen.core.errors import ArgumentError, ProfileError, quoted
from msbgen.data.columns import NUMBER
from msbgen.systems.graphs.dataset import EDGE_TYPES, TASK_NUMBERS
from msbgen.systems.graphs.dataset import make as make_graph

# Numbers of a task in a file, besides name and kind.
NUMBERS = ("work", *TASK_NUMBERS)


@dataclass(frozen=True)
class GraphTask:
    """A task of a file: any of :data:`NUMBERS`, and its place in the file for messages, as ``line
    3``.
    """

    name: str
    kind: str
    numbers: dict[str, float]
    place: str


@dataclass(frozen=True)
class GraphEdge:
    """An edge of a file between named tasks; ``amount`` is the data that it hands over [B]."""

    source: str
    target: str
    place: str
    type: str = "data"
    amount: float | None = None


@dataclass
class GraphRecords:
    """Tasks and edges of a file; `source` is its name for messages."""

    source: str
    tasks: list[GraphTask] = field(default_factory=list)
    edges: list[GraphEdge] = field(default_factory=list)
    name: str = ""
    family: str = ""
    doubts: list[str] = field(default_factory=list)  # sentences about what was read

    def graph(self) -> xr.Dataset:
        """The graph.  Works of tasks with times only are relative to the mean of their kind."""
        number: dict[str, int] = {}
        for i, task in enumerate(self.tasks):
            if task.name in number:
                first = self.tasks[number[task.name]].place
                raise self.error(
                    f"{task.place}: task '{shown(task.name)}' is there already, {first}"
                )
            number[task.name] = i
        if not self.tasks:
            raise self.error("there are no tasks; one or more is wanted")
        pairs: dict[tuple[int, int], GraphEdge] = {}
        for edge in self.edges:
            for name in (edge.source, edge.target):
                if name not in number:
                    raise self.error(
                        f"{edge.place}: the edge '{shown(edge.source)}' → '{shown(edge.target)}' "
                        f"leads nowhere: there is no task '{shown(name)}'; list it or drop the edge"
                    )
            first = pairs.setdefault((number[edge.source], number[edge.target]), edge)
            if (first.type, first.amount) != (edge.type, edge.amount):
                raise self.error(
                    f"{edge.place}: the edge '{shown(edge.source)}' → '{shown(edge.target)}' is "
                    f"there already, {first.place}, with another type or bytes; drop one of them"
                )
        columns = self._columns()
        kinds = [task.kind for task in self.tasks]
        work = columns.pop("work", None)
        if work is None:
            time = columns["time"]
            mean = {kind: np.mean(time[np.array(kinds) == kind]) for kind in set(kinds)}
            work = time / np.array([mean[kind] for kind in kinds])
        amounts = [edge.amount for edge in pairs.values()]
        numbers = [amount for amount in amounts if amount is not None]
        try:
            return make_graph(
                kinds, work, list(pairs), names=[task.name for task in self.tasks],
                types=[edge.type for edge in pairs.values()],
                edge_bytes=numbers if numbers and len(numbers) == len(amounts) else None,
                name=self.name or self.source.partition(".")[0], family=self.family, **columns,
            )  # fmt: skip
        except ArgumentError as error:
            raise ProfileError(f"{self.source}: {error}") from None

    def _columns(self) -> dict[str, Any]:
        """Numbers that all tasks have, (n,) each."""
        columns: dict[str, Any] = {}
        for key in NUMBERS:
            having = [key in task.numbers for task in self.tasks]
            if not any(having):
                continue
            if not all(having):
                task = self.tasks[having.index(False)]
                raise self.error(
                    f"{task.place}: task '{shown(task.name)}' has no '{key}', though others have; "
                    f"give it one"
                )
            columns[key] = np.array([task.numbers[key] for task in self.tasks])
            least = {"work": 1e-12, **{k: v.least for k, v in TASK_NUMBERS.items()}}[key]
            for task, value in zip(self.tasks, columns[key]):
                if not least <= value < float("inf"):
                    wanted = "a positive number" if least > 0 else "a number from 0 on"
                    raise self.error(
                        f"{task.place}: '{key}' of task '{shown(task.name)}' is {value:g}; "
                        f"{wanted} is wanted"
                    )
        if "work" not in columns and "time" not in columns:
            task = self.tasks[0]
            raise self.error(
                f"{task.place}: task '{shown(task.name)}' has neither 'work' [runs of its kind] "
                f"nor 'time' [s]; one of them is wanted"
            )
        return columns

    def number(self, value: Any, key: str, place: str) -> float:
        """A number from text or JSON."""
        if isinstance(value, str):
            value = float(value) if NUMBER.fullmatch(value) else value
        if not isinstance(value, bool) and isinstance(value, (int, float)):
            with suppress(OverflowError):
                return float(value)
        raise self.error(f"{place}: '{key}' is {shown(value)!r}; a number is wanted")

    def edge_type(self, value: Any, place: str) -> str:
        """Type of an edge, checked."""
        if value not in EDGE_TYPES:
            raise self.error(
                f"{place}: the edge's type is {shown(value)!r}; {', '.join(EDGE_TYPES)} are known"
            )
        return str(value)

    def error(self, sentence: str) -> ProfileError:
        """A ProfileError that names the file."""
        return ProfileError(f"{self.source}: {sentence}{'' if sentence.endswith('?') else '.'}")


def shown(value: Any) -> str:
    """A value of a file for a message: shortened, on one line."""
    return quoted(str(value))[1:-1]


def checked(
    value: Any,
    kind: type | tuple[type, ...],
    wanted: str,
    place: str,
    fail: Callable[[str], Exception],
) -> Any:
    """A part of a JSON document, checked for its type."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        state = "missing" if value is None else f"{shown(repr(value))}"
        raise fail(f"{place} is {state}; {wanted} is wanted")
    return value


def only(keys: Sequence[str], known: Sequence[str], place: str, records: GraphRecords) -> None:
    """Check that all keys are known."""
    import difflib

    for key in keys:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, 1)
            hint = f"did you mean '{near[0]}'?" if near else f"{', '.join(known)} are"
            raise records.error(f"{place}: '{shown(key)}' is no known key; {hint}")
