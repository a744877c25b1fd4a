"""Fitted predictors of kernels in netCDF files: arrays and JSON, nothing pickled.

A fitted model is a tree of frozen records.  Its arrays are stored by their paths in it,
``gemm.runtime.structured.process.points``; everything else is JSON.
"""

from __future__ import annotations

import os
from dataclasses import asdict, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msbgen.core.arrays import StoredArrays
from msbgen.core.errors import ArgumentError
from msbgen.data.models import load_model, save_model, told_labels
from msbgen.kernels.predictor.intervals import Scores
from msbgen.kernels.predictor.networks import Overhead
from msbgen.kernels.predictor.power import PowerModel
from msbgen.kernels.predictor.predictor import KernelPredictor, KindModel
from msbgen.kernels.predictor.process import Process
from msbgen.kernels.predictor.runtime import RuntimeModel
from msbgen.kernels.predictor.structured import RestSettings, Structured
from msbgen.learn.randomised import Trees

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
    labels = {
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
    save_model(path, arrays, labels, schema=KERNEL_MODEL_SCHEMA, overwrite=overwrite)


def load_kernels(path: str | os.PathLike[str]) -> KernelPredictor:
    """Read a predictor that :func:`save_kernels` wrote.

    Raises
    ------
    ProfileError
        The file cannot be read, is no such model, or was changed since it was saved.
    """
    stored, labels = load_model(path, schema=KERNEL_MODEL_SCHEMA, what="kernels")
    with told_labels(stored.source):
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
