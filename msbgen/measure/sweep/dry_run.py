"""What a sweep would do, without doing it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from msbgen.data.groups import describe_groups
from msbgen.measure.actuators.actuator import listed
from msbgen.measure.actuators.kernel_files import DryRunFiles, KernelFiles, SystemFiles
from msbgen.measure.actuators.kernel_settings import KernelSettings
from msbgen.measure.sweep.actuators import make_actuators, other_cores, program_cores
from msbgen.measure.sweep.order import run_order
from msbgen.measure.sweep.recorder import PerfRecorder, Recorder
from msbgen.measure.sweep.requirements import check_machine
from msbgen.measure.sweep.spec import Spec

_SHOWN = 5


def describe_dry_run(
    spec: Spec,
    files: KernelFiles | None = None,
    recorder: Recorder | None = None,
    *,
    folder: Path = Path(),
) -> Iterator[str]:
    """Plan, commands, time, changes and what takes them back, in lines.

    Parameters
    ----------
    spec : Spec
    files : KernelFiles, optional
        Of the kernel that runs, where none are given.
    recorder : Recorder, optional
        perf, where none is given.
    folder : Path
        Where the output would be: its disk is to have room.

    Raises
    ------
    ProfileError, RequirementError, SettingError
        As the sweep would raise them before its first run.
    """
    recorder = recorder or PerfRecorder(spec)
    order = run_order(spec)
    pretended = DryRunFiles(files or SystemFiles())
    settings = KernelSettings(pretended, lambda record: None)
    actuators = make_actuators(spec, settings, "msbgen-SWEEP")
    problems = recorder.problems(folder.resolve(), len(order.slots))
    check_machine(spec, order.contexts, actuators, problems)
    cores = program_cores(spec)
    yield f"plan: {len(order.contexts)} contexts, {len(order.slots)} runs in random order"
    for resource, column, actuator in zip(spec.resources, order.contexts.T, actuators):
        levels = listed(sorted(set(column.tolist())))
        yield (
            f"  {resource.name}: {levels} {actuator.units}, by {actuator.capability().mechanism}"
        )
    for groups in sorted(set(order.groups), key=order.groups.index):
        yield from (f"  {line}" for line in describe_groups(groups))
    for slot in order.slots[:_SHOWN]:
        values = ", ".join(f"{r.name}={v:g}" for r, v in zip(spec.resources, slot.context))
        yield f"  run {slot.number}: {values}"
    if len(order.slots) > _SHOWN:
        yield "  …"
    yield f"program, on cores {cores}: {shlex.join(spec.command)}"
    beside = "with it" if set(other_cores(cores)) & set(cores) else "apart from it"
    events = order.slots[0].events or spec.events
    yield from recorder.plan(other_cores(cores), beside, events)
    yield from _time(spec, order.contexts, order.runs)
    for actuator, level in zip(actuators, order.slots[0].context):
        actuator.apply(level)
    changes = len(pretended.commands)
    settings.restore()
    yield "changes for the first run:"
    yield from (f"  {command}" for command in pretended.commands[:changes])
    yield "and what takes them back:"
    yield from (f"  {command}" for command in pretended.commands[changes:])


def _time(spec: Spec, contexts: np.ndarray, runs: np.ndarray) -> Iterator[str]:
    """How long it takes, if a run takes as much longer as it has less of each resource."""
    many = int(runs.sum())
    if spec.seconds is None:
        most = (many * (1 + spec.retries) + spec.warmups) * (spec.timeout + spec.cooldown)
        yield (
            f"time: not known without 'seconds' in the spec; {_clock(most)}, and what starting "
            f"takes, at the very most"
        )
        return
    highest = np.array([resource.levels[-1] for resource in spec.resources])
    slower = np.prod(highest / contexts, axis=1)
    seconds = np.minimum(spec.seconds * slower, spec.timeout) @ runs
    seconds += spec.warmups * min(spec.seconds, spec.timeout)
    pause = (many + spec.warmups) * spec.cooldown
    yield f"time: about {_clock(float(seconds) + pause)} or less, where no run fails"


def _clock(seconds: float) -> str:
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {left:02d} s"
