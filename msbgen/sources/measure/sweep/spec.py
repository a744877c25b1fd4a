"""The spec of a sweep, read from TOML: command, resources with levels, contexts, runs.

::

    command = ["xz", "-k", "-c", "-1", "input.bin"]
    events = ["task-clock", "page-faults"] # in perf's names
    runs = 5                               # of each context

    [resources.cpu_share]
    by = "quota"                           # the actuator, one of `ACTUATOR_KINDS`
    levels = [10, 25, 50, 75, 100]

    [variants.fast]                        # programs to compare; each gets a profile file
    command = ["xz", "-k", "-c", "-0", "input.bin"]

:class:`Spec` describes every key and its default.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from msbgen.core.durations import parse_seconds
from msbgen.core.errors import ArgumentError, ProfileError, quoted
from msbgen.core.records import check_keys
from msbgen.data.files import check_input
from msbgen.data.schema import RESERVED, level_text
from msbgen.data.tables import Groups
from msbgen.data.toml import read_toml
from msbgen.sources.measure.dataset import RUN_METADATA, counter_names_of

# The values of a resource's key `by`.
ACTUATOR_KINDS = (
    "quota", "ways", "bandwidth", "clock", "memguard", "argument", "environment", "cores",
    "memory", "io", "priority", "hook", "pressure",
)  # fmt: skip
# Keys of a resource beside `by` and `levels`, and the actuators that have them.
_KEYS: dict[str, tuple[str, ...]] = {
    "period": ("quota",),
    "direction": ("memguard", "io"),
    "units": ("argument", "environment", "hook"),
    "name": ("environment",),
    "device": ("io",),
    "command": ("hook",),
    "what": ("pressure",),
    "cores": ("pressure",),
}
# Actuators whose levels may be words, and those whose numbers may be zero or negative.
_TAKE_WORDS = ("argument", "environment", "cores", "priority", "hook")
_TAKE_ANY_NUMBER = ("argument", "environment", "priority", "hook")
# Actuators of which a lower level does not make a run longer in proportion.
NO_LIMITS = (*_TAKE_ANY_NUMBER, "memory", "pressure")
# What stressors press with, each a resource.
_PRESSURES = ("bandwidth", "working set")
_MOST = 1_000_000
# Largest level, below which numbers have a thousandth of a unit.
_MOST_LEVEL = 1e12
# Keys that change no run. The digest holds the contexts themselves, not the key's text.
_NOT_IN_DIGEST = ("contexts", "progress", "seconds", "at_once")
# Keys added later: they are in the digest only where set, so that older journals can be resumed.
_IN_DIGEST_IF_SET = ("keep_cut", "labels", "units", "target", "variants", "beside")
# Keys of a variant, and its name, which is a part of a file's name.
_VARIANT_KEYS = ("command", "folder", "environment")
_VARIANT_NAME = re.compile(r"\w[\w.-]{0,63}", re.ASCII)
# Cores, as taskset lists them.
_CORES = re.compile(r"\d{1,5}(-\d{1,5})?(,\d{1,5}(-\d{1,5})?)*")
# Characters of an event for which perf counts several others, with names of their own.
_WILDCARD = re.compile(r"[*?{,]")


@dataclass(frozen=True)
class ResourceSpec:
    """One resource and the actuator that sets it."""

    name: str
    by: str  # the actuator, one of `ACTUATOR_KINDS`
    levels: tuple[float, ...]  # every level that contexts may have, in ascending order
    period: float | None = None  # of a CPU quota [s]; None for the sampling interval
    direction: str = "read"  # the limit that MemGuard or io sets: read or write
    labels: tuple[str, ...] = ()  # words for the levels 1, 2, …; empty where levels are numbers
    units: str = ""  # of an argument, a variable or a hook
    target: str = ""  # name of a variable, file of a device or hook, what a stressor presses with
    beside: tuple[
        int, ...
    ] = ()  # cores of the stressors; empty for the first that the program has not

    def text(self, level: float) -> str:
        """A level as the program gets it: its word, or all digits of its number."""
        return level_text(level, self.labels)

    def core_sets(self) -> dict[float, tuple[int, ...]]:
        """Cores of each word such as ``0-2,5``; empty where levels are numbers of cores."""
        return dict(zip(self.levels, map(_cores, self.labels)))


@dataclass(frozen=True)
class Variant:
    """A program to compare with others of the sweep: what differs between them."""

    name: str
    command: tuple[str, ...]
    folder: str
    stdin: str
    environment: dict[str, str]  # with the variables of all variants


@dataclass(frozen=True)
class Spec:
    """What a sweep measures, and how."""

    command: tuple[str, ...]  # program and arguments
    resources: tuple[ResourceSpec, ...]
    task: str = ""  # name of the task; by default that of the program
    folder: str = "."  # working directory of the command, relative to the spec's file
    stdin: str = os.devnull  # of the command, relative to `folder`
    environment: dict[str, str] = field(default_factory=dict)  # variables that are added to ours
    interval: float = 0.01  # sampling interval [s], whole milliseconds
    # events to count, in perf's names, including tracepoints and probes that exist
    events: tuple[str, ...] = ("task-clock", "page-faults", "context-switches")
    # counter that measures the progress of a run; None: ``instructions``, else CPU time
    progress: str | None = None
    # ``all``, ``grid:5x3``, or a CSV file, such as a plan, relative to the spec's file
    contexts: str = "all"
    runs: int = 5  # of each context, unless the CSV file has a column ``runs``
    warmups: int = 1  # runs before the first one that are not kept
    retries: int = 1  # how often a failed run is repeated
    seed: int = 0  # of the random order of all runs
    # cores that the program is pinned to; by default the last core that we may use
    cores: tuple[int, ...] = ()
    # number of events in one run, including the progress counter: the runs of a context count
    # different groups in turn, but groups in a plan take precedence; None: all events
    at_once: int | None = None
    cooldown: float = 0.0  # pause before each run [s]
    timeout: float = 600.0  # longest duration of a run [s]
    # whether a run that the timeout ended is kept as incomplete instead of repeated
    keep_cut: bool = False
    # approximate duration of a run at the highest levels [s], for the estimate of a dry run
    seconds: float | None = None
    # two or more programs, whose runs are interleaved; empty for one, that of this spec
    variants: tuple[Variant, ...] = ()

    def hooks(self) -> list[str]:
        """Executables that set levels."""
        return [resource.target for resource in self.resources if resource.by == "hook"]

    def programs(self) -> dict[str, Spec]:
        """A spec for each variant by its name; this spec, under the name "", if there are none."""
        return {
            v.name: replace(
                self, variants=(), command=v.command, folder=v.folder, stdin=v.stdin,
                environment=v.environment,
            )
            for v in self.variants
        } or {"": self}  # fmt: skip

    def digest(
        self,
        contexts: Sequence[Sequence[float]],
        runs: Sequence[int],
        groups: Sequence[Groups] = (),
    ) -> str:
        """Digest of everything that determines the runs: this spec, contexts, runs and groups."""
        given = asdict(self, dict_factory=_given)
        whole: list[Any] = [given, [list(row) for row in contexts], [int(n) for n in runs]]
        if any(groups):
            whole.append(groups)
        return hashlib.blake2b(
            json.dumps(whole, sort_keys=True).encode(), digest_size=16
        ).hexdigest()

    def command_in(self, context: Sequence[float]) -> tuple[str, ...]:
        """The command of a context, with its arguments in place of their names."""
        texts = {
            f"{{{resource.name}}}": resource.text(level)
            for resource, level in zip(self.resources, context)
            if resource.by == "argument"
        }
        if not texts:
            return self.command
        names = re.compile("|".join(map(re.escape, texts)))
        return tuple(names.sub(lambda found: texts[found[0]], word) for word in self.command)

    def environment_in(self, context: Sequence[float]) -> dict[str, str]:
        """The environment variables of a context that are added to ours."""
        pairs = zip(self.resources, context)
        levels = {r.target: r.text(level) for r, level in pairs if r.by == "environment"}
        return {**self.environment, **levels}

    def describe(self, context: Sequence[float]) -> str:
        """A context in words: ``threads=2, mode=fast``."""
        return ", ".join(f"{r.name}={r.text(level)}" for r, level in zip(self.resources, context))


def _given(items: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The keys of a spec or a resource that are in the digest."""
    return {
        key: value
        for key, value in items
        if key not in _NOT_IN_DIGEST and not (key in _IN_DIGEST_IF_SET and not value)
    }


