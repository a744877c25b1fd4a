"""Readers of runtimes measured elsewhere: npz archives, and tables in CSV files.

A table has the columns ``workload``, ``platform``, ``beside`` (names joined by ``|``) and a runtime
whose header gives its unit, ``runtime [ms]``.
"""

from __future__ import annotations

import csv
import difflib
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.durations import UNITS
from msbgen.core.errors import ProfileError
from msbgen.data.files import check_input
from msbgen.data.tables import shown
from msbgen.runtimes.dataset import make as make_runtimes
from msbgen.runtimes.dataset import validate as validate_runtimes

# Columns of tables; that of runtimes has its unit behind it.
_COLUMNS = ("workload", "platform", "beside", "runtime", "run")

# No program takes less or longer, in any unit of a table.
_SHORTEST, _LONGEST = 1e-15, 1e25


def import_archives(folder: str | os.PathLike[str]) -> tuple[xr.Dataset, list[str]]:
    """The runtimes of a folder of npz archives, as WiseLabCMU/pitot publishes them.

    ``data.npz`` holds runs alone with features and names, ``if2.npz`` (``if3``, ``if4``) runs
    beside others.  Their times are in **microseconds**, whatever their documentation says:
    collection stopped at 30 s, and the largest value is 2.999e7.  Neighbouring rows of runs
    beside others are the parts of one run.  Exact copies are dropped.

    Returns
    -------
    dataset : xarray.Dataset
    remarks : list of str
        What was dropped, a sentence each.

    Raises
    ------
    ProfileError
        No such archive, or not the arrays expected.
    """
    folder = Path(folder)
    alone = _archive(folder / "data.npz")
    parts = [_archive(folder / f"if{d}.npz") for d in (2, 3, 4) if (folder / f"if{d}.npz").exists()]
    slots = max((sum(k.startswith("i_interference") for k in part) for part in parts), default=0)
    columns: dict[str, list[NDArray]] = {"t": [], "i_workload": [], "i_platform": []}
    beside, run, first = [], [], 0
    for part in (alone, *parts):
        n = len(part["t"])
        for name, values in columns.items():
            values.append(part[name])
        near = np.full((n, slots), -1, dtype=np.int64)
        names = sorted(k for k in part if k.startswith("i_interference"))
        for slot, name in enumerate(names):
            near[:, slot] = part[name]
        beside.append(near)
        run.append(first + _together(part["i_platform"], part["i_workload"], near[:, : len(names)]))
        first = int(run[-1].max()) + 1
    table = {name: np.concatenate(values) for name, values in columns.items()}
    near, run = np.concatenate(beside), np.concatenate(run)
    key = np.column_stack([table["i_workload"], table["i_platform"], near, table["t"]])
    _, kept = np.unique(key, axis=0, return_index=True)
    remarks = []
    if len(kept) < len(key):
        remarks.append(f"{len(key) - len(kept)} rows are exact copies of others; dropped.")
    # the order means nothing: by degree, platform, workload and run it makes a small file
    first = np.zeros(int(run.max()) + 1, dtype=np.int64)
    np.maximum.at(first, run, table["i_workload"])
    degree = (near[kept] >= 0).sum(axis=1)
    by = (table["i_workload"], run, first[run], table["i_platform"])
    kept = kept[np.lexsort((*(column[kept] for column in by), degree))]
    dataset = make_runtimes(
        1e-6 * table["t"][kept].astype(float),
        table["i_workload"][kept],
        table["i_platform"][kept],
        near[kept],
        _renumbered(run[kept]),
        workloads=list(map(str, alone["n_workload"])),
        platforms=list(map(str, alone["n_platform"])),
        workload_features=dict(zip(map(str, alone["f_workload"]), alone["d_workload"].T)),
        platform_features=dict(zip(map(str, alone["f_platform"]), alone["d_platform"].T)),
        attrs={"source": f"imported from {folder.name}"},
    )
    return validate_runtimes(dataset, source=str(folder)), remarks


