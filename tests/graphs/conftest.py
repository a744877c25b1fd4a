import pytest

from msbgen.graphs.boards import Board
from msbgen.graphs.kinds import read_kinds
from toy_board import CYCLES, device_of, profiles_of


@pytest.fixture(scope="session")
def profiles():
    return {kind: profiles_of(kind) for kind in CYCLES}


@pytest.fixture(scope="session")
def kinds(profiles):
    return read_kinds(profiles)


@pytest.fixture(scope="session")
def device():
    return device_of()


@pytest.fixture(scope="session")
def board(device, kinds):
    return Board(device, kinds)