def read_spec(path: str | os.PathLike[str]) -> Spec:
    """The spec in a TOML file; ProfileError for a key that is missing, unknown or invalid."""
    path, content = read_toml(path)
    return _spec(content, path)


def _spec(content: Mapping[str, Any], path: Path) -> Spec:
    at = path.name
    keys = list(Spec.__dataclass_fields__)
    variants = _variant_tables(content, at)
    check_keys(content, keys, ("resources",) if variants else ("command", "resources"), at)
    read = SpecTable(content, at)
    base = path.resolve().parent
    programs = [_program(name, t, content, base, at) for name, t in (variants or {"": {}}).items()]
    own = programs[0]
    resources = _resources(content["resources"], [p.command for p in programs], base, at)
    contexts = read.text("contexts", Spec.contexts)
    if contexts != "all" and not contexts.startswith("grid:"):
        contexts = str(base / contexts)
    events = read.names("events", Spec.events)
    return Spec(
        command=own.command,
        resources=resources,
        task=read.text("task", re.sub(r"[{}]", "", Path(own.command[0]).name)),
        folder=own.folder,
        stdin=own.stdin,
        environment=own.environment,
        interval=_interval(read, at),
        events=events,
        progress=_progress(read, events, resources, at),
        contexts=contexts,
        runs=read.whole("runs", Spec.runs, least=1),
        warmups=read.whole("warmups", Spec.warmups),
        retries=read.whole("retries", Spec.retries),
        seed=read.whole("seed", Spec.seed),
        cores=read.cores("cores"),
        at_once=read.whole("at_once", 1, least=1) if "at_once" in content else None,
        cooldown=read.seconds("cooldown", Spec.cooldown),
        timeout=read.seconds("timeout", Spec.timeout, least=0.01),
        keep_cut=read.flag("keep_cut"),
        seconds=read.seconds("seconds", 0.0) or None,
        variants=tuple(programs) if variants else (),
    )


