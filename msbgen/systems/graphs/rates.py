"""Rate and power of each kind of task on each core of a device, for every number of running tasks.

Running tasks share the ways of their cache and the bandwidth of the context equally.  The rate of a
task is that of its phase table at its share and at the core's clock times the cluster's speed.  The
time a unit of progress takes is linear between the table's levels in ways, in 1/bandwidth and in
1/clock: core cycles scale with the clock, the rest does not.  Beyond the table's clocks, the time
is extrapolated by the least-squares slope over all of them, and runs are marked `stretched`.  A
share above the table's largest level counts as that level.  One below the smallest is an error.

The power of a running core is its dynamic power V²f, half of that while it stalls (the part of its
time that does not scale with the clock), and the energy of its misses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.data.schema import file_of
from msbgen.systems.graphs.devices import Device
from msbgen.systems.phases.grid import STALLED_ACTIVITY, Grid
from msbgen.systems.phases.phases import PHASES_SCHEMA, phase_table, table_grid, validate_phases

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Names in phase tables of the shared resources and of the counter of misses.
WAYS, BANDWIDTH, MISSES = "cache_ways", "bandwidth", "cache_misses"
# Change of log rates between phases: coarse, as each phase is an event of the simulator.
RESOLUTION = 0.05
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Rates:
    """Rates and powers of several kinds of tasks on a device; kinds are sorted.

    Phases of kind k are those from ``first_phase[k]`` to before ``first_phase[k + 1]``; `share` is
    that of each phase in the progress of a whole run.  `rates` [s-1] and `watts` of a running core
    [W] are (settings, clusters, levels, running, running_here, phases), by the numbers, less one,
    of tasks on the device and on the cluster.  `settings` (settings, 2): ways and bandwidth of the
    context.  `stretched` (clusters, levels): whether the clock is beyond those of a table.
    """

    device: Device
    kinds: tuple[str, ...]
    first_phase: Indices
    share: Floats
    rates: Floats
    watts: Floats
    settings: Floats
    stretched: NDArray[np.bool_]

    @classmethod
    def of(
        cls, device: Device, profiles: Mapping[str, xr.Dataset], *, resolution: float = RESOLUTION
    ) -> Rates:
        """Rates from profiles, or from phase tables, by kind.

        Profiles, measured, generated or replayed, have every context of a grid of ways, bandwidths
        and clocks.  `resolution` is as of :func:`~msbgen.systems.phases.phases.phase_table`.

        :class:`ArgumentError`: no profiles.  :class:`ProfileError`: a resource that the sheet or
        the profiles lack, a single clock, levels above the smallest shares of the device, or
        invalid phase tables.
        """
        if not profiles:
            raise ArgumentError("profiles are none; those of one kind or more are wanted.")
        kinds = tuple(sorted(profiles))
        parts = [_of_kind(device, kind, profiles[kind], resolution) for kind in kinds]
        shares, rates, watts, stretched = zip(*parts)
        return cls(
            device,
            kinds,
            np.concatenate([[0], np.cumsum([len(share) for share in shares])]).astype(np.int64),
            np.concatenate(shares),
            np.ascontiguousarray(np.concatenate(rates, axis=-1)),
            np.ascontiguousarray(np.concatenate(watts, axis=-1)),
            np.array(list(product(device.cache_ways, device.bandwidth))),
            np.any(stretched, axis=0),
        )

    def extremes(self) -> tuple[Floats, Floats]:
        """Shortest and longest time of a whole run of each kind on this device [s]."""
        possible = np.isfinite(self.rates)
        low, high = np.where(possible, self.rates, np.inf), np.where(possible, self.rates, 0.0)
        most, least = high.max(axis=(0, 1, 2, 3, 4)), low.min(axis=(0, 1, 2, 3, 4))
        first = self.first_phase[:-1]
        shortest = np.add.reduceat(self.share / most, first)
        return shortest, np.add.reduceat(self.share / least, first)


def _of_kind(
    device: Device, kind: str, profiles: xr.Dataset, resolution: float
) -> tuple[Floats, Floats, Floats, NDArray[np.bool_]]:
    """Shares of the phases of a kind, rates, watts, and whether clocks are beyond its table."""
    is_table = profiles.attrs.get("schema") == PHASES_SCHEMA
    place = file_of(profiles)
    table = (
        validate_phases(profiles, source=place)
        if is_table
        else phase_table(profiles, resolution=resolution)
    )
    grid = table_grid(table)
    clock = _check_resources(grid, kind, place)
    order = ("phase", WAYS, BANDWIDTH, clock)
    if MISSES not in table:
        raise ProfileError(
            f"{place}: kind '{kind}' has no counter '{MISSES}', which the energy of misses needs; "
            f"profiles with it are wanted."
        )
    seconds = 1.0 / table.variables["speed"].transpose(*order).values.astype(float)
    misses = table.variables[MISSES].transpose(*order).values.astype(float) * seconds
    levels = {name: np.array(grid.resource(name).levels) for name in (WAYS, BANDWIDTH, clock)}
    inverse = 1.0 / levels[clock]
    centred = inverse - inverse.mean()
    slope = np.maximum((seconds * centred).sum(axis=-1) / (centred**2).sum(), 0.0)
    n_cores, most = device.n_cores, max(c.cores for c in device.clusters)
    n_levels = max(len(c.clocks) for c in device.clusters)
    n_settings = len(device.cache_ways) * len(device.bandwidth)
    shape = (n_settings, len(device.clusters), n_levels, n_cores, most, len(seconds))
    rates, watts = np.full(shape, np.nan), np.full(shape, np.nan)
    outside = np.zeros((len(device.clusters), n_levels), dtype=bool)
    by_device = device.shared_by == "device"
    counts = np.arange(1, n_cores + 1)
    for g, (ways, bandwidth) in enumerate(product(device.cache_ways, device.bandwidth)):
        sharers = n_cores if by_device else most
        of_ways = _weights(levels[WAYS], ways / counts[:sharers], WAYS, kind, place)
        of_flow = _weights(levels[BANDWIDTH], bandwidth / counts, BANDWIDTH, kind, place)
        # (phase, ways, bandwidth[, clock]) -> (sharers, running, phase[, clock])
        times, missed = (
            np.einsum("iw,jb,pwbf->ijpf", of_ways, of_flow, x, optimize=True)
            for x in (seconds, misses)
        )
        slopes = np.einsum("iw,jb,pwb->ijp", of_ways, of_flow, slope, optimize=True)
        for c, cluster in enumerate(device.clusters):
            for level, own_clock in enumerate(cluster.clocks):
                f = own_clock * cluster.speed
                here, outside[c, level] = _at_clock(levels[clock], f, times, slopes)
                lost = _at_clock(levels[clock], f, missed, np.zeros_like(slopes))[0]
                active = np.minimum(slopes / f / here, 1.0)
                power = cluster.power * float(cluster.activity(own_clock))
                drawn = power * (STALLED_ACTIVITY + (1.0 - STALLED_ACTIVITY) * active)
                drawn = drawn + 1e-9 * device.miss_energy * lost / here
                for k in range(1, cluster.cores + 1):
                    for m in range(k, n_cores + 1):
                        i = (m if by_device else k) - 1
                        rates[g, c, level, m - 1, k - 1] = 1.0 / here[i, m - 1]
                        watts[g, c, level, m - 1, k - 1] = drawn[i, m - 1]
    return np.diff(table["end"].values.astype(float), prepend=0.0), rates, watts, outside


def _check_resources(grid: Grid, kind: str, place: str) -> str:
    """Name of the clock; the resources must be those of a device."""
    clock = grid.clock
    wanted = f"'{WAYS}', '{BANDWIDTH}' and a clock in GHz are wanted"
    for name in (WAYS, BANDWIDTH):
        if name not in grid.names:
            raise ProfileError(f"{place}: profiles of kind '{kind}' have no '{name}'; {wanted}.")
    if clock is None or grid.resource(clock).units != "GHz":
        raise ProfileError(f"{place}: profiles of kind '{kind}' have no clock in GHz; {wanted}.")
    for name in grid.names:
        if name not in (WAYS, BANDWIDTH, clock):
            raise ProfileError(
                f"{place}: profiles of kind '{kind}' have the resource '{name}', which no sheet "
                f"has; {wanted}."
            )
    if len(grid.resource(clock).levels) < 2:
        raise ProfileError(
            f"{place}: profiles of kind '{kind}' are of one clock; two or more are wanted."
        )
    return clock


def _weights(levels: Floats, shares: Floats, name: str, kind: str, place: str) -> Floats:
    """Weights of the levels for each share, (shares, levels)."""
    if shares.min() < levels[0] * (1.0 - _ROUNDING):
        raise ProfileError(
            f"{place}: profiles of kind '{kind}' begin at {levels[0]:g} of '{name}', and a "
            f"share of the device may be {shares.min():g}; profiles down to that are wanted."
        )
    # linear in ways and in 1/bandwidth
    turn = (lambda x: -1.0 / x) if name == BANDWIDTH else (lambda x: x)
    at, axis = turn(np.clip(shares, levels[0], levels[-1])), turn(levels)
    weights = np.zeros((len(shares), len(levels)))
    for row, x in zip(weights, at):
        j = int(np.clip(np.searchsorted(axis, x), 1, max(len(axis) - 1, 1)))
        if len(axis) == 1:
            row[0] = 1.0
            continue
        row[j] = (x - axis[j - 1]) / (axis[j] - axis[j - 1])
        row[j - 1] = 1.0 - row[j]
    return weights


def _at_clock(levels: Floats, f: float, values: Floats, slope: Floats) -> tuple[Floats, bool]:
    """Values at a clock, (..., clock) to (...), and whether it is beyond the levels."""
    below, above = f < levels[0] * (1.0 - _ROUNDING), f > levels[-1] * (1.0 + _ROUNDING)
    end = 0 if below else -1 if above else None
    if end is not None:
        # limited to between no change and a change in proportion to the clock
        extended = values[..., end] + slope * (1.0 / f - 1.0 / levels[end])
        low, high = sorted((1.0, levels[end] / f))
        return np.clip(extended, low * values[..., end], high * values[..., end]), True
    j = int(np.clip(np.searchsorted(levels, f), 1, len(levels) - 1))
    share = (1.0 / levels[j - 1] - 1.0 / f) / (1.0 / levels[j - 1] - 1.0 / levels[j])
    return values[..., j - 1] * (1.0 - share) + values[..., j] * share, False
