"""Fitted predictors of kernels in netCDF files: arrays and JSON, nothing pickled.

Arrays are stored under their paths in the predictor, e.g. ``kind0.runtime.process.points``.
"""

import os
from math import comb
from typing import Any

import numpy as np

from msbgen.core.arguments import checks_arguments
from msbgen.core.arrays import POSITIVE, ModelArray, StoredArrays, record_arrays
from msbgen.data import models
from msbgen.systems.kernels.kinds import KINDS
from msbgen.systems.kernels.predictor.gaussian_process import ResidualProcess
from msbgen.systems.kernels.predictor.intervals import Scores
from msbgen.systems.kernels.predictor.kernel_predictor import KernelPredictor, KindModel
from msbgen.systems.kernels.predictor.law_and_residual import LawAndResidual
from msbgen.systems.kernels.predictor.power import PowerModel
from msbgen.systems.kernels.predictor.runtime import RuntimeModel
from msbgen.systems.kernels.predictor.shapes import SIDES, TILES, UNITS
from msbgen.systems.kernels.predictor.terms import MOST_PRODUCTS, POWERS
from msbgen.systems.learn.randomised import stored_trees

KERNEL_MODEL_SCHEMA = "msbgen-kernel-model/2"

_KIND = (
    ModelArray("known", ("kernel", "column")),
    ModelArray("columns", ("column",), "i8", high="log"),
    ModelArray("given", ("parameter",), low=0.0, high=1.0),
)
_RUNTIME = (
    ModelArray("logs", ("seen",), "i8", high="log"),
    ModelArray("works", ("term",), "i8", high="work"),
)
_POWER = (
    ModelArray("highest", ("resource",), low=POSITIVE[0]),
    ModelArray("most", (2,), low=POSITIVE[0]),
    ModelArray("logs", ("seen",), "i8", high="smooth"),
)
_LAW_AND_RESIDUAL = (
    ModelArray("weights", ("weight",), low=0.0),
    ModelArray("level", (), low=-700.0, high=700.0),
    ModelArray("share", (), low=0.0, high=1.0),
)
_PROCESS = (
    ModelArray("centre", ("d",)),
    ModelArray("scale", ("d",), low=POSITIVE[0]),
    ModelArray("points", ("n", "d")),
    ModelArray("weights", ("n",)),
    ModelArray("inverse", ("n", "n")),
    ModelArray("variance", (), low=0.0),
    ModelArray("noise", (), low=0.0),
)
_SCORES = (
    ModelArray("kind", ("n",), "i8", high="kinds"),
    ModelArray("kernel", ("n",), "i8"),
    ModelArray("runtime", ("n",), low=0.0),
    ModelArray("power", ("n",), low=0.0, missing=True),
)


@checks_arguments
def save(
    predictor: KernelPredictor, path: str | os.PathLike[str], *, overwrite: bool = False
) -> None:
    """Write a fitted predictor to one netCDF file.

    Raises
    ------
    ArgumentError
        It is not fitted.
    FileExistsError
        `path` exists and `overwrite` is False.
    """
    parameters = models.parameters_of(predictor, "kinds_")
    kinds, scores = list(predictor.kinds_), predictor.scores_
    arrays: dict[str, Any] = record_arrays(scores, _SCORES, "scores.")
    arrays["scores.kind"] = np.array([kinds.index(kind) for kind in scores.kind], dtype=np.int64)
    for k, model in enumerate(predictor.kinds_.values()):
        arrays |= record_arrays(model, _KIND, f"kind{k}.")
        arrays |= record_arrays(model.runtime, _RUNTIME, f"kind{k}.runtime.")
        arrays |= _model_arrays(model.runtime.model, f"kind{k}.runtime.")
        for power in model.powers:
            arrays |= record_arrays(power, _POWER, f"kind{k}.power.")
            arrays |= _model_arrays(power.model, f"kind{k}.power.")
    labels = {
        "parameters": parameters,
        "resources": predictor.resources_,
        "columns": predictor.parameters_,
        "units": predictor.units_,
        "levels": predictor.levels_,
        "kinds": kinds,
        "powers": [len(model.powers) for model in predictor.kinds_.values()],
    }
    models.save_model(path, arrays, labels, schema=KERNEL_MODEL_SCHEMA, overwrite=overwrite)


