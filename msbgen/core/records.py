"""Fields of dataclasses and arguments of functions, each declared once, by its annotation.

``cores: Annotated[int, Within(1, 64)]`` is checked where it is a key of a TOML or JSON table
(:func:`record`), a value of the command line (:func:`from_text`), a field that Python gives
(:func:`check_fields`) or an argument of a public function (:func:`checks_arguments`).  The
sentence about a value that does not fit is made of the same declaration (:func:`wanted`).
"""

from __future__ import annotations

import difflib
import functools
import inspect
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, Union, cast, get_args, get_origin
from typing import get_type_hints as hints_of

from msbgen.core.errors import ArgumentError, ProfileError, is_number, quoted

_Record = TypeVar("_Record")
_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")

INFINITY = float("inf")
_DECIMAL = r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?"
# One value, and several, of each type in words.
_NOUNS: dict[Any, tuple[str, str]] = {
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    str: ("a text", "texts"),
    bool: ("true or false", "true or false each"),
}


# --------------------------------------------------------------------------- rules


@dataclass(frozen=True)
class Within:
    """Bounds of a number, or of each number of a list.

    With `above` the least is excluded, with `below` the most.  Infinity is within only where a
    number is `infinite` for no limit.
    """

    least: float = -INFINITY
    most: float = INFINITY
    unit: str = ""
    above: bool = False
    below: bool = False
    infinite: bool = False

    def holds(self, value: Any) -> bool:
        """Whether a number, or each number of a list, is within the bounds."""
        return all(
            (n > self.least if self.above else n >= self.least)
            and (n < self.most if self.below else n <= self.most)
            for n in (value if isinstance(value, (list, tuple)) else (value,))
        )

    def words(self, nouns: tuple[str, str], several: bool) -> str:
        """The bounds in words, after a noun for one or several numbers."""
        noun, least, most = nouns[several], f"{self.least:.10g}", f"{self.most:.10g}"
        if self.least == -INFINITY and self.most == INFINITY:
            text = noun
        elif self.most == INFINITY:
            positive = self.above and self.least == 0 and nouns == _NOUNS[float]
            word = "positive numbers" if several else "a positive number"
            text = word if positive else f"{noun} {'above' if self.above else '≥'} {least}"
        elif self.above:
            text = f"{noun} above {least} {'and below' if self.below else 'and up to'} {most}"
        else:
            text = f"{noun} from {least} to {'below ' if self.below else ''}{most}"
        return f"{text} [{self.unit}]" if self.unit else text


@dataclass(frozen=True)
class Listed:
    """A list that is not empty; its entries may have to differ or to ascend."""

    distinct: bool = False
    ascending: bool = False
    empty: bool = False  # whether it may be empty

    def holds(self, value: Any) -> bool:
        """Whether a list obeys this."""
        if self.ascending and list(value) != sorted(set(value)):
            return False
        return (self.empty or len(value) > 0) and not (
            self.distinct and any(one in value[:i] for i, one in enumerate(value))
        )

    @property
    def adjective(self) -> str:
        """How the entries are, before their noun."""
        return "ascending " if self.ascending else "distinct " if self.distinct else ""


@dataclass(frozen=True)
class Matching:
    """A text that matches a pattern as a whole; `words` say what is wanted."""

    pattern: str
    words: str

    def holds(self, value: Any) -> bool:
        """Whether a text matches."""
        return re.fullmatch(self.pattern, value, re.DOTALL) is not None


@dataclass(frozen=True)
class Parsed:
    """A value that may be a text, which `parse` turns into one; `words` say what is wanted."""

    parse: Callable[[str], Any]
    words: str


_RULES = (Within, Listed, Matching, Parsed)  # other notes of an annotation are of others

Name = Annotated[str, Matching(r"[^\0]+", "a text that is not empty")]
Count = Annotated[int, Within(1)]
Positive = Annotated[float, Within(0, above=True)]
Limit = Annotated[float, Within(0, above=True, infinite=True)]
NotNegative = Annotated[float, Within(0)]
Seconds = Annotated[float, Within(0, unit="s", above=True)]
# Shares of which neither none nor all is possible, and of which none, or none and all, are.
Share = Annotated[float, Within(0, 1, above=True, below=True)]
ShareOrNone = Annotated[float, Within(0, 1, below=True)]
Fraction = Annotated[float, Within(0, 1)]
Seed = Annotated[int, Within(0, 2**63 - 1)]


