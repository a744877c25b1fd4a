"""How hard a program presses on the shared cache and memory, as a level of the stressor.

A reporter reads cache lines in random order on the stressor's core.  Its speed is taken beside
the program, and beside a stressor in the program's place at each level.  The level at which the
reporter is as slow as beside the program is the program's pressure.  Another program's duration at
that level over its duration alone predicts how much the first slows it down.

Source: J. Mars, L. Tang, R. Hundt, K. Skadron, M. L. Soffa, "Bubble-Up: increasing utilization in
modern warehouse scale computers via sensible co-locations", MICRO 2011, sections 3.2 to 3.4.
"""

from __future__ import annotations

import os
import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError, MeasurementError, ProfileError
from msbgen.core.machine import OnProgress
from msbgen.sources.measure.actuators.kernel_files import SystemFiles
from msbgen.sources.measure.actuators.kernel_settings import KernelSettings
from msbgen.sources.measure.actuators.pressure import Companion, Pressure, Stressors, cache_size
from msbgen.sources.measure.sweep.actuators import make_actuators, program_cores, stressor_cores
from msbgen.sources.measure.sweep.perf_stat import error_text
from msbgen.sources.measure.sweep.process import Watchdog, kill_leftovers, paused_process
from msbgen.sources.measure.sweep.requirements import check_machine
from msbgen.sources.measure.sweep.spec import Spec

Floats = NDArray[np.float64]

# Time for which the reporter runs beside each level [s].
_SECONDS = 0.3
# Longest time for which it waits for its core [s].
_PATIENCE = 10.0


@dataclass(frozen=True, eq=False)
class Probe:
    """A program's pressure.

    Attributes
    ----------
    name, units : str
        Resource of the spec, and unit of its levels.
    levels : numpy.ndarray
        Levels of the stressor, ascending, (n,).
    slowdowns : numpy.ndarray
        Slowdown of the reporter beside each level: its speed alone over its speed there, (runs, n).
    program : numpy.ndarray
        Slowdown of the reporter beside the program, (runs,).
    """

    name: str
    units: str
    levels: Floats
    slowdowns: Floats
    program: Floats

    @property
    def pressure(self) -> float:
        """The level equivalent to the program, from the medians over the runs."""
        return equivalent_level(self.levels, np.median(self.slowdowns, axis=0), self.median)

    @property
    def median(self) -> float:
        """Median slowdown of the reporter beside the program."""
        return float(np.median(self.program))

    @property
    def range(self) -> tuple[float, float]:
        """Lowest and highest level equivalent to a single run of the program."""
        curve = np.median(self.slowdowns, axis=0)
        found = [equivalent_level(self.levels, curve, slowdown) for slowdown in self.program]
        return min(found), max(found)

    def describe(self) -> Iterator[str]:
        """The slowdowns and the result, as lines of text."""
        for level, slowdown in zip(self.levels, np.median(self.slowdowns, axis=0)):
            yield f"slowdown of the reporter beside {level:g} {self.units}: {slowdown:.3f}"
        yield f"slowdown of the reporter beside the program: {self.median:.3f}"
        low, high = self.range
        yield (
            f"{self.name} of the program: {self.pressure:.4g} {self.units} "
            f"(single runs: {low:.4g} to {high:.4g})"
        )

    def table(self) -> str:
        """The level as a CSV file of contexts, for `generate`, `bound` and `measure`."""
        return f"{self.name}\n{self.pressure:.6g}\n"


def equivalent_level(levels: Floats, slowdowns: Floats, slowdown: float) -> float:
    """Level at which the reporter has a slowdown; the lowest or highest beyond the curve.

    The slowdowns of ascending levels are first made to rise: each is at least those before it.
    """
    rising = np.maximum.accumulate(slowdowns)
    first = np.concatenate([[True], np.diff(rising) > 0])  # the lowest level of each slowdown
    return float(np.interp(slowdown, rising[first], levels[first]))


def slowdown_at(profiles: xr.Dataset, name: str, level: float) -> float:
    """Predicted slowdown of a measured program at a level of the pressure `name`.

    The median durations of its levels are interpolated, and divided by that of level 0.

    Raises
    ------
    ArgumentError
        The profiles have no resource `name`, or others vary, too.
    MeasurementError
        Level 0, the program alone, was not measured.
    """
    if name not in profiles.coords or profiles[name].dims != ("context",):
        raise ArgumentError(f"profiles: have no resource '{name}'; name that of the pressure.")
    at = profiles[name].values.astype(float)
    if len(np.unique(at)) < len(at):
        raise ArgumentError(
            f"profiles: levels of '{name}' occur in several contexts; select those of one level "
            f"of every other resource."
        )
    if not (at == 0).any():
        raise MeasurementError(f"profiles: {name} = 0 is missing; measure the program alone, too.")
    seconds = np.nanmedian(profiles["duration"].values.reshape(len(at), -1), axis=1)
    order = np.argsort(at)
    return float(np.interp(level, at[order], seconds[order]) / seconds[at == 0][0])


