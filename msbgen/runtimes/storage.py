"""Fitted runtime predictors in netCDF files: numbers, names and JSON, nothing pickled."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.data.store import load_netcdf, save_netcdf
from msbgen.runtimes.embeddings import Embeddings
from msbgen.runtimes.kriging import Fields
from msbgen.runtimes.predictor import Pool, RuntimePredictor
from msbgen.runtimes.scaling import Scaling
from msbgen.runtimes.spread import WIDTHS, Spread
from msbgen.runtimes.towers import TowerSettings

MODEL_SCHEMA = "msbgen-runtime-model/1"

# Every array of a model: its dimensions. Those of the calibration follow in a group a pool.
_DIMS = {
    "length": ("workload",),
    "speed": ("platform",),
    "workload_runs": ("workload",),
    "platform_runs": ("platform",),
    "workload_embedding": ("member", "head", "workload", "rank"),
    "platform_embedding": ("member", "direction", "platform", "rank"),
    "cell_field": ("workload", "platform"),
    "beside_field": ("workload", "platform"),
    "neighbour_field": ("workload", "platform"),
    "workload_spread": ("workload",),
    "neighbour_spread": ("workload",),
    "platform_spread": ("platform",),
    "cell_spread": ("workload", "platform"),
    "beside_spread": ("workload", "platform"),
    "neighbour_cell_spread": ("workload", "platform"),
}
_POOL_DIMS = {"log_runtime": (), "prediction": ("head",), "width": ("width",), "unit": ()}


def save_predictor(
    predictor: RuntimePredictor,
    path: str | os.PathLike[str],
    *,
    workloads: Sequence[str],
    platforms: Sequence[str],
    overwrite: bool = False,
) -> None:
    """Write a fitted predictor, with the names of what it knows, to one netCDF file.

    Raises
    ------
    ArgumentError
        It is not fitted, or the names are not as many as it knows.
    FileExistsError
        `path` exists and `overwrite` is False.
    """
    if not hasattr(predictor, "seen_"):
        raise ArgumentError("the predictor is not fitted; call fit first.")
    shape = tuple(map(len, predictor.seen_))
    if (len(workloads), len(platforms)) != shape:
        raise ArgumentError(
            f"{len(workloads)} workloads and {len(platforms)} platforms are named; {shape[0]} and "
            f"{shape[1]} are wanted."
        )
    members, fields, spread = predictor.members_, predictor.fields_, predictor.spread_
    arrays: dict[str, NDArray[Any]] = {
        "length": predictor.scaling_.workload,
        "speed": predictor.scaling_.platform,
        "workload_runs": predictor.seen_[0],
        "platform_runs": predictor.seen_[1],
        "workload_embedding": members.workload,
        "platform_embedding": members.platform,
        "cell_field": fields.cell,
        "beside_field": fields.beside,
        "neighbour_field": fields.neighbour,
        "workload_spread": spread.workload,
        "neighbour_spread": spread.neighbour,
        "platform_spread": spread.platform,
        "cell_spread": spread.own.cell,
        "beside_spread": spread.own.beside,
        "neighbour_cell_spread": spread.own.neighbour,
    }
    variables: dict[str, Any] = {name: (_DIMS[name], array) for name, array in arrays.items()}
    for degree, pool in predictor.pools_.items():
        for name, dims in _POOL_DIMS.items():
            variables[f"pool{degree}_{name}"] = ((*dims, f"run{degree}"), getattr(pool, name))
    parameters = predictor.get_params()
    for name, table in zip(("workload_features", "platform_features"), predictor.features_):
        features = None if parameters.pop(name) is None else table
        if features is not None:
            variables[name] = ((name.partition("_")[0], f"{name[:-1]}"), features)
    parameters["towers"] = parameters["towers"] and asdict(parameters["towers"])
    labels = {
        "parameters": parameters,
        "range": predictor.range_,
        "degree": predictor.degree_,
        "level": spread.level,
        "beside": spread.beside,
        "local": spread.local,
        "interference": predictor.interference_,
        "pools": list(predictor.pools_),
    }
    dataset = xr.Dataset(
        variables,
        {"workload": list(workloads), "platform": list(platforms)},
        {"schema": MODEL_SCHEMA, "labels": json.dumps(labels)},
    )
    packed = {"zlib": True, "complevel": 4, "shuffle": True}
    encoding = {str(n): packed for n, v in dataset.data_vars.items() if v.ndim > 1}
    save_netcdf(dataset, path, overwrite=overwrite, encoding=encoding)


def load_predictor(
    path: str | os.PathLike[str],
) -> tuple[RuntimePredictor, list[str], list[str]]:
    """Read what :func:`save_predictor` wrote: the predictor, workloads and platforms by name.

    Raises
    ------
    ProfileError
        The file cannot be read, is no model, or lacks something that a model has.
    """
    source, ds = Path(path).name, load_netcdf(path)
    schema = ds.attrs.get("schema")
    if not isinstance(schema, str) or schema != MODEL_SCHEMA:
        raise ProfileError(
            f"{source}: attribute 'schema' is {schema!r}; a model of runtimes says "
            f"'{MODEL_SCHEMA}'."
        )
    try:
        labels = json.loads(ds.attrs["labels"])
        pools = [int(degree) for degree in labels["pools"]]
        parameters = dict(labels["parameters"])
        if parameters["towers"] is not None:
            towers = dict(parameters["towers"])
            towers["quantiles"] = tuple(towers["quantiles"])
            parameters["towers"] = TowerSettings(**towers)
        predictor = RuntimePredictor(**parameters)
        low, high = map(float, labels["range"])
        degree, level = int(labels["degree"]), float(labels["level"])
        beside, local = float(labels["beside"]), float(labels["local"])
        interference = float(labels["interference"])
    except (KeyError, TypeError, ValueError) as error:
        raise ProfileError(
            f"{source}: attribute 'labels' is not that of a model ({error!r}); fit it again."
        ) from None
    wrong = {
        "not finite": not np.isfinite([low, high, level, beside, local]).all(),
        "a range that ends before it begins": low > high,
        f"of the preset {predictor.preset!r}": predictor.preset not in ("default", "paper"),
        "negative": min([degree, *pools]) < 0,
        "there twice": len(set(pools)) < len(pools),
    }
    if any(wrong.values()):
        raise ProfileError(
            f"{source}: attribute 'labels' is not that of a model (what it holds is "
            f"{next(name for name, so in wrong.items() if so)}); fit it again."
        )
    wanted = dict(_DIMS)
    for d in pools:
        wanted |= {f"pool{d}_{name}": (*dims, f"run{d}") for name, dims in _POOL_DIMS.items()}
    arrays = {name: _checked(ds, name, dims, source) for name, dims in wanted.items()}
    for dim in ("workload", "platform"):
        given = ds[dim].values if dim in ds.coords else np.empty(0)
        if given.dtype.kind not in "OUT" or len(set(map(str, given))) < ds.sizes[dim]:
            raise ProfileError(
                f"{source}: coordinate '{dim}' is missing, no text, or names one twice; fit it "
                f"again."
            )
    if ds.sizes["direction"] % 2 == 0:
        raise ProfileError(f"{source}: dimension 'direction' is even; 1 + 2 types is wanted.")
    widths = 1 if predictor.preset == "paper" else len(WIDTHS)
    if ds.sizes.get("width", widths) != widths:
        raise ProfileError(f"{source}: dimension 'width' is not {widths}; fit it again.")
    for name in ("workload_features", "platform_features"):
        if name in ds:
            dims = (name.partition("_")[0], name[:-1])
            setattr(predictor, name, _checked(ds, name, dims, source))
    predictor.scaling_ = Scaling(arrays["length"], arrays["speed"])
    predictor.seen_ = arrays["workload_runs"], arrays["platform_runs"]
    predictor.range_, predictor.degree_ = (low, high), degree
    predictor.interference_ = interference
    parts = (arrays[f"{of}_embedding"].astype(np.float32) for of in ("workload", "platform"))
    predictor.members_ = Embeddings(*parts)
    predictor.fields_ = Fields(
        arrays["cell_field"], arrays["beside_field"], arrays["neighbour_field"]
    )
    predictor.spread_ = Spread(
        level,
        beside,
        arrays["workload_spread"],
        arrays["neighbour_spread"],
        arrays["platform_spread"],
        Fields(*(arrays[f"{of}_spread"] for of in ("cell", "beside", "neighbour_cell"))),
        local,
    )
    predictor.pools_ = {d: Pool(*(arrays[f"pool{d}_{name}"] for name in _POOL_DIMS)) for d in pools}
    for d, pool in predictor.pools_.items():
        if pool.unit.max() + 1 != len(np.unique(pool.unit)):
            raise ProfileError(f"{source}: 'pool{d}_unit' does not count from 0; fit it again.")
    names = [list(map(str, ds[dim].values)) for dim in ("workload", "platform")]
    return predictor, names[0], names[1]


def _checked(ds: xr.Dataset, name: str, dims: tuple[str, ...], source: str) -> NDArray[Any]:
    """One array of a model: there, with its dimensions, of finite numbers."""
    if name not in ds.data_vars or ds[name].dims != dims:
        got = list(ds[name].dims) if name in ds.data_vars else "missing"
        raise ProfileError(
            f"{source}: variable '{name}' is {got}; {list(dims)} is wanted: fit it again."
        )
    values = ds[name].values
    # without features there is nothing of them
    if values.size == 0 and not {"workload_feature", "platform_feature"} & set(dims):
        raise ProfileError(f"{source}: variable '{name}' is empty; fit it again.")
    counts = name.endswith(("_runs", "_unit"))
    if values.dtype.kind not in ("iu" if counts else "f"):
        raise ProfileError(f"{source}: variable '{name}' holds {values.dtype}; fit it again.")
    # what was never observed alone has no length and no speed; embeddings are in single precision
    finite = np.isfinite(values)
    if name in ("length", "speed"):
        finite |= np.isnan(values)
    elif name.endswith("_embedding"):
        finite &= np.abs(values) <= np.finfo(np.float32).max
    if not counts and not finite.all():
        raise ProfileError(f"{source}: variable '{name}' holds no finite numbers; fit it again.")
    if counts and values.min() < 0:
        raise ProfileError(f"{source}: variable '{name}' is negative; fit it again.")
    if name.endswith("_width") and values.min() <= 0:
        raise ProfileError(f"{source}: variable '{name}' is not positive; fit it again.")
    return values
