"""Placements compared: the same jobs at several loads, with estimated and with true times."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any, Literal

import numpy as np

from msbgen.core.draws import generator
from msbgen.core.machine import OnProgress
from msbgen.core.records import Within
from msbgen.systems.machines.queue.bound import at_load, even_span, makespan_bound
from msbgen.systems.machines.queue.jobs import Jobs
from msbgen.systems.machines.queue.measures import (
    bounded_slowdown,
    makespan,
    slowdown_against_fastest,
)
from msbgen.systems.machines.queue.simulate import (
    PLACEMENTS,
    Placement,
    Queue,
    Schedule,
    simulate_queue,
)

# When jobs are submitted: as in the table, all with the first, or spread to a load.
Arrival = Literal["as submitted", "at once"] | Annotated[float, Within(0, above=True)]
AS_SUBMITTED: Literal["as submitted"] = "as submitted"
AT_ONCE: Literal["at once"] = "at once"
Times = Literal["estimated", "true"]


@dataclass(frozen=True)
class SimulationVariant:
    """One simulation: when jobs are submitted, how they are placed, which times are estimated."""

    arrival: Arrival
    placement: Placement
    queue: Queue
    times: Times

    @property
    def name(self) -> str:
        """A name for files."""
        load = repr(self.arrival).removesuffix(".0")
        when = self.arrival if isinstance(self.arrival, str) else f"load-{load}"
        return f"{when}-{self.placement}-{self.queue}-{self.times}".replace(" ", "-")


@dataclass(frozen=True, eq=False)
class VariantResult:
    """Result of one simulation."""

    variant: SimulationVariant
    # As submitted in it, with the estimates that the scheduler had.
    jobs: Jobs
    schedule: Schedule
    # The variant, ``load`` (infinite at once), ``makespan`` and its ``bound`` [s],
    # ``makespan_over_bound``, means of the bounded ``slowdown`` and ``slowdown_against_fastest``,
    # mean ``wait`` [s].
    row: dict[str, Any]


def variants(
    jobs: Jobs,
    arrivals: Sequence[Arrival] = (AS_SUBMITTED,),
    placements: Sequence[Placement] = PLACEMENTS,
    queues: Sequence[Queue] = ("machine",),
) -> list[SimulationVariant]:
    """All combinations; those with true times are added where estimates differ from them."""
    right = np.array_equal(jobs.estimate, jobs.runtime, equal_nan=True)
    times: tuple[Times, ...] = ("true",) if right else ("estimated", "true")
    return [SimulationVariant(*each) for each in product(arrivals, placements, queues, times)]


def simulate_variants(
    jobs: Jobs,
    machines: Mapping[str, int],
    variants: Sequence[SimulationVariant],
    *,
    rng: np.random.Generator | int = 0,
) -> Iterator[VariantResult]:
    """Results of the variants, one simulation after another.

    Random placements are drawn alike for every variant.  `machines` has the nodes of each.

    Raises
    ------
    ArgumentError
        As :func:`~msbgen.systems.machines.queue.simulate.simulate_queue` and
        :func:`~msbgen.systems.machines.queue.bound.at_load`.
    """
    seed = int(generator(rng).integers(2**63))
    arrivals: dict[Arrival, tuple[Jobs, float, float]] = {}
    for variant in variants:
        if variant.arrival not in arrivals:
            arriving = _arriving(jobs, machines, variant.arrival)
            span = float(np.ptp(arriving.submission))
            load = even_span(arriving, machines) / span if span else float("inf")
            arrivals[variant.arrival] = arriving, load, makespan_bound(arriving, machines)
        arriving, load, bound = arrivals[variant.arrival]
        submitted = arriving.with_true_times() if variant.times == "true" else arriving
        schedule = simulate_queue(
            submitted, machines, placement=variant.placement, queue=variant.queue, rng=seed
        )
        seconds = makespan(submitted, schedule)
        against_fastest = slowdown_against_fastest(submitted, schedule, machines)
        row = {
            "arrivals": variant.arrival,
            "load": load,
            "placement": variant.placement,
            "queue": variant.queue,
            "times": variant.times,
            "makespan": seconds,
            "bound": bound,
            "makespan_over_bound": seconds / bound,
            "slowdown": float(bounded_slowdown(submitted, schedule).mean()),
            "slowdown_against_fastest": float(against_fastest.mean()),
            "wait": float((schedule.start - submitted.submission).mean()),
        }
        yield VariantResult(variant, submitted, schedule, row)


def compare_variants(
    jobs: Jobs,
    machines: Mapping[str, int],
    *,
    arrivals: Sequence[Arrival] = (AS_SUBMITTED,),
    placements: Sequence[Placement] = PLACEMENTS,
    queues: Sequence[Queue] = ("machine",),
    rng: np.random.Generator | int = 0,
    progress: OnProgress | None = None,
) -> list[dict[str, Any]]:
    """One row of measures for each variant of :func:`variants`, as `row` of :class:`VariantResult`.

    `arrivals` are ``as submitted``, ``at once``, or loads
    (:func:`~msbgen.systems.machines.queue.bound.at_load`); `placements` and `queues` are those of
    :func:`~msbgen.systems.machines.queue.simulate.simulate_queue`.  `progress` is called with
    (done, total) simulations.  Errors are those of :func:`simulate_variants`.
    """
    chosen = variants(jobs, arrivals, placements, queues)
    rows = []
    for result in simulate_variants(jobs, machines, chosen, rng=rng):
        rows.append(result.row)
        if progress:
            progress(len(rows), len(chosen))
    return rows


def _arriving(jobs: Jobs, machines: Mapping[str, int], arrival: Arrival) -> Jobs:
    if arrival == AT_ONCE:
        return jobs.submitted(np.full(len(jobs), jobs.submission.min()))
    if isinstance(arrival, str):
        return jobs
    return at_load(jobs, machines, arrival)
