"""Names, tables and labels of a profile dataset."""

import re
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.data.build import make_profiles
from msbgen.data.profiles import Profiles
from msbgen.data.schema import (
    RESERVED,
    all_contexts,
    checked_contexts,
    context_table,
    counter_names,
    near_contexts,
    one_spelling,
    resource_names,
    same_contexts,
    same_level,
)

CLOCK = {"clock": {"units": "GHz", "levels": [1.2, 1.8, 2.3]}}
KNOWN = np.array([[1.2], [2.3]])


def test_names_and_table_follow_the_dataset(measured):
    assert resource_names(measured) == ["cache_ways", "frequency"]
    assert counter_names(measured) == ["instructions", "cache_requests", "cache_misses"]
    assert context_table(measured)[3].tolist() == [4.0, 2.0]
    levels = [measured[name].attrs["levels"] for name in resource_names(measured)]
    assert all_contexts(measured).tolist() == [list(context) for context in product(*levels)]


def test_all_contexts_needs_levels(measured):
    del measured["frequency"].attrs["levels"]
    with pytest.raises(ProfileError, match="'frequency' has no attribute 'levels'"):
        all_contexts(measured)


def test_more_contexts_than_memory_could_hold_are_refused(measured):
    for name in resource_names(measured):
        measured[name].attrs["levels"] = np.arange(1.0, 10_000.0)
    with pytest.raises(ProfileError, match=r"make 1e\+08 contexts, more than 1e\+07: list the"):
        all_contexts(measured)


@pytest.mark.parametrize(
    ("contexts", "sentence"),
    [
        ([1.0, 2.0], r"contexts have shape (2,); rows × 1 columns (clock) are wanted."),
        ([[1.0, 2.0]], r"contexts have shape (1, 2); rows × 1 columns (clock) are wanted."),
        (np.empty((0, 1)), r"contexts have shape (0, 1); one row or more × 1 columns (clock)"),
        ([[1.0], [2.0, 3.0]], r"contexts are [[1.0], [2.0, 3.0]]; numbers in rows of clock"),
        ([["fast"]], r"contexts are [['fast']]; numbers in rows of clock"),
        ([[1.0], [np.nan]], "context 1 is [nan]; finite numbers are wanted."),
        ([[-np.inf]], "context 0 is [-inf]; finite numbers are wanted."),
    ],
)
def test_contexts_that_are_none_are_refused(contexts, sentence):
    with pytest.raises(ArgumentError, match=re.escape(sentence)):
        checked_contexts(contexts, CLOCK)


@given(st.floats(1.2, 2.3), st.sampled_from([1e3, 1e6, 1e9, 1e-3, 1e-6, 1e-9]), st.integers(0, 3))
def test_values_in_another_unit_are_named_with_the_factor(clock, factor, index):
    contexts = np.insert(np.full((3, 1), 1.8), index, clock * factor, axis=0)
    near_contexts(np.full((3, 1), clock), KNOWN, CLOCK)
    with pytest.raises(ArgumentError) as caught:
        near_contexts(contexts, KNOWN, CLOCK)
    wanted = f"in context {index}, about {factor:g} times its levels (1.2 to 2.3); values and"
    assert wanted in str(caught.value)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 90.0))
def test_values_near_the_levels_are_in_their_unit(value, share):
    """Nothing below a factor of a hundred is called a mistake, nor zero, nor unlisted levels."""
    attrs = {"r": {"units": "1", "levels": [value]}}
    for other in (value * share if share > 0.02 else value, value, 0.0, -value):
        near_contexts([[other]], np.array([[-1.0], [1.0]]) * value, attrs)
    near_contexts([[value * 1e9]], np.zeros((2, 1)), {"r": {"units": "1"}})


@given(st.floats(-1e9, 1e9), st.floats(-1e-5, 1e-5))
def test_levels_are_one_up_to_rounding(value, share):
    other = value * (1 + share)
    assert same_level(value, other) == same_level(other, value)
    if abs(share) < 0.9e-6 or value == 0:
        assert same_level(value, other)
    elif abs(share) > 1.1e-6 and abs(value) > 1e-300:
        assert not same_level(value, other)


def test_infinity_is_no_level():
    assert one_spelling([[np.inf], [5.0], [-np.inf]]).ravel().tolist() == [np.inf, 5.0, -np.inf]
    assert not same_level(np.inf, [5.0, np.inf]).any()


def test_contexts_are_looked_up_in_any_order_and_spelling():
    rng = np.random.default_rng(0)
    table = rng.integers(1, 4, (30, 2)) * 0.1
    others = np.concatenate([table[::3] * (1 + 1e-12), [[9.0, 9.0]]])[rng.permutation(11)]
    pairs = same_level(table[:, None], others).all(axis=2)
    wanted = np.where(pairs.any(axis=1), pairs.argmax(axis=1), -1)
    assert same_contexts(table, others).tolist() == wanted.tolist()


@pytest.mark.parametrize("name", sorted(RESERVED))
@pytest.mark.parametrize("what", ["resources", "counters"])
def test_names_of_the_packages_own_are_refused(name, what):
    names = {"resources": {"clock": {"units": "1"}}, "counters": {"work": {}}}
    names[what] = {name: {"units": "1"}}
    with pytest.raises(ArgumentError, match=f"'{name}' is a name of msbgen's own"):
        make_profiles(np.ones((1, 2, 1)), [0.2], [[1.0]], interval=0.1, **names)


@pytest.mark.parametrize(
    "counts", [np.ones((1, 2, 2)), np.ones((2, 1)), np.ones((1, 1, 1, 2, 1)), np.float64(1)]
)
def test_arrays_without_a_name_each_are_refused(counts):
    with pytest.raises(ArgumentError, match="wanted"):
        make_profiles(counts, [0.2], [[1.0]], interval=0.1, resources=CLOCK, counters={"work": {}})


def test_when_runs_began_is_known_where_the_file_says_it(measured):
    shape = measured["duration"].shape
    assert np.isnan(Profiles.of(measured).started).all()
    began = np.arange(float(np.prod(shape))).reshape(shape)
    reported = measured.assign(started=(("run", "context"), began.T))
    np.testing.assert_array_equal(Profiles.of(reported).started, began)
    for other in (("context", began[:, 0]), (("context", "run"), began.astype(str))):
        assert np.isnan(Profiles.of(measured.assign(started=other)).started).all()


@pytest.mark.parametrize("kind", ["lost", "carried"])
def test_samples_are_lost_where_the_next_does_not_hold_them(measured, kind):
    name = counter_names(measured)[0]
    dims = ("context", "run", "time")
    counts = measured[name].transpose(*dims).values.copy()
    counts[0, 1, 2], counts[1, 0] = np.nan, np.nan  # a gap, and a run that does not hold it
    gappy = measured.assign({name: (dims, counts, {**measured[name].attrs, "gaps": kind})})
    found = Profiles.of(gappy).missing_samples(["lost"])
    assert found.shape == (*counts.shape, len(counter_names(measured)))
    assert np.argwhere(found).tolist() == ([[0, 1, 2, 0]] if kind == "lost" else [])
