"""Allocators: units of shared resources for each core, decided in microseconds.

m cores run tasks in known phases.  Each core has a whole number of units of every shared resource,
at least its minimum, and their sum is at most the capacity.  With v_s(u) the value of units u for
the task on core s in its current phase, an allocator maximises

    Σ_s v_s(u_s)   subject to   Σ_s u_s ≤ capacity,  u_s ≥ minimum,

where v is the instruction rate (Gifford et al., DNA, RTAS 2021) or progress: the rate divided by
that in the largest context, so that tasks with fast instructions are not favoured.  ``equal`` gives
every core the same.  ``dna`` is greedy: each unit goes to the core that gains most by it.
``optimum`` is exact, by max-plus convolution of the cores' tables.  Its v is the nearest
non-decreasing table, as more units never slow a task down.  Units without a gain go to the core
with the fewest, and an idle core has the minimum.
"""

import itertools
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import gcd, lcm
from typing import Any, Literal

import numpy as np
import xarray as xr
from numpy.typing import NDArray

import msbgen.systems.realtime._kernels as _kernels
from msbgen.core.errors import ArgumentError, MeasurementError, ProfileError
from msbgen.core.records import NotNegative, ShareOrNone, checks_arguments
from msbgen.data.schema import file_of, same_level
from msbgen.systems.phases.grid import Cores, Floats, Grid, Indices, Resource
from msbgen.systems.phases.phases import table_grid, validate_phases

Method = Literal["equal", "dna", "optimum"]
Objective = Literal["instructions", "progress"]

_CODES = {"equal": _kernels.EQUAL, "dna": _kernels.DNA, "optimum": _kernels.OPTIMUM}
# Most units of a resource.
_MOST_UNITS = 1024
# Most combinations of units, and pairs of them with equal sums, of a decision: some 100 MB.
_MOST_PLACES = 2**22


