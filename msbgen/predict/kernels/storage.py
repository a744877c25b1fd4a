"""Fitted predictors of kernels in netCDF files: arrays and JSON, nothing pickled.

A fitted model is a tree of frozen records.  Its arrays are stored by their paths in it,
``gemm.runtime.structured.process.points``; everything else is JSON.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.data.arrays import StoredArrays, digest
from msbgen.data.store import load_netcdf, save_netcdf
from msbgen.errors import ArgumentError, ProfileError
from msbgen.predict.kernels.intervals import Scores
from msbgen.predict.kernels.networks import Overhead
from msbgen.predict.kernels.power import PowerModel
from msbgen.predict.kernels.predictor import KernelPredictor, KindModel
from msbgen.predict.kernels.process import Process
from msbgen.predict.kernels.runtime import RuntimeModel
from msbgen.predict.kernels.structured import RestSettings, Structured
from msbgen.predict.relative.randomised import Trees

KERNEL_MODEL_SCHEMA = "msbgen-kernel-model/1"

_RECORDS = {
    kind.__name__: kind
    for kind in (
        KindModel, RuntimeModel, PowerModel, Structured, Process, Trees, Scores, Overhead,
    )
}  # fmt: skip


def save_kernels(
    predictor: KernelPredictor,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
) -> None:
    """Write a fitted predictor to one netCDF file.

    Raises
    ------
    ArgumentError
        It is not fitted.
    FileExistsError
        `path` exists and `overwrite` is False.
    """
    if not hasattr(predictor, "kinds_"):
        raise ArgumentError("the predictor is not fitted; call fit first.")
    arrays: dict[str, NDArray[Any]] = {}
    parameters = predictor.get_params()
    parameters["rest"] = predictor.rest and asdict(predictor.rest)
    labels = json.dumps(
        {
            "parameters": parameters,
            "resources": predictor.resources_,
            "columns": predictor.parameters_,
            "units": predictor.units_,
            "levels": predictor.levels_,
            "kinds": {
                kind: _packed(model, f"kind{k}", arrays)
                for k, (kind, model) in enumerate(predictor.kinds_.items())
            },
            "scores": _packed(predictor.scores_, "scores", arrays),
        }
    )
    variables = {
        name: ([f"{name}_{axis}" for axis in range(array.ndim)], array)
        for name, array in arrays.items()
        if array.size
    }
    dataset = xr.Dataset(
        variables,
        attrs={
            "schema": KERNEL_MODEL_SCHEMA,
            "labels": labels,
            "digest": digest({name: array for name, (_, array) in variables.items()}, labels),
        },
    )
    packed = {"zlib": True, "complevel": 4, "shuffle": True}
    encoding = {n: packed for n, (_, array) in variables.items() if array.dtype.kind in "fi"}
    save_netcdf(dataset, path, overwrite=overwrite, encoding=encoding)


def load_kernels(path: str | os.PathLike[str]) -> KernelPredictor:
    """Read a predictor that :func:`save_kernels` wrote.

    Raises
    ------
    ProfileError
        The file cannot be read, is no such model, or was changed since it was saved.
    """
    dataset, source = load_netcdf(path), Path(path).name
    schema = dataset.attrs.get("schema")
    if not isinstance(schema, str) or schema != KERNEL_MODEL_SCHEMA:
        raise ProfileError(
            f"{source}: attribute 'schema' is {schema!r}; a model of kernels says "
            f"'{KERNEL_MODEL_SCHEMA}'."
        )
    arrays = {str(name): variable.values for name, variable in dataset.data_vars.items()}
    text = str(dataset.attrs.get("labels"))
    if str(dataset.attrs.get("digest")) != digest(arrays, text):
        raise ProfileError(f"{source}: was changed since it was saved; copy or fit it again.")
    stored = StoredArrays(source, arrays)
    try:
        labels = json.loads(text)
        given = dict(labels["parameters"])
        given["rest"] = given["rest"] and stored.record(RestSettings, given["rest"], "'rest'")
        predictor = KernelPredictor(**given)
        predictor.resources_ = tuple(map(str, labels["resources"]))
        predictor.parameters_ = tuple(map(str, labels["columns"]))
        predictor.units_ = {str(k): str(v) for k, v in labels["units"].items()}
        predictor.levels_ = {
            str(name): [float(level) for level in levels]
            for name, levels in labels["levels"].items()
        }
        predictor.kinds_ = {
            str(kind): _unpacked(told, stored) for kind, told in labels["kinds"].items()
        }
        predictor.scores_ = _unpacked(labels["scores"], stored)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProfileError(
            f"{source}: attribute 'labels' is not that of a model ({error!r}); fit it again."
        ) from None
    return predictor


def _packed(record: Any, path: str, arrays: dict[str, NDArray[Any]]) -> Any:
    """A record as JSON; its arrays under their paths."""
    if isinstance(record, tuple):
        return [_packed(part, f"{path}.{i}", arrays) for i, part in enumerate(record)]
    if type(record).__name__ not in _RECORDS:
        return record
    told: dict[str, Any] = {"record": type(record).__name__}
    for field in fields(record):
        value, name = getattr(record, field.name), f"{path}.{field.name}"
        if isinstance(value, np.ndarray):
            arrays[name] = value
            told[field.name] = {"array": name, "shape": value.shape, "type": value.dtype.str}
        else:
            told[field.name] = _packed(value, name, arrays)
    return told


def _unpacked(told: Any, stored: StoredArrays) -> Any:
    """What :func:`_packed` packed."""
    if isinstance(told, list):
        return tuple(_unpacked(part, stored) for part in told)
    if not isinstance(told, dict):
        return told
    if "array" in told:
        return _array(told, stored)
    kind = _RECORDS[told["record"]]
    return kind(**{field.name: _unpacked(told[field.name], stored) for field in fields(kind)})


def _array(told: dict[str, Any], stored: StoredArrays) -> NDArray[Any]:
    name, shape, kind = str(told["array"]), tuple(told["shape"]), np.dtype(told["type"])
    if 0 in shape:
        return np.empty(shape, dtype=kind)
    if kind.kind == "U":
        return np.asarray(stored.arrays[name]).astype(str).reshape(shape)
    return stored.numbers(name, shape, missing=True).astype(kind)
