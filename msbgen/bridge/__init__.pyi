"""The public names of ``msbgen.bridge`` for type checkers."""

from msbgen.bridge.solve import Bridge as Bridge
from msbgen.bridge.solve import Cloud as Cloud
from msbgen.bridge.solve import NotConvergedError as NotConvergedError
from msbgen.bridge.solve import SolverConfig as SolverConfig
from msbgen.bridge.solve import Status as Status
from msbgen.bridge.solve import solve_bridge as solve_bridge
