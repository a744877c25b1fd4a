"""Queues of jobs before several machines: who runs where and when, played before it is done."""

from msbgen.machines.queue.bound import at_load, even_span, least_span, makespan_bound
from msbgen.machines.queue.compare import Choice, Played, choices, plays, study
from msbgen.machines.queue.jobs import Jobs, make_jobs
from msbgen.machines.queue.measures import (
    bounded_slowdown,
    makespan,
    slowdown_against_fastest,
)
from msbgen.machines.queue.scenario import Scenario, read_scenario
from msbgen.machines.queue.simulate import (
    PAPERS,
    PLACEMENTS,
    QUEUES,
    Placement,
    Queue,
    Schedule,
    simulate_queue,
)
from msbgen.machines.queue.workload import jobs_of, read_workload, workload_of, write_workload

__all__ = [
    "PAPERS",
    "PLACEMENTS",
    "QUEUES",
    "Choice",
    "Jobs",
    "Placement",
    "Played",
    "Queue",
    "Scenario",
    "Schedule",
    "at_load",
    "bounded_slowdown",
    "choices",
    "even_span",
    "jobs_of",
    "least_span",
    "make_jobs",
    "makespan",
    "makespan_bound",
    "plays",
    "read_scenario",
    "read_workload",
    "simulate_queue",
    "slowdown_against_fastest",
    "study",
    "workload_of",
    "write_workload",
]
