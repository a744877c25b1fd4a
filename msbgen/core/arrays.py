"""Arrays that come out of a file of ours: what each must be, said where it is taken.

A kernel reads where an index leads it: whatever a file holds is looked at before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from hashlib import blake2b
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError, ProfileError

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Record = TypeVar("Record")

# Ranges of numbers: sums of those of the first do not overflow, nor do products of exponentials
# of those of the last.
ANY = (-1e100, 1e100)
NOT_NEGATIVE = (0.0, 1e100)
POSITIVE = (1e-300, 1e100)
LOGARITHMS = (-800.0, 200.0)


@dataclass(frozen=True)
class StoredArrays:
    """Named arrays of a file, each checked as it is taken.

    Attributes
    ----------
    source : str
        The file, as errors name it.
    arrays : mapping of str to ndarray
    prefix : str
        What the names of all of them begin with in the file.
    """

    source: str
    arrays: Mapping[str, NDArray[Any]]
    prefix: str = ""

    def part(self, prefix: str) -> StoredArrays:
        """The arrays whose names begin so, to be taken without that beginning."""
        own = {n.removeprefix(prefix): a for n, a in self.arrays.items() if n.startswith(prefix)}
        return StoredArrays(self.source, own, self.prefix + prefix)

    def numbers(
        self,
        name: str,
        shape: tuple[int | None, ...],
        *,
        within: tuple[float, float] = ANY,
        missing: bool = False,
    ) -> Floats:
        """An array of finite numbers in a range.

        Parameters
        ----------
        name : str
        shape : tuple of int or None
            The shape wanted; None for any size.
        within : pair of float
            The least and the largest number.
        missing : bool
            Whether NaN may stand for what is not there.

        Raises
        ------
        ProfileError
            No such array, another shape, no numbers, or numbers out of range.
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
        return f"variable '{self.prefix}{name}'"

    def want(self, good: object, what: str, got: object, wanted: str) -> None:
        """Raise ProfileError, in the words of the other checks, where something is not good."""
        if not good:
            raise self._error(f"{what} is {_short(got)}; {wanted} is wanted")

    def record(self, kind: type[Record], given: object, what: str) -> Record:
        """A dataclass of settings from what JSON held: its fields, all of them, and no others.

        Raises
        ------
        ProfileError
            Other names, a value of another type than the field's default, or a value that the
            dataclass refuses.
        """
        defaults = {f.name: f.default for f in fields(kind)}  # type: ignore[arg-type]
        self.want(isinstance(given, dict), what, given, "a table of names and values")
        assert isinstance(given, dict)
        for name in given.keys() ^ defaults.keys():
            state = "missing" if name in defaults else "unknown"
            self.want(False, f"'{name}' of {what}", state, f"{', '.join(defaults)}")
        for name, default in defaults.items():
            assert default is not MISSING
            value, types = given[name], _TYPES[type(default)]
            self.want(type(value) in types, f"'{name}' of {what}", repr(value), _words(types))
        try:
            return kind(**given)
        except ArgumentError as error:
            raise ProfileError(f"{self.source}: {what}: {error}") from None

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
        return ProfileError(f"{self.source}: {sentence}: make it again.")


def digest(arrays: Mapping[str, NDArray[Any]], *texts: str) -> str:
    """Fingerprint of named arrays and texts: what was changed after it was saved has another.

    Numbers that are possible each by itself may still make no model together.
    """
    found = blake2b(repr(texts).encode(), digest_size=16)
    for name in sorted(arrays):
        array = np.array(arrays[name])
        if array.dtype.kind == "f":
            array[np.isnan(array)] = np.nan  # of all its bit patterns the usual one
        found.update(f"{name} {array.dtype.str} {array.shape}".encode())
        found.update(array.tobytes())
    return found.hexdigest()


_TYPES: dict[type, tuple[type, ...]] = {
    bool: (bool,),
    int: (int,),
    float: (int, float),
    str: (str,),
    type(None): (str, type(None)),
}


def _words(types: tuple[type, ...]) -> str:
    if str in types:
        return "text"
    if bool in types:
        return "true or false"
    return "a number" if float in types else "a whole number"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:57] + "..."
