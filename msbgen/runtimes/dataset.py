"""What a dataset of runtimes is: which workload ran how long on which platform, beside which.

A runtime dataset (``msbgen-runtimes/1``) is a plain :class:`xarray.Dataset`:

==========================  =========================  ==========================================
name                        dims                       meaning
==========================  =========================  ==========================================
``workload``, ``platform``  the same                   names (coordinates)
``runtime``                 observation                time that the workload took [s]
``workload_index``          observation                what ran
``platform_index``          observation                where
``beside``                  observation, slot          workloads that ran at the same time; −1
                                                       where a slot is empty
``run``                     observation                observations of one run were made together
``workload_features``       workload, workload_feature  optional, e.g. log(1 + opcode count) [1]
``platform_features``       platform, platform_feature  optional [1]
==========================  =========================  ==========================================
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import ProfileError
from msbgen.data.store import load_netcdf, save_netcdf

RUNTIMES_SCHEMA = "msbgen-runtimes/1"

_INDICES = ("workload_index", "platform_index", "run")


def make(
    runtime: ArrayLike,
    workload: ArrayLike,
    platform: ArrayLike,
    beside: ArrayLike,
    run: ArrayLike,
    *,
    workloads: Sequence[str],
    platforms: Sequence[str],
    workload_features: Mapping[str, ArrayLike] | None = None,
    platform_features: Mapping[str, ArrayLike] | None = None,
    attrs: Mapping[str, Any] | None = None,
) -> xr.Dataset:
    """Put labels on arrays.

    Parameters
    ----------
    runtime : array_like, (n,)
        [s]
    workload, platform, run : array_like of int, (n,)
    beside : array_like of int, (n, slots)
        −1 where a slot is empty.
    workloads, platforms : sequence of str
        Names, in the order of the indices.
    workload_features, platform_features : mapping of name to array_like, (n_workloads,) each
    attrs : mapping
        Global attributes beyond ``schema``.

    Returns
    -------
    xarray.Dataset
        Not validated: see :func:`validate`.
    """
    variables: dict[str, Any] = {
        "runtime": (
            "observation",
            np.asarray(runtime, dtype=float),
            {"units": "s", "long_name": "time that the workload took"},
        ),
        "workload_index": ("observation", np.asarray(workload, dtype=np.int32)),
        "platform_index": ("observation", np.asarray(platform, dtype=np.int32)),
        "beside": (
            ("observation", "slot"),
            np.asarray(beside, dtype=np.int32).reshape(len(np.asarray(runtime)), -1),
            {"long_name": "workloads that ran at the same time, -1 for none"},
        ),
        "run": (
            "observation",
            np.asarray(run, dtype=np.int32),
            {"long_name": "observations of one run were made together"},
        ),
    }
    coords: dict[str, Any] = {"workload": list(workloads), "platform": list(platforms)}
    for dim, features in (("workload", workload_features), ("platform", platform_features)):
        if features:
            table = np.stack([np.asarray(f, dtype=np.float32) for f in features.values()], axis=1)
            coords[f"{dim}_feature"] = list(features)
            variables[f"{dim}_features"] = ((dim, f"{dim}_feature"), table, {"units": "1"})
    return xr.Dataset(variables, coords, {"schema": RUNTIMES_SCHEMA, **(attrs or {})})


def validate(dataset: xr.Dataset, *, source: str = "dataset") -> xr.Dataset:
    """Return the dataset if it obeys the contract.

    Raises
    ------
    ProfileError
        With one sentence for every problem.
    """
    problems = list(_layout_problems(dataset)) or list(_value_problems(dataset))
    if problems:
        raise ProfileError(*(f"{source}: {problem}" for problem in problems))
    return dataset


def describe(dataset: xr.Dataset) -> str:
    """What a valid dataset holds, in a few lines for a person."""
    degree = (dataset["beside"].values >= 0).sum(axis=1)
    cells = dataset["workload_index"].values * dataset.sizes["platform"]
    cells = cells + dataset["platform_index"].values
    runtime = dataset["runtime"].values
    share = len(np.unique(cells[degree == 0])) / (
        dataset.sizes["workload"] * dataset.sizes["platform"]
    )
    lines = [
        f"workloads  {dataset.sizes['workload']}, platforms {dataset.sizes['platform']}, "
        f"{share:.1%} of the cells observed alone",
        f"runtimes   {len(runtime)}, from {runtime.min():.4g} to {runtime.max():.4g} s",
    ]
    for count in np.unique(degree):
        beside = "alone" if count == 0 else f"beside {count} other{'s' * int(count > 1)}"
        lines.append(f"           {(degree == count).sum()} {beside}")
    for dim in ("workload", "platform"):
        if f"{dim}_features" in dataset:
            lines.append(f"features   {dataset.sizes[f'{dim}_feature']} of each {dim}")
    return "\n".join(lines)


def read(path: str | os.PathLike[str]) -> xr.Dataset:
    """Read and validate a runtime file; everything is loaded.

    Raises
    ------
    ProfileError
        The file cannot be read whole, or what it holds breaks the contract.
    """
    return validate(load_netcdf(path), source=Path(path).name)


def write(dataset: xr.Dataset, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Validate and write a runtime file, whole or not at all.

    Raises
    ------
    ProfileError
        The dataset breaks the contract; nothing is written.
    FileExistsError
        `path` exists and `overwrite` is False.
    """
    validate(dataset, source=Path(path).name)
    packed = {"zlib": True, "complevel": 9, "shuffle": True}
    encoding = {str(n): packed for n, v in dataset.data_vars.items() if v.dtype.kind in "fi"}
    # seven digits are more than any clock has
    encoding["runtime"] = {**packed, "dtype": "float32"}
    save_netcdf(dataset, path, overwrite=overwrite, encoding=encoding)


