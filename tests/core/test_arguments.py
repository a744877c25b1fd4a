"""What a call was given in place of what it takes is named; what it takes is let pass."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from msbgen.core.arguments import checks_arguments, checks_fields
from msbgen.core.errors import ArgumentError


class Settings(TypedDict, total=False):
    speed: float


@checks_fields
@dataclass(frozen=True)
class Own:
    size: int = 1

    def __post_init__(self):
        if self.size < 1:
            raise ArgumentError("size is below 1; more is wanted.")


@checks_arguments
def fails(
    number: float = 1.0,
    whole: int = 1,
    text: str = "",
    flag: bool = True,
    table: ArrayLike = (),
    array: NDArray[np.float64] | None = None,
    several: Sequence[float] = (),
    named: Mapping[str, Sequence[int]] | None = None,
    way: Literal["up", "down"] = "up",
    act: Callable[[int], int] = abs,
    own: Own | None = None,
    pair: tuple[str, ...] = (),
    anything: Any = None,
    **settings: Unpack[Settings],
) -> None:
    raise TypeError("inside")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"number": "x"}, "number is 'x'; a number is wanted"),
        ({"number": 10**400}, "number is 1000.*; a number is wanted"),
        ({"whole": 1.5}, "whole is 1.5; a whole number is wanted"),
        ({"text": b"x"}, "text is b'x'; a text is wanted"),
        ({"flag": 1}, "flag is 1; True or False is wanted"),
        ({"table": "x"}, "table is 'x'; an array of numbers is wanted"),
        ({"table": None}, "table is None; an array of numbers is wanted"),
        ({"array": [1.0]}, "array is .1.0.; an array or None is wanted"),
        ({"several": "12"}, "several is '12'; a sequence of which each is a number is wanted"),
        ({"several": [1.0, "x"]}, "several is .1.0, 'x'.; a sequence of which each is a number"),
        ({"named": {"a": 3}}, "named is {'a': 3}; a mapping of a text to a sequence of which each"),
        ({"way": "left"}, "way is 'left'; 'up' or 'down' is wanted"),
        ({"act": 3}, "act is 3; a function is wanted"),
        ({"own": 3}, "own is 3; an Own or None is wanted"),
        ({"pair": ["a"]}, r"pair is \['a'\]; a sequence of which each is a text is wanted"),
        ({"speed": "x"}, "speed is 'x'; a number is wanted"),
    ],
)
def test_the_argument_is_named(given, sentence):
    with pytest.raises(ArgumentError, match=f"^{sentence}"):
        fails(**given)


def test_an_error_that_no_argument_explains_stays():
    right = {
        "number": np.float32(1), "whole": np.int64(3), "table": [[1, 2]], "array": np.ones(2),
        "several": np.ones(2).tolist(), "named": {"a": [1]}, "own": Own(), "pair": ("a", "b"),
        "anything": object(), "speed": 1, "act": lambda x: x, "flag": np.True_,
    }  # fmt: skip
    with pytest.raises(TypeError, match=r"^inside$"):
        fails(**right)
    with pytest.raises(TypeError, match=r"unexpected keyword|inside"):
        fails(unknown=3)


def test_a_class_checks_its_fields_and_keeps_its_own_sentences():
    with pytest.raises(ArgumentError, match=r"^size is 'x'; a whole number is wanted"):
        Own("x")
    with pytest.raises(ArgumentError, match=r"^size is below 1"):
        Own(0)
