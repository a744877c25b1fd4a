"""Parts declare what they store: all of it comes back, or a sentence says what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from forged import restored
from msbgen.core.arrays import POSITIVE, SHARE, Stored, StoredArrays
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.core.parts import Given, Kinds, Sizes, arrays_and_table, part_from, stored_property
from msbgen.core.records import Positive, check_fields

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Settings:
    share: Positive = 0.5
    size: int = 3
    name: str | None = None
    method: Literal["a", "b"] = "a"
    span: tuple[float, float] = (0.0, 1.0)
    notes: dict[str, str | float | list[str | int]] | None = None

    def __post_init__(self):
        check_fields(self)


@dataclass(frozen=True, eq=False)
class Line:
    slope: Annotated[Floats, Stored(("column",))]
    names: Annotated[tuple[str, ...], Given("names")]


@dataclass(frozen=True, eq=False)
class Step:
    at: Annotated[float, Stored((), SHARE)]
    width: Annotated[int, Given("settings.size")]


Law = Annotated[Line | Step, Kinds(line=Line, step=Step)]


@dataclass(frozen=True, eq=False)
class Model:
    settings: Settings
    names: tuple[str, ...]
    laws: tuple[Law, ...]
    best: Annotated[Line | None, Sizes(column="settings.size")]
    contexts: Annotated[Floats, Stored(("known", "column"), POSITIVE)]
    nearest: Annotated[NDArray[np.int32], Stored(("known",), dtype="i4", below="known")]
    good: Annotated[NDArray[np.bool_], Stored(("known",), dtype="bool")]
    tables: dict[str, Annotated[Floats, Stored(("free",), missing=True)]]
    prior: Annotated[Floats | None, Stored(("known",))] = None

    def problems(self) -> Iterator[tuple[str, object, str]]:
        if len(self.names) > 2:
            yield "names", len(self.names), "2"

    @stored_property
    def sums(self) -> Annotated[Floats, Stored(("known",))]:
        return self.contexts.sum(axis=1)


def made(**change):
    names = ("x", "y")
    given = {
        "settings": Settings(notes={"a": "b", "c": 1.5, "d": ["e", 2]}),
        "laws": (Line(np.array([1.0, -2.0]), names), Step(0.5, 3)),
        "best": Line(np.zeros(3), names),
        "names": names,
        "contexts": np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
        "nearest": np.array([1, 0, 2], dtype=np.int32),
        "good": np.array([True, False, True]),
        "tables": {"any / name": np.array([np.nan, 1.0]), "": np.ones(3)},
    }
    return Model(**{**given, **change})


def test_parts_come_back_whole():
    model = made()
    again = restored(model)
    assert again.settings == model.settings
    assert "sums" not in vars(again)
    np.testing.assert_array_equal(again.contexts, model.contexts)
    assert again.nearest.dtype == np.int32
    assert again.good.tolist() == [True, False, True]
    line, step = again.laws
    assert (line.names, step.width, step.at) == (model.names, 3, 0.5)
    assert isinstance(step.at, float)
    np.testing.assert_array_equal(line.slope, [1.0, -2.0])
    assert again.best.slope.shape == (3,)
    assert list(again.tables) == ["any / name", ""]
    np.testing.assert_array_equal(again.tables["any / name"], [np.nan, 1.0])
    assert again.prior is None
    other = restored(made(best=None, prior=np.zeros(3), laws=()))
    assert (other.best, other.laws, other.prior.tolist()) == (None, (), [0.0] * 3)


def test_what_was_computed_is_stored_from_then_on():
    model = made()
    assert model.sums.tolist() == [3.0, 7.0, 11.0]
    assert vars(restored(model))["sums"].tolist() == [3.0, 7.0, 11.0]
    assert arrays_and_table(model)[0].keys() == {
        "contexts", "nearest", "good", "tables.0", "tables.1", "laws.0.slope", "laws.1.at",
        "best.slope", "sums",
    }  # fmt: skip


def put(name, value):
    return lambda arrays, _: arrays.update({name: np.array(value)})


def say(name, value):
    *path, last = name.split(".")

    def change(_, table):
        for part in path:
            table = table[int(part) if part.isdigit() else part]
        table[int(last) if last.isdigit() else last] = value

    return change


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda a, _: a.pop("contexts"), "variable 'contexts' is missing; a whole file is"),
        (put("contexts", [[1.0, 2.0]]), r"shape of variable 'nearest' is \(3,\); \(1,\) is"),
        (put("contexts", [[0.0, 1.0]] * 3), "variable 'contexts' holds 0; numbers from 1e-300"),
        (put("nearest", [0, 1, 3]), "variable 'nearest' holds 3; 0 to 2 are wanted"),
        (put("good", [0, 1, 2]), "variable 'good' holds 2; 0 to 1 are wanted"),
        (put("laws.0.slope", [1.0]), r"shape of variable 'laws.0.slope' is \(1,\); \(2,\) is"),
        (put("laws.1.at", 1.5), "variable 'laws.1.at' holds 1.5; numbers from 0 to 1"),
        (
            put("best.slope", [1.0] * 2),
            r"shape of variable 'best.slope' is \(2,\); \(3,\) is wanted",
        ),
        (say("contexts", None), "'contexts' is None; 'array' is wanted"),
        (say("laws.0", {"kind": "curve"}), "kind of 'laws.0' is 'curve'; line, step is wanted"),
        (say("laws.0", 3), "kind of 'laws.0' is None"),
        (say("laws", {}), "'laws' is {}; a list is wanted"),
        (say("names", ["a", "b", "c"]), "'names' is 3; 2 is wanted"),
        (say("settings", None), "'settings' is None; a table of names and values"),
        (say("settings.size", None), "'settings.size' is None; a whole number is"),
        (say("settings.size", 2.0), "'settings.size' is 2.0; a whole number"),
        (say("settings.size", True), "'settings.size' is True"),
        (say("settings.share", "1"), "'settings.share' is '1'; a number is"),
        (say("settings.share", float("inf")), "'settings.share' is inf; a number"),
        (say("settings.share", -1.0), "'settings': share is -1.0; a positive number"),
        (say("settings.name", 5), "'settings.name' is 5; a text is wanted"),
        (say("settings.method", "c"), "'settings.method' is 'c'; one of a, b is"),
        (say("settings.span", 3), "'settings.span' is 3; a list"),
        (say("settings.span", [3.0]), "length of 'settings.span' is 1; 2"),
        (say("settings.span", [3.0, "x"]), "'settings.span.1' is 'x'; a number"),
        (
            say("settings.notes", {"a": None}),
            "'settings.notes.a' is None; a text or a number or list",
        ),
        (lambda _, t: t["settings"].pop("name"), "'settings.name' is missing"),
    ],
)
def test_what_breaks_a_declaration_is_refused(change, sentence):
    with pytest.raises(ProfileError, match=f"^some.nc: {sentence}"):
        restored(made(), change=change)


class Predictor:
    """A predictor whose arguments and fitted attributes are stored."""

    slope_: Annotated[Floats, Stored(("column",))]
    line_: Annotated[Line, Sizes(column="size")]
    best_: float | None

    def __init__(self, *, size: int = 2, settings: Settings = Settings()):
        self.size, self.settings, self.names = size, settings, ("a",)

    def get_params(self):
        return {"size": self.size, "settings": self.settings}


def test_a_predictor_keeps_its_arguments_and_fitted_attributes():
    predictor = Predictor(size=1, settings=Settings(size=9))
    predictor.slope_, predictor.best_ = np.ones(4), None
    predictor.line_ = Line(np.ones(1), ("a",))
    again = restored(predictor, predictor)
    assert again.get_params() == predictor.get_params()
    assert again.slope_.tolist() == [1.0] * 4
    assert again.best_ is None
    assert again.line_.slope.tolist() == [1.0]


def test_an_attribute_that_a_part_refuses_is_an_error_of_the_file():
    class Other:
        @property
        def names(self):
            raise ArgumentError("no names here.")

    arrays, table = arrays_and_table(Line(np.ones(2), ()))
    with pytest.raises(ProfileError, match="no names here"):
        part_from(Line, StoredArrays("some.nc", arrays), table, Other())
