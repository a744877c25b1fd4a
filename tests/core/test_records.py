"""Fields are declared once: files, calls and texts are checked by the same annotation."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
import pytest

from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.core.records import (
    Count,
    Limit,
    Listed,
    Matching,
    Name,
    NotNegative,
    Parsed,
    Positive,
    Share,
    Within,
    check_fields,
    checks_arguments,
    fits,
    from_text,
    record,
    wanted,
)

Levels = Annotated[tuple[float, ...], Within(0, unit="GHz", above=True), Listed(ascending=True)]
Doubled = Annotated[int, Parsed(lambda text: 2 * int(text), "a number to double"), Within(0, 9)]


@dataclass(frozen=True)
class Cache:
    level: Annotated[int, Within(1, 9)]
    name: Name = "cache"


@dataclass(frozen=True)
class Board:
    clocks: Levels
    caches: Annotated[tuple[Cache, ...], Listed()] = field(metadata={"key": "cache"})
    shares: Literal["fixed", "renewed"] = "fixed"
    power: Positive | None = None
    nodes: dict[str, Count] = field(default_factory=dict)
    main: Cache = Cache(1)
    others: dict[str, Cache] = field(default_factory=dict)
    file: str = "none"

    def __post_init__(self) -> None:
        check_fields(self)
        if self.shares == "renewed" and self.power is None:
            raise ArgumentError("power is missing; it is wanted with shares that are renewed.")


TABLE: dict[str, Any] = {
    "clocks": [1, 2.5],
    "cache": [{"level": 2}],
    "nodes": {"a": 3},
    "main": {"level": 3, "name": "L3"},
    "others": {"x": {"level": 4}},
}


def test_a_table_becomes_the_record_that_it_says():
    assert record(Board, TABLE, "b.toml", file="b.toml") == Board(
        (1.0, 2.5), (Cache(2),), nodes={"a": 3}, main=Cache(3, "L3"), others={"x": Cache(4)},
        file="b.toml",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"clocks": [2, 1]}, "b: 'clocks' is [2, 1]; a list of one or more ascending positive num"),
        ({"clocks": 1}, "b: 'clocks' is 1; a list of"),
        ({"clocks": [1, float("inf")]}, "b: 'clocks' is [1, inf]; "),
        ({"clocks": [True]}, "b: 'clocks' is [True]; "),
        ({"cache": []}, "b: caches is (); a list of one or more tables"),
        ({"cache": {"level": 1}}, "b: 'cache' is {'level': 1}; an array of tables '[[cache]]'"),
        ({"cache": [{"level": 10}]}, "b, cache 1: 'level' is 10; a whole number from 1 to 9"),
        ({"cache": [{"level": 1.0}]}, "b, cache 1: 'level' is 1.0; a whole"),
        ({"cache": [{"level": 1, "name": ""}]}, "b, cache '': 'name' is ''; a text that is not"),
        ({"cache": [3]}, "b, cache 1 is 3; a table is wanted"),
        ({"cache": [{"levle": 1}]}, "b, cache 1: 'levle' is no known key; did you mean 'level'?"),
        ({"main": {}}, "b, main: 'level' is missing; it is wanted"),
        ({"others": {"x": {}}}, "b, others 'x': 'level' is missing"),
        ({"others": 3}, "b: 'others' is 3; a table"),
        ({"nodes": {"a": 0}}, "b: 'nodes' of 'a' is 0; a whole number ≥ 1"),
        ({"power": 0}, "b: 'power' is 0; a positive number"),
        ({"power": 10**400}, "b: 'power' is 1000"),
        (
            {"shares": "fixd"},
            "b: 'shares' is 'fixd'; one of fixed, renewed is wanted: did you mean",
        ),
        ({"shares": "renewed"}, "b: power is missing; it is wanted"),
    ],
)
def test_the_first_value_that_does_not_fit_is_named_with_its_place(change, sentence):
    with pytest.raises(ProfileError) as caught:
        record(Board, TABLE | change, "b")
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("hint", "good", "bad", "words"),
    [
        (Count, [1, np.int64(3), 2**62], [0, 1.0, True, None, "1", 2**63], "a whole number ≥ 1"),
        (Positive, [1, 0.5, np.float32(2)], [0, float("nan"), float("inf"), 1j], "a positive numb"),
        (NotNegative, [0], [-1e-300, "0"], "a number ≥ 0"),
        (Limit, [1, float("inf")], [0, float("nan")], "a positive number"),
        (Share, [0.5], [0, 1], "a number above 0 and below 1"),
        (Annotated[float, Within(0, 1, below=True)], [0], [1], "a number from 0 to below 1"),
        (
            Annotated[float, Within(1, 2, "s", above=True)],
            [2],
            [1],
            "a number above 1 and up to 2 [s]",
        ),
        (Levels, [(1, 2), [1.0]], [(), (2, 1), (1, 1)], "a list of one or more ascending positive"),
        (tuple[float, float], [(1, 2)], [(1,), (1, "2")], "a list of 2 numbers"),
        (
            Annotated[tuple[str, ...], Listed(distinct=True)],
            [("a",)],
            [("a", "a")],
            "a list of one",
        ),
        (dict[str, float], [{"a": 1}], [{"a": "x"}, 3], "a table of numbers"),
        (Literal["a", "b"], ["a"], ["c", 1, None], "one of a, b"),
        (Count | None, [None, 1], [0], "a whole number ≥ 1"),
        (Annotated[str, Matching("[a-z]+", "a word")], ["abc"], ["", "a1", "a\n"], "a word"),
        (Doubled, ["3", 4], ["x", "5", 10], "a number to double"),
        (bool, [True], [1], "true or false"),
    ],
)
def test_a_rule_is_the_same_for_values_and_words(hint, good, bad, words):
    assert all(fits(hint, value) for value in good)
    assert not any(fits(hint, value) for value in bad)
    assert wanted(hint).startswith(words)


def test_texts_of_the_command_line_are_read_by_the_annotation():
    assert from_text(Count, "3") == 3
    assert from_text(Levels, "1, 2.5") == (1.0, 2.5)
    assert from_text(Doubled, "4") == 8
    for hint, text in ((Count, "0"), (Count, "1.5"), (Levels, "2,1"), (Doubled, "x")):
        with pytest.raises(ValueError, match=r"."):
            from_text(hint, text)


def test_arguments_are_checked_before_the_call():
    calls = []

    @checks_arguments
    def keep(values: object, count: Count = 1, *, way: Literal["up", "down"] = "up") -> None:
        """The docstring stays."""
        calls.append((values, count, way))

    keep([], 2, way="down")
    for given in ({"count": 0}, {"way": "left"}):
        with pytest.raises(ArgumentError, match=f"^{next(iter(given))} is "):
            keep([], **given)
    with pytest.raises(TypeError):
        keep()
    assert calls == [([], 2, "down")]
    assert keep.__doc__ == "The docstring stays."
