"""The checks that settings share: what passes, and the sentence of what does not."""

from types import SimpleNamespace

import pytest

from msbgen.core.errors import ArgumentError, ProfileError, check_positive, check_whole


@pytest.mark.parametrize("value", [0, -1.0, float("inf"), float("nan")])
def test_what_is_not_positive_is_refused_by_name(value):
    with pytest.raises(ArgumentError, match=r"^tol is .*; a positive number is wanted\.$"):
        check_positive(SimpleNamespace(tol=value), "tol")


@pytest.mark.parametrize("value", [0, 1.5, float("inf"), float("nan")])
def test_what_is_not_whole_is_refused_by_name(value):
    with pytest.raises(ArgumentError, match=r"^bins is .*; a whole number ≥ 1 is wanted\.$"):
        check_whole(SimpleNamespace(bins=value), "bins")


def test_what_is_right_passes():
    settings = SimpleNamespace(tol=1e-9, bins=400, window=0)
    check_positive(settings, "tol", "bins")
    check_whole(settings, "bins")
    check_whole(settings, "window", least=0)


def test_a_profile_error_holds_every_problem():
    error = ProfileError("one.", "two.")
    assert error.problems == ("one.", "two.")
    assert str(error) == "one.\ntwo."
