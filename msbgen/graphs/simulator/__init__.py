"""A simulated system on a chip: task graphs on clusters of cores with clocks, power and heat."""

from msbgen.graphs.simulator.programs import Program
from msbgen.graphs.simulator.rates import Rates
from msbgen.graphs.simulator.simulate import Outcome, Simulator, label_runs, simulate_graph

__all__ = ["Outcome", "Program", "Rates", "Simulator", "label_runs", "simulate_graph"]
