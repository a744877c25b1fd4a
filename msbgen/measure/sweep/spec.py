"""What to measure: a command, resources with their levels, contexts, runs; as a TOML file.

::

    task = "xz"                            # the program's name if left out
    command = ["xz", "-k", "-c", "-1", "input.bin"]
    events = ["task-clock", "page-faults"] # as perf names them
    runs = 5                               # of each context
    cores = [1]                            # that the program is pinned to

    [resources.cpu_share]
    by = "quota"                           # quota, ways, bandwidth, clock, memguard
    levels = [10, 25, 50, 75, 100]

All other keys have defaults; see :class:`Spec`.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from msbgen.core.durations import parse_seconds
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.data.files import check_input
from msbgen.data.schema import RESERVED
from msbgen.data.tables import Groups
from msbgen.data.toml import check_keys, read_toml
from msbgen.measure.dataset import RUN_METADATA, counter_names_of

# What gives a resource, by the word of a spec.
ACTUATOR_KINDS = ("quota", "ways", "bandwidth", "clock", "memguard")
_RESOURCE_KEYS = ("by", "levels", "period", "direction")
_MOST = 1_000_000
# Keys that change no run; contexts are told apart as they were read.
_OF_NO_RUN = ("contexts", "progress", "seconds", "at_once")
# Keys that journals begun before them do not know: told only where they are given.
_LATER = ("keep_cut",)
# Events in whose place perf counts others.
_SEVERAL = re.compile(r"[*?{,]")


@dataclass(frozen=True)
class ResourceSpec:
    """One resource and how it is given.

    Attributes
    ----------
    name : str
    by : str
        One of :data:`ACTUATOR_KINDS`.
    levels : tuple of float
        Every level that contexts may have, rising.
    period : float or None
        Of a quota [s]; the sampling interval, where it is not given.
    direction : str
        Which limit MemGuard sets, read or write.
    """

    name: str
    by: str
    levels: tuple[float, ...]
    period: float | None = None
    direction: str = "read"


@dataclass(frozen=True)
class Spec:
    """What to measure.

    Attributes
    ----------
    command : tuple of str
        Program and arguments.
    resources : tuple of ResourceSpec
    task : str
        Name of the task; the program's, where it is not given.
    folder : str
        Where the command runs, relative to the spec's file.
    stdin : str
        File that it reads from its standard input, relative to `folder`.
    environment : dict of str to str
        Variables that it has beside ours.
    interval : float
        Sampling interval [s].
    events : tuple of str
        What is counted, in perf's names; tracepoints and probes that exist count, too.
    progress : str or None
        Counter that tells the progress of a run: ``instructions`` where they are counted, else
        CPU time, where it is not given.
    contexts : str
        ``all``, ``grid:5x3``, or a CSV file, such as a plan with its runs; relative to the file.
    runs : int
        Of each context, where the CSV does not say.
    warmups : int
        Runs before the first that are not kept.
    retries : int
        How often a failed run is tried again.
    seed : int
        Of the order of all runs.
    cores : tuple of int
        That the program is pinned to; the last one of ours, where none is given.
    at_once : int or None
        Events that fit into a run, the clock of progress among them: groups of them take turns; a
        plan's own groups come before.  Every run counts all, where it is not given.
    cooldown, timeout : float
        Pause before each run, and longest duration of one [s].
    keep_cut : bool
        Whether runs that the timeout ended are kept, as cut ones, in the place of trying again.
    seconds : float or None
        How long a run takes at the highest levels, about: for the time that a dry run tells [s].
    """

    command: tuple[str, ...]
    resources: tuple[ResourceSpec, ...]
    task: str = ""
    folder: str = "."
    stdin: str = os.devnull
    environment: dict[str, str] = field(default_factory=dict)
    interval: float = 0.01
    events: tuple[str, ...] = ("task-clock", "page-faults", "context-switches")
    progress: str | None = None
    contexts: str = "all"
    runs: int = 5
    warmups: int = 1
    retries: int = 1
    seed: int = 0
    cores: tuple[int, ...] = ()
    at_once: int | None = None
    cooldown: float = 0.0
    timeout: float = 600.0
    keep_cut: bool = False
    seconds: float | None = None

    def digest(
        self,
        contexts: Sequence[Sequence[float]],
        runs: Sequence[int],
        groups: Sequence[Groups] = (),
    ) -> str:
        """What tells runs of this spec, with contexts and groups, from those of every other one."""
        given = {
            key: value
            for key, value in asdict(self).items()
            if key not in _OF_NO_RUN and not (key in _LATER and not value)
        }
        whole: list[Any] = [given, [list(row) for row in contexts], [int(n) for n in runs]]
        if any(groups):
            whole.append(groups)
        return hashlib.blake2b(
            json.dumps(whole, sort_keys=True).encode(), digest_size=16
        ).hexdigest()


def read_spec(path: str | os.PathLike[str]) -> Spec:
    """Read a spec.

    Raises
    ------
    ProfileError
        No such file, no TOML, a key missing or unknown, a value that makes no sense.
    """
    path, content = read_toml(path)
    return _spec(content, path)


def _spec(content: Mapping[str, Any], path: Path) -> Spec:
    at = path.name
    keys = list(Spec.__dataclass_fields__)
    check_keys(content, keys, ("command", "resources"), at)
    read = SpecTable(content, at)
    command = _command(content["command"], at)
    resources = _resources(content["resources"], at)
    base = path.resolve().parent
    folder = str(base / read.text("folder", "."))
    if not Path(folder).is_dir():
        raise ProfileError(
            f"{at}: 'folder' is '{folder}', which is none; an existing one is wanted."
        )
    stdin = str(Path(folder) / read.text("stdin", os.devnull))
    if stdin != os.devnull:
        check_input(stdin)
    contexts = read.text("contexts", "all")
    if contexts != "all" and not contexts.startswith("grid:"):
        contexts = str(base / contexts)
    events = read.names("events", Spec.events)
    return Spec(
        command=command,
        resources=resources,
        task=read.text("task", Path(command[0]).name),
        folder=folder,
        stdin=stdin,
        environment=read.table("environment"),
        interval=_interval(read, at),
        events=events,
        progress=_progress(read, events, resources, at),
        contexts=contexts,
        runs=read.whole("runs", 5, least=1),
        warmups=read.whole("warmups", 1),
        retries=read.whole("retries", 1),
        seed=read.whole("seed", 0),
        cores=read.cores("cores"),
        at_once=read.whole("at_once", 1, least=1) if "at_once" in content else None,
        cooldown=read.seconds("cooldown", 0.0),
        timeout=read.seconds("timeout", 600.0, least=0.01),
        keep_cut=read.flag("keep_cut"),
        seconds=read.seconds("seconds", 0.0) or None,
    )


def _interval(read: SpecTable, at: str) -> float:
    """perf takes whole milliseconds."""
    seconds = read.seconds("interval", 0.01, least=0.001)
    if abs(1000 * seconds - round(1000 * seconds)) > 1e-9 * seconds:
        raise ProfileError(f"{at}: 'interval' is {seconds:g} s; whole milliseconds are wanted.")
    return round(1000 * seconds) / 1000


def _progress(
    read: SpecTable, events: Sequence[str], resources: Sequence[ResourceSpec], at: str
) -> str | None:
    """A counter of the events, by either of its names; refused now, not after the last run."""
    wanted = read.text("progress", "") or None
    counters = counter_names_of(events, [*(r.name for r in resources), *RUN_METADATA])
    known = ["time", *events, *counters]
    if wanted is None or wanted in known or any(map(_SEVERAL.search, events)):
        return wanted
    raise ProfileError(
        f"{at}: 'progress' is '{wanted}', which is not counted; {', '.join(events)} or time is "
        f"wanted."
    )


def _command(value: Any, at: str) -> tuple[str, ...]:
    if isinstance(value, str):
        try:
            value = shlex.split(value)
        except ValueError as error:
            raise ProfileError(
                f"{at}: 'command' is no command ({error}); a list is wanted."
            ) from None
    strings = isinstance(value, list) and all(isinstance(word, str) for word in value)
    if not strings or not value or not value[0] or any("\0" in word for word in value):
        raise ProfileError(f"{at}: 'command' is {value!r}; a program and its arguments are wanted.")
    return tuple(value)


def _resources(tables: Any, at: str) -> tuple[ResourceSpec, ...]:
    if not isinstance(tables, dict) or not tables:
        raise ProfileError(
            f"{at}: 'resources' is {tables!r}; a table '[resources.NAME]' is wanted."
        )
    found = []
    for name, table in tables.items():
        where = f"{at}, resource '{name}'"
        if name in RESERVED or not name.isidentifier() or name.endswith("_achieved"):
            raise ProfileError(
                f"{where}: a name of letters, digits and underscores, none of msbgen's own, is "
                f"wanted."
            )
        if not isinstance(table, dict):
            raise ProfileError(f"{where}: is {table!r}; a table with 'by' and 'levels' is wanted.")
        check_keys(table, _RESOURCE_KEYS, ("by", "levels"), where)
        read = SpecTable(table, where)
        by = read.text("by", "")
        if by not in ACTUATOR_KINDS:
            raise ProfileError(
                f"{where}: 'by' is '{by}'; {', '.join(ACTUATOR_KINDS)} are known{_near(by)}."
            )
        levels = table["levels"]
        numbers = isinstance(levels, list) and all(
            isinstance(v, (int, float)) and not isinstance(v, bool) and 0 < v < 1e12 for v in levels
        )
        if not numbers or not levels or len(set(levels)) < len(levels):
            raise ProfileError(
                f"{where}: 'levels' are {levels!r}; distinct positive numbers are wanted."
            )
        period = read.seconds("period", 0.0) or None
        direction = read.text("direction", "read")
        if (period and by != "quota") or ("direction" in table and by != "memguard"):
            raise ProfileError(
                f"{where}: 'period' belongs to 'quota' and 'direction' to 'memguard'; drop it."
            )
        if direction not in ("read", "write"):
            raise ProfileError(f"{where}: 'direction' is '{direction}'; read or write is wanted.")
        found.append(ResourceSpec(name, by, tuple(sorted(map(float, levels))), period, direction))
    same = [(r.by, r.direction) for r in found]
    if len(set(same)) < len(same):
        raise ProfileError(f"{at}: two resources are set by the same means; one each is wanted.")
    return tuple(found)


def _near(word: str) -> str:
    near = difflib.get_close_matches(word, ACTUATOR_KINDS, 1)
    return f"; did you mean '{near[0]}'?" if near else ""


class SpecTable:
    """Values of a table, each of its kind, or a sentence."""

    def __init__(self, table: Mapping[str, Any], where: str):
        self._table, self._where = table, where

    def _refuse(self, key: str, wanted: str) -> ProfileError:
        return ProfileError(f"{self._where}: '{key}' is {self._table[key]!r}; {wanted} is wanted.")

    def text(self, key: str, default: str) -> str:
        """A text that is not empty."""
        value = self._table.get(key, default)
        if not isinstance(value, str) or "\0" in value or (key in self._table and not value):
            raise self._refuse(key, "a text")
        return value

    def whole(self, key: str, default: int, least: int = 0) -> int:
        """A whole number."""
        value = self._table.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MOST:
            raise self._refuse(key, f"a whole number from {least} to {_MOST}")
        return value

    def flag(self, key: str) -> bool:
        """Yes or no; no where it is not given."""
        value = self._table.get(key, False)
        if not isinstance(value, bool):
            raise self._refuse(key, "true or false")
        return value

    def seconds(self, key: str, default: float, least: float = 0.0) -> float:
        """A time [s]."""
        value = self._table.get(key, default)
        number = value if isinstance(value, (int, float)) else _seconds(value)
        if isinstance(value, bool) or not least <= number < 1e7:
            raise self._refuse(key, f"a time of {least:g} s or more, as 2s, 500ms or 5min")
        return float(number)

    def names(self, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """Distinct names."""
        value = self._table.get(key, list(default))
        listed = isinstance(value, list) and all(isinstance(v, str) and v.strip() for v in value)
        if not listed or not value or len(set(value)) < len(value):
            raise self._refuse(key, "a list of distinct names")
        return tuple(value)

    def cores(self, key: str) -> tuple[int, ...]:
        """Distinct numbers of cores."""
        value = self._table.get(key, [])
        listed = isinstance(value, list) and all(
            isinstance(v, int) and not isinstance(v, bool) and 0 <= v < 65536 for v in value
        )
        if not listed or len(set(value)) < len(value):
            raise self._refuse(key, "a list of distinct core numbers")
        return tuple(value)

    def table(self, key: str) -> dict[str, str]:
        """Texts by name."""
        value = self._table.get(key, {})
        if not isinstance(value, dict) or not all(
            isinstance(v, str) and "\0" not in v and k and "=" not in k for k, v in value.items()
        ):
            raise self._refuse(key, "a table of texts")
        return dict(value)


def _seconds(text: Any) -> float:
    """A time in seconds; -1 where it is none."""
    try:
        return parse_seconds(text) if isinstance(text, str) else -1.0
    except ArgumentError:
        return -1.0
