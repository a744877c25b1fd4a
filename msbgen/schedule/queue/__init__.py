"""Queues of jobs before several machines: who runs where and when, played before it is done."""

from msbgen.schedule.queue.bound import at_load, least_span, makespan_bound
from msbgen.schedule.queue.jobs import Jobs, make_jobs
from msbgen.schedule.queue.measures import (
    bounded_slowdown,
    makespan,
    slowdown_against_fastest,
)
from msbgen.schedule.queue.simulate import (
    PAPERS,
    PLACEMENTS,
    QUEUES,
    Placement,
    Queue,
    Schedule,
    simulate_queue,
)

__all__ = [
    "PAPERS",
    "PLACEMENTS",
    "QUEUES",
    "Jobs",
    "Placement",
    "Queue",
    "Schedule",
    "at_load",
    "bounded_slowdown",
    "least_span",
    "make_jobs",
    "makespan",
    "makespan_bound",
    "simulate_queue",
    "slowdown_against_fastest",
]
