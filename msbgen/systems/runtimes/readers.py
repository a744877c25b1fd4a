"""Readers of runtimes measured elsewhere: npz archives, and tables in CSV files."""

import difflib
import logging
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from zipfile import BadZipFile, ZipFile

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.errors import ProfileError, quoted
from msbgen.core.machine import physical_memory
from msbgen.data.columns import Table
from msbgen.sources.timings.matrices import Matrix, is_matrix, read_matrix
from msbgen.systems.runtimes.dataset import SCHEMA
from msbgen.systems.runtimes.dataset import make as make_runtimes
from msbgen.systems.runtimes.dataset import validate as validate_runtimes

_log = logging.getLogger("msbgen")

# Columns that a table may have.
_COLUMNS = ("workload", "platform", "beside", "runtime", "run")


def import_archives(folder: str | os.PathLike[str]) -> tuple[xr.Dataset, list[str]]:
    """The runtimes of a folder of npz archives, as WiseLabCMU/pitot publishes them; and remarks.

    ``data.npz`` holds runs alone with features and names, ``if2.npz`` (``if3``, ``if4``) runs
    beside others. Their times are in **microseconds**, unlike their documentation: collection
    stopped at 30 s, and the largest value is 2.999e7. Neighbouring rows of runs beside others are
    the parts of one run. Exact copies are dropped; the remarks say how many.
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
        1e-6 * table["t"][kept].astype(float), table["i_workload"][kept], table["i_platform"][kept],
        near[kept], _renumbered(run[kept]), workloads=list(map(str, alone["n_workload"])),
        platforms=list(map(str, alone["n_platform"])),
        workload_features=dict(zip(map(str, alone["f_workload"]), alone["d_workload"].T)),
        platform_features=dict(zip(map(str, alone["f_platform"]), alone["d_platform"].T)),
        attrs={"source": f"imported from {folder.name}"},
    )  # fmt: skip
    return validate_runtimes(dataset, source=str(folder)), remarks


def read_table(path: str | os.PathLike[str]) -> xr.Dataset:
    """Runtimes from a table: workloads × platforms, or with a row for each observation.

    Other headers than those below are read as :mod:`msbgen.sources.timings.matrices` describes;
    the result's ``encoding["taken"]`` has sentences about it.

    ================  =========================================================================
    column            meaning
    ================  =========================================================================
    ``workload``      name of the workload that took the time
    ``platform``      name of the platform that it ran on
    ``runtime [s]``   time that it took, or in another unit of time
    ``beside``        optional: workloads that ran at the same time, joined by ``|``
    ``run``           optional: observations with one word here were made together
    ================  =========================================================================

    Raises
    ------
    ProfileError
        No such file, another header, no unit, a runtime that is not positive; with the line.
    """
    if is_matrix(path, ("workload", "platform", "runtime")):
        return _of_matrix(read_matrix(path))
    table = Table(path, needed=("workload", "platform", "runtime"), known=_COLUMNS)
    seconds = table.seconds("runtime", SCHEMA["runtime"].least, SCHEMA["runtime"].most)
    names: dict[str, dict[str, int]] = {"workload": {}, "platform": {}}

    def index(kind: str, name: str, line: int) -> int:
        if not name or "|" in name:
            raise ProfileError(
                f"{table.file}: line {line} has the {kind} '{name}'; a name without '|', which "
                f"joins neighbours, is wanted."
            )
        return names[kind].setdefault(name, len(names[kind]))

    rows = _indices(table, index)
    _warn_of_strangers(table, names["workload"], rows)
    runs = [
        f"run {run}" if run else f"line {line}"
        for run, line in zip(table.texts("run"), table.lines)
    ]
    dataset = make_runtimes(
        seconds, rows[:, 0], rows[:, 1], rows[:, 2:], np.unique(runs, return_inverse=True)[1],
        workloads=list(names["workload"]), platforms=list(names["platform"]),
        attrs={"source": f"imported from {table.file}"},
    )  # fmt: skip
    return validate_runtimes(dataset, source=table.file)


def _of_matrix(matrix: Matrix) -> xr.Dataset:
    """Runtimes of workloads that ran alone."""
    workloads, platforms = (
        list(dict.fromkeys(names)) for names in (matrix.workloads, matrix.machines)
    )
    for kind, names in (("workload", workloads), ("platform", platforms)):
        for name in names:
            if not name or "|" in name:
                raise ProfileError(
                    f"{matrix.source}: a {kind} is {quoted(name)}; a name without '|' is wanted."
                )
    n = len(matrix.seconds)
    dataset = make_runtimes(
        matrix.seconds,
        np.array([workloads.index(name) for name in matrix.workloads]),
        np.array([platforms.index(name) for name in matrix.machines]),
        np.empty((n, 0), dtype=np.int64), np.arange(n), workloads=workloads, platforms=platforms,
        attrs={"source": f"imported from {matrix.source}"},
    )  # fmt: skip
    dataset = validate_runtimes(dataset, source=matrix.source)
    dataset.encoding["taken"] = list(matrix.taken)
    return dataset


def read_queries(
    path: str | os.PathLike[str], workloads: Sequence[str], platforms: Sequence[str]
) -> NDArray[np.int64]:
    """Runs wanted from a CSV file with the columns workload, platform and beside, (n, 2 + slots).

    They are indices of workload, platform and neighbours, −1 for none. A name that is not known
    raises :class:`ProfileError` with the line and the nearest name.
    """
    table = Table(path, needed=("workload", "platform"), known=_COLUMNS)
    places = {
        "workload": {name: i for i, name in enumerate(workloads)},
        "platform": {name: i for i, name in enumerate(platforms)},
    }

    def index(kind: str, name: str, line: int) -> int:
        if name not in places[kind]:
            near = difflib.get_close_matches(name, places[kind], n=1, cutoff=0.0)
            raise ProfileError(
                f"{table.file}: line {line} has the {kind} '{name}', which was never observed; "
                f"the nearest name is '{near[0]}'."
            )
        return places[kind][name]

    return _indices(table, index)


def _warn_of_strangers(table: Table, names: Mapping[str, int], rows: NDArray[np.int64]) -> None:
    """Log the first neighbour without a row of its own: a misspelt name would make a workload."""
    known = [name for name, place in names.items() if place in rows[:, 0]]
    for name, place in names.items():
        if name not in known:
            line = table.lines[int(np.argmax((rows[:, 2:] == place).any(axis=1)))]
            near = difflib.get_close_matches(name, known, 2)
            hint = f"correct it if {' or '.join(map(repr, near))} is meant" if near else "add one"
            _log.warning(
                "%s: line %d names '%s' beside, which has no row of its own; %s.",
                table.file, line, name, hint,
            )  # fmt: skip
            return


def _indices(table: Table, index: Callable[[str, str, int], int]) -> NDArray[np.int64]:
    """Indices of workload, platform and neighbours of each row, (n, 2 + slots), −1 for none."""
    rows = []
    columns = (table.texts("workload"), table.texts("platform"), table.texts("beside"))
    for workload, platform, beside, line in zip(*columns, table.lines):
        near = [part.strip() for part in beside.split("|")] if beside.strip() else []
        if "" in near:
            raise ProfileError(
                f"{table.file}: line {line} has the beside {quoted(beside)}; a name on each side "
                f"of '|' is wanted."
            )
        rows.append(
            [index("workload", workload, line), index("platform", platform, line)]
            + [index("workload", name, line) for name in near]
        )
    width = max(map(len, rows))
    return np.array([row + [-1] * (width - len(row)) for row in rows], dtype=np.int64)


def _archive(path: Path) -> dict[str, NDArray]:
    try:
        with ZipFile(path) as archive:
            if sum(member.file_size for member in archive.filelist) > physical_memory():
                raise MemoryError("its arrays take more than this machine's memory")
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except FileNotFoundError:
        raise ProfileError(f"{path}: no such file; a folder with data.npz is wanted.") from None
    except MemoryError as error:
        raise ProfileError(
            f"{path}: is too large ({error}); split it, or read it on another machine."
        ) from None
    # errors of zipfile: RuntimeError for encrypted members, and for methods that it does not know
    except (
        OSError,
        EOFError,
        RuntimeError,
        TypeError,
        ValueError,
        BadZipFile,
        zlib.error,
    ) as error:
        raise ProfileError(
            f"{path}: cannot be read as an npz archive ({error}); download or write it again."
        ) from None
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
        for name in (f"n_{of}", f"f_{of}"):
            if arrays[name].ndim != 1:
                raise ProfileError(
                    f"{path}: array '{name}' has shape {arrays[name].shape}; a list of names is "
                    f"wanted."
                )
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
