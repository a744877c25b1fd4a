"""Fitted predictors of graphs as netCDF files: arrays by name, labels as JSON, nothing pickled."""

import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from msbgen.core.arguments import checks_arguments
from msbgen.core.arrays import POSITIVE, ModelArray, StoredArrays
from msbgen.data import models
from msbgen.systems.graphs.boards import Board
from msbgen.systems.graphs.devices import Device
from msbgen.systems.graphs.kinds import Kind
from msbgen.systems.graphs.predictor.factors import OTHERS, Factors
from msbgen.systems.graphs.predictor.features import SCHEDULED, columns
from msbgen.systems.graphs.predictor.intervals import GraphCalibration
from msbgen.systems.graphs.predictor.predictor import GraphPredictor
from msbgen.systems.graphs.predictor.prepared import FittedDevice
from msbgen.systems.graphs.predictor.residual import Residual
from msbgen.systems.learn.boosting import stored_boosting

GRAPH_MODEL_SCHEMA = "msbgen-graph-model/3"

_OUTPUTS = 2
_LEVELS = ("ways", "bandwidth", "clock")
_KIND = (
    *(ModelArray(name, (name,), low=POSITIVE[0], ascending=True) for name in _LEVELS),
    ModelArray("seconds", _LEVELS, low=POSITIVE[0]),
    ModelArray("misses", _LEVELS, low=0.0),
)
_DEVICE = (
    ModelArray("factors", ("factor",), low=-20.0, high=20.0),
    ModelArray("trust", (), low=0.0, high=1.0),
    ModelArray("scores", ("run", _OUTPUTS), low=0.0),
)
_WEIGHT = (ModelArray("weight", (_OUTPUTS,), low=0.0, high=1.0),)
_CALIBRATION = (
    ModelArray("score", ("run", _OUTPUTS), low=0.0),
    ModelArray("family", ("run",), "i8", high="families"),
)


@checks_arguments
def save(
    predictor: GraphPredictor, path: str | os.PathLike[str], *, overwrite: bool = False
) -> None:
    """Write a fitted predictor to one netCDF file.

    Predictions of held-out runs are not stored: calibrate before saving.

    Raises
    ------
    ArgumentError
        It is not fitted.
    FileExistsError
        `path` exists and `overwrite` is False.
    """
    parameters = models.parameters_of(predictor, "devices_")
    arrays = kind_arrays(predictor.kinds_)
    for d, fitted in enumerate(predictor.devices_.values()):
        arrays[f"device{d}_factors"] = fitted.factors.values
        arrays[f"device{d}_trust"] = fitted.residual_share
        arrays[f"device{d}_scores"] = fitted.scores
    for residual in predictor.residual_:
        arrays["residual_weight"] = residual.weight
        arrays |= residual.boosting.arrays("residual_boosting_")
    for calibration in predictor.calibration_:
        arrays["calibration_score"] = calibration.score
        arrays["calibration_family"] = calibration.family
        arrays |= calibration.widths.arrays("width_boosting_")
    labels = {
        "parameters": parameters,
        "kinds": [kind.name for kind in predictor.kinds_],
        "devices": [asdict(fitted.board.device) for fitted in predictor.devices_.values()],
        "families": predictor.families_,
        "residual": len(predictor.residual_),
        "calibrated": len(predictor.calibration_),
    }
    models.save_model(path, arrays, labels, schema=GRAPH_MODEL_SCHEMA, overwrite=overwrite)


def load(path: str | os.PathLike[str]) -> GraphPredictor:
    """Predictor that :func:`save` wrote.

    Raises
    ------
    ProfileError
        The file cannot be read, is no such model, or was changed since it was saved.
    """
    stored, labels = models.load_model(path, schema=GRAPH_MODEL_SCHEMA, what="graphs")
    with models.label_errors(stored.source):
        predictor = stored.record(GraphPredictor, labels["parameters"], "'parameters'")
        names = models.stored_names(labels["kinds"])
        devices = [stored.record(Device, one, "'devices'") for one in labels["devices"]]
        families = models.stored_names(labels["families"])
        corrected = models.stored_count(labels["residual"], 1)
        calibrated = models.stored_count(labels["calibrated"], 1)
    predictor.kinds_ = kinds_from(stored, names)
    predictor.families_ = families
    predictor.devices_ = {}
    for d, device in enumerate(devices):
        some = stored.part(f"device{d}_").take(_DEVICE, factor=len(device.clusters) + len(OTHERS))
        predictor.devices_[device.name] = FittedDevice(
            Board(device, predictor.kinds_), Factors(some["factors"]), float(some["trust"]),
            some["scores"],
        )  # fmt: skip
    n_features = len(columns(predictor.kinds_)) + len(SCHEDULED)
    predictor.residual_ = []
    if corrected:
        (weight,) = stored.part("residual_").take(_WEIGHT).values()
        boosting = stored_boosting(stored.part("residual_boosting_"), _OUTPUTS, n_features)
        predictor.residual_ = [Residual(boosting, weight)]
    predictor.calibration_ = []
    if calibrated:
        taken = stored.part("calibration_").take(_CALIBRATION, families=len(families))
        widths = stored_boosting(stored.part("width_boosting_"), _OUTPUTS, n_features)
        predictor.calibration_ = [GraphCalibration(**taken, widths=widths)]
    return predictor


def kind_arrays(kinds: Sequence[Kind]) -> dict[str, Any]:
    """Arrays of the kinds of a model, by name."""
    arrays: dict[str, Any] = {}
    for k, kind in enumerate(kinds):
        levels = dict(zip(_LEVELS, kind.levels))
        tables = {**levels, "seconds": kind.seconds, "misses": kind.misses}
        arrays |= {f"kind{k}_{name}": table for name, table in tables.items()}
    return arrays


def kinds_from(stored: StoredArrays, names: Sequence[str]) -> tuple[Kind, ...]:
    """Kinds of a model from the arrays of :func:`kind_arrays`."""
    return tuple(_kind(stored, k, name) for k, name in enumerate(names))


def _kind(stored: StoredArrays, k: int, name: str) -> Kind:
    part = stored.part(f"kind{k}_")
    taken = part.take(_KIND)
    for level in _LEVELS:
        part.want(len(taken[level]) > 0, part.named(level), "empty", "one level or more")
    levels = taken["ways"], taken["bandwidth"], taken["clock"]
    return Kind(name, levels, taken["seconds"], taken["misses"])
