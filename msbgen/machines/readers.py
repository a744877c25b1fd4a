"""Where runs on several machines come from: tables, profiles, runtimes of many platforms."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.durations import UNITS
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.data.schema import context_table, counter_names, resource_names
from msbgen.data.tables import read_lines, shown
from msbgen.machines.dataset import (
    LABELS,
    LONGEST,
    MOST,
    SHORTEST,
)
from msbgen.machines.dataset import (
    make as make_relative,
)
from msbgen.machines.dataset import (
    validate as validate_relative,
)

# Columns of a table that are no counters; the first two must be there.
_COLUMNS = ("program", "machine", "input", "scale", "configuration", "nodes", "run")
# The counter that says how much a run does.
WORK = "instructions"
# Sizes of a problem as benchmark suites name them: a folder of the path, or the end of the name.
_SIZE_FOLDER = re.compile(r"(?:^|/)(mini|small|medium|large|extralarge)/")
_SIZE_END = re.compile(r"_([sml])$")
_SIZES = {"mini": "small", "small": "medium", "medium": "large"}
_ENDS = {"s": "small", "m": "medium", "l": "large"}
# Opcodes of WebAssembly by what they do (WebAssembly Core Specification, Appendix: Index of
# Instructions): first and last opcode of each kind.
_OPCODES = {
    "control": ((0x00, 0x0B),),
    "branch": ((0x0C, 0x11),),
    "move": ((0x1A, 0x24),),
    "load": ((0x28, 0x35),),
    "store": ((0x36, 0x3E),),
    "memory": ((0x3F, 0x40), (0xFC, 0xFC)),
    "constant": ((0x41, 0x44),),
    "comparison": ((0x45, 0x66),),
    "integer": ((0x67, 0x8A),),
    "single": ((0x8B, 0x98),),
    "double": ((0x99, 0xA6),),
    "conversion": ((0xA7, 0xC4),),
}


def from_runtimes(
    dataset: xr.Dataset, machines: Mapping[str, str] | Sequence[str] | None = None
) -> xr.Dataset:
    """Runs on several machines among the runtimes of many platforms (``msbgen-runtimes/1``).

    A platform ``configuration:device`` is a machine, its device, in a configuration, as the
    runtime of WebAssembly; a workload ``suite/size/name`` or ``suite/name_s`` is a program
    ``suite/name`` at a scale.  Features of a workload are logarithms of 1 + counts.  Only what
    ran beside nothing counts; repetitions are averaged.

    Parameters
    ----------
    dataset : xarray.Dataset
        See :mod:`msbgen.runtimes.dataset`.
    machines : mapping of name to device, sequence of devices, or None
        None for all devices.

    Returns
    -------
    xarray.Dataset
        ``msbgen-relative/1``: every workload in every configuration that ran on one of them.

    Raises
    ------
    ArgumentError
        A device that no platform has.
    """
    places = [str(name).rpartition(":") for name in dataset["platform"].values]
    devices = sorted({device for _, _, device in places})
    if machines is None:
        machines = devices
    chosen = dict(machines) if isinstance(machines, Mapping) else {m: m for m in machines}
    for name, device in chosen.items():
        if device not in devices:
            raise ArgumentError(
                f"machine {name!r} is {device!r}; one of {', '.join(devices)} is wanted."
            )
    configurations = sorted({configuration for configuration, _, _ in places})
    times = np.full((dataset.sizes["workload"], len(configurations), len(chosen)), np.nan)
    cells = _mean_alone(dataset)
    for p, (configuration, _, device) in enumerate(places):
        for m, wanted in enumerate(chosen.values()):
            if device == wanted:
                times[:, configurations.index(configuration), m] = cells[:, p]
    workload, place = np.nonzero(np.isfinite(times).any(axis=2))
    names = [str(name) for name in dataset["workload"].values]
    split = [_program_and_scale(name) for name in names]
    counters, groups = _opcodes(dataset)
    return validate_relative(
        make_relative(
            times[workload, place],
            list(chosen),
            program=[split[w][0] for w in workload],
            input=[names[w] for w in workload],
            scale=[split[w][1] for w in workload],
            configuration=[configurations[c] for c in place],
            counters={name: values[workload] for name, values in counters.items()},
            groups=groups,
            work=WORK if counters else None,
            attrs={k: v for k, v in dataset.attrs.items() if k in ("source", "licence", "credit")},
        )
    )


def read_table(path: str | os.PathLike[str]) -> xr.Dataset:
    """Runs from a CSV file with a row for each run on each machine.

    Columns: ``program``, ``machine``, ``runtime [s]`` (or another unit of time in the brackets);
    ``input``, ``scale``, ``configuration``, ``nodes`` and ``run`` where there are such; every
    other column is a counter with its unit, as ``instructions [1]`` or ``read [B]``.  Rows that
    differ in the machine and what was measured alone are one run; ``run`` numbers repetitions.

    Raises
    ------
    ProfileError
        No such file, another header, no unit, a runtime that is not positive, a run that is on a
        machine twice; with the line.
    """
    path = Path(path)
    header, lines = _header(path)
    units = {name: _unit(name) for name in header if name not in _COLUMNS}
    clock = next(name for name in units if _bare(name) == "runtime")
    counters = [name for name in units if name != clock]
    rows: dict[tuple[str, ...], int] = {}
    machines: dict[str, int] = {}
    nodes: list[int] = []
    seen: dict[tuple[int, int], int] = {}
    found: list[tuple[int, int, float, list[float]]] = []
    for number, cells in lines:
        values = dict(zip(header, cells))
        key = tuple(values.get(name, "") for name in (*LABELS, "nodes", "run"))
        if key not in rows:
            nodes.append(_nodes(values.get("nodes"), path, number))
        run = rows.setdefault(key, len(rows))
        machine = machines.setdefault(values["machine"], len(machines))
        if (run, machine) in seen:
            raise ProfileError(
                f"{path.name}: line {number} repeats the run of line {seen[run, machine]} on "
                f"machine '{values['machine']}'; number repetitions in a column 'run'."
            )
        seen[run, machine] = number
        seconds = UNITS[units[clock]] * _number(values[clock], path, number, "runtime")
        if not SHORTEST < seconds < LONGEST:
            raise ProfileError(
                f"{path.name}: line {number} has the runtime {shown([values[clock]])}; a positive "
                f"number is wanted, from {SHORTEST:g} to {LONGEST:g} s: measure it again or drop "
                f"the line."
            )
        events = [_count(values[name], path, number, name) for name in counters]
        found.append((run, machine, seconds, events))
    times = np.full((len(rows), len(machines)), np.nan)
    counts = np.full((len(rows), len(machines), len(counters)), np.nan)
    for run, machine, seconds, events in found:
        times[run, machine] = seconds
        counts[run, machine] = events
    words = list(zip(*rows))
    names = [_bare(name) for name in counters]
    dataset = make_relative(
        times,
        list(machines),
        **dict(zip(LABELS, words)),  # pyright: ignore[reportArgumentType]
        nodes=nodes,
        counters=dict(zip(names, _shared(np.moveaxis(counts, -1, 0)))),
        units={_bare(name): units[name] for name in counters},
        work=WORK if WORK in names else None,
        attrs={"source": f"imported from {path.name}"},
    )
    return validate_relative(dataset, source=path.name)


def from_profiles(profiles: Mapping[str, Sequence[xr.Dataset]]) -> xr.Dataset:
    """Runs on several machines from profiles: durations, and counters summed over time.

    Parameters
    ----------
    profiles : mapping of machine to sequence of xarray.Dataset
        Profile datasets (:mod:`msbgen.data.schema`), each of one task, named by its attribute
        ``task``; each context is an input, and its runs are averaged.  Contexts of one level are
        the same on all machines.

    Returns
    -------
    xarray.Dataset
        ``msbgen-relative/1``.

    Raises
    ------
    ArgumentError
        No profiles; profiles without a task; a task in one context twice on a machine.
    """
    cells: dict[tuple[str, str], dict[str, tuple[float, dict[str, float]]]] = {}
    names: dict[str, None] = {}
    for machine, datasets in profiles.items():
        for dataset in datasets:
            task = dataset.attrs.get("task")
            if not isinstance(task, str) or not task:
                raise ArgumentError(
                    f"profiles of machine {machine!r} have no attribute 'task'; a name is wanted."
                )
            names |= dict.fromkeys(counter_names(dataset))
            for context, seconds, counts in _summed(dataset):
                places = cells.setdefault((task, context), {})
                if machine in places:
                    raise ArgumentError(
                        f"machine {machine!r} has task {task!r} in context '{context}' twice; once "
                        f"is wanted."
                    )
                places[machine] = seconds, counts
    if not cells:
        raise ArgumentError("profiles holds none; those of one machine at least are wanted.")
    machines = list(profiles)
    times = np.full((len(cells), len(machines)), np.nan)
    counters = np.full((len(names), *times.shape), np.nan)
    for r, places in enumerate(cells.values()):
        for machine, (seconds, counts) in places.items():
            m = machines.index(machine)
            times[r, m] = seconds
            counters[:, r, m] = [counts.get(name, np.nan) for name in names]
    return validate_relative(
        make_relative(
            times,
            machines,
            program=[task for task, _ in cells],
            input=[context for _, context in cells],
            counters=dict(zip(names, _shared(counters))),
            work=WORK if WORK in names else None,
        )
    )


# --------------------------------------------------------------------------- parts


def _mean_alone(dataset: xr.Dataset) -> NDArray[np.float64]:
    """Time of every workload alone on every platform [s], the mean in log, NaN where none."""
    alone = (dataset["beside"].values >= 0).sum(axis=1) == 0
    shape = dataset.sizes["workload"], dataset.sizes["platform"]
    total, count = np.zeros(shape), np.zeros(shape)
    at = dataset["workload_index"].values[alone], dataset["platform_index"].values[alone]
    np.add.at(total, at, np.log(dataset["runtime"].values[alone].astype(float)))
    np.add.at(count, at, 1.0)
    with np.errstate(invalid="ignore"):
        return np.exp(total / count)


def _program_and_scale(workload: str) -> tuple[str, str]:
    folder, end = _SIZE_FOLDER.search(workload), _SIZE_END.search(workload)
    if folder:
        program = workload.replace(f"{folder[1]}/", "", 1)
        return program, _SIZES.get(folder[1], folder[1])
    if end:
        return workload.removesuffix(end[0]), _ENDS[end[1]]
    return workload, ""


def _opcodes(
    dataset: xr.Dataset,
) -> tuple[dict[str, NDArray[np.float64]], dict[str, str]]:
    """Counts of every workload by counter, their sum among them, and the kind of each."""
    if "workload_features" not in dataset:
        return {}, {}
    table = dataset["workload_features"].transpose("workload", ...).values.astype(float)
    names = [str(name) for name in dataset["workload_feature"].values]
    counts = np.maximum(np.expm1(table), 0.0)
    counters = {WORK: counts.sum(axis=1), **dict(zip(names, counts.T))}
    return counters, {name: _kind(name) for name in names}


def _kind(name: str) -> str:
    """Kind of an opcode that is named ``x`` and two digits; any other name is a kind itself."""
    if not re.fullmatch("x[0-9A-F]{2}", name):
        return name
    code = int(name[1:], 16)
    for kind, ranges in _OPCODES.items():
        if any(first <= code <= last for first, last in ranges):
            return kind
    return name


def _summed(dataset: xr.Dataset) -> list[tuple[str, float, dict[str, float]]]:
    """Context, mean duration [s] and mean counts of every context of a profile dataset."""
    resources = resource_names(dataset)
    durations = dataset["duration"].values.reshape(dataset.sizes["context"], -1)
    sums = {
        name: dataset[name]
        .transpose("context", ...)
        .sum("time", skipna=True, min_count=1)
        .values.reshape(dataset.sizes["context"], -1)
        for name in counter_names(dataset)
    }
    rows = []
    for c, levels in enumerate(context_table(dataset)):
        context = ",".join(f"{name}={level:g}" for name, level in zip(resources, levels))
        counts = {name: float(np.nanmean(values[c])) for name, values in sums.items()}
        rows.append((context, float(np.nanmean(durations[c])), counts))
    return rows


def _shared(counters: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Counters (n_counters, n, n_machines), once per run where no machine counts otherwise."""
    least = np.where(np.isnan(counters), np.inf, counters).min(axis=2, initial=np.inf)
    most = np.where(np.isnan(counters), -np.inf, counters).max(axis=2, initial=-np.inf)
    if (most > least).any():
        return list(counters)
    return list(np.where(np.isfinite(least), least, np.nan))


