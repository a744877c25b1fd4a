"""The runs of a sweep, in random order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.core.contexts import grid_contexts, grid_counts
from msbgen.core.errors import ArgumentError, ProfileError, quoted
from msbgen.data.groups import group_counters
from msbgen.data.schema import same_level
from msbgen.data.tables import Groups, PlannedContexts, read_plan
from msbgen.sources.measure.actuators.actuator import listed
from msbgen.sources.measure.dataset import RUN_METADATA, counter_names_of, progress_counter_of
from msbgen.sources.measure.sweep.spec import Spec

# Contexts of a sweep: at a second a run, months.
_MOST_CONTEXTS = 100_000


@dataclass(frozen=True)
class Slot:
    """One planned run."""

    number: int  # position in the order
    context: tuple[float, ...]  # a level of each resource
    run: int  # number of the run within its context
    events: tuple[str, ...] = ()  # to count; empty for all events of the spec
    variant: str = ""  # name; empty if the spec has none


@dataclass(frozen=True)
class RunOrder:
    """The runs of a sweep in their order, which is random: a drift must not look like an effect.

    The runs of all variants with the same context and number follow each other, in random order.
    For each context, `groups` has the groups of events that its runs count in turn; empty if every
    run counts all events.
    """

    contexts: NDArray[np.float64]  # (n_contexts, n_resources)
    runs: NDArray[np.int64]  # (n_contexts,), of each variant
    slots: tuple[Slot, ...]
    digest: str  # of spec, contexts, runs and groups
    groups: tuple[Groups, ...]
    again: NDArray[np.bool_]  # (n_contexts,): whose new runs replace those measured before


def run_order(spec: Spec) -> RunOrder:
    """The contexts and runs of a spec, in random order.

    ProfileError: the file of contexts cannot be read, the grid is invalid, a level is not in the
    spec, or a group has an unknown event or lacks the progress counter.
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
            many = math.prod(counts)
            if many > _MOST_CONTEXTS:
                raise ArgumentError(
                    f"{quoted(spec.contexts)} are {many:.3g}; at most {_MOST_CONTEXTS} are wanted: "
                    f"a smaller grid (grid:5x3), or a plan of msbgen plan."
                )
            contexts = grid_contexts(levels, counts)
        except ArgumentError as error:
            raise ProfileError(f"contexts: {error}") from None
        runs = np.full(len(contexts), spec.runs, dtype=np.int64)
        groups: tuple[Groups, ...] = ((),) * len(contexts)
        again = np.zeros(len(contexts), dtype=bool)
    else:
        planned = read_plan(
            spec.contexts, names, spec.runs, {r.name: r.labels for r in spec.resources}
        )
        contexts, runs, again = planned.contexts, planned.runs, planned.again
        groups = _planned_groups(spec, planned)
    if spec.at_once is not None:
        default = _groups_of(spec, spec.at_once)
        groups = tuple(planned_groups or default for planned_groups in groups)
    for i, resource in enumerate(spec.resources):
        for value in contexts[:, i]:
            if not same_level(value, resource.levels).any():
                raise ProfileError(
                    f"{spec.contexts}: {resource.name} is {value:g}, which is none of its levels "
                    f"({listed([*map(resource.text, resource.levels)])}); list it in the spec, or "
                    f"drop the context."
                )
    unordered = [
        (tuple(map(float, context)), run, in_turn[run % len(in_turn)] if in_turn else ())
        for context, n_runs, in_turn in zip(contexts, runs, groups)
        for run in range(n_runs)
    ]
    rng, variants = np.random.default_rng(spec.seed), list(spec.programs())
    shuffled = [
        (unordered[i], variants[v])
        for i in rng.permutation(len(unordered))
        for v in rng.permutation(len(variants))
    ]
    slots = tuple(Slot(n, *run, variant=variant) for n, (run, variant) in enumerate(shuffled))
    digest = spec.digest(contexts.tolist(), runs.tolist(), groups)
    return RunOrder(contexts, runs, slots, digest, groups, again)


def _groups_of(spec: Spec, at_once: int) -> Groups:
    """All events of a spec, in groups of `at_once`."""
    try:
        return group_counters(spec.events, at_once, clock=_progress_event(spec, spec.events))
    except ArgumentError as error:
        raise ProfileError(str(error)) from None


def _planned_groups(spec: Spec, planned: PlannedContexts) -> tuple[Groups, ...]:
    """Groups of a plan, translated to events of the spec; each has the progress counter."""
    by_name = dict(zip(_counters(spec, spec.events), spec.events))
    by_name |= {event: event for event in spec.events}
    translated: list[Groups] = []
    for groups, line in zip(planned.groups, planned.lines):
        at = f"{spec.contexts}: line {line}"
        for name in {name: None for group in groups for name in group}:
            if name not in by_name:
                raise ProfileError(
                    f"{at} counts '{name}', which is no event of the spec; one of "
                    f"{', '.join(spec.events)} is wanted."
                )
        translated.append(tuple(tuple(by_name[name] for name in group) for group in groups))
    counted = [event for event in spec.events if any(event in g for gs in translated for g in gs)]
    progress_event = _progress_event(spec, counted) if counted else None
    for groups, line in zip(translated, planned.lines):
        for group in groups:
            if progress_event is not None and progress_event not in group:
                raise ProfileError(
                    f"{spec.contexts}: line {line} counts {', '.join(group)} without the progress "
                    f"counter '{progress_event}'; add it, or choose another 'progress'."
                )
    return tuple(translated)


def _counters(spec: Spec, events: Sequence[str]) -> list[str]:
    return counter_names_of(events, [*(r.name for r in spec.resources), *RUN_METADATA])


def _progress_event(spec: Spec, events: Sequence[str]) -> str | None:
    """The event that measures progress; None if time does."""
    by_name = dict(zip(_counters(spec, events), events))
    return by_name.get(progress_counter_of(spec.progress, by_name))