def _variant_tables(content: Mapping[str, Any], at: str) -> dict[str, dict[str, Any]]:
    """The tables of the variants by name; none for one program."""
    tables = content.get("variants", {})
    if "variants" in content and (not isinstance(tables, dict) or len(tables) < 2):
        raise ProfileError(
            f"{at}: 'variants' is {quoted(tables)}; two or more tables '[variants.NAME]' are "
            f"wanted."
        )
    for name, table in tables.items():
        where = f"{at}, variant {quoted(name)}"
        if not _VARIANT_NAME.fullmatch(name):
            raise ProfileError(f"{where}: a name of letters, digits, '_', '-' and '.' is wanted.")
        if not isinstance(table, dict):
            raise ProfileError(f"{where}: is {quoted(table)}; a table is wanted.")
        check_keys(table, _VARIANT_KEYS, () if "command" in content else ("command",), where)
    return tables


def _program(
    name: str, table: Mapping[str, Any], content: Mapping[str, Any], base: Path, at: str
) -> Variant:
    """The program of a variant, or that of a spec without variants."""
    at = f"{at}, variant '{name}'" if name else at
    given = {**content, **table}
    read = SpecTable(given, at)
    folder = str(base / read.text("folder", Spec.folder))
    if not Path(folder).is_dir():
        raise ProfileError(f"{at}: 'folder' is '{folder}'; an existing folder is wanted.")
    stdin = str(Path(folder) / read.text("stdin", Spec.stdin))
    if stdin != os.devnull:
        check_input(stdin)
    environment = {**SpecTable(content, at).table("environment"), **read.table("environment")}
    return Variant(name, _command(given["command"], at), folder, stdin, environment)


def _interval(read: SpecTable, at: str) -> float:
    """Sampling interval [s]; perf accepts whole milliseconds only."""
    seconds = read.seconds("interval", Spec.interval, least=0.001)
    if abs(1000 * seconds - round(1000 * seconds)) > 1e-9 * seconds:
        raise ProfileError(f"{at}: 'interval' is {seconds:g} s; whole milliseconds are wanted.")
    return round(1000 * seconds) / 1000


