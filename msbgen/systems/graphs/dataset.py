"""Datasets of task graphs: the parts of a parallel program, and which of them wait for which.

A task graph is a plain :class:`xarray.Dataset` over ``task`` and ``edge`` with the variables that
:data:`SCHEMA` declares.  The target of an edge waits for its source.  Tasks are named by the
coordinate ``task``; edges refer to them by number.  Attributes: ``name``, and ``family`` where
several graphs are of one sort, which evaluations of predictors leave out as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import ArgumentError, ProfileError, printable
from msbgen.data.profiles import Profiles
from msbgen.data.variables import Schema, Variable

GRAPH_SCHEMA = "msbgen-graph/1"
EDGE_TYPES = ("spawn", "join", "data")

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

_MOST = 1e25
# Variables that follow from edges, works and times.
_DERIVED = ("depth", "distance_to_sink", "critical", "hops")
# Paths whose lengths differ by this share are equally long.
_ROUNDING = 1e-9
# Times that exceed those of the profiles by this factor, or fall below, are in another unit.
_OTHER_UNIT = 300.0
# Names that a message lists.
_LISTED = 8


def _task(name: str, unit: str, meaning: str, least: float = 0.0, most: float = _MOST) -> Variable:
    return Variable(name, ("task",), "number", unit, meaning, least, most, optional=True)


# Numbers that a task may have beside its work; each for every task of a graph or for none.
TASK_NUMBERS = {
    variable.name: variable
    for variable in (
        _task("time", "s", "time alone on the reference", 1e-12),
        _task("bcet", "s", "least execution time", 1e-12),
        _task("wcet", "s", "longest execution time", 1e-12),
        _task("loops", "1", "loops nested in the code", most=1e6),
        _task("bytes", "B", "bytes moved between memory and caches"),
        _task("branch_entropy", "bit", "unpredictability of branches", most=1.0),
    )
}


def _problems(graph: xr.Dataset) -> Iterator[str]:
    """Sentences about names, the structure of the graph, and what does not follow from it."""
    names = graph["task"].values.astype(str)
    structure = list(_structure_problems(names.tolist(), edges_of(graph)))
    yield from structure
    if structure:
        return
    for name in ("name", "family"):
        if not isinstance(graph.attrs.get(name, ""), str):
            yield f"attribute '{name}' is {graph.attrs[name]!r}; a text is wanted."
    if "bcet" in graph and "wcet" in graph:
        bad = graph["bcet"].values > graph["wcet"].values
        if bad.any():
            yield f"'bcet' of task '{names[int(np.argmax(bad))]}' is above its 'wcet'; correct one."
    edges = list(_edge_problems(graph, names))
    yield from edges
    if edges:
        return
    for name, values in _paths(graph).items():
        if not np.array_equal(graph[name].values, values):
            yield f"variable '{name}' does not follow from the edges; make the graph again."


SCHEMA = Schema(
    GRAPH_SCHEMA,
    "a task graph",
    ("task",),
    (
        Variable("task", ("task",), "text", meaning="names", coordinate=True),
        Variable(
            "kind", ("task",), "text", meaning="task whose profile has the rates", filled=True,
            remedy="name its profile",
        ),
        replace(_task("work", "1", "runs of the kind's profile", 1e-12), optional=False),
        Variable("depth", ("task",), "whole", meaning="edges from the farthest source"),
        Variable("distance_to_sink", ("task",), "whole", meaning="edges to the farthest sink"),
        *TASK_NUMBERS.values(),
        Variable("source", ("edge",), "whole", meaning="source of the edge"),
        Variable("target", ("edge",), "whole", meaning="target of the edge"),
        Variable("type", ("edge",), "text", meaning="spawn, join or data"),
        Variable("critical", ("edge",), "whole", meaning="on a longest path", dtype="int8"),
        Variable("hops", ("edge",), "whole", meaning="depths spanned"),
        Variable(
            "edge_bytes", ("edge",), "number", "B", "bytes handed over", 0.0, _MOST, optional=True
        ),
    ),
    check=_problems,
    remedy="make the graph again",
    compression=0,
)  # fmt: skip


def make(
    kind: Sequence[str],
    work: ArrayLike,
    edges: Sequence[tuple[int, int]] | Indices,
    *,
    names: Sequence[str] | None = None,
    types: Sequence[str] | None = None,
    edge_bytes: ArrayLike | None = None,
    name: str = "graph",
    family: str = "",
    **numbers: ArrayLike | None,
) -> xr.Dataset:
    """Put labels on arrays, and add what follows from them: depths, distances, critical edges.

    Parameters
    ----------
    kind : sequence of str, (n,)
    work : array_like, (n,)
        Whole runs of the kind's profile [1].
    edges : sequence of pairs of int, (m, 2)
        Numbers of source and target.
    names : sequence of str, (n,)
        ``t0``, ``t1``... where not given.
    types : sequence of str, (m,)
        ``data`` where not given.
    edge_bytes : array_like, (m,)
        [B]
    **numbers : array_like, (n,) each
        Any of :data:`TASK_NUMBERS`; None counts as not given.

    Returns
    -------
    xarray.Dataset
        Valid.

    Raises
    ------
    ArgumentError
        Arrays of other lengths, an unknown name of numbers, or what :data:`SCHEMA` refuses.

    Examples
    --------
    >>> graph = make(["gzip"] * 3, [0.1, 0.2, 0.1], [(0, 1), (0, 2)])
    >>> graph["depth"].values, graph["critical"].values
    (array([0, 1, 1]), array([1, 0], dtype=int8))
    """
    n = len(kind)
    if isinstance(edges, np.ndarray) and edges.ndim != 2:
        raise ArgumentError(f"edges have shape {edges.shape}; a row of two tasks each is wanted.")
    pairs = np.array([tuple(edge) for edge in edges], dtype=np.int64).reshape(-1, 2)
    titles = [f"t{i}" for i in range(n)] if names is None else list(map(str, names))
    given = {key: values for key, values in numbers.items() if values is not None}
    for key in given:
        if key not in TASK_NUMBERS:
            raise ArgumentError(f"'{key}' is no number of a task; {', '.join(TASK_NUMBERS)} are.")
    arrays = {"work": np.asarray(work, dtype=float)}
    arrays |= {key: np.asarray(values, dtype=float) for key, values in given.items()}
    for key, array in {**arrays, "names": np.array(titles, dtype=object)}.items():
        if array.shape != (n,):
            raise ArgumentError(f"{key} has shape {array.shape}; one for each of {n} tasks is it.")
    words = ["data"] * len(pairs) if types is None else list(map(str, types))
    if len(words) != len(pairs):
        raise ArgumentError(f"types are {len(words)} for {len(pairs)} edges; one each is wanted.")
    problems = list(_structure_problems(titles, pairs))
    if problems:
        raise ArgumentError(problems[0])
    values = {"kind": kind, "task": titles, "type": words, "edge_bytes": edge_bytes, **arrays}
    values |= {"source": pairs[:, 0], "target": pairs[:, 1]}
    try:
        bare = SCHEMA.dataset(values, {"name": name, "family": family})
        with np.errstate(over="ignore"):  # what is that large is refused next
            return SCHEMA.validate(_with_paths(bare), name)
    except ProfileError as error:
        raise ArgumentError(error.problems[0]) from None


def _with_paths(graph: xr.Dataset) -> xr.Dataset:
    """The graph with the variables that follow from its edges, works and times, computed anew."""
    return graph.assign({k: SCHEMA[k].entry(v, units="1") for k, v in _paths(graph).items()})


def _paths(graph: xr.Dataset) -> dict[str, NDArray[Any]]:
    """Values of the variables that follow from the edges, works and times, by name."""
    weight = graph["time" if "time" in graph else "work"].values.astype(float)
    pairs = edges_of(graph)
    n = len(weight)
    order = topological_order(n, pairs)
    one = np.ones(n)
    depth, sink = longest_paths(order, pairs, one), longest_paths(order[::-1], pairs[:, ::-1], one)
    before = longest_paths(order, pairs, weight)
    after = longest_paths(order[::-1], pairs[:, ::-1], weight) + weight
    through = before[pairs[:, 0]] + weight[pairs[:, 0]] + after[pairs[:, 1]]
    longest = float(np.max(before + after, initial=0.0))
    critical = through >= longest * (1.0 - _ROUNDING)
    return dict(zip(_DERIVED, (depth, sink, critical, np.diff(depth[pairs], axis=1)[:, 0])))


def longest_paths(order: Indices, pairs: Indices, weight: Floats) -> Floats:
    """Heaviest path that ends before each task, the tasks on it weighing so much, (n,)."""
    found = np.zeros(len(order))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    for source, target in pairs[np.argsort(place[pairs[:, 0]], kind="stable")].tolist():
        found[target] = max(found[target], found[source] + weight[source])
    return found


def topological_order(n_tasks: int, pairs: Indices) -> Indices:
    """Tasks so that each stands behind all that it waits for, the first number first, (n,).

    Of tasks in a cycle none is listed, nor any that waits for them.
    """
    waits = np.bincount(pairs[:, 1], minlength=n_tasks).tolist()
    after: list[list[int]] = [[] for _ in range(n_tasks)]
    for source, target in pairs.tolist():
        after[source].append(target)
    order = [i for i in range(n_tasks) if waits[i] == 0]
    for task in order:  # grows while it is walked
        for target in after[task]:
            waits[target] -= 1
            if waits[target] == 0:
                order.append(target)
    return np.array(order, dtype=np.int64)


def edges_of(graph: xr.Dataset) -> Indices:
    """Source and target of every edge, (m, 2)."""
    return np.stack([graph["source"].values, graph["target"].values], axis=1).astype(np.int64)


def kinds_of(graph: xr.Dataset) -> list[str]:
    """Kind of every task."""
    return [str(kind) for kind in graph["kind"].values]


def graph_name(graph: xr.Dataset) -> str:
    """Name of a graph in messages: its file, if it was read from one, else its name."""
    source = graph.encoding.get("source")
    return Path(source).name if source else str(graph.attrs.get("name", "graph"))


def describe(graph: xr.Dataset) -> str:
    """A summary of a valid graph, in a few lines."""
    work = graph["work"].values
    kinds, counts = np.unique(kinds_of(graph), return_counts=True)
    types, each = np.unique(graph["type"].values.astype(str), return_counts=True)
    of_type = ", ".join(f"{count} {kind}" for kind, count in zip(types, each))
    before = graph["depth"].values
    family = graph.attrs.get("family") or "none: its own, where families are held back"
    lines = [
        f"tasks      {len(work)} of {len(kinds)} kinds: "
        + ", ".join(f"{count} {kind}" for kind, count in zip(kinds, counts)),
        f"edges      {graph.sizes['edge']}{f' ({of_type})' if of_type else ''}, "
        f"{int(graph['critical'].values.sum())} critical",
        f"work       {work.sum():.4g} runs, a task from {work.min():.3g} to {work.max():.3g}",
        f"depth      {before.max() + 1} tasks, at most {np.bincount(before).max()} at one depth",
    ]
    if "time" in graph:
        time = graph["time"].values
        lines.append(
            f"time       {time.sum():.4g} s, a task from {time.min():.3g} to {time.max():.3g} s"
        )
    return "\n".join(map(printable, [*lines, f"family     {family}"]))


def with_times(graph: xr.Dataset, profiles: Mapping[str, xr.Dataset]) -> xr.Dataset:
    """The graph with ``time``, ``bcet`` and ``wcet`` of its tasks, as their kinds' profiles say.

    Parameters
    ----------
    profiles : mapping of str to xarray.Dataset
        Of every kind.  ``time`` is the work times the mean duration in the largest context,
        ``bcet`` and ``wcet`` the work times the shortest and longest duration in any.

    Raises
    ------
    ProfileError
        A kind without profile.
    """
    kinds = kinds_of(graph)
    found = {}
    for kind in dict.fromkeys(kinds):
        if kind not in profiles:
            raise ProfileError(lacking_kind(graph, kind, list(profiles)))
        record = Profiles.of(profiles[kind])
        duration, contexts = record.duration, record.contexts
        largest = int(np.lexsort(contexts.T[::-1])[-1])
        reach = np.nanmin(duration), np.nanmax(duration)
        found[kind] = (float(np.nanmean(duration[largest])), *map(float, reach))
    each = np.array([found[kind] for kind in kinds]).T * graph["work"].values
    variables: dict[str, Any] = {}
    for key, values in zip(("time", "bcet", "wcet"), each):
        variables[key] = TASK_NUMBERS[key].entry(values)
    return _with_paths(graph.assign(variables))


def times_are_shares(graph: xr.Dataset) -> bool:
    """Whether works are only shares of the mean time of the kind.

    That is what readers make of tasks with times alone; how long a task takes is then up to the
    profile of its kind.
    """
    if "time" not in graph or "bcet" in graph:  # with limits they are those of profiles
        return False
    time, which = graph["time"].values, np.unique(kinds_of(graph), return_inverse=True)[1]
    which = which.reshape(-1)
    mean = np.bincount(which, weights=time) / np.bincount(which)
    return bool(np.allclose(graph["work"].values, time / mean[which], rtol=1e-6, atol=0.0))


def with_profiles(
    graph: xr.Dataset, profiles: Mapping[str, xr.Dataset], kinds: Mapping[str, str] | None = None
) -> xr.Dataset:
    """The graph with works for which its tasks take their measured ``time``.

    Parameters
    ----------
    graph : xarray.Dataset
        With ``time``: a workflow that was recorded, say.
    profiles : mapping of str to xarray.Dataset
        The work of a task becomes its time over its kind's mean duration in the largest context.
    kinds : mapping of str to str
        Which profile a kind takes; of its own name where not given.

    Raises
    ------
    ArgumentError
        The graph has no times.
    ProfileError
        A kind without profile; times in another unit than those of the profile of the same name.
    """
    if "time" not in graph:
        raise ArgumentError(f"{graph_name(graph)} has no 'time'; times of its tasks are wanted.")
    chosen = [(kinds or {}).get(kind, kind) for kind in kinds_of(graph)]
    named = graph.assign(kind=("task", np.array(chosen, dtype=str)))
    timed = with_times(named, profiles)
    # a stand-in may take as long as it likes; what bears its own name takes about as long as it
    same = np.array(chosen) == np.array(kinds_of(graph))
    if same.any():
        limits = timed["bcet"].values[same], timed["wcet"].values[same]
        problems = list(other_time_unit(graph.isel(task=same), *limits))
        if problems:
            raise ProfileError(*problems)
    unit = with_times(
        named.assign(work=("task", np.ones(len(chosen)), graph["work"].attrs)), profiles
    )
    work = graph["time"].values / unit["time"].values
    return with_times(named.assign(work=("task", work, graph["work"].attrs)), profiles)


def lacking_kind(graph: xr.Dataset, kind: str, known: Sequence[str]) -> str:
    """Sentence about a kind without a profile."""
    import difflib

    task = str(graph["task"].values[kinds_of(graph).index(kind)])
    near = difflib.get_close_matches(kind, known, 1)
    hint = (
        f"did you mean '{near[0]}'?" if near else f"one of {', '.join(known) or 'none'} is wanted."
    )
    return f"{graph_name(graph)}: task '{task}' is of kind '{kind}', which has no profile; {hint}"


def other_time_unit(graph: xr.Dataset, shortest: Floats, longest: Floats) -> Iterator[str]:
    """One sentence if a graph's times are plainly in another unit than those of its profiles.

    `shortest` and `longest`, (n,), are the limits of the time of each task over all contexts [s].
    """
    for name in ("time", "bcet", "wcet"):
        if name not in graph:
            continue
        given = graph[name].values
        ratio = np.median(given / np.clip(given, shortest, longest))
        if not 1 / _OTHER_UNIT < ratio < _OTHER_UNIT:
            task = str(graph["task"].values[0])
            yield (
                f"{graph_name(graph)}: '{name}' of task '{task}' is {given[0]:g} s, and all tasks' "
                f"about {ratio:.1g} times what their profiles take; seconds are wanted (in ms they "
                f"would be a thousand times too large)."
            )


# --------------------------------------------------------------------------- problems


def _structure_problems(names: Sequence[str], pairs: Indices) -> Iterator[str]:
    """Sentences about tasks named twice, edges to nowhere, and a cycle."""
    seen: dict[str, int] = {}
    for i, name in enumerate(names):
        if name in seen:
            yield f"task '{name}' is listed twice, as number {seen[name]} and {i}; rename one."
            return
        seen[name] = i
    bad = (pairs < 0) | (pairs >= len(names))
    if bad.any():
        row, end = map(int, np.argwhere(bad)[0])
        yield (
            f"edge {row} {('comes from', 'leads to')[end]} task number {pairs[row, end]}, which is "
            f"not there; 0 to {len(names) - 1} are wanted."
        )
        return
    cycle = find_cycle(len(names), pairs)
    if cycle:
        shown = [names[i] for i in cycle[:_LISTED]] + (["…"] if len(cycle) > _LISTED else [])
        circle = " → ".join([*shown, names[cycle[0]]])
        yield f"tasks wait for each other in a circle: {circle}; drop one of its edges."


def find_cycle(n_tasks: int, pairs: Indices) -> list[int]:
    """Tasks of a cycle in the order of its edges; none where there is no cycle."""
    sorted_out = np.zeros(n_tasks, dtype=bool)
    sorted_out[topological_order(n_tasks, pairs)] = True
    if sorted_out.all():
        return []
    # a task outside the order has a predecessor outside of it: walk back until one recurs
    waits_for = {t: s for s, t in pairs.tolist() if not (sorted_out[s] or sorted_out[t])}
    at, path = int(np.argmin(sorted_out)), {}
    while at not in path:
        path[at] = len(path)
        at = waits_for[at]
    walked = list(path)[path[at] :]
    first = walked.index(min(walked))
    return [walked[first], *reversed(walked[first + 1 :]), *reversed(walked[:first])]


def _edge_problems(ds: xr.Dataset, names: NDArray[np.str_]) -> Iterator[str]:
    types = ds["type"].values.astype(str)
    unknown = ~np.isin(types, EDGE_TYPES)
    pairs = edges_of(ds)
    if unknown.any():
        row = int(np.argmax(unknown))
        ends = " → ".join(f"'{names[i]}'" for i in pairs[row])
        yield f"edge {ends} is of type '{types[row]}'; {', '.join(EDGE_TYPES)} are known."
    if len(np.unique(pairs, axis=0)) < len(pairs):
        _, first, counts = np.unique(pairs, axis=0, return_index=True, return_counts=True)
        ends = " → ".join(f"'{names[i]}'" for i in pairs[first[int(np.argmax(counts > 1))]])
        yield f"edge {ends} is listed twice; drop one."