def _header(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Header and numbered rows of a table of runs, as wide as the header."""
    lines = read_lines(path)
    if len(lines) < 2:
        raise ProfileError(f"{path.name}: a header and at least one row below it are wanted.")
    header = lines[0][1]
    if len({_bare(name) for name in header}) < len(header):
        wrong = next(n for n in header if [*map(_bare, header)].count(_bare(n)) > 1)
        raise ProfileError(f"{path.name}: line 1 has a column '{wrong}' twice; once is wanted.")
    if not {"program", "machine", "runtime"} <= {_bare(name) for name in header}:
        raise ProfileError(
            f"{path.name}: line 1 is {shown(header)}; the columns program, machine and "
            f"'runtime [s]' are wanted."
        )
    for name in header:
        if name in _COLUMNS:
            continue
        if not _unit(name):
            raise ProfileError(
                f"{path.name}: column '{name}' has no unit; one in brackets is wanted, as "
                f"'{_bare(name)} [{'s' if _bare(name) == 'runtime' else '1'}]'."
            )
        if _bare(name) == "runtime" and _unit(name) not in UNITS:
            raise ProfileError(
                f"{path.name}: the runtime has no unit that is known ('{name}'); 'runtime [s]', or "
                f"one of {', '.join(UNITS)} in its place, is wanted."
            )
    for number, cells in lines[1:]:
        if len(cells) != len(header):
            raise ProfileError(
                f"{path.name}: line {number} has {len(cells)} cells; {len(header)} are wanted, as "
                f"in the header."
            )
        for name in ("program", "machine"):
            if not cells[header.index(name)]:
                raise ProfileError(f"{path.name}: line {number} names no {name}; one is wanted.")
    return header, lines[1:]


def _bare(column: str) -> str:
    return column.partition("[")[0].strip()


def _unit(column: str) -> str:
    return column.partition("[")[2].rstrip("] ").strip()


def _number(text: str, path: Path, line: int, name: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ProfileError(
            f"{path.name}: line {line} has the {name} {shown([text])}; a number is wanted."
        ) from None


def _count(text: str, path: Path, line: int, column: str) -> float:
    """Events; NaN, as the schema says, where the cell is empty: not counted."""
    if not text:
        return np.nan
    value = _number(text, path, line, _bare(column))
    if not 0 <= value <= MOST:
        raise ProfileError(
            f"{path.name}: line {line} has the {_bare(column)} {shown([text])}; a number "
            f"from 0 to {MOST:g} is wanted, or an empty cell."
        )
    return value


def _nodes(text: str | None, path: Path, line: int) -> int:
    if not text:
        return 1
    if not text.isdecimal() or not 0 < int(text) < 2**31:
        raise ProfileError(
            f"{path.name}: line {line} has the nodes {shown([text])}; a whole number from 1 on is "
            f"wanted."
        )
    return int(text)
