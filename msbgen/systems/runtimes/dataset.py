"""Runtime datasets: how long a workload ran on a platform, and which workloads ran beside it.

A runtime dataset is a plain :class:`xarray.Dataset` with the variables that :data:`SCHEMA`
declares.  Workloads and platforms are named by the coordinates of the same names; observations
refer to them by index.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.draws import numbers_of
from msbgen.core.errors import ArgumentError
from msbgen.data.variables import Schema, Variable

RUNTIMES_SCHEMA = "msbgen-runtimes/1"


def _name_problems(dataset: xr.Dataset) -> Iterator[str]:
    """Sentences about names that a question could not contain."""
    for dim in ("workload", "platform"):
        for name in dataset[dim].values.astype(str).tolist():
            if not name.strip() or "|" in name:
                yield (
                    f"{dim} '{name}' has no usable name; a name without '|', which joins "
                    f"neighbours, is wanted."
                )
                break


SCHEMA = Schema(
    RUNTIMES_SCHEMA,
    "runtimes of workloads on platforms",
    ("observation", "workload", "platform"),
    (
        Variable("workload", ("workload",), "text", distinct=True, coordinate=True),
        Variable("platform", ("platform",), "text", distinct=True, coordinate=True),
        Variable(
            "runtime",
            ("observation",),
            unit="s",
            meaning="time that the workload took",
            least=1e-12,
            most=1e12,
            remedy="measure it again or drop it",
            stored="float32",  # seven digits are more than any clock has
        ),
        Variable(
            "workload_index", ("observation",), "whole", least=0, index_of="workload", dtype="int32"
        ),
        Variable(
            "platform_index", ("observation",), "whole", least=0, index_of="platform", dtype="int32"
        ),
        Variable(
            "beside", ("observation", "slot"), "whole",
            meaning="workloads that ran at the same time, -1 for none", least=-1,
            index_of="workload", dtype="int32",
        ),
        Variable(
            "run", ("observation",), "whole", meaning="observations of one run were made together",
            dtype="int32",
        ),
        Variable(
            "workload_features", ("workload", "workload_feature"), unit="1",
            meaning="such as log(1 + opcode count)", remedy="fill it in or drop the feature",
            optional=True, any_order=True, dtype="float32",
        ),
        Variable(
            "platform_features", ("platform", "platform_feature"), unit="1",
            remedy="fill it in or drop the feature", optional=True, any_order=True, dtype="float32",
        ),
    ),
    check=_name_problems,
)  # fmt: skip


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
    """Put labels on arrays; the dataset is not validated (:func:`validate`).

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
    """
    slots = numbers_of(beside, "beside")
    if len(np.atleast_1d(slots)) != np.size(runtime) or not np.size(runtime):
        raise ArgumentError(
            f"beside has shape {slots.shape}; a row for each of {np.size(runtime)} runtimes is "
            f"wanted."
        )
    values: dict[str, Any] = {
        "runtime": runtime,
        "workload_index": workload,
        "platform_index": platform,
        "beside": np.asarray(beside).reshape(np.size(runtime), -1),
        "run": run,
        "workload": workloads,
        "platform": platforms,
    }
    names = {}
    for dim, features in (("workload", workload_features), ("platform", platform_features)):
        if features:
            values[f"{dim}_features"] = np.stack([np.asarray(f) for f in features.values()], axis=1)
            names[f"{dim}_feature"] = list(features)
    return SCHEMA.dataset(values, attrs).assign_coords(names)


def validate(dataset: xr.Dataset, *, source: str = "dataset") -> xr.Dataset:
    """Return the dataset if it obeys :data:`SCHEMA`; :class:`ProfileError` names every problem."""
    return SCHEMA.validate(dataset, source)


def describe(dataset: xr.Dataset) -> str:
    """A summary of a valid dataset, in a few lines."""
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
    """Read and validate a runtime file, whole; errors as :meth:`Schema.read`."""
    return SCHEMA.read(path)


def write(dataset: xr.Dataset, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Validate and write a runtime file, whole or not at all; errors as :meth:`Schema.write`."""
    SCHEMA.write(dataset, path, overwrite=overwrite)


def run_table(dataset: xr.Dataset) -> NDArray[np.int64]:
    """Workload, platform and neighbours of every observation, (n, 2 + slots)."""
    indices = [dataset[name].values for name in ("workload_index", "platform_index")]
    return np.column_stack([*indices, dataset["beside"].values]).astype(np.int64)


def features_of(dataset: xr.Dataset, dim: str) -> NDArray[np.float64]:
    """Features of every workload or platform, (n, d); none of them is d = 0."""
    name = f"{dim}_features"
    if name not in dataset:
        return np.empty((dataset.sizes[dim], 0))
    return dataset.variables[name].transpose(dim, ...).values.astype(float)
