"""Trained networks of graphs as netCDF files: arrays by name, labels as JSON, nothing pickled."""

import os

from msbgen.data.models import (
    check_fitted,
    load_part,
    save_part,
)
from msbgen.data.store import load_netcdf
from msbgen.systems.graphs.predictor.network_predictor import NetworkPredictor
from msbgen.systems.graphs.predictor.predictor import GraphPredictor
from msbgen.systems.graphs.predictor.storage import load

NETWORK_SCHEMA = "msbgen-graph-network/2"


def save_network(
    predictor: NetworkPredictor, path: str | os.PathLike[str], *, overwrite: bool = False
) -> None:
    """Write a fitted network to one netCDF file.

    Raises
    ------
    ArgumentError
        It is not fitted.
    FileExistsError
        `path` exists and `overwrite` is False.
    """
    check_fitted(predictor, "network_")
    save_part(predictor, path, schema=NETWORK_SCHEMA, overwrite=overwrite)


def load_network(path: str | os.PathLike[str]) -> NetworkPredictor:
    """Network that :func:`save_network` wrote.

    Raises
    ------
    ProfileError
        The file cannot be read, is no such model, or was changed since it was saved.
    """
    return load_part(NetworkPredictor, path, schema=NETWORK_SCHEMA, what="networks of graphs")


def load_predictor(path: str | os.PathLike[str]) -> GraphPredictor | NetworkPredictor:
    """Read a model of either kind, by the schema that the file names."""
    if load_netcdf(path).attrs.get("schema") == NETWORK_SCHEMA:
        return load_network(path)
    return load(path)
