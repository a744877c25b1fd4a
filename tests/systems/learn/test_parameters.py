"""Parameters by name, as scikit-learn asks for them."""

import math
import sys

import pytest

from msbgen.core.errors import ArgumentError
from msbgen.systems.learn.extras import check_libraries, load_library
from msbgen.systems.learn.parameters import Parameters
from msbgen.systems.machines.predictor import RelativePredictor
from msbgen.systems.runtimes.predictor import RuntimePredictor


class Made(Parameters):
    def __init__(self, first, *, second=2):
        self.first = first
        self.second = second


def test_parameters_are_those_of_init_by_name():
    made = Made(1)
    assert made.get_params() == made.get_params(deep=False) == {"first": 1, "second": 2}
    assert made.set_params(second=5) is made
    assert made.get_params() == {"first": 1, "second": 5}


def test_an_unknown_name_is_refused_and_nothing_changed():
    made = Made(1)
    with pytest.raises(ArgumentError, match="parameter is 'third'; one of first, second is wanted"):
        made.set_params(first=3, third=4)
    assert made.first == 1


@pytest.mark.parametrize("kind", [RelativePredictor, RuntimePredictor])
def test_predictors_are_made_anew_from_their_parameters(kind):
    made = kind(random_state=7)
    again = kind(**made.get_params())
    assert again.get_params() == made.get_params()
    assert again.random_state == 7


def test_a_library_that_is_missing_is_asked_for_in_a_sentence():
    assert load_library("math") is math
    with pytest.raises(ArgumentError, match=r"pip install msbgen\[ml\]") as caught:
        load_library("nowhere.tree")
    assert "nowhere is not installed" in str(caught.value)
    with pytest.raises(ArgumentError, match=r"pip install msbgen\[graph\]' is wanted for networks"):
        load_library("nowhere", "graph", "networks")


def test_what_fitting_needs_is_asked_for_before_the_work(monkeypatch):
    check_libraries()
    monkeypatch.setitem(sys.modules, "xgboost", None)  # as if it were not installed
    with pytest.raises(ArgumentError, match="xgboost is not installed"):
        check_libraries()
