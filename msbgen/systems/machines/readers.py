"""Where runs on several machines come from: tables, profiles, runtimes of many platforms."""

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.data.columns import Table
from msbgen.data.profiles import Profiles
from msbgen.sources.timings.matrices import Matrix, is_matrix, read_matrix
from msbgen.systems.machines.dataset import LABELS, LONGEST, MOST, SHORTEST
from msbgen.systems.machines.dataset import make as make_relative
from msbgen.systems.machines.dataset import validate as validate_relative

Floats = NDArray[np.float64]

# Columns of a table that are neither the runtime nor counters.
_COLUMNS = ("program", "machine", "input", "scale", "configuration", "nodes", "run")
_MOST_NODES = 2**31 - 1
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
    made = make_relative(
        times[workload, place], list(chosen), program=[split[w][0] for w in workload],
        input=[names[w] for w in workload], scale=[split[w][1] for w in workload],
        configuration=[configurations[c] for c in place],
        counters={name: values[workload] for name, values in counters.items()}, groups=groups,
        work=WORK if counters else None,
        attrs={k: v for k, v in dataset.attrs.items() if k in ("source", "licence", "credit")},
    )  # fmt: skip
    return validate_relative(made)


def read_table(path: str | os.PathLike[str]) -> xr.Dataset:
    """Runs from a table: programs × machines, or with a row for each run on each machine.

    Other headers than those below are read as :mod:`msbgen.sources.timings.matrices` describes;
    the result's ``encoding["taken"]`` has sentences about it.

    ===================================  ======================================================
    column                               meaning
    ===================================  ======================================================
    ``program``, ``machine``             names
    ``runtime [s]``                      time of the run, or in another unit of time
    ``input``, ``scale``,                optional: words that tell runs of a program apart
    ``configuration``
    ``nodes``                            optional: nodes that the run took; 1 where empty
    ``run``                              optional: number of the repetition
    any other                            a counter with its unit, as ``instructions [1]`` or
                                         ``read [B]``; empty where it was not counted
    ===================================  ======================================================

    Rows that differ only in the machine, the runtime and the counters are one run.

    Raises
    ------
    ProfileError
        No such file, another header, no unit, a runtime that is not positive, a run that is on a
        machine twice; with the line.
    """
    if is_matrix(path, ("program", "machine", "runtime")):
        return _of_matrix(read_matrix(path))
    table = Table(path, needed=("program", "machine", "runtime"))
    counters = [name for name in table.names if name not in (*_COLUMNS, "runtime")]
    for name in ("runtime", *counters):
        if not table.unit(name):
            unit = "s" if name == "runtime" else "1"
            raise ProfileError(
                f"{table.file}: column '{name}' has no unit; one in brackets is wanted, as "
                f"'{name} [{unit}]'."
            )
    for name in ("program", "machine"):
        if "" in table.texts(name):
            table.refuse(name, table.texts(name).index(""), "a name is wanted")
    seconds = table.seconds("runtime", SHORTEST, LONGEST)
    events_wanted = f"a number from 0 to {MOST:g} is wanted, or an empty cell"
    events = [table.range(name, 0, MOST, events_wanted, empty=True) for name in counters]
    nodes_wanted = f"a whole number from 1 to {_MOST_NODES} is wanted"
    nodes = table.range("nodes", 1, _MOST_NODES, nodes_wanted, empty=True, whole=True)
    labels = list(zip(*(table.texts(name) for name in (*LABELS, "nodes", "run"))))
    rows = {label: row for row, label in enumerate(dict.fromkeys(labels))}
    machines = {name: m for m, name in enumerate(dict.fromkeys(table.texts("machine")))}
    nodes_of = dict(zip(labels, np.nan_to_num(nodes, nan=1.0).tolist()))
    times = np.full((len(rows), len(machines)), np.nan)
    counts = np.full((len(counters), *times.shape), np.nan)
    line_of: dict[tuple[int, int], int] = {}
    for i, (label, machine) in enumerate(zip(labels, table.texts("machine"))):
        at = rows[label], machines[machine]
        if at in line_of:
            raise ProfileError(
                f"{table.file}: line {table.lines[i]} repeats the run of line {line_of[at]} on "
                f"machine '{machine}'; number repetitions in a column 'run'."
            )
        line_of[at] = table.lines[i]
        times[at] = seconds[i]
        counts[(slice(None), *at)] = [column[i] for column in events]
    dataset = make_relative(
        times,
        list(machines),
        **dict(zip(LABELS, zip(*rows))),  # pyright: ignore[reportArgumentType]
        nodes=[nodes_of[label] for label in rows],
        counters=dict(zip(counters, _shared(counts))),
        units={name: table.unit(name) for name in counters},
        work=WORK if WORK in counters else None,
        attrs={"source": f"imported from {table.file}"},
    )
    return validate_relative(dataset, source=table.file)


