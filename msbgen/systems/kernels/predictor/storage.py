"""Fitted predictors of kernels in netCDF files: arrays and JSON, nothing pickled."""

import os

from msbgen.data.models import check_fitted, load_part, save_part
from msbgen.systems.kernels.predictor.kernel_predictor import KernelPredictor

KERNEL_MODEL_SCHEMA = "msbgen-kernel-model/3"


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
    check_fitted(predictor, "kinds_")
    save_part(predictor, path, schema=KERNEL_MODEL_SCHEMA, overwrite=overwrite)


def load(path: str | os.PathLike[str]) -> KernelPredictor:
    """Predictor that :func:`save` wrote.

    Raises
    ------
    ProfileError
        The file cannot be read, is no such model, or was changed since it was saved.
    """
    return load_part(KernelPredictor, path, schema=KERNEL_MODEL_SCHEMA, what="kernels")
