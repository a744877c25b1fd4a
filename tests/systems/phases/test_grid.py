"""Grids of contexts: every combination, in any order; what is no grid is refused."""

import numpy as np
import pytest

from conftest import synthetic_task
from msbgen.core.errors import ProfileError
from msbgen.data.profiles import Profiles
from msbgen.data.schema import context_table
from msbgen.systems.phases.grid import Grid, Resource

FULL = np.array([(w, f) for w in (2.0, 4.0, 8.0) for f in (1.0, 2.0)])


def test_rows_find_every_context_however_they_are_ordered():
    shuffled = np.random.default_rng(0).permutation(FULL)
    profiles = synthetic_task(shuffled, n_runs=1)
    grid = Grid.of(Profiles.of(profiles))
    assert grid.names == ("cache_ways", "frequency")
    assert grid.shape == (3, 2)
    np.testing.assert_array_equal(
        context_table(profiles)[grid.rows(Profiles.of(profiles))], grid.contexts
    )
    np.testing.assert_array_equal(grid.contexts, FULL)


def test_the_clock_is_what_is_in_hertz():
    profiles = synthetic_task(FULL, n_runs=1)
    assert Grid.of(Profiles.of(profiles)).clock == "frequency"
    profiles["frequency"].attrs["units"] = "1"
    assert Grid.of(Profiles.of(profiles)).clock is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda ds: ds.isel(context=[0, 1, 4, 5]), "'cache_ways' has 2 levels from 2 to 8"),
        (lambda ds: ds.rename(frequency="clock"), "resources are cache_ways, clock"),
        (
            lambda ds: ds.assign_coords(frequency=ds["frequency"].assign_attrs(units="MHz")),
            "'frequency' is in 'MHz', in here in 'GHz'",
        ),
    ],
)
def test_grids_that_differ_are_refused(change, message):
    profiles = synthetic_task(FULL, n_runs=1)
    with pytest.raises(ProfileError, match=message):
        Grid.of(Profiles.of(profiles)).check_same(
            Grid.of(Profiles.of(change(profiles))), "here", "there"
        )


def test_levels_are_compared_beside_their_own_size():
    def grid(*levels):
        return Grid((Resource("latency", "s", "latency", levels),))

    grid(1e-9, 2e-9).check_same(grid(1e-9, 2e-9 * (1 + 1e-7)), "here", "there")
    with pytest.raises(ProfileError, match="'latency' has 2 levels from 1e-09 to 3e-09"):
        grid(1e-9, 2e-9).check_same(grid(1e-9, 3e-9), "here", "there")
