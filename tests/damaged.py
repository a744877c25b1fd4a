"""Model files with one thing no longer as it was."""

import json

import numpy as np

from forged import sealed

ODD_LABELS = [None, "x", -1, 0, 1e300, 2.5, [], {}, True, float("nan")]


def damaged(ds, rng, prefix=""):
    """A dataset of a model with a damage; half of the arrays have names with the prefix."""
    return sealed(_damaged(ds, rng, prefix))


def _damaged(ds, rng, prefix):
    kind, text = rng.integers(10), ds.attrs["labels"]
    if kind == 7:
        labels = json.loads(text)
        parts = [
            labels,
            labels["distribution"],
            labels["distribution"]["settings"],
            labels["counters"],
        ]
        part = parts[rng.integers(len(parts))]
        part[rng.choice(list(part))] = ODD_LABELS[rng.integers(len(ODD_LABELS))]
        return ds.assign_attrs(labels=json.dumps(labels))
    if kind == 8:
        at = int(rng.integers(len(text)))
        return ds.assign_attrs(labels=text[:at] + text[at + int(rng.integers(1, 9)) :])
    names = sorted(map(str, ds.data_vars))
    if rng.random() < 0.5:
        names = [name for name in names if name.startswith(prefix)]
    name = str(rng.choice(names))
    values = ds[name].values.copy()
    if kind == 0:
        return ds.drop_vars(name)
    if kind == 9:
        return ds.rename({name: f"{name}_"})
    if kind == 1 and values.ndim:
        values = values[: len(values) // 2]
    elif kind == 2 and values.ndim:
        values = np.concatenate([values, values[:1]])
    elif kind == 3:
        values = values.astype(rng.choice(["f4", "i2", "i8", "U"]))
    elif kind == 4 and values.ndim > 1:
        values = np.ascontiguousarray(np.swapaxes(values, 0, 1))
    elif kind == 5 and values.size:
        odd = [np.nan, np.inf, -1, 2**31, 1e300]
        if values.dtype.kind in "iu":
            odd = [-1, 2**31 - 1 if values.itemsize > 2 else 99]
        values.flat[rng.integers(values.size)] = rng.choice(odd)
    elif kind == 6 and values.size:
        values = np.where(np.arange(values.size).reshape(values.shape) % 7, values, values.flat[0])
    dims = [f"{name}_damaged_{i}" for i in range(values.ndim)]
    return ds.drop_vars(name).assign({name: (dims, values, ds[name].attrs)})
