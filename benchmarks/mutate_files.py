"""Random damage to files: bytes, texts, datasets, and models with a digest that fits again."""

import json
import re
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import xarray as xr

from msbgen.core.arrays import digest

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
UNITS = ["s", "ms", "us", "min", "h", "1", "%", "GHz", "MHz", "Hz", "MB s-1", "GB s-1", "W", "mW",
         "J", "degC", "B"]  # fmt: skip
_NO_FIGURES = ("nan", "inf", "-inf")
ODD_CELLS = [
    "", " ", "0", "-0", "-1", "1e9", "1e400", *_NO_FIGURES, "x", "1_0", "٣", "0x10", "1,5",
    "1.5.2", "<not counted>", "<not supported>", "<not", "summary", '"', "'", "{", "}", "\\",
    "[", "]",
    "#", "=", "=1+1", "true", '""', "\x00", "\x1b[31m", "🐧", "\ud800", "9" * 30, "9" * 5000,
    "18446744073709551599", "4294967295", "CPU0", "S0-D0", "/", "a/b", "../x", "-", "N/A", "100.00",
    "100,00", "msec", "time", "5e-324", "9007199254740993",
]  # fmt: skip
ODD_LINES = [
    "", "#", "# started on Sun Nov 22 12:00:00 2026", "perf: interrupted", "1", "Time,Core", "[]",
    "{}", "null", "     0.020000000", "     0.020000000;", "42 % done", ";" * 8, "\ufeff",
    "     summary;1;;a;1;100.00;;", "Events disabled", "[[run]]", "[columns]", 'task = "x"',
]  # fmt: skip
_NUMBER = r"(?<![\w.])\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.])"
DTYPES = ["i1", "u1", "i2", "i4", "i8", "u8", "f4", "f8", "U"]


def spoil_file(path: Path, target: Path, rng: np.random.Generator) -> str:
    """Write a damaged copy of a file; returns a description of the damage."""
    target.unlink(missing_ok=True)
    if rng.random() < 0.15:
        data, how = spoil_bytes(path.read_bytes(), rng)
    elif path.suffix not in (".nc", ".npz"):
        change = TEXT_CHANGES[rng.integers(len(TEXT_CHANGES))]
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        tries = (change(text, rng) for _ in range(100))
        made = next((tried for tried in tries if tried != text), "")
        data = made if isinstance(made, bytes) else made.encode("utf-8", "surrogatepass")
        how = f"text: {change.__name__}"
    elif path.suffix == ".nc" and rng.random() < 0.04:
        return swollen(path, target, rng)
    else:
        return _spoil_arrays(path, target, rng)
    target.write_bytes(data)
    return how


def _spoil_arrays(path: Path, target: Path, rng: np.random.Generator) -> str:
    """Damage a netCDF file, or an archive of numpy, whose arrays have dimensions of their own."""
    if path.suffix == ".nc":
        original = xr.load_dataset(path, engine="netcdf4", decode_cf=False)
    else:
        with np.load(path) as stored:
            arrays = {name: stored[name] for name in stored.files}
        original = xr.Dataset(
            {n: ([f"{n}_{k}" for k in range(a.ndim)], a) for n, a in arrays.items()}
        )
    for _ in range(100):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                spoilt, how = spoil_dataset(original, rng)
                if "digest" in spoilt.attrs and rng.random() < 0.9:
                    spoilt, how = spoilt.assign_attrs(digest=_digest(spoilt)), f"forged: {how}"
                if path.suffix == ".nc":
                    spoilt.to_netcdf(target, engine="netcdf4")
                else:
                    values: dict[str, Any] = {str(n): v.values for n, v in spoilt.variables.items()}
                    np.savez(target, **values)
        except Exception:  # what no file can hold cannot reach us
            continue
        return how
    raise RuntimeError(f"{path}: nothing that was done to it could be written")


def _digest(ds: xr.Dataset) -> str:
    """The digest that a model with these arrays would be saved with."""
    arrays = {str(name): variable.values for name, variable in ds.variables.items()}
    return digest(arrays, str(ds.attrs.get("labels")))


def swollen(path: Path, target: Path, rng: np.random.Generator) -> str:
    """A variable is declared with up to 10**12 values, of which none is written."""
    original = xr.load_dataset(path, engine="netcdf4", decode_cf=False)
    name = str(rng.choice([str(name) for name in original.variables]))
    kind, rank = original[name].dtype, original[name].ndim
    size = int(10.0 ** (rng.uniform(6, 12) / max(rank, 1)))
    original.drop_vars(name).to_netcdf(target, engine="netcdf4", unlimited_dims=())
    with netCDF4.Dataset(target, "a") as file:
        for k in range(max(rank, 1)):
            file.createDimension(f"huge_{k}", size)
        dims = [f"huge_{k}" for k in range(max(rank, 1))]
        file.createVariable(
            name, kind if kind.kind in "iuf" else "i1", dims, zlib=True, fill_value=0,
            chunksizes=[min(size, int(1e5 ** (1 / len(dims))))] * len(dims),
        )  # fmt: skip
    return f"swollen: {name} to {size}"


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


