"""Trained networks of graphs as netCDF files: arrays by name, labels as JSON, nothing pickled."""

import os
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from msbgen.core.arguments import checks_arguments
from msbgen.core.arrays import NOT_NEGATIVE, POSITIVE
from msbgen.data.models import label_errors, load_model, parameters_of, save_model, stored_names
from msbgen.data.store import load_netcdf
from msbgen.systems.graphs.devices import Device
from msbgen.systems.graphs.predictor.network import (
    RELATIONS,
    TYPES,
    NetworkSettings,
    parameter_shapes,
)
from msbgen.systems.graphs.predictor.network_predictor import NetworkPredictor
from msbgen.systems.graphs.predictor.predictor import GraphPredictor
from msbgen.systems.graphs.predictor.storage import kind_arrays, kinds_from, load
from msbgen.systems.graphs.predictor.training import FeatureScaling, TrainedNetwork

NETWORK_SCHEMA = "msbgen-graph-network/1"

_SCALED = (*TYPES, *RELATIONS, "output")


@checks_arguments
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
    parameters = parameters_of(predictor, "network_")
    network = predictor.network_
    arrays = {**kind_arrays(predictor.kinds_), "tau": network.tau}
    for name in _SCALED:
        arrays[f"shift_{name}"] = network.scaling.shift[name]
        arrays[f"unit_{name}"] = network.scaling.unit[name]
    names = sorted(network.arrays)
    for i, name in enumerate(names):
        arrays[f"parameter{i}"] = network.arrays[name]
    labels = {
        "parameters": parameters,
        "network": asdict(network.settings),
        "kinds": [kind.name for kind in predictor.kinds_],
        "devices": [asdict(device) for device in predictor.devices_.values()],
        "names": names,
    }
    save_model(path, arrays, labels, schema=NETWORK_SCHEMA, overwrite=overwrite)


def load_network(path: str | os.PathLike[str]) -> NetworkPredictor:
    """Network that :func:`save_network` wrote.

    Raises
    ------
    ProfileError
        The file cannot be read, is no such model, or was changed since it was saved.
    """
    stored, labels = load_model(path, schema=NETWORK_SCHEMA, what="networks of graphs")
    with label_errors(stored.source):
        predictor = stored.record(NetworkPredictor, labels["parameters"], "'parameters'")
        settings = stored.record(NetworkSettings, labels["network"], "'network'")
        kinds = stored_names(labels["kinds"])
        devices = [stored.record(Device, one, "'devices'") for one in labels["devices"]]
        names = stored_names(labels["names"])
    shift = {name: stored.numbers(f"shift_{name}", (None,)) for name in _SCALED}
    unit = {
        name: stored.numbers(f"unit_{name}", (len(values),), within=POSITIVE)
        for name, values in shift.items()
    }
    # before the shapes of all layers are listed
    stored.want(settings.layers <= len(names), "'layers'", settings.layers, "parameters of each")
    sizes = {name: len(values) for name, values in shift.items() if name != "output"}
    arrays: dict[str, NDArray[np.float32]] = {}
    for name, shape in parameter_shapes(settings, sizes, len(shift["output"])).items():
        stored.want(name in names, f"parameter '{name}' of the network", "missing", "a whole file")
        values = stored.numbers(f"parameter{names.index(name)}", shape)
        arrays[name] = values.astype(np.float32)
    tau = stored.numbers("tau", (len(shift["output"]),), within=NOT_NEGATIVE)
    predictor.kinds_ = kinds_from(stored, kinds)
    predictor.devices_ = {device.name: device for device in devices}
    predictor.network_ = TrainedNetwork(
        arrays, FeatureScaling(shift, unit), settings, predictor.miscoverage, tau
    )
    return predictor


def load_predictor(path: str | os.PathLike[str]) -> GraphPredictor | NetworkPredictor:
    """Read a model of either kind, by the schema that the file names."""
    if load_netcdf(path).attrs.get("schema") == NETWORK_SCHEMA:
        return load_network(path)
    return load(path)