def _progress(
    read: SpecTable, events: Sequence[str], resources: Sequence[ResourceSpec], at: str
) -> str | None:
    """Progress counter, by its name as a counter or as an event; checked before the first run."""
    wanted = read.text("progress", "") or None
    counters = counter_names_of(events, [*(r.name for r in resources), *RUN_METADATA])
    accepted = [None, "time", *events, *counters]
    if wanted in accepted or any(map(_WILDCARD.search, events)):
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
                f"{at}: 'command' cannot be split into words ({error}); a list is wanted."
            ) from None
    strings = isinstance(value, list) and all(isinstance(word, str) for word in value)
    if not strings or not value or not value[0] or any("\0" in word for word in value):
        raise ProfileError(
            f"{at}: 'command' is {quoted(value)}; a program and its arguments are wanted."
        )
    return tuple(value)


def _resources(
    tables: Any, commands: Sequence[Sequence[str]], base: Path, at: str
) -> tuple[ResourceSpec, ...]:
    if not isinstance(tables, dict) or not tables:
        raise ProfileError(
            f"{at}: 'resources' is {quoted(tables)}; a table '[resources.NAME]' is wanted."
        )
    found = []
    for name, table in tables.items():
        where = f"{at}, resource '{name}'"
        if (
            name in (*RESERVED, *RUN_METADATA)
            or not name.isidentifier()
            or name.endswith("_achieved")
        ):
            raise ProfileError(
                f"{where}: a name of letters, digits and underscores, none that msbgen reserves, "
                f"is wanted."
            )
        if not isinstance(table, dict):
            raise ProfileError(
                f"{where}: is {quoted(table)}; a table with 'by' and 'levels' is wanted."
            )
        check_keys(table, ("by", "levels", *_KEYS), ("by", "levels"), where)
        read = SpecTable(table, where)
        by = read.text("by", "")
        if by not in ACTUATOR_KINDS:
            raise ProfileError(
                f"{where}: 'by' is '{by}'; {', '.join(ACTUATOR_KINDS)} are known{_near(by)}."
            )
        for key, owners in _KEYS.items():
            if key in table and by not in owners:
                raise ProfileError(
                    f"{where}: '{key}' belongs to {', '.join(map(repr, owners))}; drop it."
                )
        levels, labels = _levels(table["levels"], by, where)
        direction = read.text("direction", "read")
        if direction not in ("read", "write"):
            raise ProfileError(f"{where}: 'direction' is '{direction}'; read or write is wanted.")
        period, units = read.seconds("period", 0.0) or None, read.text("units", "1")
        target = _target(read, by, base, where)
        units = units if by in _KEYS["units"] else ""
        beside = read.cores("cores")
        found.append(
            ResourceSpec(name, by, levels, period, direction, labels, units, target, beside)
        )
        named = all(any(f"{{{name}}}" in word for word in command) for command in commands)
        if by == "argument" and not named:
            raise ProfileError(f"{where}: '{{{name}}}' is nowhere in 'command'; put it there.")
    same = [
        (r.by, r.direction, r.name if r.by == "argument" else r.target if r.by != "io" else "")
        for r in found
    ]
    if len(set(same)) < len(same):
        raise ProfileError(f"{at}: two resources are set by the same actuator; one each is wanted.")
    return tuple(found)


def _levels(given: Any, by: str, where: str) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """Levels in ascending order and no words, or 1, 2, … and their words."""
    values = given if isinstance(given, list) else []
    words = [v for v in values if isinstance(v, str) and v.strip() == v != "" and v.isprintable()]
    numbers = [
        float(v)
        for v in values
        if isinstance(v, (int, float)) and not isinstance(v, bool) and abs(v) < _MOST_LEVEL
    ]
    if by not in _TAKE_ANY_NUMBER:
        numbers = [v for v in numbers if v > 0 or (by == "pressure" and v == 0)]
    wanted = "distinct numbers" if by in _TAKE_ANY_NUMBER else "distinct positive numbers"
    wanted += f" below {_MOST_LEVEL:g}"
    if by == "pressure":
        wanted += ", or 0 for no stressor,"
    if by in _TAKE_WORDS:
        wanted += ", or distinct words,"
        if by == "cores":
            wanted += " such as '0-2,5'"
            words = [word for word in words if _cores(word)]
        if words and len(words) == len(values) == len(set(words)):
            return tuple(map(float, range(1, len(words) + 1))), tuple(words)
    if not numbers or len(numbers) != len(values) or len(set(numbers)) < len(numbers):
        raise ProfileError(f"{where}: 'levels' are {quoted(given)}; {wanted} are wanted.")
    return tuple(sorted(numbers)), ()