def read_table(path: str | os.PathLike[str]) -> xr.Dataset:
    """Runtimes from a CSV file with the columns workload, platform, beside and runtime.

    The header gives the unit: ``runtime [ms]``.  ``beside`` may be left out; names in it are
    joined by ``|``.  A column ``run`` may say which observations were made together.

    Raises
    ------
    ProfileError
        No such file, another header, no unit, a runtime that is not positive; with the line.
    """
    path = Path(path)
    header, rows = _table(path)
    units = [name for name in header if name.partition("[")[0].strip() == "runtime"]
    if len(units) != 1 or not {"workload", "platform"} <= set(header):
        raise ProfileError(
            f"{path.name}: line 1 is {shown(header)}; the columns workload, platform, "
            f"beside and 'runtime [s]' are wanted."
        )
    unit = units[0].partition("[")[2].rstrip("] ").strip()
    if unit not in UNITS:
        raise ProfileError(
            f"{path.name}: the runtime has no unit that is known ('{units[0]}'); "
            f"'runtime [s]', or one of {', '.join(UNITS)} in its place, is wanted."
        )
    names: dict[str, dict[str, int]] = {"workload": {}, "platform": {}}
    near: list[list[int]] = []
    columns: dict[str, list[Any]] = {"workload": [], "platform": [], "runtime": [], "run": []}

    def index(kind: str, name: str, number: int) -> int:
        if not name or "|" in name:
            raise ProfileError(
                f"{path.name}: line {number} names the {kind} '{name}'; a name without '|', which "
                f"joins neighbours, is wanted."
            )
        return names[kind].setdefault(name, len(names[kind]))

    for number, row in rows:
        values = dict(zip(header, row))
        columns["runtime"].append(UNITS[unit] * _positive(values[units[0]], path, number))
        for kind in ("workload", "platform"):
            columns[kind].append(index(kind, values[kind].strip(), number))
        beside = [part.strip() for part in values.get("beside", "").split("|") if part.strip()]
        near.append([index("workload", part, number) for part in beside])
        run = values.get("run", "").strip()
        columns["run"].append(f"run {run}" if run else f"line {number}")
    slots = max(map(len, near), default=0)
    padded = np.full((len(near), slots), -1, dtype=np.int64)
    for i, several in enumerate(near):
        padded[i, : len(several)] = several
    dataset = make_runtimes(
        columns["runtime"],
        columns["workload"],
        columns["platform"],
        padded,
        np.unique(columns["run"], return_inverse=True)[1],
        workloads=list(names["workload"]),
        platforms=list(names["platform"]),
        attrs={"source": f"imported from {path.name}"},
    )
    return validate_runtimes(dataset, source=path.name)


def read_queries(
    path: str | os.PathLike[str], workloads: Sequence[str], platforms: Sequence[str]
) -> NDArray[np.int64]:
    """Runs wanted from a CSV file with the columns workload, platform and beside, by index.

    Returns
    -------
    ndarray of int, (n, 2 + slots)
        Workload, platform and neighbours, −1 for none.

    Raises
    ------
    ProfileError
        No such file, another header, a name that is not known; with the line and, for a name,
        the nearest one that is.
    """
    path = Path(path)
    header, rows = _table(path)
    if not {"workload", "platform"} <= set(header):
        raise ProfileError(
            f"{path.name}: line 1 is {shown(header)}; the columns workload, platform and "
            f"beside are wanted."
        )
    places = {
        "workload": {name: i for i, name in enumerate(workloads)},
        "platform": {name: i for i, name in enumerate(platforms)},
    }

    def index(kind: str, name: str, number: int) -> int:
        if name not in places[kind]:
            near = difflib.get_close_matches(name, places[kind], n=1, cutoff=0.0)
            raise ProfileError(
                f"{path.name}: line {number} names the {kind} '{name}', which was never observed; "
                f"the nearest name is '{near[0]}'."
            )
        return places[kind][name]

    wanted = []
    for number, row in rows:
        values = dict(zip(header, row))
        beside = [part.strip() for part in values.get("beside", "").split("|") if part.strip()]
        wanted.append(
            [index(kind, values[kind].strip(), number) for kind in ("workload", "platform")]
            + [index("workload", part, number) for part in beside]
        )
    width = max(map(len, wanted))
    return np.array([row + [-1] * (width - len(row)) for row in wanted], dtype=np.int64)


