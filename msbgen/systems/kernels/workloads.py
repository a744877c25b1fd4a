"""Workloads: the kernels that networks launch, and how often.

A dataset of workloads is a plain :class:`xarray.Dataset` over ``launch`` with the variables that
:data:`SCHEMA` declares, and one variable for each parameter of a kernel, as in measurements of
kernels (:mod:`msbgen.kernels.dataset`).
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.draws import real_array
from msbgen.core.errors import ArgumentError, ProfileError, printable
from msbgen.data.columns import Table
from msbgen.data.files import path_of
from msbgen.data.variables import Schema, Variable
from msbgen.systems.kernels.dataset import RESERVED, parameter

WORKLOAD_SCHEMA = "msbgen-workload/1"
# More launches of one kernel in one workload are a mistake.
_MOST_LAUNCHES = 1_000_000_000
_OF = ("launch",)
SCHEMA = Schema(
    WORKLOAD_SCHEMA,
    "workloads",
    _OF,
    (
        Variable("workload", _OF, "text", meaning="name of the network"),
        Variable("kind", _OF, "text", meaning="kind of the kernel"),
        Variable("count", _OF, "whole", "1", "launches with these parameters", 1, _MOST_LAUNCHES),
        parameter("launch"),
    ),
)


def make_workload(
    kind: Sequence[str],
    count: ArrayLike,
    *,
    parameters: Mapping[str, ArrayLike] | None = None,
    workload: Sequence[str] | str = "",
    units: Mapping[str, str] | None = None,
    attrs: Mapping[str, Any] | None = None,
) -> xr.Dataset:
    """Put labels on arrays; the dataset is not validated (:func:`validate_workload`).

    Parameters
    ----------
    kind, count : sequence of str and array_like of int, (n,)
    parameters : mapping of name to array_like, (n,) each
        NaN where the kind has none of it.
    workload : sequence of str, (n,), or one for all
    units : mapping of name to str
        Of the parameters; ``"1"`` where not given.
    attrs : mapping
        Global attributes beyond ``schema``.
    """
    counts = real_array(count, "count")
    good = (counts >= 1) & (counts <= _MOST_LAUNCHES) & (counts == np.floor(counts))
    if not good.size or not good.all():
        some = f"count is {counts[~good][0]:.10g}" if good.size else "kernels are none"
        raise ArgumentError(f"{some}; a whole number from 1 to {_MOST_LAUNCHES} each is wanted.")
    names = [workload] * len(kind) if isinstance(workload, str) else list(workload)
    dataset = SCHEMA.dataset({"workload": names, "kind": kind, "count": counts}, attrs)
    for name, values in (parameters or {}).items():
        if name in RESERVED:
            raise ArgumentError(f"name is {name!r}, which is reserved; rename it.")
        unit = (units or {}).get(name, "1")
        dataset[name] = SCHEMA["parameter"].entry(values, units=unit)
    return dataset


def validate_workload(dataset: xr.Dataset, *, source: str = "dataset") -> xr.Dataset:
    """Return the dataset if it obeys :data:`SCHEMA`; :class:`ProfileError` names every problem."""
    return SCHEMA.validate(dataset, source)


def describe(dataset: xr.Dataset) -> str:
    """What a valid dataset holds, in a line for each workload."""
    lines = []
    for name in workload_names(dataset):
        launches = one_workload(dataset, name)
        kinds = sorted({str(word) for word in launches["kind"].values})
        lines.append(
            f"{name or '(not named)'}: {counts_of(launches).sum()} launches of "
            f"{launches.sizes['launch']} kernels ({', '.join(kinds)})"
        )
    return "\n".join(map(printable, lines))


def workload_names(dataset: xr.Dataset) -> list[str]:
    """Names of the workloads, in the order of their first launches."""
    return list(dict.fromkeys(str(word) for word in dataset["workload"].values))


def one_workload(dataset: xr.Dataset, name: str) -> xr.Dataset:
    """The launches of one workload; :class:`ArgumentError` names the nearest if it is missing."""
    rows = dataset["workload"].values.astype(str) == name
    if not rows.any():
        names = workload_names(dataset)
        near = difflib.get_close_matches(name, names, 1)
        some = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
        hint = f"did you mean '{near[0]}'?" if near else f"one of {some} is wanted."
        raise ArgumentError(f"workload is {name!r}; {hint}")
    return dataset.isel(launch=np.flatnonzero(rows))


def counts_of(dataset: xr.Dataset) -> NDArray[np.int64]:
    """How often each launch is made, (n,)."""
    return dataset["count"].values.astype(np.int64)


def read_workload(path: str | os.PathLike[str]) -> xr.Dataset:
    """Read workloads from a file of ours (``.nc``), or from a CSV table.

    Columns of a table: ``kind`` and ``count``, ``workload`` where there are several; every other
    one is a parameter with its unit in brackets, ``"1"`` without; an empty cell where the kind
    has none of it.

    Raises
    ------
    ProfileError
        The file cannot be read, or what it holds breaks the contract; with the line.
    """
    path = path_of(path)
    if path.suffix == ".nc":
        return SCHEMA.read(path)
    table = Table(path, needed=("kind", "count"))
    parameters = [name for name in table.names if name not in ("kind", "count", "workload")]
    reserved = RESERVED & set(parameters)
    if reserved:
        raise ProfileError(f"{path.name}: column '{min(reserved)}' is no parameter; rename it.")
    wanted = f"a whole number from 1 to {_MOST_LAUNCHES} is wanted"
    dataset = make_workload(
        table.texts("kind"),
        table.range("count", 1, _MOST_LAUNCHES, wanted, whole=True),
        parameters={name: table.declared(name, SCHEMA["parameter"]) for name in parameters},
        workload=table.texts("workload") if "workload" in table.names else path.stem,
        units={name: table.unit(name) or "1" for name in parameters},
    )
    return validate_workload(dataset, source=path.name)


def write_workload(
    dataset: xr.Dataset, path: str | os.PathLike[str], *, overwrite: bool = False
) -> None:
    """Validate and write workloads, whole or not at all; errors as :meth:`Schema.write`."""
    SCHEMA.write(dataset, path, overwrite=overwrite)
