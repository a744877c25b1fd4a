"""Fitted predictors of relative performance in netCDF files: arrays and JSON, nothing pickled."""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msbgen.core.arrays import LOGARITHMS, POSITIVE, ModelArray, StoredArrays, record_arrays
from msbgen.data import models
from msbgen.systems.learn.boosting import stored_boosting
from msbgen.systems.learn.randomised import no_trees, stored_trees
from msbgen.systems.machines.features import FeatureMap, KrigingFeatures
from msbgen.systems.machines.intervals import MachineCalibration
from msbgen.systems.machines.kriging import PARAMETERS, Field, Kriging
from msbgen.systems.machines.predictions import PartPredictions
from msbgen.systems.machines.predictor import PARTS, RelativePredictor
from msbgen.systems.machines.widths import IntervalWidths, count_width_features

Floats = NDArray[np.float64]

RELATIVE_MODEL_SCHEMA = "msbgen-relative-model/3"

_NAMES = ("counters", "groups", "configurations")
_LOG: dict[str, Any] = {"low": -300.0, "high": 300.0}  # of logarithms of times and ratios
_FEATURES = (
    ModelArray("fill", ("fills", "columns")),
    ModelArray("kept", ("kept",), "i1", high=1),
    ModelArray("covariance", ("machine", "machine")),
    ModelArray("ranges", ("machine", 2, 2), missing=True),
)
_FIELD = (
    ModelArray("outputs", ("m",), "i8", high="others"),
    ModelArray("middle", ("d",)),
    ModelArray("spread", ("d",), low=POSITIVE[0]),
    ModelArray("parameters", (PARAMETERS,), low=LOGARITHMS[0], high=LOGARITHMS[1]),
    ModelArray("places", ("configuration", "places")),
    ModelArray("weights", ("n", "m")),
    ModelArray("level", ("m",), **_LOG),
    ModelArray("scale", ("m",), low=0.0, high=300.0),
)
_TRAINING = (
    ModelArray("counters", ("n", "d"), "f4"),
    ModelArray("work", ("n",)),
    ModelArray("time", ("n",)),
    ModelArray("configuration", ("n",), "i8", high="configuration"),
)
_PAIRS = ("n", "machine", "machine")
_PREDICTIONS = (
    ModelArray("seconds", ("n", "machine"), low=POSITIVE[0], missing=True),
    *(ModelArray(name, _PAIRS, missing=True, **_LOG) for name in ("ratio", "kriged", "prior")),
    ModelArray("spread", _PAIRS, low=0.0, high=_LOG["high"], missing=True),
    ModelArray("context", ("n", "configuration")),
    ModelArray("covariance", ("fits", "machine", "machine")),
    ModelArray("fit", ("n",), "i8", high="fits"),
)
_CALIBRATION = (
    ModelArray("program", ("n",), "i8", high="n"),
    ModelArray("log_width", _PAIRS, missing=True, **_LOG),
)


def save(
    predictor: RelativePredictor, path: str | os.PathLike[str], *, overwrite: bool = False
) -> None:
    """Write a fitted predictor to one netCDF file.

    Raises
    ------
    ArgumentError
        It is not fitted.
    FileExistsError
        `path` exists and `overwrite` is False.
    """
    parameters = models.parameters_of(predictor, "machines_")
    features = predictor.features_
    arrays: dict[str, Any] = {
        "covariance": predictor.covariance_,
        "ranges": predictor.ranges_,
        "fill": features.fill,
        "kept": features.kept.astype(np.int8),
        **predictor.trees_.arrays("trees."),
    }
    for s, boosting in enumerate(predictor.boosting_):
        arrays |= boosting.arrays(f"boosting{s}.")
    for s, kriging in enumerate(predictor.kriging_):
        for f, field in enumerate(kriging.fields):
            arrays |= record_arrays(field, _FIELD, f"kriging{s}.{f}.")
            arrays |= record_arrays(field.training, _TRAINING, f"kriging{s}.{f}.seen.")
    for calibration in predictor.calibration_:
        arrays |= record_arrays(calibration.predictions, _PREDICTIONS, "calibration.")
        arrays |= record_arrays(calibration, _CALIBRATION, "calibration.")
        arrays |= calibration.widths.trees.arrays("widths.")
    labels = {
        "parameters": parameters,
        "machines": predictor.machines_,
        "work": features.work,
        "per_machine": features.per_machine,
        "units": features.units,
        "group_of": features.group_of,
        "calibrated": len(predictor.calibration_),
        "fields": [len(kriging.fields) for kriging in predictor.kriging_],
        **{name: getattr(features, name) for name in _NAMES},
    }
    models.save_model(path, arrays, labels, schema=RELATIVE_MODEL_SCHEMA, overwrite=overwrite)