# ------------------------------------------------------------------------------------------ texts


def cell(text: str, rng: np.random.Generator) -> str:
    """A cell, word or number becomes an odd one.

    A word never becomes 'nan' or 'inf': in a result such a name looks like a figure.
    """
    pattern = [r"[^,;\s]+", r"\w+", _NUMBER, r"\d"][rng.integers(4)]
    odd = str(rng.choice(ODD_CELLS))

    def change(old: str) -> str:
        return odd if re.fullmatch(_NUMBER, old) or odd not in _NO_FIGURES else f"{odd}x"

    return _replaced(text, pattern, change, rng)


def number(text: str, rng: np.random.Generator) -> str:
    """A number becomes an odd one, negative, or another unit's, alone or wherever it stands."""
    odd = f"{rng.choice(ODD_NUMBERS):g}"
    ways: list[Callable[[str], str]] = [
        lambda _: odd,
        lambda old: f"-{old}",
        lambda old: f"{float(old) * 1000:.12g}",
        lambda old: f"{float(old) / 1000:.12g}",
        lambda _: str(rng.choice([2**53 + 1, 2**63, 10**22])),
    ]
    return _replaced(text, _NUMBER, ways[rng.integers(len(ways))], rng, every=rng.random() < 0.1)


def column(text: str, rng: np.random.Generator) -> str:
    """A column of a table becomes constant, scaled, empty, or is moved, lost or doubled."""
    lines = text.splitlines()
    separator = next((s for s in (",", ";", "\t", " ") if s in lines[-1]), " ")
    rows = [line.split(separator) for line in lines]
    at, way = int(rng.integers(len(rows[-1]))), int(rng.integers(7))
    for row in rows[1:] if way < 4 else rows:
        if at >= len(row):
            continue
        if way < 3:
            row[at] = (rows[-1][at], "0", "")[way]
        elif way == 3:
            with suppress(ValueError):
                row[at] = f"{float(row[at]) * 1e-3:.12g}"
        elif way == 4:
            row.append(row.pop(at))
        elif way == 5:
            del row[at]
        else:
            row.append(row[at])
    return "\n".join(map(separator.join, rows)) + "\n"


def lines(text: str, rng: np.random.Generator) -> str:
    """Lines are lost, doubled, cut, moved, added, or repeated with another number."""
    found = text.splitlines()
    row, count = int(rng.integers(len(found))), int(rng.integers(1, 6))
    way = int(rng.integers(9))
    if way == 0:
        del found[row : row + count]
    elif way == 1:
        found[row:row] = found[row : row + count]
    elif way == 2:
        found[row] = found[row][: int(rng.integers(len(found[row]) + 1))]
    elif way == 3:
        found.append(found.pop(row))
    elif way == 4:
        found[row:] = found[row:][::-1]
    elif way == 5:
        found = found[: row + 1]
    elif way == 6:
        found = found[:2]
    elif way == 7:  # a contradiction
        found.insert(row, _replaced(found[row], _NUMBER, lambda old: f"{float(old) * 7:g}", rng))
    else:
        found.insert(row, str(rng.choice(ODD_LINES)))
    return "\n".join(found) + "\n"


def units(text: str, rng: np.random.Generator) -> str:
    """A unit becomes another one."""
    old = [unit for unit in UNITS if re.search(rf"\b{re.escape(unit)}\b", text)]
    if not old:
        return number(text, rng)
    pattern = rf"\b{re.escape(str(rng.choice(old)))}\b"
    return _replaced(text, pattern, lambda _: str(rng.choice(UNITS)), rng)


def names(text: str, rng: np.random.Generator) -> str:
    """A name loses its letters, changes case, or becomes the one of another."""
    words = re.findall(r"[A-Za-z_]\w*", text) or ["x"]
    ways: list[Callable[[str], str]] = [
        lambda _: "", str.swapcase, lambda _: str(rng.choice(words)),
        lambda _: str(rng.choice(ODD_NAMES)),
    ]  # fmt: skip
    return _replaced(text, r"[A-Za-z_]\w*", ways[rng.integers(4)], rng, every=rng.random() < 0.1)


def dialect(text: str, rng: np.random.Generator) -> str | bytes:
    """Another encoding, end of lines, separator, decimal sign or nesting."""
    comma = re.sub(r"(\d)\.(\d)", r"\1,\2", text)
    ways = [
        "\ufeff" + text, text.encode("utf-16"), text.replace("\n", "\r\n"),
        text.replace("\n", "\r"), comma, comma.replace(",", ";"), text.replace(",", ";"),
        text.replace(",", "\t"), text.replace(",", ", "), "é".encode("latin-1") + text.encode(),
        text.replace("\"", "'"), "\n" * 3 + text, text + "\x00",
        _replaced(text, r"[\[{(]", lambda old: old * 100_000, rng), text * 50, "",
    ]  # fmt: skip
    return ways[rng.integers(len(ways))]