class Allocator:
    """Contexts for the tasks that run, looked up and searched in tables prepared once.

    Parameters
    ----------
    tables : mapping of str to xarray.Dataset
        Phase table of each task, by its name; all of one platform.
    capacity : mapping of str to float
        How much of each shared resource there is [the resource's units].  A resource that is not
        named is private to each core, at its highest level unless `slack` lowers it.
    method, objective : str
        See this module.
    minima : mapping of str to float
        Least level of a shared resource on each core; by default its lowest level.
    slack : float or None
        A core's clock is the lowest from which on every clock is at least (1 − slack) times as
        fast as the highest, for the phase and allocation; None keeps the highest.

    Raises
    ------
    ArgumentError
        A capacity below the minima, no cores, a resource that the tables lack, a slack where no
        core has its own clock, more units than can be searched.
    ProfileError
        A dataset is no phase table, or the tables are of different platforms, or, for
        instructions, count progress differently.

    Notes
    -----
    One allocator serves one thread: its workspace is reused by every decision.
    """

    @checks_arguments
    def __init__(
        self,
        tables: Mapping[str, xr.Dataset],
        capacity: Mapping[str, NotNegative],
        cores: Cores,
        *,
        method: Method = "optimum",
        objective: Objective = "instructions",
        minima: Mapping[str, NotNegative] | None = None,
        slack: ShareOrNone | None = None,
    ):
        self.tasks = tuple(tables)
        self.grid = _one_grid(tables)
        self.cores = int(cores)
        self.minima = _checked_minima(self.grid, capacity, minima or {}, self.cores)
        self.capacity = {name: float(amount) for name, amount in capacity.items()}
        if slack is not None and (self.grid.clock is None or self.grid.clock in capacity):
            raise ArgumentError(
                f"slack is {slack:g}, but no core has a clock of its own; a resource in hertz, "
                f"which capacity does not name, or no slack is wanted."
            )
        if objective == "instructions":
            _check_work(tables)
        self._method = _CODES[method]
        shares = _columns_last(
            [
                _SharedResource(self.grid.resource(n), self.capacity[n], self.minima[n], self.cores)
                for n in self.capacity
            ]
        )
        _check_size(shares)
        first, ends, values, contexts = [0], [], [], []
        for table in tables.values():
            speed, context = _speeds(table, self.grid, [s.resource.name for s in shares], slack)
            per_speed = _value_per_speed(table, objective).reshape(-1, *[1] * len(shares))
            value = _on_units(speed * per_speed, shares)
            values.append(_non_decreasing(value) if method == "optimum" else value)
            contexts.append(_on_units(context, shares))
            ends.append(np.asarray(table["end"].values, dtype=float))
            first.append(first[-1] + len(ends[-1]))
        phases = np.zeros(self.cores, dtype=np.int64)
        self._phase_table = np.concatenate(ends), np.array(first), phases
        self._table = _table(np.concatenate(values), np.concatenate(contexts), shares, self._idle())
        self._work = self._workspace()
        self._index = {name: i for i, name in enumerate(self.tasks)}
        self._running = np.zeros(self.cores, dtype=np.int64)
        self._progress = np.zeros(self.cores)
        self._chosen = np.zeros(self.cores, dtype=np.int32)
        self._contexts = np.empty((self.cores, len(self.grid.names)))

    def decide(self, tasks: Sequence[str], done: Sequence[float]) -> Floats:
        """Contexts of all cores: those that run `tasks`, in order, then the idle ones.

        Parameters
        ----------
        tasks : sequence of str, at most as many as cores
            Names of the running tasks; a name may stand twice.
        done : sequence of float
            Progress of each: the share of its instructions that it has retired, in [0, 1].

        Returns
        -------
        ndarray, (cores, n_resources)
            Overwritten by the next decision.

        Raises
        ------
        ArgumentError
            More tasks than cores, a task without table, progress outside [0, 1].
        """
        if len(tasks) > self.cores or len(tasks) != len(done):
            raise ArgumentError(
                f"tasks are {len(tasks)} with {len(done)} values of progress; one value each "
                f"for at most {self.cores} tasks is wanted."
            )
        for s, (name, share) in enumerate(zip(tasks, done)):
            if name not in self._index:
                raise ArgumentError(
                    f"task '{name}' has no table; one of {', '.join(self.tasks)} is wanted."
                )
            if isinstance(share, bool) or not 0.0 <= share <= 1.0:
                raise ArgumentError(
                    f"progress of '{name}' is {share}; a share from 0 to 1 is wanted."
                )
            self._running[s] = self._index[name]
            self._progress[s] = share
        _kernels.decide(
            self._method, self._running, self._progress, len(tasks), self._phase_table, self._table,
            self._work, self._chosen,
        )  # fmt: skip
        np.take(self.grid.contexts, self._chosen, axis=0, out=self._contexts)
        return self._contexts

    def prepared(self) -> tuple[Any, Any]:
        """Phase table and allocator as the simulator's kernel takes them, with a new workspace."""
        ends, first, phases = self._phase_table
        chosen = np.zeros(self.cores, dtype=np.int32)
        allocator = self._method, self._table, self._workspace(), chosen
        return (ends, first, phases.copy()), allocator

    def _workspace(self) -> tuple[Any, ...]:
        value, n = self._table[0], len(self.capacity)
        return (
            np.empty((self.cores, *value.shape[1:]), dtype=np.float32),
            np.zeros((self.cores + 1, n), dtype=np.int64),
            np.zeros((self.cores, n)),
            np.zeros((self.cores, 2), dtype=np.int64),
        )

    def _idle(self) -> int:
        """Context of an idle core: the minima, and private resources at their lowest level."""
        at = [
            r.levels.index(self.minima[r.name]) if r.name in self.minima else 0
            for r in self.grid.resources
        ]
        return int(np.ravel_multi_index(at, self.grid.shape))


class _SharedResource:
    """One shared resource in units above the minimum."""

    def __init__(self, resource: Resource, capacity: float, minimum: float, cores: int):
        levels = [x for x in resource.levels if x >= minimum]
        self.resource = resource
        self.step = _common_step(resource.name, levels)
        self.most = round((levels[-1] - minimum) / self.step)
        spare = int((capacity - cores * minimum) / self.step + 1e-6)
        self.spare = min(spare, cores * self.most)
        if self.spare > _MOST_UNITS:
            raise ArgumentError(
                f"levels of '{resource.name}' make {self.spare} units of {self.step:g}; at most "
                f"{_MOST_UNITS} are wanted: drop levels that fit no common step, or lower the "
                f"capacity."
            )
        amounts = minimum + self.step * np.arange(self.spare + 1)
        # the highest level that so many units reach
        self.level = np.searchsorted(resource.levels, amounts * (1 + 1e-9), side="right") - 1


