"""``msbgen realtime``: tasks with deadlines that share the resources of a platform."""

from importlib import import_module

from msbgen.cli import options as shared
from msbgen.cli.options import Verbs

# Parts, each in a file of its own beside this one with `add` and `run`.
PARTS = ("realtime_phases", "realtime_allocate", "realtime_taskset", "realtime_simulate")


def add(verbs: Verbs) -> None:
    """Add the verb's parts and their options."""
    parts = shared.new_group(
        verbs, "realtime", "allocate shared resources to tasks with deadlines, and simulate them"
    )
    for name in PARTS:
        import_module(f"msbgen.cli.{name}").add(parts)
