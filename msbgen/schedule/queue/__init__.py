"""Queues of jobs before several machines: who runs where and when, played before it is done."""

from msbgen.schedule.queue.bound import at_load, even_span, least_span, makespan_bound
from msbgen.schedule.queue.compare import Choice, Played, choices, plays, study
from msbgen.schedule.queue.jobs import Jobs, make_jobs
from msbgen.schedule.queue.measures import (
    bounded_slowdown,
    makespan,
    slowdown_against_fastest,
)
from msbgen.schedule.queue.scenario import Scenario, read_scenario
from msbgen.schedule.queue.simulate import (
    PAPERS,
    PLACEMENTS,
    QUEUES,
    Placement,
    Queue,
    Schedule,
    simulate_queue,
)
from msbgen.schedule.queue.workload import jobs_of, read_workload, workload_of, write_workload

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
