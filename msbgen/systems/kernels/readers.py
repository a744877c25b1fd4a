"""Where measurements of kernels come from: tables, public sets, profiles."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError, ProfileError, quoted
from msbgen.core.records import checks_arguments
from msbgen.data.columns import ColumnMap as ColumnMap
from msbgen.data.columns import Table
from msbgen.data.columns import read_column_map as read_map
from msbgen.data.durations_only import WHOLE_RUN
from msbgen.data.energy import energy_counter, total_energy
from msbgen.data.profiles import Profiles
from msbgen.data.schema import resource_names
from msbgen.data.units import HERTZ, WATTS
from msbgen.sources.timings.tables import read_times
from msbgen.systems.kernels.dataset import RESERVED, SCHEMA
from msbgen.systems.kernels.dataset import join as join_kernels
from msbgen.systems.kernels.dataset import make as make_kernels
from msbgen.systems.kernels.dataset import validate as validate_kernels

Floats = NDArray[np.float64]

# Columns of texts, and all that are no resource, counter or parameter.
_TEXTS = ("kind", "node")
_MEASURED = (*_TEXTS, "run", "runtime", "power")
_MOST_RUN = 2**31 - 1
# What the files of a public set call the GPUs.
NV_DVFS = {"V100": "v100", "RTX 8000": "rtx8000"}
ZEUS = {"A40": "a40", "P100": "p100", "RTX 6000": "rtx6000", "V100": "v100"}


def read_column_map(path: str | os.PathLike[str]) -> ColumnMap:
    """Column map from TOML: ``resources``, ``counters``, ``kind``, ``[columns]``, ``separator``.

    The form is that of :mod:`msbgen.data.columns`.

    Raises
    ------
    ProfileError
        No such file, no TOML, another key, or a value of another form.
    """
    known = ("resources", "counters", "columns", "kind", "separator")
    return read_map(path, known, ("resources",))


def read_table(path: str | os.PathLike[str], columns: ColumnMap) -> xr.Dataset:
    """Measurements of kernels from a CSV file with a row for each.

    ===================  ======================================================================
    column               meaning
    ===================  ======================================================================
    ``kind``             what ran; left out where the map has one kind for all
    ``runtime [s]``      time of one run, or in another unit of time
    ``power [W]``        optional: mean power while it ran; a cell may be empty
    ``node``, ``run``    optional: which of several equal machines; number of the repetition
    resources            as the map lists them, with units: ``clock [MHz]``
    counters             as the map lists them; a cell may be empty
    any other            a parameter of the kernel; a cell may be empty
    ===================  ======================================================================

    Raises
    ------
    ProfileError
        No such file, a column that is missing, a cell that is no number; with the line.
    """
    needed = ["runtime", *columns.resources, *columns.counters]
    needed += [] if columns.kind else ["kind"]
    table = Table(path, columns, needed=needed, joined=_TEXTS)
    if columns.kind and "kind" in table.names:
        raise ProfileError(
            f"{table.file}: has a column 'kind', and the map has one kind for all rows, "
            f"{quoted(columns.kind)}; drop one of them."
        )
    _check_names(table, (*columns.resources, *columns.counters))
    if "power" in table.names and table.unit("power") != "W":
        unit = table.unit("power")
        got = f"is in {quoted(unit)}" if unit else "has no unit"
        raise ProfileError(
            f"{table.file}: the power {got}; watts are wanted: 'power [W]' in the header or as the "
            f"name in a column map."
        )
    power = run = None
    runtime = table.seconds("runtime", SCHEMA["runtime"].least, SCHEMA["runtime"].most)
    if "power" in table.names:
        power = table.declared("power", SCHEMA["power"])
    if "run" in table.names:
        whole = f"a whole number up to {_MOST_RUN} is wanted"
        run = table.range("run", -_MOST_RUN, _MOST_RUN, whole, whole=True)
    parameters = [name for name in table.names if name not in (*_MEASURED, *needed)]
    dataset = make_kernels(
        table.texts("kind") if "kind" in table.names else [columns.kind] * len(runtime),
        runtime,
        resources={name: table.declared(name, SCHEMA["resource"]) for name in columns.resources},
        parameters={name: table.declared(name, SCHEMA["parameter"]) for name in parameters},
        counters={name: table.declared(name, SCHEMA["counter"]) for name in columns.counters},
        power=power,
        node=table.texts("node"),
        run=run,
        units={name: table.unit(name) or "1" for name in table.names},
        attrs={"source": f"imported from {table.file}"},
    )
    return validate_kernels(dataset, source=table.file)


# Names of settings of the machine; numbers of other names are parameters of the kernels.
_SETTINGS = (
    "clock", "frequency", "freq", "core_clock", "memory_clock", "mem_clock", "gpu_clock",
    "sm_clock", "threads", "cores", "power_limit", "power_cap", "sms", "bandwidth",
)  # fmt: skip


def read_plain_table(path: str | os.PathLike[str]) -> xr.Dataset:
    """Measurements of kernels from a table of times without a map.

    Words are the kind, joined by strokes.  Settings of the machine, by name or in hertz or watts,
    are resources, and other numbers parameters; all numbers are resources where none is named as
    one.  The result's ``encoding["taken"]`` has sentences about it.  Errors as
    :func:`msbgen.sources.timings.tables.read_times`.
    """
    times = read_times(path)
    kept = np.isfinite(times.seconds)
    for column in times.settings.values():
        kept &= np.isfinite(column.values)
    times = times.rows(kept)
    words = [c for c in times.settings.values() if c.labels]
    kinds = [
        "/".join(c.labels[int(c.values[i]) - 1] for c in words) or times.task
        for i in range(len(times.seconds))
    ]
    numbers = {name: c for name, c in times.settings.items() if not c.labels}
    named = [n for n, c in numbers.items() if n in _SETTINGS or c.units in (*HERTZ, *WATTS)]
    resources = named or list(numbers)
    if not resources:
        raise ProfileError(
            f"{times.source}: has no column of a setting in numbers; one, such as a clock, is "
            f"wanted."
        )
    energy = times.totals.get("energy")
    dataset = make_kernels(
        kinds, times.seconds,
        resources={n: numbers[n].values for n in resources},
        parameters={n: c.values for n, c in numbers.items() if n not in resources},
        power=None if energy is None else energy[0] / times.seconds,
        units={n: c.units for n, c in numbers.items()},
        attrs={"source": f"imported from {times.source}"},
    )  # fmt: skip
    dataset = validate_kernels(dataset, source=times.source)
    parameters = [n for n in numbers if n not in resources]
    roles = f"resources: {', '.join(resources)}"
    roles += f"; parameters: {', '.join(parameters)}" if parameters else ""
    dataset.encoding["taken"] = [*times.taken, roles]
    return dataset


def _check_names(table: Table, settings: Sequence[str]) -> None:
    """Refuse names that a dataset cannot have, of columns that are no measurement."""
    for name in table.names:
        if name in _MEASURED and name not in settings:
            continue
        if name in RESERVED:
            raise ProfileError(
                f"{table.file}: column '{name}' has a reserved name; give it another one, in a "
                f"column map, say."
            )
        if not name or "/" in name or not name.isprintable():
            raise ProfileError(
                f"{table.file}: a column is called {name!r}, which no file can hold; give it "
                f"another name, in a column map, say."
            )


def from_profiles(profiles: Sequence[xr.Dataset]) -> xr.Dataset:
    """Measurements of whole tasks from their profiles: one for each run in each context.

    Parameters
    ----------
    profiles : sequence of xarray.Dataset
        Profile datasets (:mod:`msbgen.data.schema`), each of the task that its attribute ``task``
        names, all over the same resources.  Durations are runtimes; counters are summed over time,
        and one in joules over the duration is the power.

    Raises
    ------
    ArgumentError
        No profiles, one without a task, other resources, or several counters in joules of
        which none is called ``energy``.
    """
    found = []
    for dataset in profiles:
        record = Profiles.of(dataset)
        if not record.task:
            raise ArgumentError("profiles have no attribute 'task'; a name of the task is wanted.")
        seconds = record.duration
        context, run = np.nonzero(np.isfinite(seconds))
        joules = record.energy_counters
        sums = {
            name: np.nansum(samples, axis=2, dtype=float)[context, run]
            for name, samples in zip(record.counters, record.samples)
            if name not in (*joules, WHOLE_RUN)
        }
        power: Floats | None = None
        if joules:
            energy_counter(dataset)  # of several that are not called so none is the energy
            power = (total_energy(dataset) / seconds)[context, run]
        attrs, levels = record.resources, record.contexts[context]
        known = {n: np.atleast_1d(a["levels"]).tolist() for n, a in attrs.items() if "levels" in a}
        found.append(
            make_kernels(
                [record.task] * len(run), seconds[context, run],
                resources=dict(zip(record.resources, levels.T)), counters=sums,
                power=power, run=run,
                units={name: str(given["units"]) for name, given in attrs.items()}, levels=known,
            )
        )  # fmt: skip
    return validate_kernels(join_kernels(found))


# --------------------------------------------------------------------------- public sets


@checks_arguments
def read_jetson(
    folder: str | os.PathLike[str], what: Literal["square", "rectangular", "mobilenet"], device: str
) -> xr.Dataset:
    """Matrix products, or MobileNet, on Jetson boards at several clocks.

    Parameters
    ----------
    folder : path
        With ``gemm.csv`` and ``mobilenet.csv``.
    what : {"square", "rectangular", "mobilenet"}
        Square products over all clocks, rows × columns at two, or the network over clocks and
        batch sizes; its runtime is that of a batch.
    device : {"AGX", "Nano"}

    Raises
    ------
    ArgumentError, ProfileError
        Another word for what; no such file, or none of the device.
    """
    columns = {"node": "device", "power [W]": "power_mean_w", "gpu_clock [MHz]": "gpu_clock_mhz"}
    if what == "mobilenet":
        columns |= {"runtime [ms]": "latency_p50_ms", "batch": "batch"}
        path = Path(folder) / "mobilenet.csv"
        dataset = read_table(path, ColumnMap(("gpu_clock", "batch"), (), columns, what))
        return _only(dataset, dataset["node"].values == device, path, device)
    design = {"square": "sq", "rectangular": "nonsq"}[what]
    columns |= {"kind": "design", "runtime [s]": "runtime_s", "rows": "rows", "columns": "columns"}
    path = Path(folder) / "gemm.csv"
    dataset = read_table(path, ColumnMap(("gpu_clock",), (), columns))
    rows = (dataset["node"].values == device) & (dataset["kind"].values == design)
    found = _only(dataset, rows, path, device)
    return found.assign(kind=("measurement", np.full(found.sizes["measurement"], "gemm")))


@checks_arguments
def read_nv_dvfs(
    folder: str | os.PathLike[str], gpu: Literal["V100", "RTX 8000"]
) -> tuple[xr.Dataset, xr.Dataset]:
    """CUDA microbenchmarks and applications at several core clocks.

    The counters are the seven activities of the GPU's units.

    Parameters
    ----------
    gpu : {"V100", "RTX 8000"}

    Raises
    ------
    ArgumentError, ProfileError
        Another GPU; no such file.
    """
    activities = ("DRAMA", "FP16A", "FP32A", "FP64A", "SMACT", "SMOCC", "TENSO")
    columns = {
        "kind": "benchmark/kernel/argNo",
        "runtime [ms]": "time",
        "power [W]": "average_power",
        "core_clock [MHz]": "core_frequency",
        **{name: name for name in activities},
    }
    micro, real = (
        read_table(
            Path(folder) / f"{NV_DVFS[gpu]}-dvfs-{part}-profile.csv",
            ColumnMap(("core_clock",), activities, columns),
        )
        for part in ("microbenchmark", "real")
    )
    return micro, real


@checks_arguments
def read_zeus(
    folder: str | os.PathLike[str], gpu: Literal["A40", "P100", "RTX 6000", "V100"]
) -> xr.Dataset:
    """Epochs of training at several power limits; the kinds are ``network/optimiser``.

    Parameters
    ----------
    gpu : {"A40", "P100", "RTX 6000", "V100"}

    Raises
    ------
    ArgumentError, ProfileError
        Another GPU; no such file.
    """
    columns = {
        "kind": "network/optimizer",
        "batch_size": "batch_size",
        "runtime [s]": "time_per_epoch",
        "power [W]": "average_power",
        "power_limit [W]": "power_limit",
    }
    path = Path(folder) / f"summary_power_{ZEUS[gpu]}.csv"
    return read_table(path, ColumnMap(("power_limit",), (), columns))


def _only(dataset: xr.Dataset, rows: NDArray[np.bool_], path: Path, name: str) -> xr.Dataset:
    """Some measurements, with the levels that these have."""
    if not rows.any():
        raise ProfileError(f"{path.name}: there is no measurement of {name!r}; correct the name.")
    found = dataset.isel(measurement=np.flatnonzero(rows))
    for name in resource_names(found):
        found[name].attrs["levels"] = np.unique(found[name].values).tolist()
    return found
