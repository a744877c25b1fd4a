"""The public names of ``msbgen.bridge`` for type checkers."""

from msbgen.engine.bridge.solution import Bridge as Bridge
from msbgen.engine.bridge.solution import Cloud as Cloud
from msbgen.engine.bridge.solution import Status as Status
from msbgen.engine.bridge.solve import NotConvergedError as NotConvergedError
from msbgen.engine.bridge.solve import SolverConfig as SolverConfig
from msbgen.engine.bridge.solve import solve_bridge as solve_bridge
