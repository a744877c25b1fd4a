"""Decisions on profiles: phases, allocators, task sets, and the scheduler that judges them."""

from msbgen.schedule import queue
from msbgen.schedule.allocate import Allocator
from msbgen.schedule.clocks import reference_slack, simulated_slack
from msbgen.schedule.edf import play
from msbgen.schedule.phases import phase_table, read_phases, write_phases
from msbgen.schedule.simulate import simulate, timeline
from msbgen.schedule.tasksets import (
    Task,
    TaskSet,
    draw_task_set,
    read_task_set,
    reference_wcet,
)
from msbgen.schedule.truth import Truth

__all__ = [
    "Allocator",
    "Task",
    "TaskSet",
    "Truth",
    "draw_task_set",
    "phase_table",
    "play",
    "queue",
    "read_phases",
    "read_task_set",
    "reference_slack",
    "reference_wcet",
    "simulate",
    "simulated_slack",
    "timeline",
    "write_phases",
]
