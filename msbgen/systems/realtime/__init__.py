"""Periodic tasks with deadlines: allocators, task sets, global EDF on profiles."""

from msbgen.core.lazy import public_names

__getattr__, __dir__, __all__ = public_names(
    __name__,
    {
        "allocate": ("Allocator",),
        "clocks": ("reference_slack", "simulated_slack"),
        "edf": ("simulate_edf",),
        "simulate": ("simulate_task_set", "timeline"),
        "tasksets": ("Task", "TaskSet", "draw_task_set", "read_task_set", "reference_wcet"),
        "truth": ("Truth",),
    },
)
