"""Phases of a task: segments of progress with nearly constant rates in every context."""

from msbgen.core.lazy import public_names

__getattr__, __dir__, __all__ = public_names(
    __name__,
    {"grid": ("Grid", "Resource"), "phases": ("phase_table", "read_phases", "write_phases")},
)
