"""Model files changed by someone who knows the digest."""

import json

import xarray as xr

from msbgen.core.arrays import digest
from msbgen.data.store import load_netcdf, save_netcdf


def forge(path, change):
    """Apply `change` (dataset, labels) to a model file, and renew its digest."""
    dataset = load_netcdf(path)
    labels = json.loads(dataset.attrs["labels"])
    made = change(dataset, labels)
    dataset = made if isinstance(made, xr.Dataset) else dataset
    text = json.dumps(labels)
    arrays = {str(name): variable.values for name, variable in dataset.variables.items()}
    attrs = {**dataset.attrs, "labels": text, "digest": digest(arrays, text)}
    save_netcdf(dataset.assign_attrs(attrs), path, overwrite=True)


def changed(name, value, at=0):
    """A change of one value of an array, for :func:`forge`."""

    def change(dataset, _):
        values = dataset[name].values.copy()
        values.reshape(-1)[at] = value
        return dataset.assign({name: (dataset[name].dims, values)})

    return change


# Values of nodes that are none, by array, and the error about each.
FORGED_TREES = {
    "left": (100_000_000, "holds 100000000"),
    "right": (-7, "holds -7"),
    "feature": (2_000_000_000, "holds 2000000000"),
    "n_features": (999, "is 999; "),
    "missing_left": (7, "holds 7"),
}
