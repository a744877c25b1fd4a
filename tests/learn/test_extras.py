"""Libraries of the extra."""

import math
import sys

import pytest

from msbgen.core.errors import ArgumentError
from msbgen.learn.extras import check_libraries, load_library


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
