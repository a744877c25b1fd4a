"""Fitted predictors of relative performance in netCDF files: arrays and JSON, nothing pickled.

Boosters are kept as xgboost writes them itself (UBJSON), byte by byte; trees as arrays.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msbgen.core.arrays import LOGARITHMS, StoredArrays
from msbgen.core.errors import ArgumentError
from msbgen.data.models import byte_array, load_model, save_model, stored_bytes, told_labels
from msbgen.learn.boosting import Boosting, BoostingSettings
from msbgen.learn.randomised import Trees, TreesSettings
from msbgen.machines.features import FeatureMap, Seen
from msbgen.machines.intervals import Calibration
from msbgen.machines.kriging import PARAMETERS, Field, Kriging, KrigingSettings
from msbgen.machines.predictions import Answers
from msbgen.machines.predictor import PARTS, RelativePredictor
from msbgen.machines.widths import Widths, known_columns

RELATIVE_MODEL_SCHEMA = "msbgen-relative-model/1"

_TREE_PARTS = ("feature", "threshold", "left", "right", "value", "root")
_ANSWER_PARTS = ("seconds", "ratio", "kriged", "prior", "spread", "context", "covariance")
_FIELD_PARTS = ("outputs", "middle", "spread", "parameters", "places", "weights", "level", "scale")
_SEEN_PARTS = ("counters", "work", "time", "configuration")
_SETTINGS = {"boosting": BoostingSettings, "kriging": KrigingSettings, "trees": TreesSettings}
_MAP_WORDS = ("counters", "units", "groups", "group_of", "configurations")


def save_relative(
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
    if not hasattr(predictor, "machines_"):
        raise ArgumentError("the predictor is not fitted; call fit first.")
    features = predictor.features_
    arrays: dict[str, NDArray[Any]] = {
        "covariance": predictor.covariance_,
        "fill": features.fill,
        "kept": features.kept.astype(np.int8),
        **_tree_arrays("trees", predictor.trees_),
    }
    for s, boosting in enumerate(predictor.boosting_):
        for m, model in enumerate(boosting.models):
            arrays[f"booster{s}_{m}"] = byte_array(model)
    for s, kriging in enumerate(predictor.kriging_):
        for f, field in enumerate(kriging.fields):
            arrays |= _field_arrays(f"kriging{s}_{f}", field)
    for calibration in predictor.calibration_:
        answers = {name: getattr(calibration.answers, name) for name in _ANSWER_PARTS}
        arrays |= {f"calibration_{name}": array for name, array in answers.items()}
        arrays["calibration_fit"] = calibration.answers.fit
        arrays["calibration_program"] = calibration.program
        arrays["calibration_log_width"] = calibration.log_width
        arrays |= _tree_arrays("widths", calibration.widths.trees)
    parameters = predictor.get_params()
    for name in _SETTINGS:
        parameters[name] = parameters[name] and asdict(parameters[name])
    labels = {
        "parameters": parameters,
        "machines": predictor.machines_,
        "work": features.work,
        "per_machine": features.per_machine,
        "calibrated": len(predictor.calibration_),
        "fields": [len(kriging.fields) for kriging in predictor.kriging_],
        **{name: getattr(features, name) for name in _MAP_WORDS},
    }
    save_model(path, arrays, labels, schema=RELATIVE_MODEL_SCHEMA, overwrite=overwrite)


def load_relative(path: str | os.PathLike[str]) -> RelativePredictor:
    """Read a predictor that :func:`save_relative` wrote.

    Raises
    ------
    ProfileError
        The file cannot be read, is no such model, or was changed since it was saved.
    """
    stored, labels = load_model(path, schema=RELATIVE_MODEL_SCHEMA, what="relative performance")
    with told_labels(stored.source):
        parameters = dict(labels["parameters"])
        for name, kind in _SETTINGS.items():
            given = parameters[name]
            parameters[name] = given and stored.record(kind, given, f"'{name}'")
        predictor = RelativePredictor(**parameters)
        machines = tuple(map(str, labels["machines"]))
        words = {name: tuple(map(str, labels[name])) for name in _MAP_WORDS}
        calibrated, fields = int(labels["calibrated"]), list(map(int, labels["fields"]))
        work, per_machine = str(labels["work"]), bool(labels["per_machine"])
    n = len(machines)
    stored.want(
        len(words["units"]) == len(words["counters"]) == len(words["group_of"]),
        "'units'", f"of {len(words['units'])}", "one a counter, as groups",
    )  # fmt: skip
    columns = len(words["counters"]) + len(words["groups"])
    fills = n if per_machine else 1
    fill = stored.numbers("fill", (fills, columns)) if columns else np.empty((fills, 0))
    kept = stored.indices("kept", (columns + len(words["configurations"]) + 1,), below=2)
    predictor.machines_ = machines
    predictor.features_ = FeatureMap(
        machines=machines, work=work, per_machine=per_machine, fill=fill, kept=kept > 0, **words
    )
    seen = int(kept.sum()) + n * per_machine
    there = PARTS if predictor.parts == "all" else (predictor.parts,)
    predictor.trees_ = _trees(stored, "trees", n, seen) if "trees" in there else _no_trees(n)
    predictor.covariance_ = stored.numbers("covariance", (n, n))
    predictor.boosting_ = [
        Boosting(tuple(stored_bytes(stored, f"booster{s}_{m}") for m in range(n - 1)))
        for s in range(n if "boosting" in there else 0)
    ]
    configurations = len(words["configurations"])
    counters = int(kept[:columns].sum() + kept[-1])
    predictor.kriging_ = [
        Kriging(
            tuple(
                _field(stored, f"kriging{s}_{f}", counters, configurations, n - 1)
                for f in range(many)
            )
        )
        for s, many in enumerate(fields)
    ]
    for s, kriging in enumerate(predictor.kriging_):
        outputs = sorted(int(m) for field in kriging.fields for m in field.outputs)
        stored.want(
            outputs == list(range(n - 1)), f"'kriging{s}'", f"of {outputs}", "every machine once"
        )
    stored.want(
        len(fields) == (n if "kriging" in there else 0),
        "'fields'", f"{fields}", "one for each machine that is kriged from",
    )  # fmt: skip
    predictor.calibration_ = [_calibration(stored, predictor, words)] if calibrated else []
    return predictor


def _calibration(
    stored: StoredArrays, predictor: RelativePredictor, words: dict[str, tuple[str, ...]]
) -> Calibration:
    """What intervals need."""
    own, n, c = stored.part("calibration_"), len(predictor.machines_), len(words["configurations"])
    seconds = own.numbers("seconds", (None, n), missing=True)
    rows, pairs = len(seconds), (len(seconds), n, n)
    covariance = own.numbers("covariance", (None, n, n))
    told = {
        name: own.numbers(name, pairs, missing=True)
        for name in ("ratio", "kriged", "prior", "spread", "log_width")
    }
    log_width = told.pop("log_width")
    answers = Answers(
        seconds=seconds,
        context=own.numbers("context", (rows, c)),
        covariance=covariance,
        fit=own.indices("fit", (rows,), below=len(covariance)),
        parts=PARTS if predictor.parts == "all" else (predictor.parts,),
        source_time=predictor.source_time,
        **told,
    )
    widths = Widths(_trees(stored, "widths", 2, known_columns(answers.parts, n, c)))
    return Calibration(answers, own.indices("program", (rows,), below=rows), widths, log_width)


def _tree_arrays(prefix: str, trees: Trees) -> dict[str, NDArray[Any]]:
    return {f"{prefix}_{name}": getattr(trees, name) for name in _TREE_PARTS}


def _field_arrays(prefix: str, field: Field) -> dict[str, NDArray[Any]]:
    own = {name: getattr(field, name) for name in _FIELD_PARTS}
    own |= {f"seen_{name}": getattr(field.seen, name) for name in _SEEN_PARTS}
    return {f"{prefix}_{name}": array for name, array in own.items()}


def _field(stored: StoredArrays, prefix: str, counters: int, words: int, outputs: int) -> Field:
    own = stored.part(f"{prefix}_")
    which = own.indices("outputs", (None,), below=outputs)
    m = len(which)
    work = own.numbers("seen_work", (None,))
    n = len(work)
    table = own.numbers("seen_counters", (n, counters)) if counters else np.empty((n, 0))
    places = own.numbers("places", (words, None))
    configuration = own.indices("seen_configuration", (n,), below=words)
    return Field(
        outputs=which,
        seen=Seen(table.astype(np.float32), work, own.numbers("seen_time", (n,)), configuration),
        middle=own.numbers("middle", (counters,)) if counters else np.empty(0),
        spread=own.numbers("spread", (counters,)) if counters else np.empty(0),
        parameters=own.numbers("parameters", (PARAMETERS,), within=LOGARITHMS),
        places=places,
        weights=own.numbers("weights", (n, m)),
        level=own.numbers("level", (m,)),
        scale=own.numbers("scale", (m,)),
    )


def _no_trees(n_outputs: int) -> Trees:
    none = np.empty(0, dtype=np.int32)
    value = np.empty((0, n_outputs), dtype=np.float32)
    return Trees(none, value[:, 0], none, none, value, none)


def _trees(stored: StoredArrays, prefix: str, n_outputs: int, n_features: int) -> Trees:
    """A forest whose walks stay inside its arrays and end."""
    own = stored.part(f"{prefix}_")
    value = own.numbers("value", (None, n_outputs))
    n = len(value)
    left, right = (own.indices(name, (n,), below=n) for name in ("left", "right"))
    at = np.arange(n)
    down = (left >= at).all() and (right >= at).all() and ((left == at) == (right == at)).all()
    own.want(down, "a tree", "one that leads back", "one whose nodes stand below each other")
    return Trees(
        feature=own.indices("feature", (n,), below=n_features).astype(np.int32),
        threshold=own.numbers("threshold", (n,)).astype(np.float32),
        left=left.astype(np.int32),
        right=right.astype(np.int32),
        value=value.astype(np.float32),
        root=own.indices("root", (None,), below=n).astype(np.int32),
    )
