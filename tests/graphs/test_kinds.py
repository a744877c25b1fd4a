import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from msbgen.core.errors import ProfileError
from msbgen.graphs.kinds import read_kinds
from toy_board import BANDWIDTHS, CLOCKS, CYCLES, WAYS, profiles_of, seconds_of


@given(st.sampled_from(sorted(CYCLES)), st.floats(1, 8), st.floats(100, 800), st.floats(0.2, 4))
def test_durations_between_levels_and_beyond_clocks_are_those_of_the_law(kind, w, b, f):
    (table,) = TABLES[kind]
    seconds, _ = table.at(w, b, f)
    assert seconds == pytest.approx(max(seconds_of(kind, w, b, f), 0), rel=1e-9)


TABLES = {kind: read_kinds({kind: profiles_of(kind)}) for kind in CYCLES}


def test_beyond_cache_and_memory_the_last_level_counts_and_is_told():
    (table,) = TABLES["stream"]
    assert table.at(0.1, 400, 1.0)[0] == pytest.approx(seconds_of("stream", 1, 400, 1.0))
    assert table.at(8, 5000, 1.0)[0] == pytest.approx(seconds_of("stream", 8, 800, 1.0))
    out = table.outside([0.5, 2, 2, 2, 2], [400, 50, 400, 400, 400], [1, 1, 3, 0.4, 2])
    assert out.tolist() == [True, True, True, True, False]


def test_misses_and_core_cycles_come_with_durations():
    (table,) = TABLES["mixed"]
    misses = table.at(np.array([1.0, 3.0]), 400, 1.0)[1]
    assert misses == pytest.approx(20e6 / 64 * np.array([0.95, 0.85]) + 1, rel=1e-6)
    assert table.cycles == pytest.approx(CYCLES["mixed"])


def test_kinds_stand_in_the_order_of_their_names_whatever_was_given(profiles):
    turned = dict(reversed(profiles.items()))
    assert [kind.name for kind in read_kinds(turned)] == sorted(CYCLES)


def test_profiles_without_misses_have_none(profiles):
    (table,) = read_kinds({"mixed": profiles["mixed"].drop_vars("cache_misses")})
    assert np.all(table.misses == 0)
    assert np.all(table.seconds > 0)


def test_a_missing_run_does_not_count(profiles):
    some = profiles["mixed"].copy(deep=True)
    for name in ("duration", "instructions", "cache_misses"):
        some[name][3, 1] = np.nan
    (table,), (whole,) = read_kinds({"mixed": some}), TABLES["mixed"]
    assert np.allclose(table.seconds, whole.seconds)
    assert np.allclose(table.misses, whole.misses)


def dropped(profiles, name):
    one = profiles["busy"]
    return one.isel(context=one[name].values == one[name].values[0]).drop_vars(name)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda p: dropped(p, "frequency"), "resource 'frequency' is missing"),
        (lambda p: p["busy"].isel(context=slice(1, None)), "cache_ways=1, bandwidth=100, freq"),
        (lambda p: renamed(p["busy"]), "units 'MHz'; 'GHz' is wanted"),
        (lambda p: xr.Dataset(), "schema"),
    ],
)
def test_profiles_that_are_no_grid_of_the_three_are_refused(profiles, change, sentence):
    with pytest.raises(ProfileError, match=sentence):
        read_kinds({"busy": change(profiles)})


def renamed(one):
    attrs = {**one["frequency"].attrs, "units": "MHz"}
    return one.assign_coords(frequency=one["frequency"].assign_attrs(attrs))


def test_a_resource_that_no_device_has_and_no_profiles_at_all_are_refused(profiles):
    one = profiles["busy"]
    label = {"units": "W", "role": "resource", "long_name": "cap", "levels": [5.0, 6.0]}
    more = one.assign_coords(power=("context", np.full(one.sizes["context"], 5.0), label))
    with pytest.raises(ProfileError, match="no device sheet has 'power'"):
        read_kinds({"busy": more})
    with pytest.raises(ProfileError, match="one kind at least"):
        read_kinds({})


def test_levels_are_those_of_the_profiles():
    (table,) = TABLES["busy"]
    assert [tuple(v) for v in table.levels] == [WAYS, BANDWIDTHS, CLOCKS]
