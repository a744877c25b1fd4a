"""One declaration of a dataset's variables, and what follows from it: make, validate, read, write.

A :class:`Schema` lists the variables of a dataset with dimensions, type, unit and range.  Its
methods put labels on arrays, check a dataset against the declaration and read and write files.
Every problem is one sentence: the variable, the place, the value, what is wanted.  Conditions that
a declaration cannot express, as that a graph has no cycle, are in the function `Schema.check`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.draws import real_array
from msbgen.core.errors import ArgumentError, ProfileError, printable
from msbgen.data.files import path_of
from msbgen.data.store import load_netcdf, packing, save_netcdf

Kind = Literal["number", "count", "whole", "text"]
# `least` of a variable that may be any number above 0.
POSITIVE = float(np.nextafter(0.0, 1.0))
# `dtype` of variables that are 1 or 0, which may be given as True or False.
_FLAG = "int8"
# Type codes of numpy that each kind may have, their default type and their name in sentences.
_KINDS: dict[Kind, tuple[str, str, str]] = {
    "number": ("fiu", "float64", "numbers"),
    "count": ("fiu", "float64", "numbers"),
    "whole": ("iu", "int64", "whole numbers"),
    "text": ("OUT", "str", "words"),
}


@dataclass(frozen=True)
class Variable:
    """Declaration of one variable, or of all variables of one role."""

    name: str  # empty for all variables whose attribute ``role`` is `role`
    dims: tuple[str, ...]  # ``"..."`` at the end stands for any others
    kind: Kind = "number"  # a count is a whole number of any type, as a table may hold it as 2.0
    unit: str = ""  # the attribute ``units``; not checked where empty
    meaning: str = ""  # the attribute ``long_name``
    least: float = -np.inf
    most: float = np.inf
    missing: str = ""  # what NaN means; NaN is refused where this is empty
    remedy: str = ""  # what to do about a value out of range
    index_of: str = ""  # a dimension that the values are indices of, from `least` on
    filled: bool = False  # of texts: whether blank ones are refused
    distinct: bool = False  # of texts: whether equal ones are refused
    coordinate: bool = False
    optional: bool = False
    needed_with: str = ""  # a variable without which this one may be missing
    optional_dim: str = ""  # a dimension of `dims` that may be missing
    any_order: bool = False  # whether the dimensions may stand in any order
    role: str = ""
    dtype: str = ""  # in memory, as :meth:`entry` makes it; by kind where empty
    stored: str = ""  # type in files; by kind where empty

    @property
    def label(self) -> str:
        """The variable as sentences call it."""
        return f"{self.role or ('coordinate' if self.coordinate else 'variable')} '{self.name}'"

    def entry(self, values: ArrayLike, **attrs: Any) -> tuple[tuple[str, ...], NDArray[Any], dict]:
        """Dimensions, array and attributes, as :class:`xarray.Dataset` takes them."""
        if self.kind == "text":
            array = np.array([str(value) for value in np.asarray(values, dtype=object)], dtype=str)
        else:
            flags = self.dtype == _FLAG and np.asarray(values).dtype.kind == "b"
            given = np.asarray(values) if flags else real_array(values, self.name or self.role)
            if self.kind == "whole" and not (given == np.floor(given)).all():
                odd = given[given != np.floor(given)][0]
                raise ArgumentError(f"{self.label} is {odd:.10g}; a whole number is wanted.")
            with np.errstate(invalid="ignore", over="ignore"):  # a check of the values follows
                array = np.array(given, dtype=self.dtype or _KINDS[self.kind][1])
        declared = {"role": self.role, "units": self.unit, "long_name": self.meaning}
        dims = self.dims
        if array.ndim < len(dims):
            dims = tuple(dim for dim in dims if dim != self.optional_dim)
        return dims, array, {key: text for key, text in declared.items() if text} | attrs

    def wanted(self, size: int | None = None) -> str:
        """The values that are valid, in words; `size` is that of the dimension `index_of`."""
        most = self.most if size is None else size - 1
        noun = "a whole number" if self.kind in ("count", "whole") else "a number"
        if self.index_of:
            words = f"an index from {self.least:g} to {most}"
        elif np.isinf(self.least) and np.isinf(most):
            words = "a finite number"
        elif 0 < self.least < 1e-6:
            words = "a positive number" + ("" if np.isinf(most) else f" up to {most:.10g}")
        else:
            upper = "on" if np.isinf(most) else f"to {most:.10g}"
            words = f"{noun} from {self.least:g} {upper}"
        return f"{words}, or NaN where {self.missing}," if self.missing else words

    def layout_problems(self, dataset: xr.Dataset) -> Iterator[str]:
        """Sentences about a variable that has other dimensions, another type or unit."""
        data = dataset[self.name]
        dims = [dim for dim in self.dims if dim in data.dims or dim != self.optional_dim]
        got = [str(dim) for dim in data.dims]
        if dims[-1] == "...":
            dims = [*dims[:-1], *(dim for dim in got if dim not in dims)]
        if got != dims and not (self.any_order and sorted(got) == sorted(dims)):
            yield f"{self.label} has dimensions {got}; {list(self.dims)} are wanted."
        elif data.dtype.kind not in _KINDS[self.kind][0] and data.size:
            yield f"{self.label} holds {data.dtype}; {_KINDS[self.kind][2]} are wanted."
        units = data.attrs.get("units")
        if self.unit and not (isinstance(units, str) and units == self.unit):
            yield f"{self.label} has units {_plain(units)!r}; '{self.unit}' is wanted."
        elif self.role and not isinstance(units, str):
            yield f"{self.label} has no units; give it some, '1' for a number."

    def value_problems(self, dataset: xr.Dataset, label: str = "") -> Iterator[str]:
        """One sentence about the first value that is not valid."""
        data = dataset[self.name]
        if self.kind == "text":
            yield from self._text_problems(data)
            return
        values = data.values.astype(float)
        size = dataset.sizes[self.index_of] if self.index_of else None
        with np.errstate(over="ignore"):
            stored = values.astype(self.stored if "float" in self.stored else float).astype(float)
        most = self.most if size is None else size - 1
        good = np.isfinite(stored) & (stored >= self.least) & (stored <= most)
        if self.kind == "count":
            good &= stored == np.floor(stored)
        if self.missing:
            good |= np.isnan(values)
        if not good.all():
            at = tuple(map(int, np.argwhere(~good)[0]))
            unit = f" {self.unit}" if self.unit not in ("", "1") else ""
            remedy = f": {self.remedy}" if self.remedy else ""
            where = place(data, at, dataset.get(label))
            yield (
                f"{self.label} is {values[at]:.10g}{unit} at {where}; {self.wanted(size)} is "
                f"wanted{remedy}."
            )

    def _text_problems(self, data: xr.DataArray) -> Iterator[str]:
        words = data.values.astype(str)
        if self.filled and words.size and not all(map(str.strip, words.tolist())):
            row = next(i for i, word in enumerate(words.tolist()) if not word.strip())
            remedy = f": {self.remedy}" if self.remedy else ""
            yield f"{self.label} is empty at {place(data, (row,))}; a name is wanted{remedy}."
        if self.distinct and words.size:
            names, counts = np.unique(words, return_counts=True)
            if counts.max() > 1:
                name = names[counts.argmax()]
                yield f"{self.name} '{name}' is named twice; one entry each is wanted."


def place(data: xr.DataArray, index: tuple[int, ...], label: xr.DataArray | None = None) -> str:
    """The place of a value in words: ``run 3, machine 'old'``; a label follows in parentheses."""
    parts = []
    for dim, i in zip(data.dims, index):
        named = dim in data.coords and data[dim].dtype.kind in "OUT"
        parts.append(f"{dim} '{data[dim].values[i]}'" if named else f"{dim} {i}")
    return ", ".join(parts) + (f" ({label.values[index[0]]})" if label is not None else "")


@dataclass(frozen=True)
class Schema:
    """Declaration of a dataset.

    `check` returns sentences about conditions that the variables do not declare, of a dataset that
    obeys them.
    """

    name: str  # the attribute ``schema`` of such datasets
    content: str  # what they hold, in words
    dims: tuple[str, ...]  # dimensions that have at least one entry
    variables: tuple[Variable, ...]
    check: Callable[[xr.Dataset], Iterator[str]] = lambda dataset: iter(())
    label: str = ""  # a variable whose value stands beside places in sentences
    remedy: str = ""  # what to do about a missing variable
    compression: int = 9  # of files: 0 for none, 9 for the most
    error: type[ProfileError] = ProfileError

    def __getitem__(self, name: str) -> Variable:
        """Declaration of a variable, or of a role."""
        return next(v for v in self.variables if name == (v.name or v.role))

    def dataset(
        self, values: Mapping[str, ArrayLike | None], attrs: Mapping[str, Any] | None = None
    ) -> xr.Dataset:
        """Put labels on arrays, by name; None and undeclared names are left out.  Not validated.

        ArgumentError: an array of other dimensions, of another length, or without numbers.
        """
        coords = {v.name for v, _ in self._given(values) if v.coordinate}
        try:
            entries = {v.name: v.entry(given) for v, given in self._given(values)}
            return xr.Dataset(
                {name: entry for name, entry in entries.items() if name not in coords},
                {name: entry for name, entry in entries.items() if name in coords},
                {"schema": self.name, **(attrs or {})},
            )
        except ArgumentError:
            raise
        except (TypeError, ValueError, OverflowError) as error:
            why = str(error).partition("\n")[0].rstrip(".")
            raise ArgumentError(
                f"the arrays make no dataset ({why}); one value each of a kind is wanted."
            ) from None

    def _given(self, values: Mapping[str, ArrayLike | None]) -> list[tuple[Variable, ArrayLike]]:
        pairs = [(v, values.get(v.name)) for v in self.variables]
        return [(variable, given) for variable, given in pairs if given is not None]

    def validate(self, dataset: xr.Dataset, source: str = "dataset") -> xr.Dataset:
        """Return the dataset if it obeys the declaration.

        ProfileError: one sentence for every problem, each after `source`.
        """
        problems = list(self._layout_problems(dataset))
        problems = problems or list(self._value_problems(dataset)) or list(self.check(dataset))
        if problems:
            raise self.error(*(f"{source}: {problem}" for problem in problems))
        return dataset

    def describe(self, dataset: xr.Dataset) -> str:
        """What a valid dataset holds: its sizes, and a line for each variable."""
        sizes = ", ".join(f"{size} of {dim}" for dim, size in dataset.sizes.items())
        lines = [f"{self.content.partition(':')[0]}: {sizes}"]
        for variable in self.present(dataset):
            unit = f" [{variable.unit}]" if variable.unit else ""
            meaning = f": {variable.meaning}" if variable.meaning else ""
            lines.append(f"{variable.name}{unit}{meaning}")
        return "\n".join(map(printable, lines))

    def read(self, path: str | os.PathLike[str]) -> xr.Dataset:
        """Read a whole file and validate it."""
        return self.validate(load_netcdf(path), path_of(path).name)

    def write(
        self, dataset: xr.Dataset, path: str | os.PathLike[str], *, overwrite: bool = False
    ) -> None:
        """Validate a dataset and write it, whole or not at all; `overwrite` replaces a file."""
        self.validate(dataset, path_of(path).name)
        encoding = packing(dataset, self.compression) if self.compression else {}
        for variable in self.variables:
            if variable.stored:
                encoding[variable.name] = {**encoding[variable.name], "dtype": variable.stored}
        save_netcdf(dataset, path, overwrite=overwrite, encoding=encoding)

    def present(self, dataset: xr.Dataset) -> list[Variable]:
        """Declarations of the variables that a dataset has, one for each variable of a role."""
        found = [v for v in self.variables if v.name and v.name in dataset.variables]
        for template in (v for v in self.variables if not v.name):
            group = dataset.coords if template.coordinate else dataset.data_vars
            found += [
                replace(template, name=str(name))
                for name, data in group.items()
                if isinstance(data.attrs.get("role"), str) and data.attrs["role"] == template.role
            ]
        return found

    def _layout_problems(self, dataset: xr.Dataset) -> Iterator[str]:
        got = _plain(dataset.attrs.get("schema"))
        if got != self.name:
            yield f"attribute 'schema' is {got!r}; '{self.name}' is wanted for {self.content}."
            return
        for dim in self.dims:
            if dataset.sizes.get(dim, 0) == 0:
                yield f"dimension '{dim}' is missing or empty; at least one entry is wanted."
        for v in self.variables:
            needed = bool(v.name) and not v.optional
            if needed and v.needed_with:
                needed = v.needed_with in dataset
            group = dataset.coords if v.coordinate else dataset.data_vars
            if needed and v.name not in group:
                yield f"{v.label} is missing{f': {self.remedy}' if self.remedy else ''}."
            elif v.needed_with and needed and dataset.sizes.get(v.dims[0], 0) == 0:
                yield f"dimension '{v.dims[0]}' is missing or empty; drop '{v.needed_with}'."
        for variable in self.present(dataset):
            yield from variable.layout_problems(dataset)

    def _value_problems(self, dataset: xr.Dataset) -> Iterator[str]:
        for variable in self.present(dataset):
            yield from variable.value_problems(dataset, self.label)


def _plain(attribute: object) -> object:
    """An attribute as a Python value: arrays as lists, to be compared and shown."""
    return attribute.tolist() if isinstance(attribute, (np.ndarray, np.generic)) else attribute
