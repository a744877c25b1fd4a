"""Fitted objects as named arrays and one table: each class declares how its fields are stored.

A *part* is a dataclass, or a predictor whose ``__init__`` only stores its arguments and whose
fitted attributes are annotated and end in ``_``.  The annotation of a field says how it is stored:

- ``Annotated[Floats, Stored(("known", "run"), POSITIVE)]``: an array, or a number with a range;
- a part, ``part | None``, ``tuple[part, ...]``, ``list[part]``, ``dict[str, part]``, or several
  such arrays: under the path of the field, as ``centre.trend.caps.0.mean``;
- ``Annotated[Base, Kinds(one=One, other=Other)]``: one of several classes, by a word;
- ``Annotated[Floats, Given("contexts")]``: not stored, but taken from a part around it;
- any other: a value of JSON, of the annotated type.

What is read is checked against these declarations.  What they cannot express a part finds itself,
in a method ``problems() -> Iterator[tuple[str, object, str]]``: the name of a field, what it is,
and what is wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, cached_property
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np

from msbgen.core.arrays import Stored, StoredArrays
from msbgen.core.errors import ArgumentError, ProfileError, quoted
from msbgen.core.records import fits, wanted

Part = TypeVar("Part")
Value = TypeVar("Value")

# How a table says that a value is an array, which stands beside it.
_ARRAY = "array"


@dataclass(frozen=True)
class Given:
    """A field that is not stored: an attribute of a part around it, by its path, or its default.

    The first name of the path is looked up from the innermost part outwards, among its arrays and
    the fields declared before.
    """

    path: str


class Sizes:
    """Sizes of dimensions within a part: numbers, or paths of one, or of what has a length."""

    def __init__(self, **sizes: int | str) -> None:
        self.sizes = sizes


class Kinds:
    """The classes that a value may be of, by the word that a file has for each."""

    def __init__(self, **kinds: type) -> None:
        self.kinds = kinds

    def word(self, value: object) -> str:
        """Word for the class of a value."""
        return next(word for word, kind in self.kinds.items() if type(value) is kind)


class stored_property(cached_property[Value]):  # a name as of cached_property
    """A cached property that is stored with its part once it was computed."""


def arrays_and_table(part: object, path: str = "") -> tuple[dict[str, Any], dict[str, Any]]:
    """What is stored of a part: arrays by their paths, and a table of all else for JSON."""
    arrays: dict[str, Any] = {}
    table = {
        one.name: _stored_value(one.hint, getattr(part, one.name), f"{path}{one.name}", arrays)
        for one in _fields_of(type(part))
        if one.given is None and (one.when != "computed" or one.name in vars(part))
    }
    return arrays, table


def part_from(kind: type[Part], stored: StoredArrays, table: object, *around: object) -> Part:
    """The part that :func:`arrays_and_table` took apart; `around` hold what is :class:`Given`.

    ProfileError: an array or a value is missing, or breaks its declaration.
    """
    try:
        return _part(kind, stored, table, _Around(around, {}))
    except ArgumentError as error:  # of a part that has no such attribute
        raise ProfileError(f"{stored.source}: {error}") from None


def fitted_names(kind: type) -> list[str]:
    """Names of the attributes that a fit of a predictor sets, and that are stored."""
    return [one.name for one in _fields_of(kind) if one.when == "fitted"]


@dataclass(frozen=True)
class _Around:
    """What is known around a part: the parts that hold it, innermost first, and sizes."""

    owners: tuple[object, ...]  # parts, or the values by name of parts that are not complete
    sizes: Mapping[str, int]

    def given(self, path: str) -> Any:
        """The value of a path, see :class:`Given`; None if no part has it."""
        first, *rest = path.split(".")
        found = (_attribute(owner, first) for owner in self.owners)
        value = next((one for one in found if one is not None), None)
        for name in rest:
            value = getattr(value, name)
        return value

    def with_sizes(self, marks: Mapping[type, Any]) -> _Around:
        """The same with the sizes that a field declares."""
        if Sizes not in marks:
            return self
        sizes = dict(self.sizes)
        for name, size in marks[Sizes].sizes.items():
            found = self.given(size) if isinstance(size, str) else size
            sizes[name] = found if isinstance(found, int) else len(found)
        return _Around(self.owners, sizes)


@dataclass(frozen=True)
class _Field:
    """A field of a part, as declared."""

    name: str
    hint: Any
    # whether it is an argument, an attribute set by a fit, or a property that may be stored
    when: Literal["argument", "fitted", "computed"]

    @property
    def given(self) -> Given | None:
        """Where its value is taken from, if it is not stored."""
        return _unwrapped(self.hint)[1].get(Given)

    @property
    def array(self) -> Stored | None:
        """How its value is stored, if it is an array."""
        return _unwrapped(self.hint)[1].get(Stored)


@cache
def _fields_of(kind: type) -> tuple[_Field, ...]:
    hints = get_type_hints(kind, include_extras=True)
    if is_dataclass(kind):
        found = [_Field(one.name, hints[one.name], "argument") for one in fields(kind) if one.init]
    else:
        arguments = get_type_hints(kind.__init__, include_extras=True)
        arguments.pop("return", None)
        found = [_Field(name, hint, "argument") for name, hint in arguments.items()]
        found += [_Field(n, hint, "fitted") for n, hint in hints.items() if n.endswith("_")]
    for base in reversed(kind.__mro__):
        for name, value in vars(base).items():
            if isinstance(value, stored_property):
                hint = get_type_hints(value.func, include_extras=True)["return"]
                found.append(_Field(name, hint, "computed"))
    return tuple(found)


def _unwrapped(hint: Any) -> tuple[Any, dict[type, Any], bool]:
    """A type, what is declared beside it by class, and whether None may stand for it."""
    marks: dict[type, Any] = {}
    optional = False
    while True:
        if get_origin(hint) is Annotated:
            marks |= {type(mark): mark for mark in hint.__metadata__}
            hint = hint.__origin__
            continue
        some = [one for one in get_args(hint) if one is not NoneType]
        if get_origin(hint) not in (Union, UnionType) or len(some) > 1:
            return hint, marks, optional
        (hint,), optional = some, True


def _attribute(owner: object, name: str) -> Any:
    """An attribute of a part, complete or not; None if it has none of that name."""
    return owner.get(name) if isinstance(owner, dict) else getattr(owner, name, None)


def _is_part(hint: Any) -> bool:
    return isinstance(hint, type) and (is_dataclass(hint) or hasattr(hint, "get_params"))


def _stored_value(hint: Any, value: Any, path: str, arrays: dict[str, Any]) -> Any:
    """A value for the table; its arrays are added to `arrays`."""
    hint, marks, _ = _unwrapped(hint)
    if value is None:
        return None
    if Stored in marks:
        array = np.asarray(value)
        arrays[path] = array.astype(np.int8) if array.dtype == bool else array
        return _ARRAY
    kinds, table = marks.get(Kinds), {}
    if kinds or _is_part(hint):
        own, table = arrays_and_table(value, f"{path}.")
        arrays |= own
        return {"kind": kinds.word(value), **table} if kinds else table
    inner = get_args(hint)
    if get_origin(hint) is dict:
        return {
            key: _stored_value(inner[1], one, f"{path}.{i}", arrays)
            for i, (key, one) in enumerate(value.items())
        }
    if get_origin(hint) in (list, tuple):
        each = zip(_hints_of(hint, len(value)), value, strict=True)
        return [_stored_value(h, one, f"{path}.{i}", arrays) for i, (h, one) in enumerate(each)]
    return value


def _hints_of(hint: Any, length: int) -> tuple[Any, ...]:
    """The types of the values of a list or tuple."""
    inner = get_args(hint)
    every = get_origin(hint) is list or inner[-1] is Ellipsis
    return inner[:1] * length if every else inner


def _part(kind: type[Part], stored: StoredArrays, table: Any, around: _Around) -> Part:
    what = f"'{stored.prefix.rstrip('.')}'" if stored.prefix else "the table of the model"
    stored.want(isinstance(table, dict), what, quoted(table), "a table of names and values")
    declared = _fields_of(kind)
    first = [one for one in declared if one.when != "computed"]
    for one in first:
        there = one.name in table or one.given is not None
        stored.want(there, stored.path(one.name), "missing", "a whole file")
    given = {one.name: around.given(one.given.path) for one in declared if one.given}
    values: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    sizes = dict(around.sizes)
    for one in first:  # the first array with a name of a size sets it
        if one.array and table[one.name] is not None:
            stored.find_sizes(one.name, one.array, sizes)
    around = _Around((values, *around.owners), sizes)
    for one in sorted(first, key=lambda one: one.array is None):
        if one.given is None:
            values[one.name] = _value(one.hint, stored, one.name, table[one.name], around)
    arguments = {one.name for one in declared if one.when == "argument"} & values.keys()
    try:
        part = kind(**{name: values[name] for name in arguments})
    except ArgumentError as error:
        raise ProfileError(f"{stored.source}: {what}: {error}") from None
    for name in values.keys() - arguments:
        setattr(part, name, values[name])
    for name, got, instead in getattr(part, "problems", tuple)():
        stored.want(False, stored.path(name), got, instead)
    around = _Around((part, *around.owners[1:]), sizes)
    for one in declared:
        if one.when == "computed" and one.name in table:
            value = _value(one.hint, stored, one.name, table[one.name], around)
            vars(part)[one.name] = value
    return part


def _value(hint: Any, stored: StoredArrays, name: str, given: Any, around: _Around) -> Any:
    """The value of a field, of its arrays and of what the table says of it."""
    hint, marks, optional = _unwrapped(hint)
    if given is None and optional:
        return None
    if Stored in marks:
        stored.want(given == _ARRAY, stored.path(name), quoted(given), f"'{_ARRAY}'")
        array = stored.array(name, marks[Stored], around.sizes)
        return hint(array) if hint in (float, int, bool) else array
    inside = around.with_sizes(marks)
    if Kinds in marks:
        kinds = marks[Kinds].kinds
        word = given.get("kind") if isinstance(given, dict) else None
        known = isinstance(word, str) and word in kinds
        stored.want(known, f"kind of {stored.path(name)}", quoted(word), ", ".join(kinds))
        return _part(kinds[word], stored.part(f"{name}."), given, inside)
    if _is_part(hint):
        return _part(hint, stored.part(f"{name}."), given, inside)
    return _collected(hint, stored, name, given, inside)


def _collected(hint: Any, stored: StoredArrays, name: str, given: Any, around: _Around) -> Any:
    """A dict, a list, a tuple or a plain value."""
    origin, inner = get_origin(hint), get_args(hint)
    what = stored.path(name)
    if origin is dict:
        stored.want(isinstance(given, dict), what, quoted(given), "a table of names and values")
        _, marks, _ = _unwrapped(inner[1])
        numbered = bool(marks) or _is_part(inner[1])  # names of arrays cannot hold any text
        if inner[0] is int:
            digits = all(key.isdecimal() for key in given)
            stored.want(digits, f"a name in {what}", quoted(list(given)), "a whole number")
        return {
            inner[0](key): _value(inner[1], stored, f"{name}.{i if numbered else key}", one, around)
            for i, (key, one) in enumerate(given.items())
        }
    if origin in (list, tuple):
        stored.want(isinstance(given, list), what, quoted(given), "a list")
        each = _hints_of(hint, len(given))
        stored.want(len(given) == len(each), f"length of {what}", len(given), str(len(each)))
        parts = zip(each, given, strict=True)
        return origin(
            _value(part, stored, f"{name}.{i}", one, around) for i, (part, one) in enumerate(parts)
        )
    if origin in (Union, UnionType):
        kinds = {get_origin(one) or one: one for one in inner}
        found = kinds.get(type(given))
        stored.want(found is not None, what, quoted(given), " or ".join(map(wanted, kinds)))
        return _collected(found, stored, name, given, around)
    stored.want(fits(hint, given), what, quoted(given), wanted(hint))
    return given if origin is Literal else hint(given)
