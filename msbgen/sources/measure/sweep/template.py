"""A commented spec of what this machine can vary."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from msbgen.sources.measure.actuators.actuator import Actuator
from msbgen.sources.measure.actuators.kernel_files import DryRunFiles, KernelFiles, SystemFiles
from msbgen.sources.measure.actuators.kernel_settings import KernelSettings
from msbgen.sources.measure.sweep.actuators import make_actuators
from msbgen.sources.measure.sweep.requirements import (
    describe_machine,
    event_problems,
    perf_problems,
)
from msbgen.sources.measure.sweep.spec import ResourceSpec, Spec

_HEAD = """\
# A spec for msbgen measure SPEC.toml -o OUT.nc, made on {machine}.
# Every key is described on the page msbgen/sources/measure/README.md.

command = ["sleep", "0.2"]     # your program; {{NAME}} is replaced by the level of an argument
# folder = "."                 # working directory of the command
# stdin = "/dev/null"          # file for standard input, relative to folder
# environment = {{LC_ALL = "C"}} # variables that are added
events = {events}
# progress = "time"            # counter or event that measures progress; default: {clock}
# interval = "10ms"            # sampling interval
# cores = [{core}]                  # cores of the program
# runs = 5                     # of each context
# warmups = 1                  # runs before the first one that are not kept
# cooldown = "100ms"           # pause before each run
# timeout = "60s"              # longest duration of a run
# contexts = "grid:5"          # or "all", or a CSV file
"""
_HARDWARE = ("instructions", "cycles", "cache-misses")
# Name, example levels and further lines of the resources that can be probed; without levels, they
# are spread over the range of the machine.
_PROBED: dict[str, tuple[str, tuple[float, ...], str]] = {
    "quota": ("cpu_share", (20.0, 40.0, 60.0, 80.0, 100.0), ""),
    "cores": ("n_cores", (), ""),
    "memory": ("memory", (64.0, 256.0, 1024.0), ""),
    "io": ("disk", (10.0, 50.0, 200.0), 'direction = "read"\n'),
    "ways": ("cache_ways", (), ""),
    "bandwidth": ("bandwidth", (), ""),
    "clock": ("frequency", (), ""),
    "memguard": ("budget", (500.0, 1000.0, 2000.0), 'direction = "read"\n'),
    "priority": ("nice", (0.0, 10.0), ""),
    "pressure": ("pressure", (0.0, 250.0, 1000.0, 4000.0), 'what = "bandwidth"\n'),
}
_OTHERS = """\

# [resources.size]
# by = "argument"              # {size} in command; numbers, or words without an order
# levels = [1, 2, 4]

# [resources.threads]
# by = "environment"
# name = "OMP_NUM_THREADS"
# levels = [1, 2]

# [resources.anything]
# by = "hook"                  # an executable that answers: levels, read, set LEVEL
# command = "./hook"
# levels = [1, 2]
"""


def describe_template(files: KernelFiles | None = None) -> Iterator[str]:
    """The spec as texts that end with a line end; it is valid as it stands.

    The first resource that this machine can vary is active, the others are comments.
    """
    kernel = DryRunFiles(files or SystemFiles())
    cores = sorted(os.sched_getaffinity(0))
    hardware = [] if any(perf_problems()) else _counted(_HARDWARE)
    events = [*hardware, *Spec.events]
    clock = "instructions" if "instructions" in events else "task-clock"
    yield _HEAD.format(
        machine=describe_machine(),
        events=str(events).replace("'", '"'),
        clock=clock,
        core=cores[-1],
    )
    if not hardware:
        yield "# this machine counts no instructions, so CPU time measures progress\n"
    active = ""
    for by, (name, levels, more) in _PROBED.items():
        target = "bandwidth" if by == "pressure" else str(Path.cwd())
        resource = ResourceSpec(name, by, (1.0,), target=target)
        spec = Spec(("true",), (resource,))
        (actuator,) = make_actuators(spec, KernelSettings(kernel, lambda record: None), "msbgen")
        capability = actuator.capability()
        yield "\n"
        if capability.problems:
            yield "".join(f"# not here: {problem}\n" for problem in capability.problems)
            continue
        resource = replace(resource, levels=_possible(actuator, levels))
        units = "" if actuator.units == "1" else f" {actuator.units}"
        texts = [f"{bound:.6g}" for bound in (capability.lowest, capability.highest)]
        text = (
            f"[resources.{name}]\n"
            f'by = "{by}"  # {actuator.long_name}: {" to ".join(texts)}{units}, by '
            f"{capability.mechanism}\n"
            f"levels = [{', '.join(map(resource.text, resource.levels))}]\n{more}"
        )
        active = active or by
        yield text if by == active else "".join(f"# {line}\n" for line in text.splitlines())
    yield _OTHERS


def _counted(events: tuple[str, ...]) -> list[str]:
    spec = Spec(("true",), ())
    return [event for event in events if not any(event_problems(replace(spec, events=(event,))))]


def _possible(actuator: Actuator, levels: tuple[float, ...]) -> tuple[float, ...]:
    """The levels that the machine can set; five over its range if none are given."""
    c = actuator.capability()
    if not levels:
        step = c.step or 1.0
        steps = (c.highest - c.lowest) / step
        levels = tuple(sorted({c.lowest + step * round(steps * i / 4) for i in range(5)}))
    return tuple(v for v in levels if not c.level_problems("", [v], "")) or (c.highest,)
