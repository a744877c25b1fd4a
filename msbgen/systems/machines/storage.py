"""Fitted predictors of relative performance in netCDF files: arrays and JSON, nothing pickled."""

import os

from msbgen.data.models import check_fitted, load_part, save_part
from msbgen.systems.machines.predictor import RelativePredictor

RELATIVE_MODEL_SCHEMA = "msbgen-relative-model/4"


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
    check_fitted(predictor, "machines_")
    save_part(predictor, path, schema=RELATIVE_MODEL_SCHEMA, overwrite=overwrite)


def load(path: str | os.PathLike[str]) -> RelativePredictor:
    """Predictor that :func:`save` wrote.

    Raises
    ------
    ProfileError
        The file cannot be read, is no such model, or was changed since it was saved.
    """
    return load_part(
        RelativePredictor, path, schema=RELATIVE_MODEL_SCHEMA, what="relative performance"
    )
