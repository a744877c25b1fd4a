"""Runs on several machines: the schema, and relative times."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from machines import made_runs
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.systems.machines.dataset import (
    counters_of,
    describe,
    make,
    read,
    relative_times,
    runtimes_of,
    validate,
    words_of,
    write,
)


def test_the_papers_example_relative_to_each_machine():
    """Section IV: ten, eight and 21 minutes on X, Y and Z."""
    runs = make([[600.0, 480.0, 1260.0]], ["X", "Y", "Z"], program=["TestApp"])
    np.testing.assert_allclose(relative_times(runs, "X"), [[1.0, 0.8, 2.1]])
    np.testing.assert_allclose(relative_times(runs, "fastest"), [[1.25, 1.0, 2.625]])
    np.testing.assert_allclose(relative_times(runs, "slowest"), [[600 / 1260, 480 / 1260, 1.0]])
    with pytest.raises(ArgumentError, match="to is 'W'"):
        relative_times(runs, "W")


@given(arrays(float, (4, 3), elements=st.floats(1e-6, 1e6)), st.integers(0, 2))
def test_relative_times_know_no_unit(times, m):
    names = ["a", "b", "c"]
    one, other = (make(f * times, names, program=list("wxyz")) for f in (1.0, 60.0))
    for to in (names[m], "fastest", "slowest"):
        np.testing.assert_allclose(relative_times(one, to), relative_times(other, to))
    assert (relative_times(one, "fastest") >= 1).all()
    assert (relative_times(one, "slowest") <= 1).all()


def test_what_did_not_run_is_relative_to_nothing():
    runs = make([[np.nan, 2.0, 4.0]], ["a", "b", "c"], program=["p"])
    np.testing.assert_array_equal(relative_times(runs, "fastest"), [[np.nan, 1, 2]])
    assert np.isnan(relative_times(runs, "a")).all()


@pytest.mark.parametrize("per_machine", [False, True])
def test_a_file_holds_what_was_written(tmp_path, per_machine):
    runs = made_runs(4, per_machine=per_machine)
    write(runs, tmp_path / "r.nc")
    again = read(tmp_path / "r.nc")
    np.testing.assert_array_equal(runtimes_of(again), runtimes_of(runs))
    for machine in ("old", "odd"):
        np.testing.assert_array_equal(counters_of(again, machine), counters_of(runs, machine))
    assert (words_of(again, "program") == words_of(runs, "program")).all()
    assert describe(again) == describe(runs)
    assert "8 of 4 programs, 8 of them on all of 3 machines" in describe(again)


def put(name, at, value):
    def change(runs):
        runs[name][at] = value
        return runs

    return change


BROKEN = {
    "'runtime' is 0 s at run 1, machine 'new'": put("runtime", (1, 1), 0.0),
    "run 3 ran on no machine": put("runtime", 3, np.nan),
    "'nodes' is 0 at run 2": put("nodes", 2, 0),
    "'counters' is -5 at run 1, counter 'loads'": put("counters", (1, 1), -5.0),
    "'fastest' has a reserved name": lambda r: r.assign_coords(machine=["fastest", "b", "c"]),
    "'work' is 'cycles'": lambda r: r.assign_attrs(work="cycles"),
    "attribute 'work' is 'instructions'; drop it": lambda r: r.drop_vars(
        ["counters", "counter", "units", "group"]
    ),
    "'counters' is 1e+40 at run 0, counter 'instructions'": put("counters", (0, 0), 1e40),
}


@pytest.mark.parametrize("sentence", BROKEN)
def test_each_problem_has_its_sentence(sentence):
    with pytest.raises(ProfileError) as caught:
        validate(BROKEN[sentence](made_runs(3).copy(deep=True)), source="r.nc")
    assert any(sentence in problem for problem in caught.value.problems), caught.value
    assert all(problem.startswith("r.nc: ") for problem in caught.value.problems)
