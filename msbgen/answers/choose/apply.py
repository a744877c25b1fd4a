"""Text that sets chosen contexts on a machine, to review before it runs.

Forms: ``resctrl`` (schemata of Linux), ``pqos`` (Intel's tool), ``goresctrl`` (YAML of containers'
runtimes), ``cgroup`` (control groups, version 2) and ``cpufreq`` (clocks of cores).  Each form sets
some resources; the others are named in a comment.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from msbgen.core.errors import ArgumentError, MeasurementError, printable, quoted
from msbgen.data.schema import labels_of, level_text

_RESCTRL, _CGROUP, _CPU = "/sys/fs/resctrl", "/sys/fs/cgroup", "/sys/devices/system/cpu"
_HERTZ = {"Hz": 1e-3, "kHz": 1.0, "MHz": 1e3, "GHz": 1e6}  # in kHz
_BANDWIDTHS = ("MB s-1", "MiB s-1", "0.125 GB s-1")
_UNITS = {"clock": tuple(_HERTZ), "bandwidth": (*_BANDWIDTHS, "percent", "%")}
_SETTABLE = (
    "one of ways [1], bandwidth [percent, MB s-1], clock [MHz], quota [percent] and memory [MiB]"
)
# Levels that can be set, in the units above; of a clock in kHz.
_RANGES = {
    "ways": (1, 64),
    "bandwidth": (1e-3, 1e9),
    "quota": (0.01, 1e6),
    "memory": (1e-3, 1e12),
    "clock": (1, 1e9),
}
# Beginnings of the mechanisms that `msbgen measure` notes, and what they set.
_MECHANISMS = (
    (r"resctrl L3", "ways"),
    (r"resctrl MB", "bandwidth"),
    (r"cgroup v\d quota", "quota"),
    (r"cgroup v\d memory", "memory"),
    (r"cpufreq", "clock"),
)
# Period of a quota where none is known [µs], and a bandwidth that limits nothing [MB/s].
_PERIOD, _UNLIMITED = 100_000, 100_000
# Periods that the kernel takes [µs].
_PERIODS = (1_000, 1_000_000)


@dataclass(frozen=True)
class TaskLevels:
    """The levels chosen for one task, and the attributes of its resources."""

    task: str
    levels: Mapping[str, float]
    attrs: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class _Settings:
    """What a form sets for one task."""

    group: str  # a name for folders and classes
    mask: int | None  # of cache ways
    bandwidth: tuple[int, str] | None  # level, rounded up, and its unit
    clock: int | None  # [kHz]
    quota: tuple[int, int] | None  # quota and period [µs]
    memory: int | None  # [B]


def apply_text(form: str, tasks: Sequence[TaskLevels], *, caches: Sequence[int] = (0,)) -> str:
    """Commands or a configuration that set the levels of tasks.

    Cache ways are given from the lowest bit on; those of several tasks do not overlap if the cache
    has enough.  `caches` are the numbers of the caches, as in ``/sys/fs/resctrl/schemata``.

    Raises
    ------
    ArgumentError
        An unknown form, one that sets none of the resources, or a cache that is given twice.
    MeasurementError
        A level or a unit that the machine cannot be set to.
    """
    if form not in FORMS:
        raise ArgumentError(f"form is {form!r}; one of {', '.join(FORMS)} is wanted.")
    if len(set(caches)) < len(caches):
        raise ArgumentError(f"caches are {quoted(list(caches))}; each number once is wanted.")
    kinds, write = FORMS[form]
    known = [{n: actuator_of(n, task.attrs[n]) for n in task.levels} for task in tasks]
    if not any(kind in kinds for each in known for kind in each.values()):
        others = {f for f, (sets, _) in FORMS.items() for e in known if {*sets} & {*e.values()}}
        own = ", ".join(f"{n} [{tasks[0].attrs[n].get('units', '1')}]" for n in known[0])
        raise ArgumentError(
            f"{form} sets none of {own}; {' or '.join(sorted(others)) or _SETTABLE} is wanted."
        )
    known = [{n: kind if kind in kinds else "" for n, kind in each.items()} for each in known]
    for task, each in zip(tasks, known):
        _check_levels(task, {name: kind for name, kind in each.items() if kind})
    lines = ["# Review before use."]
    settings, notes = _settings(tasks, known)
    for task, each, held in zip(tasks, known, settings):
        parts = [_described(task, name, bool(each[name])) for name in task.levels]
        same = held.group == task.task
        title = held.group if same else f"{held.group} ({printable(task.task, 60)})"
        lines.append(f"# {title}: {', '.join(parts)}")
    return "\n".join([*lines, *notes, *write(settings, tuple(caches))]) + "\n"


def actuator_of(name: str, attrs: Mapping[str, Any]) -> str:
    """What sets a resource: ways, bandwidth, clock, quota or memory; empty if it is not known.

    It is found from the attribute ``mechanism`` that `msbgen measure` writes, else from the name
    and the unit.

    Examples
    --------
    >>> actuator_of("cache_ways", {"units": "1"}), actuator_of("frequency", {"units": "GHz"})
    ('ways', 'clock')
    """
    mechanism, units = str(attrs.get("mechanism", "")), str(attrs.get("units", "1"))
    if labels_of(attrs):
        return ""
    if mechanism:
        return next((kind for start, kind in _MECHANISMS if re.match(start, mechanism)), "")
    if units in _HERTZ:
        return "clock"
    if units == "1" and "way" in name:
        return "ways"
    if (units in _BANDWIDTHS or units in ("percent", "%")) and re.search("band|bw|mba", name):
        return "bandwidth"
    if units in ("percent", "%") and re.search("quota|cpu|share", name):
        return "quota"
    return "memory" if units == "MiB" and "mem" in name else ""


def _described(task: TaskLevels, name: str, set_here: bool) -> str:
    units, words = str(task.attrs[name].get("units", "1")), labels_of(task.attrs[name])
    text = f"{name}={printable(level_text(task.levels[name], words), 60)}"
    text = printable(text + ("" if units == "1" else f" {units}"), 120)  # a comment is one line
    return text if set_here else f"{text} (not set here)"


def _check_levels(task: TaskLevels, actuators: Mapping[str, str]) -> None:
    """Refuse levels that no machine takes, before they reach a shell as other numbers."""
    for kind in sorted(set(actuators.values())):
        names = [printable(name, 60) for name, own in actuators.items() if own == kind]
        if len(names) > 1:
            raise MeasurementError(
                f"{' and '.join(names)} of task {quoted(task.task)} both set its {kind}; their "
                f"attribute mechanism must tell them apart."
            )
    for name, kind in actuators.items():
        level, units = task.levels[name], str(task.attrs[name].get("units", "1"))
        if kind in _UNITS and units not in _UNITS[kind]:
            raise MeasurementError(
                f"{printable(name, 60)} of task {quoted(task.task)} is in {quoted(units)}; for a "
                f"{kind}, attribute units must be {' or '.join(_UNITS[kind])}."
            )
        least, most = _RANGES[kind]
        known = level * _HERTZ[units] if kind == "clock" else level
        if not least <= known <= most or (kind == "ways" and level != int(level)):
            unit = {"ways": " whole ways", "clock": " kHz"}.get(kind, "")
            raise MeasurementError(
                f"{printable(name, 60)} of task {quoted(task.task)} is {level:g}; {least:g} to "
                f"{most:g}{unit} can be set, so the file's levels must be corrected."
            )


def _settings(
    tasks: Sequence[TaskLevels], known: Sequence[Mapping[str, str]]
) -> tuple[list[_Settings], list[str]]:
    """Settings of each task, and a note where cache ways must overlap."""
    found: list[_Settings] = []
    given = [{kind: name for name, kind in each.items() if kind} for each in known]
    ways = [round(t.levels[g["ways"]]) if "ways" in g else 0 for t, g in zip(tasks, given)]
    highest = [
        max(np.atleast_1d(t.attrs[g["ways"]].get("levels", 0)).max(), t.levels[g["ways"]])
        for t, g in zip(tasks, given)
        if "ways" in g
    ]
    overlap = bool(highest) and sum(ways) > max(highest)
    first = 0
    for task, kinds, count, group in zip(tasks, given, ways, _groups(tasks)):
        levels = {kind: task.levels[name] for kind, name in kinds.items()}
        units = {kind: str(task.attrs[name].get("units")) for kind, name in kinds.items()}
        period = _PERIOD
        if "quota" in kinds:
            noted = re.search(r"period (\d+) us", str(task.attrs[kinds["quota"]].get("mechanism")))
            period = int(noted[1]) if noted else _PERIOD
            period = period if _PERIODS[0] <= period <= _PERIODS[1] else _PERIOD
        speed = levels.get("bandwidth")
        found.append(
            _Settings(
                group,
                ((1 << count) - 1) << first if count else None,
                None if speed is None else _bandwidth(speed, units["bandwidth"]),
                round(levels["clock"] * _HERTZ[units["clock"]]) if "clock" in kinds else None,
                (round(levels["quota"] / 100 * period), period) if "quota" in kinds else None,
                round(levels["memory"] * 2**20) if "memory" in kinds else None,
            )
        )
        first += 0 if overlap else count
    if not overlap:
        return found, []
    return found, [f"# The cache has {max(highest):g} ways for {sum(ways)}: they overlap."]


def _bandwidth(level: float, units: str) -> tuple[int, str]:
    """A bandwidth as the kernel takes it: percent, MiB/s or eighths of GB/s."""
    if units == "MB s-1":
        return math.ceil(level * 1e6 / 2**20), "MiB s-1"
    return math.ceil(level - 1e-9), "percent" if units == "%" else units


def _groups(tasks: Sequence[TaskLevels]) -> list[str]:
    """A distinct name of each task, of letters, digits, dots and strokes."""
    names: list[str] = []
    for task in tasks:
        stem = re.sub(r"[^A-Za-z0-9_.-]+", "-", task.task).strip(".-")[:40] or "task"
        name, n = stem, 1
        while name in names or name in ("info", "mon_groups", "mon_data"):
            n += 1
            name = f"{stem}-{n}"
        names.append(name)
    return names


def schemata_lines(settings: _Settings, caches: Sequence[int]) -> list[str]:
    """Lines of ``schemata``: a mask of ways, and a bandwidth, for each cache."""
    lines = []
    if settings.mask is not None:
        lines.append("L3:" + ";".join(f"{cache}={settings.mask:x}" for cache in caches))
    if settings.bandwidth is not None:
        lines.append("MB:" + ";".join(f"{cache}={settings.bandwidth[0]}" for cache in caches))
    return lines


def _resctrl(settings: Sequence[_Settings], caches: tuple[int, ...]) -> Iterator[str]:
    mibs = any(each.bandwidth and each.bandwidth[1] == "MiB s-1" for each in settings)
    option = "-o mba_MBps " if mibs else ""
    yield f"mountpoint -q {_RESCTRL} || mount -t resctrl {option}resctrl {_RESCTRL}"
    for each in settings:
        yield f"mkdir -p {_RESCTRL}/{each.group}"
        for line in schemata_lines(each, caches):
            yield f'echo "{line}" > {_RESCTRL}/{each.group}/schemata'
        yield f"# for each task of the program: echo PID > {_RESCTRL}/{each.group}/tasks"


def _pqos(settings: Sequence[_Settings], caches: tuple[int, ...]) -> Iterator[str]:
    if any(each.bandwidth and each.bandwidth[1] == "MiB s-1" for each in settings):
        yield "pqos -I -R mbaCtrl-on"
    at = "@" + ",".join(map(str, caches)) if caches != (0,) else ""
    for number, each in enumerate(settings, 1):
        parts = [] if each.mask is None else [f"llc{at}:{number}={each.mask:#x}"]
        if each.bandwidth is not None:
            kind = "mba_max" if each.bandwidth[1] == "MiB s-1" else "mba"
            parts.append(f"{kind}{at}:{number}={each.bandwidth[0]}")
        yield f'pqos -I -e "{";".join(parts)}"'
        yield f'# {each.group}: pqos -I -a "pid:{number}=PID,PID"'


def _goresctrl(settings: Sequence[_Settings], caches: tuple[int, ...]) -> Iterator[str]:
    which = "all" if caches == (0,) else ",".join(map(str, caches))
    whole = 0
    for each in settings:
        whole |= each.mask or 0
    limited = any(each.bandwidth for each in settings)
    yield "partitions:"
    yield "  msbgen:"
    yield from _allocation("    ", which, whole, ["100%", f"{_UNLIMITED}MBps"] if limited else [])
    yield "    classes:"
    for each in settings:
        yield f'      "{each.group}":'
        amount, unit = each.bandwidth or (0, "")
        speeds = {"percent": f"{amount}%", "MiB s-1": f"{amount}MBps"}
        if unit and unit not in speeds:
            raise ArgumentError(
                f"bandwidth is in '{unit}', which goresctrl does not take; resctrl is wanted."
            )
        speed = ["100%", speeds[unit]] if unit == "MiB s-1" else [speeds[unit]] if unit else []
        yield from _allocation("        ", which, each.mask or 0, speed)


def _allocation(indent: str, caches: str, mask: int, speed: Sequence[str]) -> Iterator[str]:
    """Allocations of a partition or class; several caches need a value for all others, too."""
    for key, value in (("l3", f'"{mask:#x}"' if mask else ""), ("mb", ", ".join(map(repr, speed)))):
        text = value if key == "l3" else f"[{value}]".replace("'", '"')
        if value and caches == "all":
            yield f"{indent}{key}Allocation: {text}"
        elif value:
            rest = '"100%"' if key == "l3" else f'["100%", "{_UNLIMITED}MBps"]'
            yield f"{indent}{key}Allocation:"
            yield f"{indent}  all: {rest}"
            yield f'{indent}  "{caches}": {text}'


def _cgroup(settings: Sequence[_Settings], _: tuple[int, ...]) -> Iterator[str]:
    controllers = [
        name
        for name, used in (
            ("+cpu", any(each.quota for each in settings)),
            ("+memory", any(each.memory for each in settings)),
        )
        if used
    ]
    yield f'echo "{" ".join(controllers)}" > {_CGROUP}/cgroup.subtree_control'
    for each in settings:
        folder = f"{_CGROUP}/{each.group}"
        yield f"mkdir -p {folder}"
        if each.quota is not None:
            yield f'echo "{each.quota[0]} {each.quota[1]}" > {folder}/cpu.max'
        if each.memory is not None:
            yield f'echo "0" > {folder}/memory.swap.max'
            yield f'echo "{each.memory}" > {folder}/memory.max'
        yield f"# for each process of the program: echo PID > {folder}/cgroup.procs"


def _cpufreq(settings: Sequence[_Settings], _: tuple[int, ...]) -> Iterator[str]:
    for each in settings:
        if each.clock is not None:
            yield f'cores=""  # the cores of {each.group}, such as "2 3"'
            yield 'for core in ${cores:?list the cores first}; do'  # fmt: skip
            yield f"  clock={_CPU}/cpu$core/cpufreq"
            yield "  cat $clock/cpuinfo_min_freq > $clock/scaling_min_freq"
            yield f"  echo {each.clock} > $clock/scaling_max_freq"
            yield f"  echo {each.clock} > $clock/scaling_min_freq"
            yield "done"


Writer = Callable[[Sequence[_Settings], tuple[int, ...]], Iterator[str]]
# What each form sets, and how.
FORMS: dict[str, tuple[tuple[str, ...], Writer]] = {
    "resctrl": (("ways", "bandwidth"), _resctrl),
    "pqos": (("ways", "bandwidth"), _pqos),
    "goresctrl": (("ways", "bandwidth"), _goresctrl),
    "cgroup": (("quota", "memory"), _cgroup),
    "cpufreq": (("clock",), _cpufreq),
}
