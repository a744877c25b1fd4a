"""Fitted predictors of graphs as netCDF files: arrays by name, labels as JSON, nothing pickled."""

import os

from msbgen.data.models import check_fitted, load_part, save_part
from msbgen.systems.graphs.predictor.predictor import GraphPredictor

GRAPH_MODEL_SCHEMA = "msbgen-graph-model/4"


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
    check_fitted(predictor, "devices_")
    save_part(predictor, path, schema=GRAPH_MODEL_SCHEMA, overwrite=overwrite)


def load(path: str | os.PathLike[str]) -> GraphPredictor:
    """Predictor that :func:`save` wrote.

    Raises
    ------
    ProfileError
        The file cannot be read, is no such model, or was changed since it was saved.
    """
    return load_part(GraphPredictor, path, schema=GRAPH_MODEL_SCHEMA, what="graphs")
