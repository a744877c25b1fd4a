"""Fitted runtime predictors in netCDF files: arrays and JSON, nothing pickled."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from msbgen.core.arguments import checks_arguments
from msbgen.core.arrays import POSITIVE, ModelArray, StoredArrays, record_arrays
from msbgen.core.errors import ArgumentError
from msbgen.data import models
from msbgen.systems.runtimes.calibration import CalibrationPool
from msbgen.systems.runtimes.embeddings import Embeddings
from msbgen.systems.runtimes.kriging import Fields
from msbgen.systems.runtimes.predictor import RuntimePredictor
from msbgen.systems.runtimes.scaling import Scaling
from msbgen.systems.runtimes.spread import WIDTHS, Spread

MODEL_SCHEMA = "msbgen-runtime-model/3"

_LOG: dict[str, Any] = {
    "low": -300.0,
    "high": 300.0,
}  # logarithms of runtimes, and what is added to them
_CELL = ("workload", "platform")
_FIELDS = tuple(ModelArray(name, _CELL, "f4", **_LOG) for name in ("cell", "beside", "neighbour"))
_PARTS = (
    ModelArray("length", ("workload",), missing=True, **_LOG),  # NaN: never observed alone
    ModelArray("speed", ("platform",), missing=True, **_LOG),
    ModelArray("workload_cells", ("workload",), "i8"),
    ModelArray("platform_cells", ("platform",), "i8"),
    ModelArray("workload_embedding", ("member", "head", "workload", "rank"), "f4", -1e6, 1e6),
    ModelArray("platform_embedding", ("member", "direction", "platform", "rank"), "f4", -1e6, 1e6),
    ModelArray("range", (2,), **_LOG),
    ModelArray("interference", (), low=0.0),
)
_SPREAD = (
    ModelArray("level", (), **_LOG),
    ModelArray("beside", (), **_LOG),
    ModelArray("workload", ("workload",), **_LOG),
    ModelArray("neighbour", ("workload",), **_LOG),
    ModelArray("platform", ("platform",), **_LOG),
    ModelArray("local", (), low=0.0, high=1e100),
)
_POOL = (
    ModelArray("log_runtime", ("run",), **_LOG),
    ModelArray("prediction", ("head", "run"), **_LOG),
    ModelArray("width", ("width", "run"), low=POSITIVE[0]),
    ModelArray("unit", ("run",), "i8", high="run"),
)
_FEATURES = ("workload_features", "platform_features")
_MOST_NEIGHBOURS = 1_000_000


@checks_arguments
def save(
    predictor: RuntimePredictor,
    path: str | os.PathLike[str],
    *,
    workloads: Sequence[str],
    platforms: Sequence[str],
    overwrite: bool = False,
) -> None:
    """Write a fitted predictor, with the names of its workloads and platforms, to a netCDF file.

    Raises
    ------
    ArgumentError
        It is not fitted, or the names are not as many as its workloads and platforms.
    FileExistsError
        `path` exists and `overwrite` is False.
    """
    parameters = models.parameters_of(predictor, "cell_counts_")
    shape = tuple(map(len, predictor.cell_counts_))
    if (len(workloads), len(platforms)) != shape:
        raise ArgumentError(
            f"{len(workloads)} workloads and {len(platforms)} platforms are named; {shape[0]} and "
            f"{shape[1]} are wanted."
        )
    arrays: dict[str, Any] = {
        "length": predictor.scaling_.workload,
        "speed": predictor.scaling_.platform,
        "workload_cells": predictor.cell_counts_[0],
        "platform_cells": predictor.cell_counts_[1],
        "workload_embedding": predictor.members_.workload,
        "platform_embedding": predictor.members_.platform,
        "range": predictor.range_,
        "interference": predictor.interference_,
        **record_arrays(predictor.fields_, _FIELDS, "field_"),
        **record_arrays(predictor.spread_, _SPREAD, "spread_"),
        **record_arrays(predictor.spread_.residual, _FIELDS, "spread_field_"),
    }
    for degree, pool in predictor.pools_.items():
        arrays |= record_arrays(pool, _POOL, f"pool{degree}_")
    for name, table in zip(_FEATURES, predictor.features_):
        if parameters.pop(name) is not None:
            arrays[name] = table
    labels = {
        "parameters": parameters,
        "workloads": list(workloads),
        "platforms": list(platforms),
        "degree": predictor.most_neighbours_,
        "pools": list(predictor.pools_),
        "features": [name for name in _FEATURES if name in arrays],
    }
    models.save_model(path, arrays, labels, schema=MODEL_SCHEMA, overwrite=overwrite)


def load(path: str | os.PathLike[str]) -> tuple[RuntimePredictor, list[str], list[str]]:
    """Predictor that :func:`save` wrote, and the names of its workloads and platforms.

    Raises
    ------
    ProfileError
        The file cannot be read, is no such model, or was changed since it was saved.
    """
    stored, labels = models.load_model(path, schema=MODEL_SCHEMA, what="runtimes")
    with models.label_errors(stored.source):
        predictor = stored.record(
            RuntimePredictor, labels["parameters"], "'parameters'", without=_FEATURES
        )
        workloads, platforms = (models.stored_names(labels[n]) for n in ("workloads", "platforms"))
        degree = models.stored_count(labels["degree"], _MOST_NEIGHBOURS)
        degrees = [models.stored_count(one, _MOST_NEIGHBOURS) for one in labels["pools"]]
        features = models.stored_names(labels["features"])
    presets = ("default", "paper")
    stored.want(predictor.preset in presets, "'preset'", predictor.preset, " or ".join(presets))
    stored.want(len(set(degrees)) == len(degrees), "'pools'", degrees, "each number once")
    sizes = {"workload": len(workloads), "platform": len(platforms)}
    stored.want(min(sizes.values()) > 0, "number of workloads and platforms", sizes, "one of each")
    taken = stored.take(_PARTS, **sizes)
    members, heads, _, rank = taken["workload_embedding"].shape
    for name, size in {"members": members, "heads": heads, "dimensions": rank}.items():
        stored.want(size > 0, f"number of {name}", size, "one or more")
    # a direction of the platform itself, and two for each type of interference
    place = taken["platform_embedding"]
    stored.want(
        place.shape[0] == members and place.shape[3] == rank and place.shape[1] % 2 == 1,
        f"shape of {stored.named('platform_embedding')}", place.shape,
        f"({members}, 1 + 2 types, {len(platforms)}, {rank})",
    )  # fmt: skip
    low, high = taken["range"].tolist()
    stored.want(low <= high, stored.named("range"), f"[{low:g}, {high:g}]", "an ascending one")
    predictor.scaling_ = Scaling(taken["length"], taken["speed"])
    predictor.cell_counts_ = taken["workload_cells"], taken["platform_cells"]
    predictor.range_, predictor.most_neighbours_ = (low, high), degree
    predictor.interference_ = float(taken["interference"])
    predictor.members_ = Embeddings(taken["workload_embedding"], place)
    predictor.fields_ = _stored_fields(stored, "field_", sizes)
    spread: dict[str, Any] = stored.part("spread_").take(_SPREAD, **sizes)
    spread |= {name: float(spread[name]) for name in ("level", "beside", "local")}
    predictor.spread_ = Spread(residual=_stored_fields(stored, "spread_field_", sizes), **spread)
    sizes |= {"head": heads, "width": 1 if predictor.preset == "paper" else len(WIDTHS)}
    predictor.pools_ = {d: _pool(stored.part(f"pool{d}_"), sizes) for d in degrees}
    for name in features:
        table = (ModelArray(name, (name.partition("_")[0], "feature")),)
        stored.want(name in _FEATURES, "'features'", features, f"some of {', '.join(_FEATURES)}")
        setattr(predictor, name, stored.take(table, **sizes)[name])
    return predictor, list(workloads), list(platforms)


def _pool(stored: StoredArrays, sizes: dict[str, int]) -> CalibrationPool:
    pool = CalibrationPool(**stored.take(_POOL, **sizes))
    unit = pool.unit
    counts = len(unit) > 0 and unit.max() + 1 == len(np.unique(unit))
    stored.want(counts, stored.named("unit"), unit, "an array that counts from 0")
    return pool


def _stored_fields(stored: StoredArrays, prefix: str, sizes: dict[str, int]) -> Fields:
    return Fields(**stored.part(prefix).take(_FIELDS, **sizes))
