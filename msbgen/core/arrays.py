"""Arrays of a stored model, checked when they are taken.

Compiled kernels follow indices without a check of their own, so every array of a file is checked
for its shape, type, range and order first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from hashlib import blake2b
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError, MeasurementError, ProfileError, printable

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Record = TypeVar("Record")

# Ranges of numbers. Sums of numbers in ANY do not overflow, nor do products of exponentials of
# numbers in LOGARITHMS.
ANY = (-1e100, 1e100)
NOT_NEGATIVE = (0.0, 1e100)
POSITIVE = (1e-300, 1e100)
LOGARITHMS = (-800.0, 200.0)
LOG_TIMES = (-300.0, 300.0)  # of times, and of their ratios
SHARE = (0.0, 1.0)


@dataclass(frozen=True)
class Stored:
    """How an array, or a number, is stored: its dimensions and range.

    `dims` are sizes, or names of sizes, on which the arrays of a part agree.
    """

    dims: tuple[str | int, ...] = ()
    within: tuple[float, float] = ANY
    dtype: str = "f8"  # in memory: "f8", "f4", a type of whole numbers, e.g. "i4", or "bool"
    below: str = ""  # name of a size, for indices below it
    missing: bool = False  # whether NaN may stand for a missing value
    ascending: bool = False  # whether each value must be greater than the one before


@dataclass(frozen=True)
class ModelArray:
    """Description of one array of a stored model.

    `dims` are sizes, or names of sizes, on which the arrays of one table agree.
    """

    name: str
    dims: tuple[str | int, ...] = ()
    dtype: str = "f8"  # in memory: "f8", "f4", or a type of whole numbers, e.g. "i4"
    low: float = ANY[0]
    high: float | str = ANY[1]  # or the name of a size, for indices below it
    missing: bool = False  # whether NaN may stand for a missing value
    ascending: bool = False  # whether each value must be greater than the one before


@dataclass(frozen=True)
class StoredArrays:
    """Named arrays of a file, each checked when taken; `prefix` begins their names there."""

    source: str
    arrays: Mapping[str, NDArray[Any]]
    prefix: str = ""

    def part(self, prefix: str) -> StoredArrays:
        """The arrays whose names begin with `prefix`, under the rest of their names."""
        some = {n.removeprefix(prefix): a for n, a in self.arrays.items() if n.startswith(prefix)}
        return StoredArrays(self.source, some, self.prefix + prefix)

    def take(self, table: Sequence[ModelArray], **sizes: int) -> dict[str, NDArray[Any]]:
        """Checked arrays of a table, by name, each in its type.

        `sizes` are those of named dimensions; the first array with another name sets its size.
        ProfileError: an array is missing, or its shape, type, order or range is another.
        """
        taken: dict[str, NDArray[Any]] = {}
        for entry in table:
            wanted = tuple(sizes.get(d) if isinstance(d, str) else d for d in entry.dims)
            for dim, size in zip(entry.dims, self._of_shape(entry.name, wanted).shape):
                # a second dimension of the same name must have the size of the first
                self.want(
                    not isinstance(dim, str) or sizes.setdefault(dim, size) == size,
                    f"size of {self.named(entry.name)}", size, str(sizes.get(str(dim))),
                )  # fmt: skip
            shape = tuple(sizes[d] if isinstance(d, str) else d for d in entry.dims)
            kind = np.dtype(entry.dtype)
            high = sizes[entry.high] - 1 if isinstance(entry.high, str) else entry.high
            if kind.kind == "f":
                most = float(np.finfo(kind).max)
                within = max(entry.low, -most), min(high, most)
                values = self.numbers(entry.name, shape, within=within, missing=entry.missing)
            else:
                below = int(min(high, np.iinfo(kind).max)) + 1
                values = self.indices(entry.name, shape, below=below)
            rises = not entry.ascending or bool(np.all(np.diff(values) > 0))
            self.want(rises, f"order of {self.named(entry.name)}", "another", "an ascending one")
            taken[entry.name] = values.astype(kind)
        return taken

    def find_sizes(self, name: str, declared: Stored, sizes: dict[str, int]) -> None:
        """Add the sizes of named dimensions of an array that are not known yet."""
        shape = self._of_shape(name, (None,) * len(declared.dims)).shape
        for dim, size in zip(declared.dims, shape):
            if isinstance(dim, str):
                sizes.setdefault(dim, size)

    def array(self, name: str, declared: Stored, sizes: Mapping[str, int]) -> NDArray[Any]:
        """An array in its type, checked; `sizes` are those of named dimensions, others are free.

        ProfileError: it is missing, or its shape, type, order or range is another.
        """
        sizes = dict(sizes)
        self.find_sizes(name, declared, sizes)
        shape = tuple(sizes[dim] if isinstance(dim, str) else dim for dim in declared.dims)
        kind = np.dtype(declared.dtype)
        if kind.kind == "f":
            low, high = declared.within
            most = float(np.finfo(kind).max)
            within = max(low, -most), min(high, most)
            values = self.numbers(name, shape, within=within, missing=declared.missing)
        elif kind.kind == "b":
            values = self.indices(name, shape, below=2)
        else:
            most = int(min(declared.within[1], np.iinfo(kind).max)) + 1
            below = sizes[declared.below] if declared.below else most
            values = self.indices(name, shape, below=below)
        rises = not declared.ascending or bool(np.all(np.diff(values) > 0))
        self.want(rises, f"order of {self.named(name)}", "another", "an ascending one")
        return values.astype(kind)

    def numbers(
        self,
        name: str,
        shape: tuple[int | None, ...],
        *,
        within: tuple[float, float] = ANY,
        missing: bool = False,
    ) -> Floats:
        """An array of finite numbers in a range, NaN only if `missing`; None in `shape`: any size.

        ProfileError: no such array, another shape, no numbers, or numbers out of range.
        """
        array = self._of_shape(name, shape)
        self.want(array.dtype.kind in "fiu", f"type of {self.named(name)}", array.dtype, "numbers")
        values = np.array(array, dtype=np.float64, order="C")
        good = (values >= within[0]) & (values <= within[1])
        if missing:
            good |= np.isnan(values)
        if not good.all():
            raise self._error(
                f"{self.named(name)} holds {values[~good][0]:g}; numbers from {within[0]:g} to "
                f"{within[1]:g} are wanted"
            )
        return values

    def indices(self, name: str, shape: tuple[int | None, ...], *, below: int) -> Indices:
        """An array of whole numbers from 0 to `below` − 1; errors as :meth:`numbers`."""
        array = self._of_shape(name, shape)
        kind = array.dtype.kind
        whole = kind in "iu" or (kind == "f" and bool((array == np.floor(array)).all()))
        self.want(whole, f"type of {self.named(name)}", array.dtype, "one of whole numbers")
        bad = (array < 0) | (array >= below)
        if bad.any():
            raise self._error(
                f"{self.named(name)} holds {array[bad][0]}; 0 to {below - 1} are wanted"
            )
        return np.array(array, dtype=np.int64, order="C")

    def named(self, name: str) -> str:
        """How errors name an array."""
        return f"variable {self.path(name)}"

    def path(self, name: str) -> str:
        """How errors name any value: by its path."""
        return f"'{self.prefix}{name}'"

    def want(self, good: object, what: str, got: object, wanted: str) -> None:
        """Raise ProfileError, worded like the other checks, unless `good` is true."""
        if not good:
            raise self._error(f"{what} is {printable(got, 60)}; {wanted} is wanted")

    def record(
        self, kind: type[Record], given: object, what: str, *, without: Sequence[str] = ()
    ) -> Record:
        """An object of the class `kind` from the JSON table `given`, which errors call `what`.

        The table names each argument of a dataclass, or of an ``__init__`` that only stores, once;
        those in `without` it does not hold.  Values are checked against the annotations, and
        arguments that are dataclasses are made in the same way.  ProfileError: other names, a value
        of another type, or a value that the class refuses.
        """
        hints = get_type_hints(kind if is_dataclass(kind) else kind.__init__)
        hints = {n: hint for n, hint in hints.items() if n not in ("return", *without)}
        self.want(isinstance(given, dict), what, given, "a table of names and values")
        assert isinstance(given, dict)
        for name in (*hints, *given):
            state = "missing" if name in hints else "unknown"
            known = name in hints and name in given
            self.want(known, f"'{name}' of {what}", state, ", ".join(hints))
        values = {n: self._value(hint, given[n], f"'{n}' of {what}") for n, hint in hints.items()}
        try:
            return kind(**values)
        except ArgumentError as error:
            raise ProfileError(f"{self.source}: {what}: {error}") from None

    def _value(self, hint: Any, value: object, what: str) -> Any:
        """One value of a JSON table, as its annotation wants it."""
        origin, parts = get_origin(hint), get_args(hint)
        if origin in (Union, UnionType):
            some = next(part for part in parts if part is not type(None))
            return None if value is None else self._value(some, value, what)
        if origin is Literal:
            self.want(value in parts, what, repr(value), f"one of {', '.join(map(str, parts))}")
            return value
        if origin is tuple:
            self.want(isinstance(value, list), what, value, "a list")
            assert isinstance(value, list)
            if parts[-1] is not Ellipsis:
                self.want(
                    len(value) == len(parts), f"length of {what}", len(value), str(len(parts))
                )
            each = [parts[0]] * len(value) if parts[-1] is Ellipsis else parts
            return tuple(self._value(part, one, what) for part, one in zip(each, value))
        if is_dataclass(hint):
            return self.record(hint, value, what)  # type: ignore[arg-type]
        types, wanted = _TYPES[hint]
        self.want(type(value) in types, what, repr(value), wanted)
        if isinstance(value, (int, float)):
            self.want(ANY[0] <= value <= ANY[1], what, value, "a finite number")
        return value

    def _of_shape(self, name: str, shape: tuple[int | None, ...]) -> NDArray[Any]:
        if name not in self.arrays:
            raise self._error(f"{self.named(name)} is missing; a whole file is wanted")
        array = np.asarray(self.arrays[name])
        fits = array.ndim == len(shape) and all(
            wanted in (None, size) for wanted, size in zip(shape, array.shape)
        )
        wanted = "(" + ", ".join("n" if n is None else str(n) for n in shape)
        wanted += ",)" if len(shape) == 1 else ")"
        self.want(fits, f"shape of {self.named(name)}", array.shape, wanted)
        return array

    def _error(self, sentence: str) -> ProfileError:
        return ProfileError(f"{self.source}: {sentence}: fit it again.")


def record_arrays(record: object, table: Sequence[ModelArray], prefix: str = "") -> dict[str, Any]:
    """Attributes of an object that a table names, under `prefix` and their names."""
    return {f"{prefix}{entry.name}": getattr(record, entry.name) for entry in table}


def finite_predictions(values: Floats, what: str) -> Floats:
    """The values themselves, if all are finite; MeasurementError otherwise (of an edited model)."""
    bad = ~np.isfinite(values)
    if bad.any():
        row = int(np.argwhere(bad)[0][0])
        raise MeasurementError(
            f"{what} of row {row} is predicted as {values[bad][0]}; check that the row lies near "
            f"the measurements, or fit the model again."
        )
    return values


def digest(arrays: Mapping[str, NDArray[Any]], *texts: str) -> str:
    """Fingerprint of named arrays and texts, which changes with every change of them."""
    found = blake2b(repr(texts).encode(), digest_size=16)
    for name in sorted(arrays):
        array = np.array(arrays[name])
        if array.dtype.kind == "f":
            array[np.isnan(array)] = np.nan  # one bit pattern for all NaN
        found.update(f"{name} {array.dtype.str} {array.shape}".encode())
        found.update(array.tobytes())
    return found.hexdigest()


# Types of JSON values for each annotation, and how errors describe them.
_TYPES: dict[type, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    str: ((str,), "text"),
}