def _of_matrix(matrix: Matrix) -> xr.Dataset:
    """Runs of programs, the k-th of each on every machine as one."""
    machines = {name: i for i, name in enumerate(dict.fromkeys(matrix.machines))}
    rows: dict[tuple[str, int], list[float]] = {}
    seen: Counter[tuple[str, str]] = Counter()
    for program, machine, seconds in zip(matrix.workloads, matrix.machines, matrix.seconds):
        times = rows.setdefault((program, seen[program, machine]), [np.nan] * len(machines))
        times[machines[machine]] = float(seconds)
        seen[program, machine] += 1
    dataset = make_relative(
        np.array(list(rows.values())), list(machines), program=[program for program, _ in rows],
        attrs={"source": f"imported from {matrix.source}"},
    )  # fmt: skip
    dataset = validate_relative(dataset, source=matrix.source)
    dataset.encoding["taken"] = list(matrix.taken)
    return dataset


def from_profiles(profiles: Mapping[str, Sequence[xr.Dataset]]) -> xr.Dataset:
    """Runs on several machines from profiles: durations, and counters summed over time.

    Parameters
    ----------
    profiles : mapping of machine to sequence of xarray.Dataset
        Profile datasets (:mod:`msbgen.data.schema`), each of one task, named by its attribute
        ``task``; each context is an input, and its runs are averaged.  Contexts of one level are
        the same on all machines.

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
            record = Profiles.of(dataset)
            names |= dict.fromkeys(record.counters)
            for context, seconds, counts in _summed(record):
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
    made = make_relative(
        times,
        machines,
        program=[task for task, _ in cells],
        input=[context for _, context in cells],
        counters=dict(zip(names, _shared(counters))),
        work=WORK if WORK in names else None,
    )
    return validate_relative(made)


# --------------------------------------------------------------------------- parts


def _mean_alone(dataset: xr.Dataset) -> Floats:
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


def _opcodes(dataset: xr.Dataset) -> tuple[dict[str, Floats], dict[str, str]]:
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


def _summed(profiles: Profiles) -> list[tuple[str, float, dict[str, float]]]:
    """Context, mean duration [s] and mean counts of every context of profiles."""
    sums = {
        name: np.where(profiles.held[..., k], np.nansum(samples, axis=2, dtype=float), np.nan)
        for k, (name, samples) in enumerate(zip(profiles.counters, profiles.samples))
    }
    rows = []
    for c, levels in enumerate(profiles.contexts):
        context = ",".join(f"{name}={level:g}" for name, level in zip(profiles.resources, levels))
        counts = {name: float(np.nanmean(values[c])) for name, values in sums.items()}
        rows.append((context, float(np.nanmean(profiles.duration[c])), counts))
    return rows


def _shared(counters: Floats) -> list[Floats]:
    """Counters (n_counters, n, n_machines), once per run where no machine counts otherwise."""
    least = np.where(np.isnan(counters), np.inf, counters).min(axis=2, initial=np.inf)
    most = np.where(np.isnan(counters), -np.inf, counters).max(axis=2, initial=-np.inf)
    if (most > least).any():
        return list(counters)
    return list(np.where(np.isfinite(least), least, np.nan))
