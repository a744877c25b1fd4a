"""Arrays of a stored model, checked when they are taken.

Compiled kernels follow indices without a check of their own, so every array of a file is checked
for its shape, type, range and order first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import MeasurementError, ProfileError, printable

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

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

    `dims` are sizes, or names of sizes, on which the arrays of a part agree; None for any shape.
    """

    dims: tuple[str | int, ...] | None = ()
    within: tuple[float, float] = ANY
    dtype: str = "f8"  # in memory: "f8", "f4", a type of whole numbers, e.g. "i4", or "bool"
    below: str = ""  # name of a size, for indices below it
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

    def find_sizes(self, name: str, declared: Stored, sizes: dict[str, int]) -> None:
        """Add the sizes of named dimensions of an array that are not known yet."""
        if declared.dims is None:
            return
        shape = self._of_shape(name, (None,) * len(declared.dims)).shape
        for dim, size in zip(declared.dims, shape):
            if isinstance(dim, str):
                sizes.setdefault(dim, size)

    def array(self, name: str, declared: Stored, sizes: Mapping[str, int]) -> NDArray[Any]:
        """An array in its type, checked; `sizes` are those of named dimensions, others are free.

        ProfileError: it is missing, or its shape, type, order or range is another.
        """
        sizes, dims = dict(sizes), declared.dims
        self.find_sizes(name, declared, sizes)
        shape = None
        if dims is not None:
            shape = tuple(sizes[dim] if isinstance(dim, str) else dim for dim in dims)
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
        shape: tuple[int | None, ...] | None,
        *,
        within: tuple[float, float] = ANY,
        missing: bool = False,
    ) -> Floats:
        """An array of finite numbers in a range, NaN only if `missing`; None: any shape or size.

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

    def indices(self, name: str, shape: tuple[int | None, ...] | None, *, below: int) -> Indices:
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

    def _of_shape(self, name: str, shape: tuple[int | None, ...] | None) -> NDArray[Any]:
        if name not in self.arrays:
            raise self._error(f"{self.named(name)} is missing; a whole file is wanted")
        array = np.asarray(self.arrays[name])
        if shape is None:
            return array
        fits = array.ndim == len(shape) and all(
            wanted in (None, size) for wanted, size in zip(shape, array.shape)
        )
        wanted = "(" + ", ".join("n" if n is None else str(n) for n in shape)
        wanted += ",)" if len(shape) == 1 else ")"
        self.want(fits, f"shape of {self.named(name)}", array.shape, wanted)
        return array

    def _error(self, sentence: str) -> ProfileError:
        return ProfileError(f"{self.source}: {sentence}: fit it again.")


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
