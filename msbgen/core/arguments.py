"""Types of arguments of public functions, checked where a call has failed.

A call with an argument of a wrong type fails somewhere inside, with Python's own error.  What is
decorated here raises an :class:`ArgumentError` instead, which names the argument.  Calls that
succeed cost nothing more, and errors that no argument explains stay as they are.
"""

import collections.abc
import functools
import inspect
import math
import operator
import types
import typing
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any, Literal, ParamSpec, TypeVar, Union

import numpy as np

from msbgen.core.errors import ArgumentError, is_number, quoted

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")
_Class = TypeVar("_Class", bound=type)
# Errors of Python and numpy about values of another type than expected.
_OF_TYPES = (TypeError, AttributeError, ValueError, OverflowError, KeyError, IndexError)
# Types of array_like that are single values.
_SINGLE = (complex, bytes, str, float, int, bool)


def checks_arguments(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """The function; where a call fails for an argument of another type, it is an ArgumentError.

    Examples
    --------
    >>> @checks_arguments
    ... def half(number: float) -> float:
    ...     return number / 2
    >>> half(3)
    1.5
    >>> half("x")
    Traceback (most recent call last):
    msbgen.core.errors.ArgumentError: number is 'x'; a number is wanted.
    """

    @functools.wraps(function)
    def checked(*args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
        try:
            return function(*args, **kwargs)
        except _OF_TYPES as error:
            if type(error).__module__.startswith("msbgen."):
                raise
            if sentence := _wrong_argument(function, args, kwargs):
                raise ArgumentError(sentence) from None
            raise

    return checked


def checks_fields(cls: _Class) -> _Class:
    """The class, whose constructor is checked as by :func:`checks_arguments`."""
    cls.__init__ = checks_arguments(cls.__init__)
    return cls


def _wrong_argument(function: Callable[..., Any], args: Any, kwargs: Any) -> str:
    """A sentence about the first argument that is not of its declared type; empty for none."""
    try:
        given = inspect.signature(function).bind(*args, **kwargs).arguments
        declared = typing.get_type_hints(function)
    except (TypeError, NameError):  # a missing argument: Python's own sentence is as good
        return ""
    for name, value in [*given.items()]:  # of keywords, the settings of a TypedDict
        if typing.get_origin(declared.get(name)) is typing.Unpack:
            declared |= typing.get_type_hints(typing.get_args(declared.pop(name))[0])
            given |= value
    for name, value in given.items():
        kind = declared.get(name)
        if name != "self" and kind is not None and not _is(value, kind):
            return f"{name} is {quoted(value)}; {_wanted(kind)} is wanted."
    return ""


def _is(value: Any, kind: Any) -> bool:
    """Whether a value is of a declared type, as far as that can be told."""
    kind = _without_aliases(kind)
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any or isinstance(kind, (TypeVar, str)):
        return True
    if origin in (Union, types.UnionType):
        if any(map(_is_of_arrays, parts)) and _holds_numbers(value):
            return True
        return any(_is(value, part) for part in _beside_arrays(parts))
    if origin is Literal:
        return isinstance(value, str) and value in parts
    if kind is float:
        return is_number(value) and _is_real(value)
    if kind is int:
        whole = is_number(value) and isinstance(value, (int, np.integer))
        return whole and abs(int(value)) < 2**63
    if kind is bool:
        return isinstance(value, (bool, np.bool_))
    if kind is None or kind is type(None):
        return value is None
    if origin is tuple:
        several = (
            parts[:1] * len(value) if parts[1:] == (...,) and isinstance(value, tuple) else parts
        )
        return (
            isinstance(value, tuple)
            and len(value) == len(several)
            and all(map(_is, value, several))
        )
    if origin is collections.abc.Callable:
        return callable(value)
    if origin is np.ndarray:
        return isinstance(value, np.ndarray)
    if isinstance(origin, type):
        if not isinstance(value, origin) or (isinstance(value, (str, bytes)) and origin is not str):
            return False
        if issubclass(origin, collections.abc.Mapping):
            pairs: Any = value
            return all(_is(k, parts[0]) and _is(v, parts[1]) for k, v in pairs.items())
        if issubclass(origin, collections.abc.Collection) and len(parts) == 1:
            return all(_is(each, parts[0]) for each in value)
        return True
    if getattr(kind, "_is_protocol", False):
        return all(hasattr(value, name) for name in vars(kind) if not name.startswith("_"))
    return isinstance(value, kind) if isinstance(kind, type) else True


def _without_aliases(kind: Any) -> Any:
    """A type with what its names stand for: those of numpy's arrays are types since numpy 2.5."""
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        return functools.reduce(operator.or_, map(_without_aliases, parts))
    named = getattr(origin or kind, "__value__", None)
    return kind if named is None else _without_aliases(named)


def _is_real(value: Any) -> bool:
    try:
        return not isinstance(value, complex) and not math.isinf(float(value) - float(value))
    except (OverflowError, TypeError):
        return False


def _is_of_arrays(kind: Any) -> bool:
    """Whether a type is one of those that make up numpy's array_like, but for single values."""
    name = getattr(typing.get_origin(kind) or kind, "__name__", "")
    return name in ("_SupportsArray", "_NestedSequence", "_Buffer", "Buffer")


def _beside_arrays(parts: tuple[Any, ...]) -> list[Any]:
    """The types of a union without those of array_like, if it has some; single values are, too."""
    if not any(map(_is_of_arrays, parts)):
        return [*parts]
    return [
        part
        for part in parts
        if not (_is_of_arrays(part) or part in _SINGLE or isinstance(part, TypeVar))
    ]


def _holds_numbers(value: Any) -> bool:
    try:
        return value is not None and np.asarray(value, dtype=float).ndim >= 0
    except (TypeError, ValueError, OverflowError):
        return False


def _wanted(kind: Any) -> str:
    """A declared type in words."""
    kind = _without_aliases(kind)
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        if any(map(_is_of_arrays, parts)):
            return " or ".join(["an array of numbers", *map(_wanted, _beside_arrays(parts))])
        return " or ".join(dict.fromkeys(map(_wanted, parts)))
    if origin is np.ndarray:
        return "an array"
    if origin is Literal:
        return " or ".join(map(repr, parts))
    if origin is collections.abc.Callable:
        return "a function"
    if isinstance(origin, type) and parts:
        if issubclass(origin, collections.abc.Mapping):
            return f"a mapping of {_wanted(parts[0])} to {_wanted(parts[1])}"
        return f"a sequence of which each is {_wanted(parts[0])}"
    words = {float: "a number", int: "a whole number", bool: "True or False", str: "a text"}
    words |= {type(None): "None", None: "None"}
    if kind in words:
        return words[kind]
    name = getattr(kind, "__qualname__", str(kind))
    return f"an {name}" if is_dataclass(kind) and name[:1] in "AEIOU" else f"a {name}"