def _replaced(
    text: str,
    pattern: str,
    new: Callable[[str], str],
    rng: np.random.Generator,
    every: bool = False,
) -> str:
    """The text with one match of a pattern, or those equal to it, replaced."""
    found = [*re.finditer(pattern, text)]
    if not found:
        return text
    match = found[rng.integers(len(found))]
    if every:
        return re.sub(rf"(?<!\w){re.escape(match[0])}(?!\w)", lambda m: new(m[0]), text)
    return text[: match.start()] + new(match[0]) + text[match.end() :]


TEXT_CHANGES: list[Callable[[str, np.random.Generator], str | bytes]] = [
    cell, cell, cell, cell, number, number, column, column, lines, lines, units, names, dialect,
]  # fmt: skip


# --------------------------------------------------------------------------------------- datasets


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


def other_units(ds: xr.Dataset, name: str, rng: np.random.Generator) -> xr.Dataset:
    """Units become others, and values sometimes follow."""
    changed = ds.copy()
    changed[name].attrs["units"] = str(rng.choice(UNITS))
    by = rng.choice([1.0, 1e3, 1e-3, 1e6, -1.0, 0.0, 1e300, 1e-300, 1.5])
    return with_values(changed, name, ds[name].values * by) if by != 1 else changed


def constant(ds: xr.Dataset, name: str, rng: np.random.Generator) -> xr.Dataset:
    """All values are equal: the first, zero, denormal, huge, or a count beyond 2**53."""
    values = ds[name].values
    if values.size == 0 or values.dtype.kind not in "iuf":
        return ds
    new = [values.flat[0], 0, 1, 5e-324, 1e300, 2.0**53 + 2, 2.0**63]
    some = np.where(np.isfinite(values), new[rng.integers(len(new))], values)
    with np.errstate(all="ignore"):
        return with_values(ds, name, some.astype(values.dtype))


def added(ds: xr.Dataset, name: str, rng: np.random.Generator) -> xr.Dataset:
    """Counts or times from somewhere else on: beyond 2**53, or negative."""
    by = rng.choice([2.0**53, 2.0**62, -1.0, -100.0, 1e15])
    return with_values(ds, name, ds[name].values + by)


def back(ds: xr.Dataset, name: str, rng: np.random.Generator) -> xr.Dataset:
    """Values run backwards along a dimension, or in another order."""
    values = ds[name].values.copy()
    if values.ndim == 0 or values.size < 2:
        return ds
    axis = int(rng.integers(values.ndim))
    order = np.arange(values.shape[axis])[::-1].copy()
    if rng.random() < 0.3:
        order = rng.permutation(order)
    elif rng.random() < 0.5:
        order = np.sort(order)
        order[[0, -1]] = order[[-1, 0]]
    return with_values(ds, name, np.take(values, order, axis))


def exchanged(ds: xr.Dataset, name: str, rng: np.random.Generator) -> xr.Dataset:
    """Two variables exchange values, and with them shape and type."""
    other = str(rng.choice([str(other) for other in ds.variables]))
    one, two = ds[name].variable, ds[other].variable
    if name == other or ds[name].dims == (name,) or ds[other].dims == (other,):
        return ds
    return ds.drop_vars([name, other]).assign({name: two, other: one})


def extra(ds: xr.Dataset, name: str, rng: np.random.Generator) -> xr.Dataset:
    """One more variable, whose name may be that of another but for its case."""
    new = str(rng.choice([name.swapcase(), f"{name}_", f"{name} ", *ODD_NAMES]))
    return ds.assign({new: ds[name].variable})


def text(ds: xr.Dataset, name: str, rng: np.random.Generator) -> xr.Dataset:
    """A name among values becomes empty, odd, or one that differs by its case; or all are text."""
    words = ds[name].values.astype(object)
    if words.size == 0:
        return ds
    if ds[name].dtype.kind in "iuf":
        return with_values(ds, name, words.astype(str))
    at = int(rng.integers(words.size))
    other = str(words.flat[int(rng.integers(words.size))])
    words.flat[at] = str(rng.choice(["", " ", other, other.swapcase(), *ODD_NAMES]))
    return with_values(ds, name, words.astype(str))


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
        if rng.random() < 0.1:  # nested deeper than a reader may follow
            branch[at] = "NESTED"
            nested = "[" * 100_000 + "]" * 100_000
            return ds.assign_attrs({key: json.dumps(tree).replace('"NESTED"', nested)})
        odd = [None, True, -1, 0, 1e300, "x", "", [], {}, [1, "a"], {"a": 1}, 10**30, 2.5, 2**31,
               2**63, float("nan"), 5e-324, "ä" * 300, ["x"] * 1000]  # fmt: skip
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
    some_values, some_values, some_values, some_values, dtype, shape, shape, rank,
    rows, rows, dropped, renamed, attribute, attribute, labels, labels, labels,
    other_units, other_units, constant, constant, added, back, back, exchanged, extra, text,
]  # fmt: skip
