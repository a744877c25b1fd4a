"""Queues of jobs for several machines: placements simulated, compared and bounded."""

from msbgen.systems.machines.queue.bound import at_load, even_span, least_span, makespan_bound
from msbgen.systems.machines.queue.compare import (
    SimulationVariant,
    VariantResult,
    compare_variants,
    simulate_variants,
    variants,
)
from msbgen.systems.machines.queue.jobs import Jobs, make_jobs
from msbgen.systems.machines.queue.measures import (
    bounded_slowdown,
    makespan,
    slowdown_against_fastest,
)
from msbgen.systems.machines.queue.scenario import Scenario, read_scenario
from msbgen.systems.machines.queue.simulate import (
    PAPERS,
    PLACEMENTS,
    QUEUES,
    Placement,
    Queue,
    Schedule,
    simulate_queue,
)
from msbgen.systems.machines.queue.workload import (
    jobs_of,
    read_workload,
    workload_of,
    write_workload,
)

__all__ = [
    "PAPERS",
    "PLACEMENTS",
    "QUEUES",
    "Jobs",
    "Placement",
    "Queue",
    "Scenario",
    "Schedule",
    "SimulationVariant",
    "VariantResult",
    "at_load",
    "bounded_slowdown",
    "compare_variants",
    "even_span",
    "jobs_of",
    "least_span",
    "make_jobs",
    "makespan",
    "makespan_bound",
    "read_scenario",
    "read_workload",
    "simulate_queue",
    "simulate_variants",
    "slowdown_against_fastest",
    "variants",
    "workload_of",
    "write_workload",
]