# --------------------------------------------------------------------------- one value


def _split(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """The type and the rules of an annotation."""
    if get_origin(hint) is Annotated:
        kind, *notes = get_args(hint)
        return kind, tuple(note for note in notes if isinstance(note, _RULES))
    return hint, ()


def fits(hint: Any, value: Any) -> bool:
    """Whether a value is as its annotation says, as far as that can be told."""
    kind, rules = _split(hint)
    value, parsed = _parsed(rules, value)
    if not parsed:
        return False
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        good = any(fits(part, value) for part in parts)
    elif kind in (None, type(None)):
        good = value is None
    elif origin is Literal:
        good = any(value is part or (isinstance(value, str) and value == part) for part in parts)
    elif origin is tuple:
        good = isinstance(value, (list, tuple))
        several = parts[:1] * len(value) if good and parts[1:] == (...,) else parts
        good = good and len(value) == len(several) and all(map(fits, several, value))
    elif origin in (dict, Mapping):
        good = isinstance(value, Mapping) and all(
            fits(parts[0], key) and fits(parts[1], each) for key, each in value.items()
        )
    elif kind is float:
        infinite = any(isinstance(rule, Within) and rule.infinite for rule in rules)
        good = is_number(value) and (infinite or _is_finite(value))
    elif kind is int:
        good = is_number(value) and hasattr(value, "__index__") and abs(int(value)) < 2**63
    elif isinstance(kind, type) and kind is not Any and not getattr(kind, "_is_protocol", False):
        good = isinstance(value, kind)
    else:
        good = True
    return good and all(rule.holds(value) for rule in rules if not isinstance(rule, Parsed))


def _is_finite(value: Any) -> bool:
    try:
        return abs(float(value)) < INFINITY
    except OverflowError:
        return False


def _parsed(rules: Sequence[Any], value: Any) -> tuple[Any, bool]:
    """A value whose text is parsed, and whether that was possible."""
    for rule in rules:
        if isinstance(rule, Parsed) and isinstance(value, str):
            try:
                return rule.parse(value), True
            except ValueError:
                return value, False
    return value, True


def wanted(hint: Any, several: bool = False) -> str:
    """What an annotation wants, in words: one value, or several.

    Examples
    --------
    >>> wanted(Annotated[float, Within(0, 20, "GHz", above=True)])
    'a number above 0 and up to 20 [GHz]'
    """
    kind, rules = _split(hint)
    origin, parts = get_origin(kind), get_args(kind)
    for rule in rules:
        if isinstance(rule, (Parsed, Matching)):
            return rule.words
    within = next((rule for rule in rules if isinstance(rule, Within)), Within())
    if kind in _NOUNS:
        return within.words(_NOUNS[kind], several)
    if origin in (Union, types.UnionType):
        some = [wanted(part, several) for part in parts if part is not type(None)]
        return " or ".join(dict.fromkeys(some))
    if origin is Literal:
        return f"one of {', '.join(map(str, parts))}"
    if origin is tuple:
        listed = next((rule for rule in rules if isinstance(rule, Listed)), Listed(empty=True))
        each = wanted(Annotated[parts[0], within] if within != Within() else parts[0], True)
        if parts[1:] != (...,) and len(set(parts)) > 1:
            return f"a list of {' and '.join(map(wanted, parts))}"
        if get_origin(_split(parts[0])[0]) in (Literal, Union, types.UnionType, tuple):
            each = f"entries, each {wanted(parts[0])}"
        many = str(len(parts)) if parts[1:] != (...,) else "" if listed.empty else "one or more"
        return f"a list of {many} {listed.adjective}{each}".replace("  ", " ")
    if origin in (dict, Mapping):
        return f"a table of {wanted(parts[1], True)}"
    if is_dataclass(kind) or kind is dict:
        return "tables" if several else "a table"
    return getattr(kind, "__name__", str(kind))


def check(hint: Any, value: Any, place: str, error: type[ValueError] = ArgumentError) -> None:
    """Raise an error, "`place` is X; Z is wanted.", where a value is not as its annotation says."""
    if fits(hint, value):
        return
    kind, _ = _split(hint)
    if get_origin(kind) in (Union, types.UnionType) and type(None) in get_args(kind):
        kind, _ = _split(next(part for part in get_args(kind) if part is not type(None)))
    if get_origin(kind) in (dict, Mapping) and isinstance(value, Mapping):
        for key, each in value.items():
            check(get_args(kind)[1], each, f"{place} of {quoted(key)}", error)
    near = []
    if get_origin(kind) is Literal and isinstance(value, str):
        near = difflib.get_close_matches(value, map(str, get_args(kind)), 1)
    hint_of_near = f": did you mean '{near[0]}'?" if near else "."
    raise error(f"{place} is {quoted(value)}; {wanted(hint)} is wanted{hint_of_near}")


def from_text(hint: Any, text: str) -> Any:
    """The value of a text of the command line; ValueError where it is not as the annotation says.

    Entries of a list are separated by commas, as are those of a table, ``name=value`` each.

    Examples
    --------
    >>> from_text(tuple[float, ...], "1,2.5"), from_text(dict[str, int], "a=1,b=2")
    ((1.0, 2.5), {'a': 1, 'b': 2})
    """
    value = _of_text(hint, text)
    if not fits(hint, value):
        raise ArgumentError(f"value is {quoted(text)}; {wanted(hint)} is wanted.")
    return _made(hint, value)


def _of_text(hint: Any, text: str) -> Any:
    """What a text says, as far as its annotation needs it; else the text itself."""
    kind, rules = _split(hint)
    origin, parts = get_origin(kind), get_args(kind)
    if any(isinstance(rule, Parsed) for rule in rules):
        return text
    if origin in (Union, types.UnionType):
        every = [_of_text(part, text) for part in parts]
        return next((v for part, v in zip(parts, every) if fits(part, v)), text)
    if origin is tuple:
        return tuple(_of_text(parts[0], part.strip()) for part in text.split(","))
    if origin is dict:
        pairs = [part.partition("=") for part in text.split(",")]
        table = {name.strip(): _of_text(parts[1], each.strip()) for name, _, each in pairs}
        return table if len(table) == len(pairs) else text
    if kind in (int, float):
        pattern = r"[-+]?\d{1,19}" if kind is int else _DECIMAL
        return kind(text) if re.fullmatch(pattern, text.strip(), re.ASCII) else text
    return text


def _made(hint: Any, value: Any) -> Any:
    """A value that fits, as its annotation has it: lists as tuples, texts parsed."""
    kind, rules = _split(hint)
    value, _ = _parsed(rules, value)
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _made(next(part for part in parts if fits(part, value)), value)
    if origin is tuple:
        several = parts[:1] * len(value) if parts[1:] == (...,) else parts
        return tuple(map(_made, several, value))
    if origin in (dict, Mapping):
        return {key: _made(parts[1], each) for key, each in value.items()}
    return kind(value) if kind in (int, float) else value


# --------------------------------------------------------------------------- tables


def check_keys(
    content: Mapping[str, Any], known: Sequence[str], needed: Sequence[str], where: str
) -> None:
    """Raise :class:`ProfileError` for a key that is unknown or missing."""
    for key in content:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"did you mean '{near[0]}'?" if near else f"{', '.join(known)} are."
            raise ProfileError(f"{where}: {quoted(key)} is no known key; {hint}")
    for key in needed:
        if key not in content:
            wants = f"{', '.join(needed)} are" if len(needed) > 1 else "it is"
            raise ProfileError(f"{where}: '{key}' is missing; {wants} wanted.")


def record(kind: type[_Record], table: Any, where: str, **given: Any) -> _Record:
    """A dataclass from a table of TOML or JSON.

    Parameters
    ----------
    kind : type
        A dataclass.  Fields of dataclasses are tables in the table, tuples of them arrays of
        tables, mappings to them tables of tables.  A field is the key of its name, or the key in
        its ``metadata``, where ``thermal.cap`` is the key ``cap`` of the table ``thermal``.
    where : str
        The place of the table, with which every message begins: the name of its file.
    **given
        Fields that are no keys of the table.

    Raises
    ------
    ProfileError
        A key that is unknown or missing; a value that is not as its annotation says; or what
        ``__post_init__`` refuses.
    """
    check(dict, table, where, ProfileError)
    hints = _hints(kind)
    known = {
        f.metadata.get("key", f.name): f
        for f in fields(kind)  # type: ignore[arg-type]
        if f.init and f.name not in given
    }
    needed = [
        key for key, f in known.items() if f.default is MISSING and f.default_factory is MISSING
    ]
    table = _flat(table, list(known), where)
    check_keys(table, list(known), needed, where)
    values = {
        known[key].name: _read(hints[known[key].name], table[key], where, key) for key in table
    }
    try:
        return kind(**given, **values)
    except ArgumentError as error:
        raise ProfileError(f"{where}: {error}") from None


def _flat(table: Mapping[str, Any], known: Sequence[str], where: str) -> dict[str, Any]:
    """The table with the keys of inner tables, as ``thermal.cap``, in the place of these."""
    inner = {key.partition(".")[0] for key in known if "." in key}
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if key in inner:
            check(dict, value, f"{where}: '{key}'", ProfileError)
            flat |= {f"{key}.{name}": each for name, each in value.items()}
        else:
            flat[key] = value
    return flat


def _read(hint: Any, value: Any, where: str, key: str) -> Any:
    """The value of a key as its annotation has it."""
    kind, _ = _split(hint)
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):  # a key that is left out is None
        return _read(parts[0], value, where, key)
    if is_dataclass(kind):
        return record(cast(Any, kind), value, f"{where}, {key}")
    if origin is tuple and is_dataclass(parts[0]):
        if not isinstance(value, list):
            raise ProfileError(
                f"{where}: '{key}' is {quoted(value)}; an array of tables '[[{key}]]' is wanted."
            )
        return tuple(
            record(cast(Any, parts[0]), table, f"{where}, {key} {_label(table, number)}")
            for number, table in enumerate(value, 1)
        )
    if origin in (dict, Mapping) and is_dataclass(parts[1]):
        check(dict, value, f"{where}: '{key}'", ProfileError)
        return {
            name: record(cast(Any, parts[1]), table, f"{where}, {key} {quoted(name)}")
            for name, table in value.items()
        }
    check(hint, value, f"{where}: '{key}'", ProfileError)
    return _made(hint, value)