def load(path: str | os.PathLike[str]) -> KernelPredictor:
    """Predictor that :func:`save` wrote.

    Raises
    ------
    ProfileError
        The file cannot be read, is no such model, or was changed since it was saved.
    """
    stored, labels = models.load_model(path, schema=KERNEL_MODEL_SCHEMA, what="kernels")
    with models.label_errors(stored.source):
        predictor = stored.record(KernelPredictor, labels["parameters"], "'parameters'")
        predictor.resources_ = models.stored_names(labels["resources"])
        predictor.parameters_ = models.stored_names(labels["columns"])
        units = models.stored_names([*labels["units"].values()], distinct=False)
        predictor.units_ = dict(zip(labels["units"], units))
        if missing := {*predictor.parameters_, *predictor.resources_} - {*predictor.units_}:
            raise KeyError(f"no unit of {min(missing)}")
        predictor.levels_ = {
            name: [float(level) for level in labels["levels"][name]]
            for name in predictor.resources_
        }
        kinds = models.stored_names(labels["kinds"])
        powers = [models.stored_count(labels["powers"][k], 1) for k in range(len(kinds))]
    for name, levels in predictor.levels_.items():
        good = bool(levels) and all(POSITIVE[0] <= level <= POSITIVE[1] for level in levels)
        stored.want(good, f"'levels' of '{name}'", levels, "a list of positive numbers")
    predictor.kinds_ = {
        kind: _kind(stored.part(f"kind{k}."), kind, powers[k], predictor)
        for k, kind in enumerate(kinds)
    }
    scores = stored.part("scores.").take(_SCORES, kinds=len(kinds))
    scores["kind"] = np.array([kinds[k] for k in scores["kind"]], dtype=str)
    predictor.scores_ = Scores(**scores)
    return predictor


def _kind(stored: StoredArrays, kind: str, powers: int, predictor: KernelPredictor) -> KindModel:
    n_resources, names = len(predictor.resources_), predictor.parameters_
    # the columns of Shapes.works() and Shapes.logs(), which are more for matrix products
    presence = stored.take(_KIND[2:], parameter=len(names))["given"]
    share = dict(zip(names, presence.tolist()))
    sides = {"matmul": [KINDS["matmul"]], "conv2d": [KINDS["conv2d"]]}
    sides["gemm"] = [("rows", "columns"), SIDES]
    alternatives = sides.get(kind, [] if kind in KINDS else [SIDES])
    product = any(all(share.get(side) == 1 for side in given) for given in alternatives)
    n_works = 5 + len(TILES) * len(UNITS) if product else 3
    n_logs = 6 if product else 3
    sizes = {"log": n_logs, "parameter": len(names), "resource": n_resources}
    model: dict[str, Any] = stored.take(_KIND, **sizes)
    stored.want(len(model["known"]) > 0, stored.named("known"), "empty", "one row or more")
    part = stored.part("runtime.")
    runtime = part.take(_RUNTIME, **sizes, work=n_works)
    most = n_resources if n_resources <= MOST_PRODUCTS else 1
    slow = sum(comb(n_resources, size) for size in range(most + 1))
    rest = n_logs + len(names) + n_resources
    terms, seen = len(runtime["works"]) * slow, len(runtime["logs"]) + n_resources
    model["runtime"] = RuntimeModel(_law_and_residual(part, terms, seen, rest), **runtime)
    model["powers"] = ()
    if powers:
        part = stored.part("power.")
        power = part.take(_POWER, **sizes, smooth=2 + n_resources)
        # constant, clock and cube; operations and bytes, each by 1 and the powers of the clocks
        terms = 1 + 2 * n_resources + 2 * (1 + len(POWERS) * n_resources)
        fitted = _law_and_residual(part, terms, len(power["logs"]), rest + 3)
        model["powers"] = (PowerModel(fitted, **power),)
    return KindModel(**model)


def _law_and_residual(stored: StoredArrays, terms: int, seen: int, rest: int) -> LawAndResidual:
    taken = stored.take(_LAW_AND_RESIDUAL)
    n = len(taken["weights"])
    stored.want(n in (0, terms), f"size of {stored.named('weights')}", n, f"0 or {terms}")
    process: dict[str, Any] = stored.part("process.").take(_PROCESS, d=seen)
    process |= {name: float(process[name]) for name in ("variance", "noise")}
    trees = stored_trees(stored.part("trees."), 1, rest)
    share = float(taken["share"])
    stored.want(
        share == 0 or len(trees.nodes.root), stored.named("share"), share, "0, without trees,"
    )
    level = float(taken["level"])
    return LawAndResidual(taken["weights"], level, ResidualProcess(**process), trees, share)


def _model_arrays(model: LawAndResidual, path: str) -> dict[str, Any]:
    return {
        **record_arrays(model, _LAW_AND_RESIDUAL, path),
        **record_arrays(model.process, _PROCESS, f"{path}process."),
        **model.trees.arrays(f"{path}trees."),
    }
