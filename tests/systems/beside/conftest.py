"""Tables of two programs, measured alone on the virtual platform."""

from dataclasses import replace

import pytest

from msbgen.data.build import join_profiles
from msbgen.data.sharing import shared_by_all
from msbgen.sources.platform import PlatformConfig, replay_beside
from msbgen.systems.beside.table import program_table
from streams import random_lines, stream_of

QUIET = replace(PlatformConfig().without_noise(), random_phases=True)
WAYS, BANDWIDTHS = (1, 2, 3, 4, 6, 8), (50.0, 100.0, 1e6)


@pytest.fixture(scope="session")
def streams():
    """Random reads in 3 and in 5 MiB, at the same pace."""
    lines = random_lines(3, 200_000), random_lines(5, 200_000, seed=1)
    return tuple(stream_of(one, cycles=2e6) for one in lines)


@pytest.fixture(scope="session")
def measured(streams):
    """Profiles of each program alone over ways and bandwidths."""

    def one(stream):
        alone = [
            replay_beside([stream], shared_by_all(1, ways=w, bandwidth=b), 1, 0.002, config=QUIET)
            for w in WAYS
            for b in BANDWIDTHS
        ]
        return join_profiles([profiles[0].drop_vars("held_ways") for profiles in alone])

    return tuple(one(stream) for stream in streams)


@pytest.fixture(scope="session")
def tables(measured):
    return tuple(program_table(profiles) for profiles in measured)
