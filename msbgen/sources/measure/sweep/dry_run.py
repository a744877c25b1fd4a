"""Dry run: what a sweep would do, as lines of text; nothing is changed."""

from __future__ import annotations

import os
import secrets
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from msbgen.core.words import number_of
from msbgen.data.groups import describe_groups
from msbgen.sources.measure.actuators.actuator import listed
from msbgen.sources.measure.actuators.kernel_files import DryRunFiles, KernelFiles, SystemFiles
from msbgen.sources.measure.actuators.kernel_settings import KernelSettings
from msbgen.sources.measure.sweep.actuators import make_actuators, other_cores, program_cores
from msbgen.sources.measure.sweep.order import run_order
from msbgen.sources.measure.sweep.perf_stat import error_text
from msbgen.sources.measure.sweep.process import kill_leftovers, paused_process
from msbgen.sources.measure.sweep.recorder import PerfRecorder, Recorder
from msbgen.sources.measure.sweep.requirements import check_machine, describe_progress
from msbgen.sources.measure.sweep.spec import NO_LIMITS, Spec

# Runs that are listed.
_SHOWN = 5


def describe_dry_run(
    spec: Spec,
    files: KernelFiles | None = None,
    recorder: Recorder | None = None,
    *,
    folder: Path = Path(),
    trial: bool = False,
) -> Iterator[str]:
    """Lines with the plan, the commands, the time, the changes and how they are restored.

    By default, the files are those of the running kernel, and perf records.  The disk of `folder`,
    that of the output, must have room.  With `trial` and without
    `seconds` in the spec, the program runs once at the highest levels of its arguments, variables
    and cores, without limits.  Errors are those of the sweep before its first run.
    """
    recorder = recorder or PerfRecorder(spec)
    order = run_order(spec)
    dry_files = DryRunFiles(files or SystemFiles())
    settings = KernelSettings(dry_files, lambda record: None)
    actuators = make_actuators(spec, settings, "msbgen-SWEEP")
    problems = recorder.problems(folder.resolve(), len(order.slots))
    check_machine(spec, order.contexts, actuators, problems)
    cores = program_cores(spec)
    programs = spec.programs()
    variants = f" of {len(programs)} variants" if spec.variants else ""
    contexts = number_of(len(order.contexts), "context")
    yield f"plan: {contexts}, {number_of(len(order.slots), 'run')}{variants} in random order"
    for resource, column, actuator in zip(spec.resources, order.contexts.T, actuators):
        levels = listed([resource.text(level) for level in sorted(set(column.tolist()))])
        units = "" if actuator.units in ("", "1") else f" {actuator.units}"
        yield f"  {resource.name}: {levels}{units}, by {actuator.capability().mechanism}"
    for groups in sorted(set(order.groups), key=order.groups.index):
        yield from (f"  {line}" for line in describe_groups(groups))
    for slot in order.slots[:_SHOWN]:
        variant = f"{slot.variant}, " if slot.variant else ""
        yield f"  run {slot.number}: {variant}{spec.describe(slot.context)}"
    if len(order.slots) > _SHOWN:
        yield "  …"
    for name, program in programs.items():
        title = f"variant {name}" if name else "program"
        yield f"{title}, on cores {cores}: {shlex.join(program.command)}"
    shares_cores = bool(set(other_cores(cores)) & set(cores))
    events = order.slots[0].events or spec.events
    yield from recorder.describe(other_cores(cores), shares_cores, events)
    if recorder.name == "perf":
        yield describe_progress(spec)
    if spec.seconds is not None:
        seconds, source = spec.seconds, f"a run is taken to last {spec.seconds:g} s"
    elif trial:
        seconds, source = _trials(spec, order.contexts.max(axis=0).tolist(), cores)
    else:
        seconds, source = None, "unknown without 'seconds' in the spec"
    runs, warmups = len(programs) * order.runs, len(programs) * spec.warmups
    timed = replace(spec, seconds=seconds, warmups=warmups)
    yield _time_estimate(timed, order.contexts, runs, source)
    for actuator, level in zip(actuators, order.slots[0].context):
        actuator.apply(level)
    n_changes = len(dry_files.commands)
    settings.restore()
    changes, undone = dry_files.commands[:n_changes], dry_files.commands[n_changes:]
    if not changes:
        yield "changes of settings: none"
        return
    yield "changes for the first run:"
    yield from (f"  {command}" for command in changes)
    yield "commands that restore them:"
    yield from (f"  {command}" for command in undone)


def describe_executed(spec: Spec) -> Iterator[str]:
    """A sentence for each executable that a dry run with a trial is going to run."""
    for hook in spec.hooks():
        yield f"runs {shlex.join([hook])} levels, and read"
    if spec.seconds is None:
        for program in spec.programs().values():
            command = program.command_in([resource.levels[-1] for resource in spec.resources])
            yield f"runs once, without limits: {shlex.join(command)}"


def _trials(spec: Spec, context: Sequence[float], cores: Sequence[int]) -> tuple[float | None, str]:
    """Mean duration of a run of each variant [s], and a text about it; None if one failed."""
    trials = [_trial(program, context, cores) for program in spec.programs().values()]
    seconds = [seconds for seconds, _ in trials if seconds is not None]
    if len(trials) == 1 or len(seconds) < len(trials):
        return next((trial for trial in trials if trial[0] is None), trials[0])
    mean = sum(seconds) / len(seconds)
    return mean, f"runs of the variants without limits took {mean:.3g} s on average"


def _trial(spec: Spec, context: Sequence[float], cores: Sequence[int]) -> tuple[float | None, str]:
    """Duration of one run [s], and a text about it; None if the run failed."""
    with tempfile.TemporaryDirectory(prefix="msbgen-trial-") as scratch:
        stderr, tag = Path(scratch, "err"), secrets.token_hex(8)
        with paused_process(
            spec.command_in(context),
            folder=spec.folder,
            stdin=spec.stdin,
            stderr=stderr,
            environment=spec.environment_in(context),
            tag=tag,
        ) as process:
            os.sched_setaffinity(process.pid, cores)
            ended = process.run(spec.timeout)
            kill_leftovers(process.pid, tag)
        if not ended.in_time:
            return None, f"unknown, as a run did not end within {spec.timeout:g} s"
        if ended.status:
            message = error_text(stderr)
            return None, f"unknown, as a run exited with {ended.status} ({message})"
    return ended.wall, f"a run without limits took {ended.wall:.3g} s"


def _time_estimate(spec: Spec, contexts: np.ndarray, runs: np.ndarray, source: str) -> str:
    """Estimated time of the sweep, if durations are inversely proportional to each limit."""
    n_runs = int(runs.sum())
    if spec.seconds is None:
        attempts = n_runs * (1 + spec.retries) + spec.warmups
        longest = _clock(attempts * (spec.timeout + spec.cooldown))
        return f"time: {source}; at most {longest}, and start-up times"
    highest = np.array([resource.levels[-1] for resource in spec.resources])
    limits = [r.by not in NO_LIMITS and not r.labels for r in spec.resources]
    slowdown = np.prod(np.where(limits, highest / np.where(limits, contexts, 1.0), 1.0), axis=1)
    seconds = np.minimum(spec.seconds * slowdown, spec.timeout) @ runs
    seconds += spec.warmups * min(spec.seconds, spec.timeout)
    pauses = (n_runs + spec.warmups) * spec.cooldown
    less = " or less" if any(limits) else ""  # what a program does with an argument is not known
    return f"time: about {_clock(float(seconds) + pauses)}{less}, if no run fails ({source})"


def _clock(seconds: float) -> str:
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {left:02d} s"
