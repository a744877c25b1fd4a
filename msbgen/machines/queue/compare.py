"""Placements side by side: the same jobs at several loads, each also with true times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np

from msbgen.core.machine import OnProgress
from msbgen.machines.queue.bound import at_load, even_span, makespan_bound
from msbgen.machines.queue.jobs import Jobs
from msbgen.machines.queue.measures import bounded_slowdown, makespan, slowdown_against_fastest
from msbgen.machines.queue.simulate import PLACEMENTS, Placement, Queue, Schedule, simulate_queue

# When jobs come: as they say, all at the first submission, or at a load.
Arrival = Literal["as submitted", "at once"] | float
AS_SUBMITTED: Literal["as submitted"] = "as submitted"
AT_ONCE: Literal["at once"] = "at once"
Times = Literal["estimated", "true"]


@dataclass(frozen=True)
class Choice:
    """One way to play: when jobs come, where they go, what is known of them beforehand."""

    arrival: Arrival
    placement: Placement
    queue: Queue
    times: Times

    @property
    def name(self) -> str:
        """For files."""
        load = repr(self.arrival).removesuffix(".0")
        when = self.arrival if isinstance(self.arrival, str) else f"load-{load}"
        return f"{when}-{self.placement}-{self.queue}-{self.times}".replace(" ", "-")


@dataclass(frozen=True, eq=False)
class Played:
    """What came of a choice.

    Attributes
    ----------
    choice : Choice
    jobs : Jobs
        As they came, with the times that were known.
    schedule : Schedule
    row : dict
        The choice, ``load`` (infinite at once), ``makespan`` and its ``bound`` [s],
        ``makespan_over_bound``, means of the bounded ``slowdown`` and
        ``slowdown_against_fastest``, mean ``wait`` [s].
    """

    choice: Choice
    jobs: Jobs
    schedule: Schedule
    row: dict[str, Any]


def choices(
    jobs: Jobs,
    arrivals: Sequence[Arrival] = (AS_SUBMITTED,),
    placements: Sequence[Placement] = PLACEMENTS,
    queues: Sequence[Queue] = ("machine",),
) -> list[Choice]:
    """Everything to play, true times where estimates differ from them."""
    right = np.array_equal(jobs.estimate, jobs.runtime, equal_nan=True)
    times: tuple[Times, ...] = ("true",) if right else ("estimated", "true")
    return [Choice(*each) for each in product(arrivals, placements, queues, times)]


def plays(
    jobs: Jobs,
    machines: Mapping[str, int],
    wanted: Sequence[Choice],
    *,
    rng: np.random.Generator | int = 0,
) -> Iterator[Played]:
    """Play one choice after the other.

    Parameters
    ----------
    jobs : Jobs
    machines : mapping of str to int
        Nodes of each machine.
    wanted : sequence of Choice
    rng : numpy.random.Generator or int
        Draws random placements, the same for every choice.

    Raises
    ------
    ArgumentError
        As :func:`~msbgen.machines.queue.simulate.simulate_queue` and
        :func:`~msbgen.machines.queue.bound.at_load`.
    """
    seed = int(np.random.default_rng(rng).integers(2**63))
    came: dict[Arrival, tuple[Jobs, float, float]] = {}
    for choice in wanted:
        if choice.arrival not in came:
            coming = _arriving(jobs, machines, choice.arrival)
            span = float(np.ptp(coming.submission))
            load = even_span(coming, machines) / span if span else float("inf")
            came[choice.arrival] = coming, load, makespan_bound(coming, machines)
        coming, load, bound = came[choice.arrival]
        known = coming.with_true_times() if choice.times == "true" else coming
        found = simulate_queue(
            known, machines, placement=choice.placement, queue=choice.queue, rng=seed
        )
        took = makespan(known, found)
        hard = slowdown_against_fastest(known, found, machines)
        row = {
            "arrivals": choice.arrival,
            "load": load,
            "placement": choice.placement,
            "queue": choice.queue,
            "times": choice.times,
            "makespan": took,
            "bound": bound,
            "makespan_over_bound": took / bound,
            "slowdown": float(bounded_slowdown(known, found).mean()),
            "slowdown_against_fastest": float(hard.mean()),
            "wait": float((found.start - known.submission).mean()),
        }
        yield Played(choice, known, found, row)


def study(
    jobs: Jobs,
    machines: Mapping[str, int],
    *,
    arrivals: Sequence[Arrival] = (AS_SUBMITTED,),
    placements: Sequence[Placement] = PLACEMENTS,
    queues: Sequence[Queue] = ("machine",),
    rng: np.random.Generator | int = 0,
    progress: OnProgress | None = None,
) -> list[dict[str, Any]]:
    """Rows of everything that is played.

    Parameters
    ----------
    jobs, machines, rng
        As of :func:`plays`.
    arrivals : sequence of str or float
        ``as submitted``, ``at once``, or loads (:func:`~msbgen.machines.queue.bound.at_load`).
    placements, queues
        As of :func:`~msbgen.machines.queue.simulate.simulate_queue`.
    progress : callable
        Called with (done, total) simulations.

    Returns
    -------
    list of dict
        As `row` of :class:`Played`.

    Raises
    ------
    ArgumentError
        As :func:`plays`.
    """
    wanted = choices(jobs, arrivals, placements, queues)
    rows = []
    for played in plays(jobs, machines, wanted, rng=rng):
        rows.append(played.row)
        if progress:
            progress(len(rows), len(wanted))
    return rows


def _arriving(jobs: Jobs, machines: Mapping[str, int], arrival: Arrival) -> Jobs:
    if arrival == AT_ONCE:
        return jobs.submitted(np.full(len(jobs), jobs.submission.min()))
    if isinstance(arrival, str):
        return jobs
    return at_load(jobs, machines, arrival)
