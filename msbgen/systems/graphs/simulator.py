"""Simulator of task graphs on a device: time, energy and temperature (thermal model) of a run.

A list scheduler starts the tasks: whenever a core is idle and a task is ready, the first task in
the queue starts on the fastest idle core, which takes time on that core.  A task then runs at the
rate of its profile for its share of ways, bandwidth and clock.  Shares change at every start and
end.  Power is the sum of that of the device, of the clusters in use and of the cores.  The
temperature follows with one resistance and one capacity,

    dT/dt = (ambient + resistance · power − T) / time_constant,

which is solved exactly, as power is constant between events.  At the cap, all clocks step down by
a level until the temperature stops rising or no level is left.  When it has fallen by the
hysteresis, they step up by one.

Not modelled: costs of handing over data, migration, preemption, warm or cold caches, leakage that
grows with the temperature, several hot spots.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

import msbgen.systems.graphs._kernels as _kernels
from msbgen.core.draws import generator, numbers_of
from msbgen.core.errors import ArgumentError, MeasurementError, ProfileError
from msbgen.core.machine import OnProgress, physical_memory
from msbgen.core.words import number_of
from msbgen.systems.graphs.dataset import (
    edges_of,
    graph_name,
    kinds_of,
    lacking_kind,
    other_time_unit,
)
from msbgen.systems.graphs.devices import Device, check_contexts
from msbgen.systems.graphs.order import canonical_order, successors_of
from msbgen.systems.graphs.rates import RESOLUTION
from msbgen.systems.graphs.rates import Rates as Rates
from msbgen.systems.graphs.runs import NUMBERS
from msbgen.systems.graphs.runs import make_runs as make_graph_runs

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
Order = str | ArrayLike

# Names of orders; an order may also be an array of keys, the lowest first.
ORDERS = ("arrival", "heft")
# Longer programs are a mistake of units [s].
_LONGEST = 2.6e6
# Most contexts between two calls of a progress, and most factors of tasks drawn for them.
_AT_ONCE, _DRAWN_AT_ONCE = 256, 2_000_000
# Bytes of a factor while it is drawn, and of a labelled run besides its columns.
_OF_FACTOR, _OF_RUN = 24.0, 400.0


@dataclass(frozen=True, eq=False)
class Program:
    """Tasks and edges of a graph as arrays, in a canonical order of the tasks.

    Of two tasks that become ready together, the first in
    :func:`~msbgen.systems.graphs.order.canonical_order` starts first.  That order depends neither
    on the order of the tasks in a file nor on their names.

    `order`, (n,), has the number in the graph of each task; all other arrays are in this
    topological order.  `kinds` are sorted.  Of each task, (n,): the number of its kind, its work in
    runs of the kind, the number of its predecessors.  Successors of task i are
    ``after[first_after[i] : first_after[i + 1]]``.
    """

    order: Indices
    kinds: tuple[str, ...]
    kind: Indices
    work: Floats
    waits: Indices
    first_after: Indices
    after: Indices

    @classmethod
    def of(cls, graph: xr.Dataset) -> Program:
        """Arrays of a valid graph."""
        pairs, names = edges_of(graph), kinds_of(graph)
        order = canonical_order(graph)
        pairs = np.argsort(order)[pairs]
        kinds = tuple(sorted(set(names)))
        n = len(order)
        return cls(
            order,
            kinds,
            np.array([kinds.index(names[i]) for i in order], dtype=np.int64),
            graph["work"].values.astype(float)[order],
            np.bincount(pairs[:, 1], minlength=n),
            *successors_of(n, pairs),
        )


@dataclass(frozen=True, eq=False)
class SimulatedRuns:
    """Results of simulated runs, (contexts, runs) each."""

    # [s], [J]
    makespan: Floats
    energy: Floats
    # Highest and last temperature [°C].
    peak: Floats
    last: Floats
    # Time with clocks stepped down [s].
    throttled: Floats


class Simulator:
    """A device and the kinds of tasks that run on it.

    `profiles` are profiles, or phase tables, by kind (:class:`~msbgen.systems.graphs.rates.Rates`);
    `resolution` is that of the phases that profiles are cut into.  A run of a graph of 100 tasks
    takes some tens of microseconds.
    """

    def __init__(
        self, device: Device, profiles: Mapping[str, xr.Dataset], *, resolution: float = RESOLUTION
    ):
        self.device = device
        self.rates = Rates.of(device, profiles, resolution=resolution)

    def run(
        self,
        graph: xr.Dataset | Program,
        contexts: ArrayLike,
        *,
        order: Order = "arrival",
        runs: int = 1,
        temperature: ArrayLike | None = None,
        noise: bool = True,
        rng: np.random.Generator | int = 0,
    ) -> SimulatedRuns:
        """Simulate a graph in contexts (n_contexts, n_columns), several runs each.

        A :meth:`program` saves the preparation of the graph in repeated calls.  `order` says which
        ready task starts first: "arrival", the first that became ready; "heft", the one with the
        longest path to the end; or the one with the lowest of keys (n_tasks,), in the order of the
        graph's tasks.  `temperature`, () or (n_contexts,), is that at the start [°C], by default
        ambient.  With `noise`, times vary by the noise of the sheet.

        ArgumentError: a context that the device does not have, or another argument out of range.
        ProfileError: a kind without profile.
        """
        program, arrays, queue = self._prepare(
            graph, contexts, order, runs, temperature, noise, rng
        )
        results = np.empty((len(arrays[0]), runs, _kernels.N_RESULTS))
        self._play(program, arrays, queue, (results, np.empty((0, 0, 0, 0)), np.empty((0, 0))))
        return SimulatedRuns(*(np.ascontiguousarray(x) for x in np.moveaxis(results, -1, 0)))

    def tasks(self, graph: xr.Dataset, context: ArrayLike, **settings: Any) -> xr.Dataset:
        """Start and end [s] and core of each task, in one run in one context.

        `settings` are those of :meth:`run`, less `runs`.  The dataset has ``start``, ``end`` and
        ``core`` (clusters one after another) over ``task``.
        """
        table, _, _ = self._one(graph, context, settings)
        labels = {"start": ("s", "start"), "end": ("s", "end"), "core": ("1", "core that ran it")}
        variables: dict[str, Any] = {
            name: ("task", table[:, i], {"units": units, "long_name": text})
            for i, (name, (units, text)) in enumerate(labels.items())
        }
        variables["core"] = "task", table[:, 2].astype(np.int64), variables["core"][2]
        return xr.Dataset(variables, {"task": graph["task"].values})

    def timeline(self, graph: xr.Dataset, context: ArrayLike, **settings: Any) -> xr.Dataset:
        """Power and temperature between events, in one run in one context.

        `settings` are those of :meth:`run`, less `runs`.  The dataset is over ``event``, the last
        one at the end, with the coordinate ``time`` [s]: ``temperature`` [degC] then; until the
        next event ``base_power`` [W], ``steps_down`` of the clocks, and over ``cluster`` ``power``
        [W] and ``running`` tasks.
        """
        _, log, _ = self._one(graph, context, settings)
        names = [cluster.name for cluster in self.device.clusters]
        first = _kernels.LOG_BASE + 1

        def labelled(values: Floats, units: str, text: str) -> Any:
            dims = ("event", "cluster")[: values.ndim]
            return dims, values, {"units": units, "long_name": text}

        variables = {
            "temperature": labelled(log[:, _kernels.LOG_TEMPERATURE], "degC", "temperature"),
            "steps_down": labelled(
                log[:, _kernels.LOG_DOWN], "1", "levels that clocks are lowered"
            ),
            "base_power": labelled(log[:, _kernels.LOG_BASE], "W", "power of all but the clusters"),
            "power": labelled(log[:, first : first + len(names)], "W", "power of the cluster"),
            "running": labelled(log[:, first + len(names) :], "1", "tasks that run"),
        }
        time = labelled(log[:, _kernels.LOG_TIME], "s", "time of the event")
        return xr.Dataset(variables, {"time": time, "cluster": names})

    def stretched(self, contexts: ArrayLike) -> NDArray[np.bool_]:
        """Whether profiles are extrapolated beyond their clocks in a context, (n_contexts,)."""
        _, cores, level = self._places(check_contexts(self.device, contexts))
        beyond = self.rates.stretched[np.arange(cores.shape[1]), level]
        return np.any(beyond & (cores > 0), axis=1)

    def _one(
        self, graph: xr.Dataset, context: ArrayLike, changes: Mapping[str, Any]
    ) -> tuple[Floats, Floats, Floats]:
        settings: dict[str, Any] = {
            "order": "arrival",
            "temperature": None,
            "noise": True,
            "rng": 0,
        }
        for name in changes:
            if name not in settings:
                raise ArgumentError(f"'{name}' is no argument; {', '.join(settings)} are.")
        rows = np.atleast_2d(np.asarray(context, dtype=float))
        if len(rows) != 1:
            raise ArgumentError(f"contexts are {len(rows)}; one is wanted.")
        if isinstance(changes.get("rng"), np.random.Generator):
            changes = {**changes, "rng": int(changes["rng"].integers(2**63))}
        program, arrays, queue = self._prepare(graph, rows, runs=1, **{**settings, **changes})
        n, clusters = len(program.work), len(self.device.clusters)
        results, table = np.empty((1, 1, _kernels.N_RESULTS)), np.empty((1, 1, n, 3))
        log = np.empty((0, 4 + 2 * clusters))
        needed = self._play(program, arrays, queue, (results, table, log))
        log = np.empty((needed, 4 + 2 * clusters))
        self._play(program, arrays, queue, (results, table, log))
        times = np.empty((n, 3))
        times[program.order] = table[0, 0]
        return times, log, results[0, 0]

    def _prepare(
        self,
        graph: xr.Dataset | Program,
        contexts: ArrayLike,
        order: Order,
        runs: int,
        temperature: ArrayLike | None,
        noise: bool,
        rng: np.random.Generator | int,
    ) -> tuple[Program, tuple[Any, ...], tuple[Any, ...]]:
        """Program, contexts and queue as arrays of the kernel."""
        program = graph if isinstance(graph, Program) else self.program(graph)
        table = check_contexts(self.device, contexts)
        if runs < 1 or runs != int(runs):
            raise ArgumentError(f"runs are {runs}; a whole number ≥ 1 is wanted.")
        start = self.device.ambient if temperature is None else temperature
        starts = numbers_of(start, "temperature")
        if starts.shape not in ((), (len(table),)) or not np.all(
            (starts > -273.15) & (starts < 1000)
        ):
            raise ArgumentError(
                f"temperature is {temperature}; one, or one per context, is wanted."
            )
        setting, cores, level = self._places(table)
        n = len(program.work)
        _check_size(len(table), runs, _OF_FACTOR * (n + 1))
        factors = np.ones((len(table), runs, n))
        if noise and (self.device.run_noise > 0 or self.device.task_noise > 0):
            drawn = generator(rng).standard_normal((len(table), runs, n + 1))
            logs = self.device.task_noise * drawn[..., 1:]
            logs += self.device.run_noise * drawn[..., :1]
            np.exp(logs, out=factors)
        arrays = setting, cores, level, np.array(np.broadcast_to(starts, len(table)))
        return program, arrays, (*self._keys(program, order, setting, cores, level), factors)

    def program(self, graph: xr.Dataset) -> Program:
        """The graph as arrays, checked: every kind has a profile, times are in seconds."""
        program = Program.of(graph)
        for kind in program.kinds:
            if kind not in self.rates.kinds:
                raise ProfileError(lacking_kind(graph, kind, self.rates.kinds))
        least, most = self.rates.extremes()
        of = np.array([self.rates.kinds.index(kind) for kind in program.kinds])
        work = np.empty(len(program.work))
        work[program.order] = program.work
        kind = np.empty(len(program.work), dtype=np.int64)
        kind[program.order] = of[program.kind]
        problems = list(other_time_unit(graph, work * least[kind], work * most[kind]))
        total = float((work * most[kind]).sum())
        if total > _LONGEST:
            problems.append(
                f"{graph_name(graph)}: its tasks take up to {total:.3g} s on {self.device.name}; "
                f"at most {_LONGEST:g} s, a month, is wanted: 'work' 1 is a whole run of a kind."
            )
        if problems:
            raise ProfileError(*problems)
        return program

    def _places(self, table: Floats) -> tuple[Indices, Indices, Indices]:
        """Setting, cores and levels of checked contexts."""
        device = self.device
        n = len(device.clusters)
        cores = table[:, 0 : 2 * n : 2].astype(np.int64)
        level = np.stack(
            [np.searchsorted(c.clocks, table[:, 2 * i + 1]) for i, c in enumerate(device.clusters)],
            axis=1,
        ).astype(np.int64)
        ways = np.searchsorted(device.cache_ways, table[:, 2 * n])
        flow = np.searchsorted(device.bandwidth, table[:, 2 * n + 1])
        return (ways * len(device.bandwidth) + flow).astype(np.int64), cores, level

    def _graph(self, program: Program) -> tuple[Any, ...]:
        of = np.array([self.rates.kinds.index(kind) for kind in program.kinds], dtype=np.int64)
        return program.waits, program.first_after, program.after, of[program.kind], program.work

    def _keys(
        self, program: Program, order: Order, setting: Indices, cores: Indices, level: Indices
    ) -> tuple[bool, Floats]:
        """Whether tasks start in the order in which they become ready; otherwise their keys."""
        n = len(program.work)
        if isinstance(order, str):
            if order not in ORDERS:
                raise ArgumentError(f"order is '{order}'; {', '.join(ORDERS)} or keys are wanted.")
            if order == "arrival":
                return True, np.zeros((1, n))
            ranks = np.empty((len(setting), n))
            phases = self.rates.first_phase, self.rates.share
            _kernels.upward_ranks(
                self._graph(program), phases, self.rates.rates, setting, cores, level, ranks
            )
            return False, ranks
        keys = np.asarray(order, dtype=float)
        if keys.shape != (n,) or not np.all(np.isfinite(keys)):
            raise ArgumentError(
                f"order has shape {keys.shape}; a number for each of {n} is wanted."
            )
        return False, np.ascontiguousarray(keys[program.order][None])

    def _play(
        self,
        program: Program,
        contexts: tuple[Any, ...],
        queue: tuple[Any, ...],
        outputs: tuple[Floats, Floats, Floats],
    ) -> int:
        device, rates = self.device, self.rates
        clusters = device.cluster_table
        first = np.cumsum([0, *(cluster.cores for cluster in device.clusters)])[:-1]
        return _kernels.simulate(
            self._graph(program), (rates.first_phase, rates.share),
            (rates.rates, rates.watts, device.sharing),
            (*(np.ascontiguousarray(x) for x in clusters[[0, 1, 4, 2, 3]]), first), device.cooling,
            contexts, queue, outputs,
        )  # fmt: skip


def simulate_graph(
    graph: xr.Dataset,
    device: Device,
    profiles: Mapping[str, xr.Dataset],
    contexts: ArrayLike,
    *,
    order: Order = "arrival",
    runs: int = 1,
    temperature: ArrayLike | None = None,
    noise: bool = True,
    rng: np.random.Generator | int = 0,
) -> xr.Dataset:
    """Simulate a graph in contexts of a device; the result is a dataset of runs.

    `profiles` are profiles, or phase tables, of every kind of the graph; other arguments and errors
    are as of :meth:`Simulator.run`.  The dataset has the schema ``msbgen-graph-runs/1``: all runs
    of the first context, then of the next...
    """
    return label_runs(
        graph, Simulator(device, profiles), contexts, order=order, runs=runs,
        temperature=temperature, noise=noise, rng=rng,
    )  # fmt: skip


def label_runs(
    graph: xr.Dataset,
    simulator: Simulator,
    contexts: ArrayLike,
    *,
    order: Order = "arrival",
    runs: int = 1,
    temperature: ArrayLike | None = None,
    rng: np.random.Generator | int = 0,
    progress: OnProgress | None = None,
    **settings: Any,
) -> xr.Dataset:
    """As :func:`simulate_graph`, with a simulator.

    `progress` is called with (done, total) contexts.
    """
    device = simulator.device
    table, program = check_contexts(device, contexts), simulator.program(graph)
    start = numbers_of(device.ambient if temperature is None else temperature, "temperature")
    apart, noise = start.shape == (len(table),), generator(rng)
    _check_size(len(table), runs, _OF_RUN + 8.0 * table.shape[1])
    of_context = max(runs, 1) * (len(program.work) + 1)
    at_once = min(_AT_ONCE, max(1, _DRAWN_AT_ONCE // of_context))
    steps, parts = progress or (lambda done, total: None), []
    for first in range(0, len(table), at_once):
        some = slice(first, first + at_once)
        starts = start[some] if apart else start
        parts.append(
            simulator.run(
                program, table[some], order=order, runs=runs, temperature=starts, rng=noise,
                **settings,
            )
        )  # fmt: skip
        steps(min(first + at_once, len(table)), len(table))
    outcome = SimulatedRuns(*map(np.concatenate, zip(*(vars(part).values() for part in parts))))
    n = len(table) * runs
    slowest = float(outcome.makespan.max())
    if slowest > NUMBERS["makespan"].most:
        raise MeasurementError(
            f"'{graph_name(graph)}' takes {slowest:.3g} s on this device; check the units of its "
            f"work and of the device's rates."
        )
    if not outcome.peak.max() <= NUMBERS["peak_temperature"].most:
        raise MeasurementError(
            f"'{graph_name(graph)}' heats this device to {outcome.peak.max():.3g} °C; check the "
            f"counts of its profiles and the device's powers."
        )
    return make_graph_runs(
        device, np.repeat(table, runs, axis=0), graph=[graph_name(graph)] * n,
        family=[str(graph.attrs.get("family", ""))] * n, makespan=outcome.makespan.ravel(),
        energy=outcome.energy.ravel(),
        start_temperature=np.repeat(np.broadcast_to(start, len(table)), runs),
        peak_temperature=outcome.peak.ravel(), last_temperature=outcome.last.ravel(),
        throttled=outcome.throttled.ravel(), stretched=np.repeat(simulator.stretched(table), runs),
        attrs={"order": order if isinstance(order, str) else "keys"},
    )  # fmt: skip


def _check_size(contexts: int, runs: int, each: float) -> None:
    """Check that runs of `each` bytes fit into half of the memory."""
    size = each * contexts * runs
    if size > 0.5 * (memory := physical_memory()):
        raise ArgumentError(
            f"{number_of(runs, 'run')} in {number_of(contexts, 'context')} take about "
            f"{size / 1e9:.3g} GB where this machine has {memory / 1e9:.3g} GB of memory; fewer "
            f"runs or contexts are wanted."
        )
