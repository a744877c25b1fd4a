"""A simulated system on a chip: task graphs on clusters of cores with clocks, power and heat."""

from msbgen.schedule.soc.programs import Program
from msbgen.schedule.soc.rates import Rates
from msbgen.schedule.soc.simulate import Outcome, Simulator, label_runs, simulate_graph

__all__ = ["Outcome", "Program", "Rates", "Simulator", "label_runs", "simulate_graph"]