def _label(table: Any, number: int) -> object:
    """A table's name, where it has one, or its number."""
    name = table.get("name") if isinstance(table, Mapping) else None
    return quoted(name) if isinstance(name, str) else number


# --------------------------------------------------------------------------- calls


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return hints_of(kind, include_extras=True)


def check_fields(made: Any) -> None:
    """Raise :class:`ArgumentError` where a field of a dataclass is not as its annotation says."""
    hints = _hints(type(made))
    for one in fields(made):
        if not one.init:
            continue
        check(hints[one.name], getattr(made, one.name), one.name)


def checks_arguments(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """The function, which first checks the arguments whose annotations have rules or literals.

    Examples
    --------
    >>> @checks_arguments
    ... def half(number: Annotated[int, Within(2)]) -> float:
    ...     return number / 2
    >>> half(1)
    Traceback (most recent call last):
    msbgen.core.errors.ArgumentError: number is 1; a whole number ≥ 2 is wanted.
    """

    @functools.cache
    def declared() -> dict[str, Any]:
        hints = hints_of(function, include_extras=True)
        return {name: hint for name, hint in hints.items() if _has_rules(hint)}

    signature = inspect.signature(function)

    @functools.wraps(function)
    def checked(*args: _Given.args, **kwargs: _Given.kwargs) -> _Result:
        given = signature.bind(*args, **kwargs).arguments
        for name, hint in declared().items():
            if name in given:
                check(hint, given[name], name)
        return function(*args, **kwargs)

    return checked


def _has_rules(hint: Any) -> bool:
    """Whether an annotation, or a part of it, has a rule or is one of some words."""
    return bool(get_origin(hint) is Literal or _split(hint)[1]) or any(
        any(map(_has_rules, part)) if isinstance(part, list) else _has_rules(part)
        for part in get_args(hint)
    )
