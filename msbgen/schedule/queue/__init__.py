"""Queues of jobs before several machines: who runs where and when, played before it is done."""

from msbgen.schedule.queue.jobs import Jobs, make_jobs
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
    "make_jobs",
    "simulate_queue",
]
