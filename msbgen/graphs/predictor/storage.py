"""Fitted predictors of graphs as netCDF files: arrays by name, labels as JSON, nothing pickled."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msbgen.core.arrays import NOT_NEGATIVE, POSITIVE, StoredArrays
from msbgen.core.errors import ArgumentError
from msbgen.data.models import byte_array, load_model, save_model, stored_bytes, told_labels
from msbgen.graphs.boards import Board
from msbgen.graphs.devices import Cache, Cluster, Device
from msbgen.graphs.kinds import Kind
from msbgen.graphs.predictor.factors import OTHERS, Factors
from msbgen.graphs.predictor.intervals import GraphCalibration
from msbgen.graphs.predictor.predictor import GraphPredictor
from msbgen.graphs.predictor.prepared import FittedDevice
from msbgen.graphs.predictor.residual import Residual
from msbgen.learn.boosting import Boosting, BoostingSettings

GRAPH_MODEL_SCHEMA = "msbgen-graph-model/2"

_OUTPUTS = 2
_LEVELS = ("ways", "bandwidth", "clock")


def save_graph_model(
    predictor: GraphPredictor, path: str | os.PathLike[str], *, overwrite: bool = False
) -> None:
    """Write a fitted predictor to one netCDF file.

    What held-out runs were predicted is not kept: calibrate before, not after.

    Raises
    ------
    ArgumentError
        It is not fitted.
    FileExistsError
        `path` exists and `overwrite` is False.
    """
    if not hasattr(predictor, "devices_"):
        raise ArgumentError("the predictor is not fitted; call fit first.")
    arrays: dict[str, NDArray[Any]] = {}
    for k, kind in enumerate(predictor.kinds_):
        for name, levels in zip(_LEVELS, kind.levels):
            arrays[f"kind{k}_{name}"] = levels
        arrays[f"kind{k}_seconds"], arrays[f"kind{k}_misses"] = kind.seconds, kind.misses
    for d, known in enumerate(predictor.devices_.values()):
        arrays[f"device{d}_factors"] = known.factors.values
        arrays[f"device{d}_trust"] = np.array([known.trust])
        arrays[f"device{d}_scores"] = known.scores
    for residual in predictor.residual_:
        arrays["residual_weight"] = residual.weight
        arrays |= _boosters("residual", residual.boosting)
    for calibration in predictor.calibration_:
        arrays["calibration_score"] = calibration.score
        arrays["calibration_family"] = calibration.family
        arrays |= _boosters("width", calibration.widths)
    parameters = predictor.get_params()
    parameters["boosting"] = parameters["boosting"] and asdict(parameters["boosting"])
    labels = {
        "parameters": parameters,
        "kinds": [kind.name for kind in predictor.kinds_],
        "devices": [asdict(known.board.device) for known in predictor.devices_.values()],
        "scores": [len(known.scores) for known in predictor.devices_.values()],
        "families": predictor.families_,
        "residual": len(predictor.residual_),
        "calibrated": len(predictor.calibration_),
    }
    save_model(path, arrays, labels, schema=GRAPH_MODEL_SCHEMA, overwrite=overwrite)


def load_graph_model(path: str | os.PathLike[str]) -> GraphPredictor:
    """Read a predictor that :func:`save_graph_model` wrote.

    Raises
    ------
    ProfileError
        The file cannot be read, is no such model, or was changed since it was saved.
    """
    stored, labels = load_model(path, schema=GRAPH_MODEL_SCHEMA, what="graphs")
    with told_labels(stored.source):
        parameters = dict(labels["parameters"])
        given = parameters["boosting"]
        parameters["boosting"] = given and stored.record(BoostingSettings, given, "'boosting'")
        predictor = GraphPredictor(**parameters)
        names = tuple(map(str, labels["kinds"]))
        devices = [_device(one) for one in labels["devices"]]
        apart = [int(labels["scores"][d]) for d in range(len(devices))]
        families = tuple(map(str, labels["families"]))
        corrected, calibrated = int(labels["residual"]), int(labels["calibrated"])
    predictor.kinds_ = tuple(_kind(stored, k, name) for k, name in enumerate(names))
    predictor.families_ = families
    predictor.devices_ = {}
    for d, device in enumerate(devices):
        own = stored.part(f"device{d}_")
        n = len(device.clusters) + len(OTHERS)
        factors = Factors(own.numbers("factors", (n,), within=(-20.0, 20.0)))
        scores = np.empty((0, _OUTPUTS))
        if apart[d]:
            scores = own.numbers("scores", (apart[d], _OUTPUTS), within=NOT_NEGATIVE)
        trust = float(own.numbers("trust", (1,), within=(0.0, 1.0))[0])
        board = Board(device, predictor.kinds_)
        predictor.devices_[device.name] = FittedDevice(board, factors, trust, scores)
    predictor.residual_ = []
    if corrected:
        weight = stored.numbers("residual_weight", (_OUTPUTS,), within=(0.0, 1.0))
        predictor.residual_ = [Residual(_boosting(stored, "residual"), weight)]
    predictor.calibration_ = []
    if calibrated:
        score = stored.numbers("calibration_score", (None, _OUTPUTS), within=NOT_NEGATIVE)
        family = stored.indices("calibration_family", (len(score),), below=len(families))
        widths = _boosting(stored, "width")
        predictor.calibration_ = [GraphCalibration(score, family, widths)]
    return predictor


def _kind(stored: StoredArrays, k: int, name: str) -> Kind:
    own = stored.part(f"kind{k}_")
    ways, bandwidth, clock = (own.numbers(n, (None,), within=POSITIVE) for n in _LEVELS)
    for what, levels in zip(_LEVELS, (ways, bandwidth, clock)):
        rising = len(levels) > 0 and bool(np.all(np.diff(levels) > 0))
        own.want(rising, f"order of {own.named(what)}", "another", "an ascending one")
    shape = (len(ways), len(bandwidth), len(clock))
    seconds = own.numbers("seconds", shape, within=POSITIVE)
    return Kind(
        name, (ways, bandwidth, clock), seconds, own.numbers("misses", shape, within=NOT_NEGATIVE)
    )


def _device(table: Mapping[str, Any]) -> Device:
    """A sheet from what JSON held of it: lists in place of tuples."""
    clusters = []
    for cluster in table["clusters"]:
        caches = tuple(Cache(**cache) for cache in cluster["caches"])
        given: dict[str, Any] = {**cluster, "caches": caches}
        for name in ("clocks", "voltage"):
            given[name] = tuple(given[name])
        clusters.append(Cluster(**given))
    sheet: dict[str, Any] = {**table, "clusters": tuple(clusters)}
    for name in ("cache_ways", "bandwidth"):
        sheet[name] = tuple(sheet[name])
    return Device(**sheet)


def _boosters(name: str, boosting: Boosting) -> dict[str, NDArray[Any]]:
    return {f"{name}_booster{k}": byte_array(model) for k, model in enumerate(boosting.models)}


def _boosting(stored: StoredArrays, name: str) -> Boosting:
    return Boosting(tuple(stored_bytes(stored, f"{name}_booster{k}") for k in range(_OUTPUTS)))
