"""Runs of a multi-threaded program that waits for other threads in a loop (spinning).

The problem: find traces of the virtual platform in which the work of a run is not constant.

At each barrier the recorded thread waits for another.  That one is bound by the memory, so that its
time falls less with the clock f.  The wait is a·max(0, 1 − f₀/f) seconds.  Each barrier has its a
and its f₀, the clock below which nothing is waited for.  Barriers are crowded in a few parallel
phases.  In each run the a vary by a factor for the whole run and one for each barrier.  The loop
executes a constant number of instructions per cycle and makes one request, a miss, when it ends.
Cycles of waiting are added to the run, so that work and waiting follow each other.  The a are
scaled so that a mean run has 7 to 12 % more instructions at the highest clock than at the lowest.
"""

from dataclasses import dataclass, replace

import numpy as np
import xarray as xr
from fidelity_peers import relabelled
from numpy.typing import NDArray

from msbgen.data.build import join_profiles
from msbgen.data.profiles import Profiles
from msbgen.data.schema import (
    duration_array,
)
from msbgen.sources.platform import PlatformConfig, replay_trace
from msbgen.sources.platform.trace import make_trace

Floats = NDArray[np.float64]

_BARRIERS, _PHASES = 60, 5
# Ranges of what is drawn: the rise of the instructions over the clocks, instructions per cycle of
# the loop, the clock above which a barrier waits [GHz], and the length of a phase.
_RISE, _PER_CYCLE, _CLOCK, _LENGTH = (0.07, 0.12), (0.5, 2.0), (0.6, 1.8), (0.05, 0.15)
# Standard deviations of the logarithm of a for the whole run and for each barrier.
_OF_RUN, _OF_BARRIER = 0.1, 0.5


@dataclass(frozen=True, eq=False)
class Spinning:
    """A program that waits; see :func:`spinning`."""

    trace: xr.Dataset  # with an interval for each barrier
    barrier: NDArray[np.int64]  # (barriers,): these intervals
    seconds: Floats  # (barriers,): a
    clock: Floats  # (barriers,): f₀ [GHz]
    per_cycle: float  # instructions of the loop

    def cycles(self, clock: float) -> Floats:
        """Cycles that a mean run waits at each barrier, (barriers,)."""
        return 1e9 * self.seconds * np.maximum(0.0, clock - self.clock)

    def replay(self, contexts: Floats, runs: int, rng: int) -> xr.Dataset:
        """Profiles in contexts of the platform; a run depends on context, number and seed."""
        own = []
        for context in contexts:
            drawn = np.random.default_rng([rng, *np.rint(10 * context).astype(int)])
            own += [self._run(context, drawn) for _ in range(runs)]
        joined = join_profiles(own)
        counts, duration = Profiles.of(joined).counts, duration_array(joined)
        return relabelled(
            joined.isel(context=slice(None, None, runs)),
            counts.reshape(len(contexts), runs, *counts.shape[2:]),
            duration.reshape(len(contexts), runs),
            attrs=joined.attrs,
        )

    def _run(self, context: Floats, drawn: np.random.Generator) -> xr.Dataset:
        """One run in a context, with its own waits."""
        noise = _OF_RUN * drawn.standard_normal()
        noise += _OF_BARRIER * drawn.standard_normal(_BARRIERS)
        cycles = np.exp(noise) * self.cycles(context[2])
        arrays = {n: self.trace[n].values.copy() for n in ("instructions", "core_cycles")}
        arrays["core_cycles"][self.barrier] = np.maximum(cycles, 1.0)
        arrays["instructions"][self.barrier] = np.maximum(np.rint(self.per_cycle * cycles), 1.0)
        trace = self.trace.assign({n: self.trace[n].copy(data=arrays[n]) for n in arrays})
        return replay_trace(trace, context[None], 1, rng=int(drawn.integers(2**31)), threads=1)


def spinning(trace: xr.Dataset, seed: int) -> Spinning:
    """The recorded program as one of several threads; other seeds wait at other places."""
    rng = np.random.default_rng([seed, *str(trace.attrs["program"]).encode()])
    names = ("instructions", "core_cycles", "fixed_time")
    arrays = [trace[name].values.astype(float) for name in names]
    depths = trace["distance_histogram"].transpose("depth", "interval", "colouring", "stream")
    rise, per_cycle = rng.uniform(*_RISE), rng.uniform(*_PER_CYCLE)
    begin, length = rng.random(_PHASES), rng.uniform(*_LENGTH, _PHASES)
    phase = rng.integers(_PHASES, size=_BARRIERS)
    place = np.sort((begin[phase] + length[phase] * rng.random(_BARRIERS)) % 1.0)
    done = np.cumsum(arrays[0]) / arrays[0].sum()
    before = np.searchsorted(done, place)
    waiting = np.zeros((len(depths), 1, *depths.shape[2:]))
    waiting[-1, :, :, 0] = 1.0  # the demand miss that ends the loop
    histogram = np.insert(depths.values.astype(float), before, waiting, axis=1)
    instructions, cycles, fixed = (
        np.insert(part, before, value) for part, value in zip(arrays, (1.0, 1.0, 0.0))
    )
    found = Spinning(
        make_trace(instructions, cycles, fixed, histogram, attrs=dict(trace.attrs)),
        before + np.arange(_BARRIERS),
        rng.exponential(size=_BARRIERS),
        rng.uniform(*_CLOCK, _BARRIERS),
        per_cycle,
    )
    # the mean of the noise is more than 1
    lowest, highest = (
        found.cycles(f).sum() for f in np.array(PlatformConfig().frequencies)[[0, -1]]
    )
    noise = np.exp(0.5 * (_OF_RUN**2 + _OF_BARRIER**2))
    work = arrays[0].sum() / (noise * per_cycle)
    # (work + highest) / (work + lowest) = 1 + rise
    scale = rise * work / (highest - (1.0 + rise) * lowest)
    return replace(found, seconds=found.seconds * scale)
