"""Random damage to files: values, types, shapes, names, attributes, words and bytes."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

ODD_NUMBERS = [
    np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0, 1.0, 0.5, 1e-3, 1e9, 1e300, -1e300, 5e-324,
    2.0**31, 2.0**53, 2.0**63, 1e38, 1e39,
]  # fmt: skip
ODD_VALUES: list[Any] = [
    *ODD_NUMBERS, "", "1", "s", "nan", "resource", "counter", "GHz", "\x1b[31m", "ä" * 300, "{}",
    [1.0, 2.0], [np.nan], ["a", "b"], np.array([], dtype=np.int8), np.int8(1), np.uint64(2**63),
    np.arange(3, dtype=np.int16), [1e300, -1e300, 0.0],
]  # fmt: skip
ODD_NAMES = [
    "extrapolated", "beyond", "duration", "runs", "method", "ä", "a b", "a,b", 'a"b', "x" * 200,
    "instructions", "time_", "Context",
]  # fmt: skip
DTYPES = ["i1", "u1", "i2", "i4", "i8", "u8", "f4", "f8", "U"]


def spoil_file(path: Path, target: Path, rng: np.random.Generator) -> str:
    """Write a damaged copy of a file; returns a description of the damage."""
    if path.suffix == ".csv":
        text, how = spoil_table(path.read_text(), rng)
        data = text.encode("utf-8", "surrogatepass")
        if rng.random() < 0.2:
            data, how = spoil_bytes(data, rng)
        target.write_bytes(data)
        return how
    if path.suffix in (".toml", ".swf", ".json", ".dot") and rng.random() < 0.8:
        text, how = spoil_words(path.read_text(), rng)
        target.write_bytes(text.encode("utf-8", "surrogatepass"))
        return how
    if path.suffix != ".nc" or rng.random() < 0.25:
        data, how = spoil_bytes(path.read_bytes(), rng)
        target.write_bytes(data)
        return how
    for _ in range(100):
        original = xr.load_dataset(path, engine="netcdf4", decode_cf=False)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                spoilt, how = spoil_dataset(original, rng)
                spoilt.to_netcdf(target, engine="netcdf4")
        except Exception:  # what no file can hold cannot reach us
            continue
        return how
    raise RuntimeError(f"{path}: nothing that was done to it could be written")


def spoil_bytes(data: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
    """Flip bits, cut, insert, blank or move bytes."""
    changed, start = bytearray(data), int(rng.integers(len(data)))
    length = int(rng.integers(1, 64))
    how = str(rng.choice(["flip", "cut", "insert", "zero", "move", "end"]))
    if how == "flip":
        for _ in range(int(rng.integers(1, 9))):
            changed[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
    elif how == "cut":
        del changed[start : start + length]
    elif how == "insert":
        changed[start:start] = rng.bytes(length)
    elif how == "zero":
        changed[start : start + length] = bytes(min(length, len(data) - start))
    elif how == "move":
        other = int(rng.integers(len(data)))
        changed[start : start + length] = data[other : other + length]
    else:
        del changed[start:]
    return bytes(changed), f"bytes: {how} at {start}"


def spoil_table(text: str, rng: np.random.Generator) -> tuple[str, str]:
    """Change cells, lines, the header or the separator."""
    lines = [line.split(",") for line in text.splitlines()]
    row, column = int(rng.integers(len(lines))), int(rng.integers(len(lines[0])))
    how = str(rng.choice(["cell", "number", "drop", "double", "empty", "separator", "header"]))
    if how == "cell":
        lines[row][column] = str(rng.choice(["", " ", "x", "1e400", "nan", '"', "'", "1_0", "٣",
                                             "0x10", "=1+1", "\x00", "\ud800",
                                             "9" * 5000]))  # fmt: skip
    elif how == "number":
        lines[1 + row % (len(lines) - 1)][column] = f"{rng.choice(ODD_NUMBERS):g}"
    elif how == "drop":
        del lines[row]
    elif how == "double":
        lines.insert(row, lines[row])
    elif how == "empty":
        lines = [[] for _ in lines]
    elif how == "header":
        lines[0][column] = str(rng.choice([*ODD_NAMES, lines[0][column - 1]]))
    separator = str(rng.choice([";", "\t", ", "])) if how == "separator" else ","
    return "\n".join(map(separator.join, lines)) + "\n", f"table: {how} at {row}, {column}"


def spoil_words(text: str, rng: np.random.Generator) -> tuple[str, str]:
    """Change a word, or drop or double a line, of a text with blanks between words."""
    lines = [line.split(" ") for line in text.splitlines()]
    row = int(rng.integers(len(lines)))
    column = int(rng.integers(len(lines[row])))
    how = str(rng.choice(["word", "word", "number", "number", "drop", "double", "short"]))
    if how == "word":
        odd = ["", "x", '"', "[", "]", "=", "#", "nan", "1_0", "true", '""', "\x00", "\ud800"]
        lines[row][column] = str(rng.choice([*odd, "9" * 5000]))
    elif how == "number":
        lines[row][column] = f"{rng.choice(ODD_NUMBERS):g}"
    elif how == "drop":
        del lines[row]
    elif how == "double":
        lines.insert(row, lines[row])
    else:
        del lines[row][column:]
    return "\n".join(map(" ".join, lines)) + "\n", f"words: {how} at {row}, {column}"


def spoil_dataset(ds: xr.Dataset, rng: np.random.Generator) -> tuple[xr.Dataset, str]:
    """Change one variable, dimension or attribute."""
    change = CHANGES[rng.integers(len(CHANGES))]
    name = str(rng.choice([str(name) for name in ds.variables]))
    return change(ds, name, rng), f"{change.__name__} of {name}"


def some_values(ds: xr.Dataset, name: str, rng: np.random.Generator) -> xr.Dataset:
    values = ds[name].values.copy()
    odd = rng.choice(ODD_NUMBERS)
    if values.size == 0 or values.dtype.kind not in "iuf":
        return ds
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        odd = np.asarray(odd).astype(values.dtype)
    values.flat[rng.integers(values.size, size=int(rng.choice([1, 1, 3, values.size])))] = odd
    return with_values(ds, name, values)


def factor(ds: xr.Dataset, name: str, rng: np.random.Generator) -> xr.Dataset:
    by = rng.choice([1e9, 1e-9, 1e3, 1e-3, -1.0, 0.0, 1e300, 1e-300, 1.5])
    with np.errstate(all="ignore"):
        return with_values(ds, name, ds[name].values * by)


def order(ds: xr.Dataset, name: str, rng: np.random.Generator) -> xr.Dataset:
    values = ds[name].values.copy()
    return with_values(ds, name, rng.permutation(values.ravel()).reshape(values.shape))


def dtype(ds: xr.Dataset, name: str, rng: np.random.Generator) -> xr.Dataset:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return with_values(ds, name, ds[name].values.astype(str(rng.choice(DTYPES))))


def shape(ds: xr.Dataset, name: str, rng: np.random.Generator) -> xr.Dataset:
    """Fewer, more or no rows of one variable, under another dimension."""
    variable = ds[name].variable
    if variable.ndim == 0:
        return ds
    axis = int(rng.integers(variable.ndim))
    n = variable.shape[axis]
    rows = [np.arange(n // 2), np.arange(0), np.arange(2 * n) % n, np.arange(max(n - 1, 0))]
    values = np.take(variable.values, rows[rng.integers(4)], axis=axis)
    dims = [f"{dim}_other" if i == axis else dim for i, dim in enumerate(variable.dims)]
    return ds.drop_vars(name).assign({name: (dims, values, variable.attrs)})


def rank(ds: xr.Dataset, name: str, rng: np.random.Generator) -> xr.Dataset:
    """Lose a dimension, or get one more."""
    variable = ds[name].variable
    if variable.ndim and rng.random() < 0.5:
        return ds.drop_vars(name).assign({name: variable.isel({variable.dims[0]: 0})})
    return ds.drop_vars(name).assign({name: variable.expand_dims("more")})


def transposed(ds: xr.Dataset, name: str, rng: np.random.Generator) -> xr.Dataset:
    if ds[name].ndim < 2:
        return ds
    return ds.assign({name: ds[name].transpose(*rng.permutation(ds[name].dims))})


def rows(ds: xr.Dataset, name: str, rng: np.random.Generator) -> xr.Dataset:
    """Fewer, no, or doubled rows of a dimension, everywhere."""
    dim = str(rng.choice([str(dim) for dim in ds.dims]))
    n = ds.sizes[dim]
    some = [slice(n // 2), slice(0), slice(1), [0, *range(n)], slice(None, None, -1)]
    return ds.isel({dim: some[rng.integers(len(some))]})


def dropped(ds: xr.Dataset, name: str, rng: np.random.Generator) -> xr.Dataset:
    return ds.drop_vars(name)


def renamed(ds: xr.Dataset, name: str, rng: np.random.Generator) -> xr.Dataset:
    old = str(rng.choice([str(old) for old in [*ds.variables, *ds.dims]]))
    return ds.rename({old: str(rng.choice(ODD_NAMES))})


def attribute(ds: xr.Dataset, name: str, rng: np.random.Generator) -> xr.Dataset:
    changed = ds.copy()
    attrs = changed.attrs if rng.random() < 0.4 else changed[name].attrs
    more = ["units", "role", "levels", "long_name", "progress", "kind", "interval", "schema",
            "scale_factor", "add_offset", "_FillValue", "missing_value", "coordinates",
            "calendar", "task"]  # fmt: skip
    chosen = str(rng.choice([*attrs, *more]))
    if rng.random() < 0.25:
        attrs.pop(chosen, None)
    else:
        attrs[chosen] = ODD_VALUES[rng.integers(len(ODD_VALUES))]
    return changed


def labels(ds: xr.Dataset, name: str, rng: np.random.Generator) -> xr.Dataset:
    """Change a leaf or a branch of an attribute that holds JSON."""
    trees = [key for key, text in ds.attrs.items() if str(text).startswith("{")]
    if not trees:
        return attribute(ds, name, rng)
    key = str(rng.choice(trees))
    tree = json.loads(ds.attrs[key])
    branch: Any = tree
    while True:
        keys = list(branch) if isinstance(branch, dict) else list(range(len(branch)))
        if not keys:
            break
        at = keys[rng.integers(len(keys))]
        if isinstance(branch[at], (dict, list)) and branch[at] and rng.random() < 0.8:
            branch = branch[at]
            continue
        odd = [None, True, -1, 0, 1e300, "x", "", [], {}, [1, "a"], {"a": 1}, 10**30, 2.5]
        if rng.random() < 0.3:
            del branch[at]
        else:
            branch[at] = odd[rng.integers(len(odd))]
        break
    return ds.assign_attrs({key: json.dumps(tree)})


def with_values(ds: xr.Dataset, name: str, values: np.ndarray) -> xr.Dataset:
    changed = ds[name].dims, values, ds[name].attrs
    return ds.assign_coords({name: changed}) if name in ds.coords else ds.assign({name: changed})


CHANGES: list[Callable[[xr.Dataset, str, np.random.Generator], xr.Dataset]] = [
    some_values, some_values, some_values, factor, order, dtype, shape, shape, rank, transposed,
    rows, rows, dropped, renamed, attribute, attribute, attribute, labels,
]  # fmt: skip
