"""Sets of periodic tasks that share a platform: drawn at random, as tables and as TOML files.

A task runs the work of one profile once a period, and has to be done when the next period
begins (implicit deadlines).  Its reference utilisation is its longest observed execution time in
the largest context, its ``wcet``, divided by its period.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
import xarray as xr

from msbgen.core.draws import generator
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.core.records import (
    Listed,
    Name,
    NotNegative,
    Positive,
    Seconds,
    check_fields,
    checks_arguments,
    record,
)
from msbgen.data.columns import Table
from msbgen.data.files import replace_file
from msbgen.data.profiles import Profiles
from msbgen.data.schema import (
    same_level,
)
from msbgen.data.toml import read_toml
from msbgen.systems.phases.grid import Cores

# Utilisations of single tasks are drawn from this range.
_UTILISATION = (0.1, 0.4)
# A remaining utilisation below this is rounding.
_LEAST = 1e-9


@dataclass(frozen=True)
class Task:
    """A periodic task with implicit deadline.

    Attributes
    ----------
    profile : str
        Name of the profile whose phase table and runs the task has.
    period : float
        [s]
    wcet : float or None
        Longest measured execution time in the largest context [s], or None if unknown.
    """

    name: Name
    profile: Name
    period: Seconds
    wcet: Seconds | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def utilisation(self) -> float:
        """Reference utilisation; :class:`ArgumentError` where ``wcet`` is not known."""
        if self.wcet is None:
            raise ArgumentError(
                f"wcet of task '{self.name}' is not given; its longest execution time in the "
                f"largest context is wanted."
            )
        return self.wcet / self.period


@dataclass(frozen=True)
class TaskSet:
    """Periodic tasks, and the cores and shared resources they run on.

    Attributes
    ----------
    capacity : dict of str to float
        Total of each shared resource [its units].
    minima : dict of str to float
        Least amount on every core; the lowest level by default.
    """

    cores: Cores
    capacity: dict[str, NotNegative]
    tasks: Annotated[tuple[Task, ...], Listed()] = field(metadata={"key": "task"})
    minima: dict[str, NotNegative] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_fields(self)
        names = [task.name for task in self.tasks]
        again = next((name for name in names if names.count(name) > 1), None)
        if again is not None:
            raise ArgumentError(f"name '{again}' is given to two tasks; one name each is wanted.")

    @property
    def utilisation(self) -> float:
        """Sum of the reference utilisations."""
        return sum(task.utilisation for task in self.tasks)

    @checks_arguments
    def scaled(self, utilisation: Positive) -> TaskSet:
        """The same set with all periods scaled to another reference utilisation."""
        factor = self.utilisation / utilisation
        tasks = tuple(replace(task, period=task.period * factor) for task in self.tasks)
        return replace(self, tasks=tasks)

    def write(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write a TOML file, whole or not at all; FileExistsError unless `overwrite`."""
        lines = [f"cores = {self.cores}"]
        for table, amounts in (("capacity", self.capacity), ("minima", self.minima)):
            if amounts or table == "capacity":
                lines += ["", f"[{table}]"]
            lines += [f"{_key(name)} = {_number(amount)}" for name, amount in amounts.items()]
        for task in self.tasks:
            lines += ["", "[[task]]", f"name = {_text(task.name)}"]
            lines += [f"profile = {_text(task.profile)}", f"period = {_number(task.period)}"]
            lines += [] if task.wcet is None else [f"wcet = {_number(task.wcet)}"]
        with replace_file(path, overwrite=overwrite) as partial:
            partial.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _text(text: str) -> str:
    """A TOML basic string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'


def _key(name: str) -> str:
    return name if name.isascii() and name.replace("_", "").isalnum() else _text(name)


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))


def read_task_set(path: str | os.PathLike[str]) -> TaskSet:
    """Read a task set from a TOML file.

    Keys are ``cores``, tables ``capacity`` and ``minima`` (amount of each shared resource), and
    an array of tables ``task`` with ``profile``, ``period`` [s], and if wanted ``name`` and
    ``wcet`` [s].

    Raises
    ------
    ProfileError
        No such file, no TOML, a key missing or unknown, an invalid value.
    """
    path, content = read_toml(path)
    tables = content.get("task")
    if isinstance(tables, list):
        content["task"] = [_named(table, number) for number, table in enumerate(tables)]
    return record(TaskSet, content, path.name)


def _named(table: Any, number: int) -> Any:
    """The table of a task with its name, by default that of its profile and its number."""
    if not isinstance(table, dict):
        return table
    return {"name": f"{table.get('profile')}-{number}", **table}


def read_tasks(path: str | os.PathLike[str], wcet: Mapping[str, float]) -> tuple[Task, ...]:
    """Tasks of a table with the columns ``profile``, ``period [s]`` and, optional, ``name``.

    `wcet` is the longest execution time of each profile in the largest context [s].

    Raises
    ------
    ProfileError
        No such file; a column is missing or unknown, a period is not positive, a profile is not in
        `wcet`, or two tasks have one name.
    """
    table = Table(path, needed=("profile", "period"), known=("name", "profile", "period"))
    profiles, periods = table.texts("profile"), table.seconds("period", 1e-12, 1e12).tolist()
    for row, profile in enumerate(profiles):
        if profile not in wcet:
            table.refuse("profile", row, f"one of {', '.join(wcet)} is wanted")
    drawn = [f"{profile}-{row}" for row, profile in enumerate(profiles)]
    names = table.texts("name") if "name" in table.names else drawn
    for row, title in enumerate(names):
        if not title or title in names[:row]:
            table.refuse("name", row, "one name for each task is wanted")
    rows = zip(names, profiles, periods)
    return tuple(Task(title, profile, period, wcet[profile]) for title, profile, period in rows)


def reference_wcet(dataset: xr.Dataset) -> float:
    """Longest observed execution time in the largest context [s].

    :class:`ProfileError` where no context has the highest level of every resource.
    """
    profiles = Profiles.of(dataset)
    columns = zip(profiles.resources.values(), profiles.contexts.T)
    highest = [float(np.max(attrs.get("levels", column))) for attrs, column in columns]
    rows = np.flatnonzero(same_level(profiles.contexts, highest).all(axis=1))
    if not len(rows):
        raise ProfileError(
            f"{profiles.source}: no context has the highest level of every resource; its "
            f"execution time is the reference and wanted."
        )
    return float(np.nanmax(profiles.duration[rows[0]]))


def highest_levels(profiles: Sequence[xr.Dataset]) -> dict[str, float]:
    """Highest level of each resource in any of the profiles, but of the cores' clocks."""
    highest: dict[str, float] = {}
    for each in map(Profiles.of, profiles):
        for (resource, attrs), column in zip(each.resources.items(), each.contexts.T):
            if not str(attrs.get("units", "")).endswith("Hz"):
                most = float(np.max(attrs.get("levels", column)))
                highest[resource] = max(highest.get(resource, 0.0), most)
    return highest


