"""Parts stored and restored, and model files changed by someone who knows the digest."""

import json

import xarray as xr

from msbgen.core.arrays import StoredArrays, digest
from msbgen.core.parts import arrays_and_table, part_from
from msbgen.data.models import content_of
from msbgen.data.store import load_netcdf, save_netcdf
from msbgen.engine.generate.model import MODEL_SCHEMA


def restored(part, *around, change=None):
    """A part stored and restored; `change` (arrays, table) is made to what is stored."""
    arrays, table = arrays_and_table(part)
    arrays, table = dict(arrays), json.loads(json.dumps(table))
    if change:
        change(arrays, table)
    return part_from(type(part), StoredArrays("some.nc", arrays), table, *around)


def content(model):
    """What the file of a fitted model holds."""
    return content_of(model, schema=MODEL_SCHEMA)


def sealed(dataset):
    """The content of a model file with a digest that fits."""
    arrays = {str(name): variable.values for name, variable in dataset.variables.items()}
    return dataset.assign_attrs(digest=digest(arrays, str(dataset.attrs["labels"])))


def forge(path, change):
    """Apply `change` (dataset, labels) to a model file, and renew its digest."""
    dataset = load_netcdf(path)
    labels = json.loads(dataset.attrs["labels"])
    made = change(dataset, labels)
    dataset = made if isinstance(made, xr.Dataset) else dataset
    save_netcdf(sealed(dataset.assign_attrs(labels=json.dumps(labels))), path, overwrite=True)


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
    "feature": (2_000_000_000, "is 2000000000; less than"),
    "missing_left": (7, "holds 7"),
}
