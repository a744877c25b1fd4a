"""Where measurements of kernels come from: tables, public sets, profiles."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.durations import UNITS
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.data.energy import energy_counter, energy_counters, total_energy
from msbgen.data.schema import (
    context_table,
    counter_names,
    duration_array,
    resource_attrs,
    resource_names,
)
from msbgen.data.tables import read_lines, shown
from msbgen.data.toml import check_keys, read_toml
from msbgen.kernels.dataset import RESERVED
from msbgen.kernels.dataset import join as join_kernels
from msbgen.kernels.dataset import make as make_kernels
from msbgen.kernels.dataset import validate as validate_kernels

Floats = NDArray[np.float64]

# Columns with a meaning of their own, and those of words.
_WORDS = ("kind", "node")
_OWN = (*_WORDS, "run", "runtime", "power")
_MOST_RUN = 2**31 - 1
_AGAIN = ": measure it again or drop the line"
# What the files of a public set call the GPUs.
NV_DVFS = {"V100": "v100", "RTX 8000": "rtx8000"}
ZEUS = {"A40": "a40", "P100": "p100", "RTX 6000": "rtx6000", "V100": "v100"}


@dataclass(frozen=True)
class ColumnMap:
    """Which columns of a table say what.

    Attributes
    ----------
    resources : tuple of str
        Names of what the machine was set to; ``gpu_clock``, say.
    counters : tuple of str
        Names of events of the run.  All that is neither is a parameter.
    columns : mapping of str to str
        Header in the file by what it is called here, with its unit in brackets:
        ``{"runtime [ms]": "latency_p50_ms", "gpu_clock [MHz]": "gpu_clock_mhz"}``.  What is not
        listed is left out; several columns of words, joined by ``/``, make one.  Empty for all
        columns by their own names.
    kind : str
        What ran, where no column ``kind`` says so.
    """

    resources: tuple[str, ...]
    counters: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    kind: str = ""


def read_column_map(path: str | os.PathLike[str]) -> ColumnMap:
    """Column map from TOML: ``resources``, ``counters``, ``kind`` and a table ``[columns]``.

    Raises
    ------
    ProfileError
        No such file, no TOML, another key, or a value of another form.
    """
    path, content = read_toml(path)
    check_keys(content, ("resources", "counters", "columns", "kind"), ("resources",), path.name)
    lists = {}
    for key in ("resources", "counters"):
        given = content.get(key, [])
        if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
            raise ProfileError(f"{path.name}: '{key}' is {given!r}; a list of names is wanted.")
        lists[key] = tuple(given)
    columns, kind = content.get("columns", {}), content.get("kind", "")
    if not isinstance(columns, dict) or not all(isinstance(v, str) for v in columns.values()):
        raise ProfileError(f"{path.name}: 'columns' is no table of names; '[columns]' is wanted.")
    if not isinstance(kind, str):
        raise ProfileError(f"{path.name}: 'kind' is {kind!r}; a name is wanted.")
    both = [name for name in lists["resources"] if name in lists["counters"]]
    if both:
        raise ProfileError(
            f"{path.name}: '{both[0]}' stands in 'resources' and 'counters'; one is wanted."
        )
    return ColumnMap(**lists, columns=columns, kind=kind)


def read_table(path: str | os.PathLike[str], columns: ColumnMap) -> xr.Dataset:
    """Measurements of kernels from a CSV file with a row for each.

    Columns, by their own names or as `columns` says: ``kind``; ``runtime [s]``, or another unit of
    time in the brackets; ``power [W]``, ``node`` and ``run`` where there are such; resources,
    counters and parameters with their units in brackets, ``[1]`` without.  Cells may be empty in
    columns of parameters, counters and power.

    Raises
    ------
    ProfileError
        No such file, a column that is missing, a cell that is no number; with the line.
    """
    path = Path(path)
    table = _Table(path, columns)
    if "power" in table.names and table.unit("power") != "W":
        unit = table.unit("power")
        got = f"is in '{unit}'" if unit else "has no unit"
        raise ProfileError(f"{path.name}: the power {got}; watts, 'power [W]', are wanted.")
    if table.unit("runtime") not in UNITS:
        raise ProfileError(
            f"{path.name}: the runtime has no unit that is known; 'runtime [s]', or one of "
            f"{', '.join(UNITS)} in its place, is wanted."
        )
    table.check_names((*columns.resources, *columns.counters))
    runtime = UNITS[table.unit("runtime")] * table.positive("runtime")
    others = [n for n in table.names if n not in (*_OWN, *columns.resources, *columns.counters)]
    named = [*columns.resources, *columns.counters, *others]
    dataset = make_kernels(
        table.words("kind") if "kind" in table.names else [columns.kind] * len(runtime),
        runtime,
        resources={name: table.numbers(name, every=True) for name in columns.resources},
        parameters={name: table.numbers(name) for name in others},
        counters={name: table.numbers(name) for name in columns.counters},
        power=table.positive("power", every=False) if "power" in table.names else None,
        node=table.words("node") if "node" in table.names else None,
        run=table.whole("run") if "run" in table.names else None,
        units={name: table.unit(name) or "1" for name in named},
        attrs={"source": f"imported from {path.name}"},
    )
    return validate_kernels(dataset, source=path.name)


class _Table:
    """A CSV file whose columns go by the names that a map gives them."""

    def __init__(self, path: Path, columns: ColumnMap) -> None:
        self._path = path
        lines = read_lines(path)
        if len(lines) < 2:
            raise ProfileError(f"{path.name}: a header and at least one row below it are wanted.")
        header = lines[0][1]
        asked = columns.columns or {name: name for name in header}
        bare = [name.partition("[")[0].strip() for name in asked]
        twice = [name for name in bare if bare.count(name) > 1]
        if twice:
            raise ProfileError(f"{path.name}: column '{twice[0]}' stands there twice; drop one.")
        self._units = {b: n.partition("[")[2].rstrip("] ").strip() for b, n in zip(bare, asked)}
        self.names = bare
        parts = {
            b: theirs.split("/") if b in _WORDS and theirs not in header else [theirs]
            for b, theirs in zip(bare, asked.values())
        }
        needed = ["runtime", *columns.resources, *columns.counters]
        needed += [] if columns.kind else ["kind"]
        for name in needed:
            if name not in bare:
                raise ProfileError(
                    f"{path.name}: line {lines[0][0]} is {shown(header)}; a column '{name}' is "
                    f"wanted, or its name in a column map."
                )
        for theirs in (theirs for own in parts.values() for theirs in own):
            if theirs not in header:
                near = difflib.get_close_matches(theirs, header, 1)
                hint = f"did you mean '{near[0]}'?" if near else f"{shown(header)} are."
                raise ProfileError(f"{path.name}: '{theirs}' is no column; {hint}")
        for line, cells in lines[1:]:
            if len(cells) != len(header):
                raise ProfileError(
                    f"{path.name}: line {line} has {len(cells)} cells; {len(header)} are wanted, "
                    f"as in the header."
                )
        self._at = {b: [header.index(theirs) for theirs in own] for b, own in parts.items()}
        self._lines = lines[1:]

    def unit(self, name: str) -> str:
        """What stood in brackets behind a name; empty where nothing did."""
        return self._units[name]

    def words(self, name: str) -> list[str]:
        """Cells of a column; of several that make one, joined by strokes."""
        return ["/".join(cells[at] for at in self._at[name]) for _, cells in self._lines]

    def check_names(self, machine: Sequence[str]) -> None:
        """Refuse names that a dataset cannot have, of columns that are no measurement."""
        for name in self.names:
            if name in _OWN and name not in machine:
                continue
            if name in RESERVED:
                raise ProfileError(
                    f"{self._path.name}: column '{name}' has a meaning of its own; call it "
                    f"otherwise, in a column map, say."
                )
            if not name or "/" in name or not name.isprintable():
                raise ProfileError(
                    f"{self._path.name}: a column is called {name!r}, which no file can hold; call "
                    f"it otherwise, in a column map, say."
                )

    def positive(self, name: str, *, every: bool = True) -> Floats:
        """Cells of a column that are positive; one may be empty, NaN then, unless `every`."""
        found = self.numbers(name, every=every)
        return self._checked(
            name, found, np.isnan(found) | (found > 0), "a positive number", _AGAIN
        )

    def whole(self, name: str) -> Floats:
        """Cells of a column that are whole numbers."""
        found = self.numbers(name, every=True)
        good = (found == np.floor(found)) & (np.abs(found) <= _MOST_RUN)
        return self._checked(name, found, good, f"a whole number up to {_MOST_RUN}")

    def _checked(
        self, name: str, found: Floats, good: NDArray[np.bool_], wanted: str, remedy: str = ""
    ) -> Floats:
        if not good.all():
            row = int(np.argmin(good))
            raise ProfileError(
                f"{self._path.name}: line {self._lines[row][0]} has the {name} "
                f"{shown([self.words(name)[row]])}; {wanted} is wanted{remedy}."
            )
        return found

    def numbers(self, name: str, *, every: bool = False) -> Floats:
        """Cells of a column; NaN where one is empty, unless `every` one is to be a number."""
        found = np.full(len(self._lines), np.nan)
        for row, ((line, _), cell) in enumerate(zip(self._lines, self.words(name))):
            if cell:
                try:
                    found[row] = float(cell)
                except ValueError:
                    raise ProfileError(
                        f"{self._path.name}: line {line} has the {name} {shown([cell])}; a number "
                        f"is wanted."
                    ) from None
        good = np.isfinite(found) if every else np.ones(len(found), dtype=bool)
        return self._checked(name, found, good, "a number")


def from_profiles(profiles: Sequence[xr.Dataset]) -> xr.Dataset:
    """Measurements of whole tasks from their profiles: each task is a kernel.

    Parameters
    ----------
    profiles : sequence of xarray.Dataset
        Profile datasets (:mod:`msbgen.data.schema`), each of the task that its attribute ``task``
        names, all over the same resources.  Durations are runtimes; counters are summed over time,
        and one in joules over the duration is the power.

    Returns
    -------
    xarray.Dataset
        ``msbgen-kernels/1``: a measurement for each run in each context.

    Raises
    ------
    ArgumentError
        No profiles, one without a task, other resources, or several counters in joules of
        which none is called ``energy``.
    """
    found = []
    for dataset in profiles:
        task = dataset.attrs.get("task")
        if not isinstance(task, str) or not task:
            raise ArgumentError("profiles have no attribute 'task'; a name of the task is wanted.")
        seconds = duration_array(dataset)
        context, run = np.nonzero(np.isfinite(seconds))
        joules, sums = energy_counters(dataset), {}
        for name in (n for n in counter_names(dataset) if n not in joules):
            total = dataset[name].transpose("context", ..., "time").sum("time", dtype=float).values
            sums[name] = total.reshape(seconds.shape)[context, run]
        power: Floats | None = None
        if joules:
            energy_counter(dataset)  # of several that are not called so none is the energy
            power = (total_energy(dataset) / seconds)[context, run]
        attrs = resource_attrs(dataset)
        levels = context_table(dataset)[context]
        known = {n: np.atleast_1d(a["levels"]).tolist() for n, a in attrs.items() if "levels" in a}
        found.append(
            make_kernels(
                [task] * len(run),
                seconds[context, run],
                resources=dict(zip(resource_names(dataset), levels.T)),
                counters=sums,
                power=power,
                run=run,
                units={name: str(given["units"]) for name, given in attrs.items()},
                levels=known,
            )
        )
    return validate_kernels(join_kernels(found))


# --------------------------------------------------------------------------- public sets


def read_jetson(folder: str | os.PathLike[str], what: str, device: str) -> xr.Dataset:
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
    ProfileError
        No such file, or none of the device.
    ArgumentError
        Another word for what.
    """
    if what not in ("square", "rectangular", "mobilenet"):
        raise ArgumentError(f"what is {what!r}; square, rectangular or mobilenet is wanted.")
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
    own = (dataset["node"].values == device) & (dataset["kind"].values == design)
    found = _only(dataset, own, path, device)
    return found.assign(kind=("measurement", np.full(found.sizes["measurement"], "gemm")))


