import pytest

from msbgen.systems.graphs.boards import Board
from msbgen.systems.graphs.kinds import read_kinds
from msbgen.systems.graphs.predictor.predictor import GraphPredictor
from toy_board import CYCLES, FEW, GRAPHS, cores_law, device_of, profiles_of, runs_of


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


@pytest.fixture(scope="session")
def two(device):
    return [device, device_of("other", bandwidth=(400.0,), shared_by="device")]


@pytest.fixture(scope="session")
def fitted(two, kinds, profiles):
    """A calibrated predictor of two devices; tests do not change it."""
    runs = [runs_of(d, kinds, 200, law=cores_law) for d in two]
    predictor = GraphPredictor(boosting=FEW, folds=3)
    return predictor.fit(runs, devices=two, graphs=GRAPHS, profiles=profiles).calibrate()
