"""Jobs of a queue: submission, nodes, and true and estimated times on every machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from msbgen.core.draws import flags_of, names_of_columns, numbers_of
from msbgen.core.errors import ArgumentError
from msbgen.core.records import Within, check

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# More nodes than any cluster has. Sums over all jobs stay exact in double precision.
MOST_NODES = 10_000_000
MachineNodes = dict[str, Annotated[int, Within(1, MOST_NODES)]]
# Longest time [s], about 30,000 years. Up to here times keep their precision.
LONGEST = 1e12


@dataclass(frozen=True, eq=False)
class Jobs:
    """Jobs in any order; :func:`make_jobs` fills in defaults."""

    # [s], (jobs,)
    submission: Floats
    # Nodes of one machine that each job takes, (jobs,).
    nodes: Indices
    # True time on each machine [s], (jobs, machines); NaN where the job does not run.
    runtime: Floats
    # Estimated time [s], (jobs, machines); a number wherever `runtime` is one.
    estimate: Floats
    # Machines that the user would choose, (jobs, machines), for placement ``user``.
    suits: NDArray[np.bool_]
    # Names of the machines, where they are known.
    machines: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        n = len(self.submission)
        for name in ("nodes", "runtime", "estimate", "suits"):
            many, shape = len(getattr(self, name)), getattr(self, name).shape
            if many != n:
                raise ArgumentError(f"{name} is of {many} jobs; the {n} of submission are wanted.")
            if name != "nodes" and shape != self.runtime.shape:
                raise ArgumentError(
                    f"{name} is of shape {shape}; that of runtime, {self.runtime.shape}, is wanted."
                )
        if n == 0:
            raise ArgumentError("jobs are none; one or more is wanted.")
        odd = ~(np.abs(self.submission) <= LONGEST)
        _refuse(odd, self.submission, "submission", f"a number of seconds, {LONGEST:g} at most,")
        odd = (self.nodes < 1) | (self.nodes > MOST_NODES)
        _refuse(odd, self.nodes, "nodes", f"a whole number from 1 to {MOST_NODES}")
        wanted = f"a positive number of seconds, {LONGEST:g} at most, NaN where it does not run,"
        for name in ("runtime", "estimate"):
            times = getattr(self, name)
            with np.errstate(invalid="ignore"):
                odd = ~np.isnan(times) & ~((times > 0) & (times <= LONGEST))
            _refuse(odd, times, name, wanted)
        runs = ~np.isnan(self.runtime)
        _refuse(~runs.any(axis=1), None, "runtime", "a number for one machine or more")
        _refuse(runs & np.isnan(self.estimate), self.estimate, "estimate", "a number where it runs")
        _refuse(~(runs & self.suits).any(axis=1), None, "suits",
                "a machine on which it runs, one or more,")  # fmt: skip

    def __len__(self) -> int:
        return len(self.submission)

    def with_true_times(self) -> Jobs:
        """The same jobs with the true times as estimates."""
        return replace(self, estimate=self.runtime)

    def submitted(self, submission: ArrayLike) -> Jobs:
        """The same jobs with other submission times [s]."""
        return replace(self, submission=_numbers(submission, "submission", 1))


def make_jobs(
    submission: ArrayLike,
    nodes: ArrayLike,
    runtime: ArrayLike,
    *,
    estimate: ArrayLike | None = None,
    suits: ArrayLike | None = None,
) -> Jobs:
    """Jobs from arrays, as the attributes of :class:`Jobs`.

    By default estimates equal true times, and all machines suit.  The names of a table's columns,
    as of pandas, are those of the machines.

    Raises
    ------
    ArgumentError
        Shapes that do not fit, a submission that is no number, no whole number of nodes, a time
        that is not positive, values of suits that are not True or False, a job that runs nowhere.
    """
    machines = tuple(names_of_columns(runtime))
    times = _numbers(runtime, "runtime", 2)
    width = _numbers(nodes, "nodes", 1)
    whole = np.isfinite(width) & (np.abs(width) <= MOST_NODES) & (width == np.round(width))
    _refuse(~whole, width, "nodes", f"a whole number from 1 to {MOST_NODES}")
    return Jobs(
        _numbers(submission, "submission", 1),
        width.astype(np.int64),
        times,
        times if estimate is None else _numbers(estimate, "estimate", 2, machines),
        np.ones(times.shape, bool) if suits is None else flags_of(suits, "suits", machines),
        machines,
    )


def check_machines(jobs: Jobs, machines: Mapping[str, int]) -> Indices:
    """Nodes of each machine, in the order of the jobs' columns.

    :class:`ArgumentError` for another number of machines than the jobs have times for, for their
    names in another order, or nodes that are no whole number from 1.
    """
    if len(machines) != jobs.runtime.shape[1]:
        raise ArgumentError(
            f"machines are {len(machines)}; the {jobs.runtime.shape[1]} that the jobs have times "
            f"of are wanted."
        )
    if jobs.machines != tuple(machines) and set(jobs.machines) == set(machines):
        raise ArgumentError(
            f"machines are {', '.join(machines)}; {', '.join(jobs.machines)}, in the order of the "
            f"jobs' times, are wanted."
        )
    check(MachineNodes, machines, "nodes")
    return np.array([int(nodes) for nodes in machines.values()], dtype=np.int64)


def too_large(jobs: Jobs, machines: Mapping[str, int]) -> Iterator[tuple[int, int]]:
    """Jobs that fit on no machine, and the nodes of the largest machine on which each runs."""
    sizes = check_machines(jobs, machines)
    most = np.where(np.isnan(jobs.runtime), 0, sizes).max(axis=1)
    for job in np.flatnonzero(jobs.nodes > most):
        yield int(job), int(most[job])


def where_jobs_fit(jobs: Jobs, machines: Mapping[str, int]) -> NDArray[np.bool_]:
    """Whether each job runs on each machine and fits there, (jobs, machines).

    :class:`ArgumentError` as :func:`check_machines`, or where a job is larger than every machine on
    which it runs.
    """
    for job, most in too_large(jobs, machines):
        raise ArgumentError(
            f"nodes of job {job} are {jobs.nodes[job]}, and no machine on which it runs has more "
            f"than {most}; at most so many are wanted, or a larger machine."
        )
    return ~np.isnan(jobs.runtime) & (jobs.nodes[:, None] <= check_machines(jobs, machines))


def _numbers(
    values: ArrayLike, name: str, dimensions: int, columns: tuple[str, ...] = ()
) -> Floats:
    array = np.array(numbers_of(values, name, columns))
    if array.ndim != dimensions:
        wanted = "a row per job and a column per machine" if dimensions == 2 else "a number per job"
        raise ArgumentError(f"{name} is of shape {array.shape}; {wanted} is wanted.")
    return array


def _refuse(odd: Any, values: NDArray[Any] | None, name: str, wanted: str) -> None:
    """Raise for the first invalid job, and the first of its machines."""
    if not odd.any():
        return
    place = tuple(int(i) for i in np.argwhere(odd)[0])
    where = f"job {place[0]}" + (f" on machine {place[1]}" if len(place) == 2 else "")
    got = "empty" if values is None else f"{values[place]:g}"
    raise ArgumentError(f"{name} of {where} is {got}; {wanted} is wanted.")