def run_table(dataset: xr.Dataset) -> NDArray[np.int64]:
    """Workload, platform and neighbours of every observation, (n, 2 + slots)."""
    indices = [dataset[name].values for name in ("workload_index", "platform_index")]
    return np.column_stack([*indices, dataset["beside"].values]).astype(np.int64)


def features_of(dataset: xr.Dataset, dim: str) -> NDArray[np.float64]:
    """Features of every workload or platform, (n, d); none of them is d = 0."""
    name = f"{dim}_features"
    if name not in dataset:
        return np.empty((dataset.sizes[dim], 0))
    return dataset[name].transpose(dim, ...).values.astype(float)


def _layout_problems(ds: xr.Dataset) -> Iterator[str]:
    schema = ds.attrs.get("schema")
    if not isinstance(schema, str) or schema != RUNTIMES_SCHEMA:
        yield f"attribute 'schema' is {schema!r}; a runtime file says '{RUNTIMES_SCHEMA}'."
        return
    for dim in ("observation", "workload", "platform"):
        if ds.sizes.get(dim, 0) == 0:
            yield f"dimension '{dim}' is missing or empty; at least one entry is wanted."
    for name in ("workload", "platform"):
        if name in ds.dims and (name not in ds.coords or ds[name].dtype.kind not in "OUT"):
            yield f"coordinate '{name}' is missing or no text; the names are wanted."
    for name, dims in (
        ("runtime", ("observation",)),
        *((name, ("observation",)) for name in _INDICES),
        ("beside", ("observation", "slot")),
    ):
        if name not in ds.data_vars:
            yield f"variable '{name}' is missing."
        elif ds[name].dims != dims:
            yield f"variable '{name}' has dimensions {list(ds[name].dims)}; {list(dims)} is wanted."
        elif ds[name].dtype.kind not in ("fiu" if name == "runtime" else "iu"):
            yield f"variable '{name}' holds {ds[name].dtype}; numbers are wanted."
    if "runtime" in ds and not (
        isinstance(ds["runtime"].attrs.get("units"), str) and ds["runtime"].attrs["units"] == "s"
    ):
        got = ds["runtime"].attrs.get("units")
        yield f"variable 'runtime' has units {got!r}; seconds are wanted, units 's'."
    for dim in ("workload", "platform"):
        name = f"{dim}_features"
        if name not in ds:
            continue
        if ds[name].ndim != 2 or dim not in ds[name].dims:
            yield f"variable '{name}' has dimensions {list(ds[name].dims)}; '{dim}' and one wanted."
        elif ds[name].dtype.kind not in "fiu" or not np.isfinite(ds[name].values).all():
            yield f"variable '{name}' holds what is no finite number; fill in or drop the feature."


def _value_problems(ds: xr.Dataset) -> Iterator[str]:
    runtime = ds["runtime"].values.astype(float)
    # files hold single precision: what that takes for 0 or infinite is no time of a program
    with np.errstate(over="ignore"):
        stored = runtime.astype(np.float32)
    bad = ~(np.isfinite(stored) & (stored > 0))
    if bad.any():
        row = int(np.argmax(bad))
        yield (
            f"variable 'runtime' is {runtime[row]} s at observation {row}; a positive number is "
            f"wanted: measure it again or drop it."
        )
    for name, dim, least in (
        ("workload_index", "workload", 0),
        ("platform_index", "platform", 0),
        ("beside", "workload", -1),
    ):
        values = ds[name].values
        off = (values < least) | (values >= ds.sizes[dim])
        if off.any():
            row = int(np.argwhere(off)[0][0])
            yield (
                f"variable '{name}' is {int(values[off].flat[0])} at observation {row}; an index "
                f"from {least} to {ds.sizes[dim] - 1} is wanted."
            )
    for dim in ("workload", "platform"):
        names, counts = np.unique(ds[dim].values.astype(str), return_counts=True)
        if counts.max() > 1:
            yield f"{dim} '{names[counts.argmax()]}' is named twice; one entry each is wanted."
        odd = [name for name in names.tolist() if not name.strip() or "|" in name]
        if odd:
            yield (
                f"{dim} '{odd[0]}' cannot be asked for; a name without '|', which joins "
                f"neighbours, is wanted."
            )