def _archive(path: Path) -> dict[str, NDArray]:
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except FileNotFoundError:
        raise ProfileError(f"{path}: no such file; a folder with data.npz is wanted.") from None
    except (OSError, EOFError, TypeError, ValueError, BadZipFile) as error:
        raise ProfileError(f"{path}: cannot be read as an npz archive ({error}).") from None
    wanted = ["t", "i_workload", "i_platform"]
    if path.name == "data.npz":
        wanted += [f"{kind}_{of}" for kind in "ndf" for of in ("workload", "platform")]
    missing = [name for name in wanted if name not in arrays]
    if missing:
        raise ProfileError(f"{path}: has no array '{missing[0]}'; is it another archive?")
    columns = [n for n in arrays if n == "t" or n.startswith("i_")]
    for name in columns:
        if arrays[name].ndim != 1 or arrays[name].dtype.kind not in (
            "fiu" if name == "t" else "iu"
        ):
            raise ProfileError(
                f"{path}: array '{name}' holds {arrays[name].dtype} of shape {arrays[name].shape}; "
                f"a number for each run is wanted, whole ones for indices."
            )
    lengths = sorted({len(arrays[name]) for name in columns})
    if lengths == [0] or len(lengths) > 1:
        raise ProfileError(f"{path}: has arrays of {lengths} runs; one number above 0 is wanted.")
    for of in ("workload", "platform") if path.name == "data.npz" else ():
        shape, wanted = arrays[f"d_{of}"].shape, tuple(arrays[f"{k}_{of}"].size for k in "nf")
        if shape != wanted or arrays[f"d_{of}"].dtype.kind not in "fiu":
            raise ProfileError(
                f"{path}: array 'd_{of}' holds {arrays[f'd_{of}'].dtype} of shape {shape}; numbers "
                f"of shape {wanted} are wanted, as there are names."
            )
    return arrays


def _together(platform: NDArray, workload: NDArray, beside: NDArray) -> NDArray[np.int64]:
    """Runs of neighbouring rows: on one platform, each workload beside the others, (n,)."""
    n = len(platform)
    if beside.shape[1] == 0:
        return np.arange(n)
    crew = np.sort(np.column_stack([workload, beside]), axis=1)
    same = (platform[1:] == platform[:-1]) & (crew[1:] == crew[:-1]).all(axis=1)
    run, size, current = np.zeros(n, dtype=np.int64), crew.shape[1], 0
    count = 1
    for row in range(1, n):
        count = count + 1 if same[row - 1] and count < size else 1
        current += count == 1
        run[row] = current
    return run


def _renumbered(run: NDArray[np.int64]) -> NDArray[np.int64]:
    """Runs counted in the order in which they first appear."""
    _, first, inverse = np.unique(run, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def _table(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Header and numbered rows of a CSV file, as wide as the header."""
    check_input(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
        reader = csv.reader(io.StringIO(text))
        rows = [(reader.line_num, row) for row in reader if any(map(str.strip, row))]
    except FileNotFoundError:
        raise ProfileError(f"{path}: no such file.") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ProfileError(f"{path}: cannot be read as a table ({error}).") from None
    if len(rows) < 2:
        raise ProfileError(f"{path.name}: a header and at least one row below it are wanted.")
    header = [cell.strip() for cell in rows[0][1]]
    unknown = [name for name in header if name.partition("[")[0].strip() not in _COLUMNS]
    if unknown or len(set(header)) < len(header):
        wrong = unknown[0] if unknown else next(n for n in header if header.count(n) > 1)
        raise ProfileError(
            f"{path.name}: line 1 has a column '{wrong}', unknown or there twice; "
            f"{', '.join(_COLUMNS)} are wanted, once each."
        )
    for number, row in rows[1:]:
        if len(row) != len(header):
            raise ProfileError(
                f"{path.name}: line {number} has {len(row)} cells; {len(header)} are wanted, as "
                f"in the header."
            )
    return header, rows[1:]


def _positive(text: str, path: Path, number: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not _SHORTEST < value < _LONGEST:
        raise ProfileError(
            f"{path.name}: line {number} has the runtime {shown([text])}; a positive number is "
            f"wanted: measure it again or drop the line."
        )
    return value