def read_nv_dvfs(folder: str | os.PathLike[str], gpu: str) -> tuple[xr.Dataset, xr.Dataset]:
    """CUDA microbenchmarks and applications at several core clocks.

    Parameters
    ----------
    folder : path
    gpu : {"V100", "RTX 8000"}

    Returns
    -------
    microbenchmarks, applications : xarray.Dataset
        ``msbgen-kernels/1``, with the seven activities of the GPU's units as counters.

    Raises
    ------
    ArgumentError, ProfileError
        Another GPU; no such file.
    """
    if gpu not in NV_DVFS:
        raise ArgumentError(f"gpu is {gpu!r}; one of {', '.join(NV_DVFS)} is wanted.")
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


def read_zeus(folder: str | os.PathLike[str], gpu: str) -> xr.Dataset:
    """Epochs of training at several power limits.

    Parameters
    ----------
    folder : path
    gpu : {"A40", "P100", "RTX 6000", "V100"}

    Returns
    -------
    xarray.Dataset
        ``msbgen-kernels/1``: the kinds are ``network/optimiser``.

    Raises
    ------
    ArgumentError, ProfileError
        Another GPU; no such file.
    """
    if gpu not in ZEUS:
        raise ArgumentError(f"gpu is {gpu!r}; one of {', '.join(ZEUS)} is wanted.")
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