def _target(read: SpecTable, by: str, base: Path, where: str) -> str:
    """Name of a variable, path of a hook or device, what a stressor presses with, or empty."""
    if by == "pressure":
        what = read.text("what", _PRESSURES[0])
        if what not in _PRESSURES:
            raise ProfileError(
                f"{where}: 'what' is '{what}'; {' or '.join(map(repr, _PRESSURES))} is wanted."
            )
        return what
    if by == "environment":
        name = read.text("name", "")
        if not name or "=" in name:
            raise ProfileError(f"{where}: 'name' is '{name}'; that of a variable is wanted.")
        return name
    if by == "hook":
        hook = base / read.text("command", "")
        if not (hook.is_file() and os.access(hook, os.X_OK)):
            raise ProfileError(f"{where}: 'command' is '{hook}'; an executable file is wanted.")
        return str(hook)
    return str(base / read.text("device", ".")) if by == "io" else ""


def _cores(label: str) -> tuple[int, ...]:
    """Distinct cores of a list such as ``0-2,5``; none if it is no such list."""
    if not _CORES.fullmatch(label):
        return ()
    ends = (part.partition("-") for part in label.split(","))
    ranges = (range(int(first), int(last or first) + 1) for first, _, last in ends)
    return tuple(dict.fromkeys(core for cores in ranges for core in cores))


def _near(word: str) -> str:
    near = difflib.get_close_matches(word, ACTUATOR_KINDS, 1)
    return f"; did you mean '{near[0]}'?" if near else ""


class SpecTable:
    """Values of a TOML table, each checked for its type and range."""

    def __init__(self, table: Mapping[str, Any], where: str):
        self._table, self._where = table, where

    def _refuse(self, key: str, wanted: str) -> ProfileError:
        return ProfileError(
            f"{self._where}: '{key}' is {quoted(self._table[key])}; {wanted} is wanted."
        )

    def text(self, key: str, default: str) -> str:
        """Text, not empty."""
        value = self._table.get(key, default)
        if not isinstance(value, str) or "\0" in value or (key in self._table and not value):
            raise self._refuse(key, "a text that is not empty")
        return value

    def whole(self, key: str, default: int, least: int = 0) -> int:
        """Whole number."""
        value = self._table.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _MOST:
            raise self._refuse(key, f"a whole number from {least} to {_MOST}")
        return value

    def flag(self, key: str) -> bool:
        """True or false; false by default."""
        value = self._table.get(key, False)
        if not isinstance(value, bool):
            raise self._refuse(key, "true or false")
        return value

    def seconds(self, key: str, default: float, least: float = 0.0) -> float:
        """Time [s]."""
        value = self._table.get(key, default)
        number = value if isinstance(value, (int, float)) else _seconds(value)
        if isinstance(value, bool) or not least <= number < 1e7:
            raise self._refuse(key, f"a time of {least:g} s or more, as 2s, 500ms or 5min")
        return float(number)

    def names(self, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        """Distinct names, one or more."""
        value = self._table.get(key, list(default))
        listed = isinstance(value, list) and all(isinstance(v, str) and v.strip() for v in value)
        if not listed or not value or len(set(value)) < len(value):
            raise self._refuse(key, "a list of distinct names")
        return tuple(value)

    def cores(self, key: str) -> tuple[int, ...]:
        """Distinct core numbers."""
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
    """Time [s]; -1 if the text is no time."""
    try:
        return parse_seconds(text) if isinstance(text, str) else -1.0
    except ArgumentError:
        return -1.0