def load(path: str | os.PathLike[str]) -> RelativePredictor:
    """Predictor that :func:`save` wrote.

    Raises
    ------
    ProfileError
        The file cannot be read, is no such model, or was changed since it was saved.
    """
    stored, labels = models.load_model(
        path, schema=RELATIVE_MODEL_SCHEMA, what="relative performance"
    )
    with models.label_errors(stored.source):
        predictor = stored.record(RelativePredictor, labels["parameters"], "'parameters'")
        predictor.machines_ = models.stored_names(labels["machines"])
        names = {name: models.stored_names(labels[name]) for name in _NAMES}
        for name in ("units", "group_of"):
            names[name] = models.stored_names(labels[name], distinct=False)
        (work,) = models.stored_names([labels["work"]])
        per_machine = bool(models.stored_count(int(labels["per_machine"]), 1))
        calibrated = models.stored_count(labels["calibrated"], 1)
        n = len(predictor.machines_)
        fields = [models.stored_count(many, n) for many in labels["fields"]]
    counters, words = len(names["counters"]), len(names["configurations"])
    for name in ("units", "group_of"):
        many = len(names[name])
        stored.want(many == counters, f"length of '{name}'", many, f"{counters}, one per counter,")
    known = not work or work in names["counters"]
    stored.want(known, "'work'", work, "one of the counters")
    stored.want(n > 1, "number of machines", n, "two or more")
    columns = counters + len(names["groups"])
    sizes = {"machine": n, "others": n - 1, "configuration": words}
    taken = stored.take(
        _FEATURES, **sizes, fills=n if per_machine else 1, columns=columns,
        kept=columns + words + 1,
    )  # fmt: skip
    kept = taken["kept"] > 0
    predictor.covariance_ = _invertible(stored, taken["covariance"])
    predictor.ranges_ = taken["ranges"]
    predictor.features_ = FeatureMap(
        machines=predictor.machines_, work=work, per_machine=per_machine, fill=taken["fill"],
        kept=kept, **names,
    )  # fmt: skip
    parts = PARTS if predictor.parts == "all" else (predictor.parts,)
    # columns of the tables that trees and boosting take
    counted = int(kept.sum()) + n * per_machine
    features = predictor.features_
    timed = len(features.timed_names if predictor.source_time else features.names)
    predictor.trees_ = no_trees(n)
    if "trees" in parts:
        predictor.trees_ = stored_trees(stored.part("trees."), n, counted)
    predictor.boosting_ = [
        stored_boosting(stored.part(f"boosting{s}."), n - 1, timed)
        for s in range(n if "boosting" in parts else 0)
    ]
    stored.want(
        len(fields) == (n if "kriging" in parts else 0),
        "'fields'", fields, "one number for each machine, where kriging is a part,",
    )  # fmt: skip
    sizes["d"] = int(kept[:columns].sum() + kept[-1])
    predictor.kriging_ = [_kriging(stored, s, many, sizes) for s, many in enumerate(fields)]
    predictor.calibration_ = [
        _calibration(stored, predictor, parts, sizes) for _ in range(calibrated)
    ]
    return predictor


def _kriging(stored: StoredArrays, source: int, many: int, sizes: dict[str, int]) -> Kriging:
    fields = []
    for f in range(many):
        part = stored.part(f"kriging{source}.{f}.")
        runs = part.part("seen.").take(_TRAINING, **sizes)
        stored.want(len(runs["work"]) > 0, part.named("seen.work"), "empty", "one run or more")
        field = part.take(_FIELD, **sizes, n=len(runs["work"]))
        fields.append(Field(training=KrigingFeatures(**runs), **field))
    outputs = sorted(int(m) for field in fields for m in field.outputs)
    every = list(range(sizes["others"]))
    stored.want(outputs == every, f"'kriging{source}'", f"of {outputs}", "every machine once")
    return Kriging(tuple(fields))


def _calibration(
    stored: StoredArrays, predictor: RelativePredictor, parts: tuple[str, ...],
    sizes: dict[str, int],
) -> MachineCalibration:  # fmt: skip
    part = stored.part("calibration.")
    taken = part.take(_PREDICTIONS, **sizes)
    _invertible(part, taken["covariance"])
    predictions = PartPredictions(**taken, parts=parts, source_time=predictor.source_time)
    others = part.take(_CALIBRATION, **sizes, n=len(taken["seconds"]))
    columns = count_width_features(parts, sizes["machine"], sizes["configuration"])
    widths = IntervalWidths(stored_trees(stored.part("widths."), 2, columns))
    return MachineCalibration(predictions, widths=widths, **others)


def _invertible(stored: StoredArrays, covariance: Floats) -> Floats:
    """The covariance (…, m, m), with which predictions solve; ProfileError where it is none."""
    values = np.linalg.eigvalsh(covariance)
    good = (covariance == covariance.swapaxes(-1, -2)).all() and (
        values[..., 0] > 1e-14 * values[..., -1]
    ).all()
    wanted = "a symmetric positive definite one"
    stored.want(good, stored.named("covariance"), "another matrix", wanted)
    return covariance