def probe(spec: Spec, progress: OnProgress | None = None) -> Probe:
    """Pressure of the program of a spec, whose only resource is a `pressure`.

    Reporter, stressor and program run ``spec.runs`` times in random order; all end with this call
    or with this process.

    Raises
    ------
    ProfileError
        The spec has another resource, or variants.
    RequirementError
        The machine has no second core, or no such program.
    MeasurementError
        A run of the program failed or did not end in time.
    """
    if [resource.by for resource in spec.resources] != ["pressure"] or spec.variants:
        raise ProfileError(
            'the spec: a probe takes one resource, by "pressure", and no variants; drop others.'
        )
    (resource,) = spec.resources
    tag = secrets.token_hex(8)
    settings = KernelSettings(SystemFiles(), lambda record: None)
    (actuator,) = make_actuators(spec, settings, f"msbgen-{tag}")
    levels = np.array(resource.levels)
    check_machine(spec, levels[:, None], [actuator], [])
    place, beside = program_cores(spec), stressor_cores(spec)
    stressors = Stressors(place[: len(beside)], beside, tag)
    pressing = Pressure(resource.name, stressors, resource.target)
    rng = np.random.default_rng(spec.seed)
    slowdowns = np.empty((spec.runs, len(levels)))
    program = np.empty(spec.runs)
    with _reporter(beside[0], tag) as reporter, tempfile.TemporaryDirectory() as scratch:
        for run in range(spec.runs):
            speeds = {}
            for at in rng.permutation(np.arange(-2, len(levels))).tolist():
                time.sleep(spec.cooldown)
                if at == -1:
                    speeds[at] = _beside_program(spec, place, reporter, tag, Path(scratch, "err"))
                else:
                    pressing.apply(float(levels[at]) if at >= 0 else 0.0)
                    speeds[at] = _beside_stressor(stressors, reporter)
            program[run] = speeds[-2] / speeds[-1]
            slowdowns[run] = [speeds[-2] / speeds[at] for at in range(len(levels))]
            if progress is not None:
                progress(run + 1, spec.runs)
    return Probe(resource.name, actuator.units, levels, slowdowns, program)


@contextmanager
def _reporter(core: int, tag: str) -> Iterator[Companion]:
    """A reporter with half of the last-level cache."""
    reporter = Companion("gather", core, cache_size() // 2, 0.0, tag)
    try:
        reporter.wait_until_ready()
        yield reporter
    finally:
        reporter.stop()


def _beside_stressor(stressors: Stressors, reporter: Companion) -> float:
    """Speed of the reporter beside the stressors, or alone at level 0 [bytes/s].

    On a busy machine the reporter may wait for its core: then its speed is taken over more time.
    """
    stressors.start()
    try:
        before, start = reporter.moved, time.monotonic()
        time.sleep(_SECONDS)
        while reporter.moved == before and time.monotonic() - start < _PATIENCE:
            time.sleep(_SECONDS)
        return _checked_speed(reporter.moved - before, time.monotonic() - start)
    finally:
        stressors.end()


def _beside_program(
    spec: Spec, cores: list[int], reporter: Companion, tag: str, stderr: Path
) -> float:
    """Speed of the reporter while the program runs [bytes/s]."""
    watchdog = Watchdog()
    try:
        with paused_process(
            spec.command, folder=spec.folder, stdin=spec.stdin, stderr=stderr,
            environment=spec.environment, tag="program-" + tag,
        ) as process:  # fmt: skip
            watchdog.watch_group(process.pid)
            os.sched_setaffinity(process.pid, cores)
            before = reporter.moved
            ended = process.run(spec.timeout)
            moved = reporter.moved - before
            kill_leftovers(process.pid, "program-" + tag)
    finally:
        watchdog.stop()
    if not ended.in_time or ended.status:
        how = f"exited with {ended.status}" if ended.in_time else "did not end in time"
        raise MeasurementError(f"{spec.task}: {how} ({error_text(stderr)}); correct 'command'.")
    return _checked_speed(moved, ended.wall)


def _checked_speed(moved: int, seconds: float) -> float:
    """Speed [bytes/s]; a MeasurementError if the reporter got no time on its core."""
    if not moved:
        raise MeasurementError(
            f"the probe's own program did not run within {seconds:.3g} s; other programs hold its "
            f"core: stop them, or give a program of more work, and probe again."
        )
    return moved / seconds