def _check_size(shares: list[_SharedResource]) -> None:
    """Refuse more combinations of units than a decision can search."""
    counts = [share.spare + 1 for share in shares]
    places = float(np.prod(counts, dtype=float))
    pairs = float(np.prod([n * (n + 1) / 2 for n in counts[:-1]], dtype=float))
    if max(places, pairs) > _MOST_PLACES:
        units = ", ".join(f"{share.spare} of '{share.resource.name}'" for share in shares)
        raise ArgumentError(
            f"units to share are {units}, too many together; a lower capacity, fewer cores or a "
            f"resource less is wanted."
        )


def _check_work(tables: Mapping[str, xr.Dataset]) -> None:
    """Refuse tables that count progress in different events: their rates have no sum."""
    counted = {name: str(table.attrs.get("progress")) for name, table in tables.items()}
    first, mine = next(iter(counted.items()))
    for name, other in counted.items():
        if other != mine:
            raise ProfileError(
                f"table of '{name}': progress is counted in '{other}', in the table of '{first}' "
                f"in '{mine}'; the objective 'progress' is wanted."
            )


def _common_step(name: str, levels: Sequence[float]) -> float:
    """Largest step of which all differences of levels are multiples."""
    steps = [Fraction(b - a).limit_denominator(10**6) for a, b in itertools.pairwise(levels)]
    if not steps:
        return 1.0
    common = lcm(*(s.denominator for s in steps))
    step = gcd(*(int(s * common) for s in steps)) / common
    if not step > 0:
        raise MeasurementError(
            f"levels of '{name}' differ by next to nothing; check their unit, or drop equal ones."
        )
    return step


def _columns_last(shares: list[_SharedResource]) -> list[_SharedResource]:
    """The resources in the order with the least work of combining two cores."""

    def work(last: _SharedResource) -> float:
        columns = last.spare + 1
        lanes = range(0, columns, _kernels.LANES)
        merged = sum(min(columns, lane + _kernels.LANES) for lane in lanes)
        pairs = np.prod([(s.spare + 1) * (s.spare + 2) / 2 for s in shares if s is not last])
        return float(merged * pairs)

    last = min(shares, key=work)
    return [*(s for s in shares if s is not last), last]


def _one_grid(tables: Mapping[str, xr.Dataset]) -> Grid:
    if not tables:
        raise ArgumentError("tables are none; the phase table of one task or more is wanted.")
    grids = {}
    for name, table in tables.items():
        validate_phases(table, source=file_of(table) if table.encoding.get("source") else name)
        grids[name] = table_grid(table)
    first, grid = next(iter(grids.items()))
    for name, other in grids.items():
        grid.check_same(other, f"the table of '{first}'", f"table of '{name}'")
    return grid


def _checked_minima(
    grid: Grid, capacity: Mapping[str, float], minima: Mapping[str, float], cores: int
) -> dict[str, float]:
    if not capacity:
        raise ArgumentError("capacity is empty; one shared resource or more is wanted.")
    for name in (*capacity, *minima):
        if name not in grid.names:
            raise ArgumentError(
                f"'{name}' is no resource of the tables; {', '.join(grid.names)} are."
            )
    for name in minima:
        if name not in capacity:
            raise ArgumentError(f"'{name}' has a minimum but no capacity; both are wanted.")
    least = {}
    for name, amount in capacity.items():
        levels = grid.resource(name).levels
        wanted = minima.get(name, levels[0])
        close = [x for x in levels if same_level(x, wanted)]
        if not close:
            raise ArgumentError(
                f"minimum of '{name}' is {wanted}; one of its levels, "
                f"{', '.join(f'{x:g}' for x in levels)}, is wanted."
            )
        least[name] = close[0]
        if not amount >= cores * close[0] * (1 - 1e-9):
            raise ArgumentError(
                f"capacity of '{name}' is {amount:g}; at least {cores * close[0]:g}, the minimum "
                f"{close[0]:g} of each of {cores} cores, is wanted."
            )
    return least