@checks_arguments
def draw_task_set(
    wcet: Mapping[str, Seconds],
    utilisation: Positive,
    *,
    cores: Cores,
    capacity: Mapping[str, NotNegative],
    minima: Mapping[str, NotNegative] | None = None,
    rng: np.random.Generator | int = 0,
) -> TaskSet:
    """Random task set with a given sum of reference utilisations.

    Each task has a uniformly drawn profile, and a utilisation drawn uniformly from 0.1 to 0.4.  The
    last task gets the remaining utilisation.

    Parameters
    ----------
    wcet : mapping of str to float
        Longest execution time of each profile in the largest context [s].
    utilisation : float
        Wanted sum, at most the number of cores.
    cores, capacity, minima
        As of :class:`TaskSet`.

    Raises
    ------
    ArgumentError
        No profile; a utilisation that is not positive or exceeds the cores.
    """
    if not wcet:
        raise ArgumentError("profiles are none; one or more is wanted.")
    if utilisation > cores:
        raise ArgumentError(
            f"utilisation is {utilisation}; a number above 0, up to the {cores} cores, is wanted."
        )
    draw, names = generator(rng), list(wcet)
    tasks: list[Task] = []
    left = float(utilisation)
    while not tasks or left > _LEAST:
        share = min(float(draw.uniform(*_UTILISATION)), left)
        profile = names[int(draw.integers(len(names)))]
        name = f"{profile}-{len(tasks)}"
        tasks.append(Task(name, profile, wcet[profile] / share, wcet[profile]))
        left -= share
    return TaskSet(cores, dict(capacity), tuple(tasks), dict(minima or {}))
