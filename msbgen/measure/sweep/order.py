"""Which runs a sweep makes, in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.core.contexts import grid_contexts, grid_counts
from msbgen.core.errors import ArgumentError, ProfileError
from msbgen.data.groups import group_counters
from msbgen.data.schema import same_level
from msbgen.data.tables import Groups, PlannedContexts, read_plan
from msbgen.measure.actuators.actuator import listed
from msbgen.measure.dataset import RUN_METADATA, counter_names_of, progress_counter_of
from msbgen.measure.sweep.spec import Spec


@dataclass(frozen=True)
class Slot:
    """One run to make.

    Attributes
    ----------
    number : int
        Its place in the order.
    context : tuple of float
        A level of each resource.
    run : int
        Which of the context's runs.
    events : tuple of str
        What it counts; the spec's, where none are named.
    """

    number: int
    context: tuple[float, ...]
    run: int
    events: tuple[str, ...] = ()


@dataclass(frozen=True)
class RunOrder:
    """The runs of a sweep.

    Attributes
    ----------
    contexts : ndarray, (n_contexts, n_resources)
    runs : ndarray of int, (n_contexts,)
    slots : tuple of Slot
        Shuffled: what drifts while the machine works must not look like an effect of a context.
    digest : str
        What tells spec, contexts, runs and groups from all others.
    groups : tuple of Groups
        Events of the runs of each context, in turn; none where every run counts all.
    again : ndarray of bool, (n_contexts,)
        Contexts whose runs take the place of those measured before.
    """

    contexts: NDArray[np.float64]
    runs: NDArray[np.int64]
    slots: tuple[Slot, ...]
    digest: str
    groups: tuple[Groups, ...]
    again: NDArray[np.bool_]


def run_order(spec: Spec) -> RunOrder:
    """Contexts and runs that a spec names, in their random order.

    Raises
    ------
    ProfileError
        A file of contexts that cannot be read, a grid that is none, a level that is not listed, a
        group without the clock of progress or of what is no event of the spec.
    """
    names = [resource.name for resource in spec.resources]
    levels = {resource.name: resource.levels for resource in spec.resources}
    if spec.contexts == "all" or spec.contexts.startswith("grid:"):
        try:
            counts = (
                [len(values) for values in levels.values()]
                if spec.contexts == "all"
                else grid_counts(spec.contexts.removeprefix("grid:"))
            )
            contexts = grid_contexts(levels, counts)
        except ArgumentError as error:
            raise ProfileError(f"contexts: {error}") from None
        runs = np.full(len(contexts), spec.runs, dtype=np.int64)
        groups: tuple[Groups, ...] = ((),) * len(contexts)
        again = np.zeros(len(contexts), dtype=bool)
    else:
        planned = read_plan(spec.contexts, names, spec.runs)
        contexts, runs, again = planned.contexts, planned.runs, planned.again
        groups = _planned_groups(spec, planned)
    if spec.at_once is not None:
        own = _groups_of(spec, spec.at_once)
        groups = tuple(group or own for group in groups)
    for column, (name, known) in zip(contexts.T, levels.items()):
        for value in column:
            if not same_level(value, known).any():
                raise ProfileError(
                    f"{spec.contexts}: {name} is {value:g}, which is none of its levels "
                    f"({listed(known)}); list it in the spec, or drop the context."
                )
    every = [
        (tuple(map(float, context)), run, turns[run % len(turns)] if turns else ())
        for context, many, turns in zip(contexts, runs, groups)
        for run in range(many)
    ]
    shuffled = np.random.default_rng(spec.seed).permutation(len(every))
    slots = tuple(Slot(number, *every[i]) for number, i in enumerate(shuffled))
    digest = spec.digest(contexts.tolist(), runs.tolist(), groups)
    return RunOrder(contexts, runs, slots, digest, groups, again)


def _groups_of(spec: Spec, at_once: int) -> Groups:
    """All events of a spec, so many at a time."""
    try:
        return group_counters(spec.events, at_once, clock=_clock(spec, spec.events))
    except ArgumentError as error:
        raise ProfileError(str(error)) from None


def _planned_groups(spec: Spec, planned: PlannedContexts) -> tuple[Groups, ...]:
    """Groups of a plan as events of the spec, each with the clock of progress."""
    by_name = dict(zip(_counters(spec, spec.events), spec.events))
    by_name |= {event: event for event in spec.events}
    found: list[Groups] = []
    for groups, line in zip(planned.groups, planned.lines):
        at = f"{spec.contexts}: line {line}"
        for name in {name: None for group in groups for name in group}:
            if name not in by_name:
                raise ProfileError(
                    f"{at} counts '{name}', which is no event of the spec; one of "
                    f"{', '.join(spec.events)} is wanted."
                )
        found.append(tuple(tuple(by_name[name] for name in group) for group in groups))
    counted = [event for event in spec.events if any(event in g for gs in found for g in gs)]
    clock = _clock(spec, counted) if counted else None
    for groups, line in zip(found, planned.lines):
        for group in groups:
            if clock is not None and clock not in group:
                raise ProfileError(
                    f"{spec.contexts}: line {line} counts {', '.join(group)} without '{clock}', "
                    f"the clock of progress; it is wanted in every run, or another 'progress'."
                )
    return tuple(found)


def _counters(spec: Spec, events: Sequence[str]) -> list[str]:
    return counter_names_of(events, [*(r.name for r in spec.resources), *RUN_METADATA])


def _clock(spec: Spec, events: Sequence[str]) -> str | None:
    """The event that tells the progress; None where time does."""
    by_name = dict(zip(_counters(spec, events), events))
    return by_name.get(progress_counter_of(spec.progress, by_name))