def _speeds(
    table: xr.Dataset, grid: Grid, shared: Sequence[str], slack: float | None
) -> tuple[NDArray[Any], Indices]:
    """Speed at the highest clock, and the context to set, (phases, levels of each shared…)."""
    private = [name for name in grid.names if name not in shared]
    order = ("phase", *shared, *private)
    speed = table["speed"].transpose(*order).values.astype(float)
    number = np.arange(len(grid.contexts)).reshape(grid.shape)
    number = number.transpose([grid.names.index(n) for n in (*shared, *private)])
    number = np.broadcast_to(number, speed.shape)
    # private resources other than the clock stay at their highest level
    for axis, name in enumerate(private, start=1 + len(shared)):
        if name != grid.clock or slack is None:
            last = (*[slice(None)] * axis, slice(-1, None))
            speed, number = speed[last], number[last]
    speed = speed.reshape(*speed.shape[: 1 + len(shared)], -1)
    number = number.reshape(speed.shape)
    fastest = speed[..., -1]
    fast = speed >= (1.0 - (slack or 0.0)) * fastest[..., None]
    fast[..., -1] = True
    run = np.cumprod(fast[..., ::-1], axis=-1).sum(axis=-1)  # clocks from the highest on
    place = (speed.shape[-1] - run)[..., None]
    return fastest, np.take_along_axis(number, place, axis=-1)[..., 0]


def _value_per_speed(table: xr.Dataset, objective: Objective) -> Floats:
    """Value of a unit of speed, for each phase or one for all."""
    n_resources = len(table["speed"].dims) - 1
    if objective == "instructions":
        if str(table.attrs.get("progress")) == "time":
            raise ProfileError(
                f"{file_of(table)}: progress is wall time; the objective 'progress' is wanted."
            )
        per_speed = np.array([float(table.attrs["work"])])
    else:
        speed = table["speed"].transpose("phase", ...).values
        per_speed = 1.0 / speed[(slice(None), *[-1] * n_resources)].astype(float)
    return per_speed


def _on_units(values: NDArray[Any], shares: list[_SharedResource]) -> NDArray[Any]:
    """From levels (phases, levels…) to units (phases, units…) of the shared resources."""
    for axis, share in enumerate(shares, start=1):
        values = np.take(values, share.level, axis=axis)
    return values


def _non_decreasing(values: Floats) -> Floats:
    """The nearest table that does not fall along any axis of units.

    This isotonic regression in the maximum norm is the mean of two tables: the best value with at
    most so many units, and the worst with at least so many.  It removes decreases, which only noise
    or a fitted model can have caused.
    """
    best = worst = values
    for axis in range(1, values.ndim):
        best = np.maximum.accumulate(best, axis=axis)
        worst = np.flip(np.minimum.accumulate(np.flip(worst, axis), axis=axis), axis)
    return 0.5 * (best + worst)


def _table(
    value: Floats, context: Indices, shares: list[_SharedResource], idle: int
) -> tuple[Any, ...]:
    """Tables as the kernels take them: rows and columns of units."""
    *leading, columns = value.shape[1:]
    rows = int(np.prod(leading))
    pad = -(-columns // _kernels.LANES) * _kernels.LANES
    padded = np.full((len(value), rows, 2 * pad), -np.inf, dtype=np.float32)
    padded[:, :, pad : pad + columns] = value.reshape(len(value), rows, columns)
    places = np.indices(leading).reshape(len(leading), rows).T
    strides = [int(np.prod(leading[d + 1 :])) for d in range(len(leading))]
    spare, most = [s.spare for s in shares], [min(s.most, s.spare) for s in shares]
    partners = [np.flatnonzero(np.all(p + places < leading, axis=1)) for p in places]
    triples = np.concatenate(
        [np.stack([np.full(len(j), i), j, i + j], axis=1) for i, j in enumerate(partners)]
    )
    contexts = context.reshape(len(value), rows, columns).astype(np.int32)
    lattice = np.array([[*strides, 0], spare, most], dtype=np.int64)
    return padded, contexts, lattice, triples, idle
