"""Which runs a sweep makes, in which order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msbgen.contexts import grid_contexts, grid_counts
from msbgen.data.schema import same_level
from msbgen.data.tables import read_planned_contexts
from msbgen.errors import ArgumentError, ProfileError
from msbgen.measure.actuators.actuator import listed
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
    """

    number: int
    context: tuple[float, ...]
    run: int


@dataclass(frozen=True)
class Order:
    """The runs of a sweep.

    Attributes
    ----------
    contexts : ndarray, (n_contexts, n_resources)
    runs : ndarray of int, (n_contexts,)
    slots : tuple of Slot
        Shuffled: what drifts while the machine works must not look like an effect of a context.
    digest : str
        What tells spec, contexts and runs from all others.
    """

    contexts: NDArray[np.float64]
    runs: NDArray[np.int64]
    slots: tuple[Slot, ...]
    digest: str


def order_of(spec: Spec) -> Order:
    """Contexts and runs that a spec names, in their random order.

    Raises
    ------
    ProfileError
        A file of contexts that cannot be read, a grid that is none, a level that is not listed.
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
    else:
        contexts, runs = read_planned_contexts(spec.contexts, names, spec.runs)
    for column, (name, known) in zip(contexts.T, levels.items()):
        for value in column:
            if not same_level(value, known).any():
                raise ProfileError(
                    f"{spec.contexts}: {name} is {value:g}, which is none of its levels "
                    f"({listed(known)}); list it in the spec, or drop the context."
                )
    every = [(tuple(map(float, c)), run) for c, many in zip(contexts, runs) for run in range(many)]
    shuffled = np.random.default_rng(spec.seed).permutation(len(every))
    slots = tuple(Slot(number, *every[i]) for number, i in enumerate(shuffled))
    return Order(contexts, runs, slots, spec.digest(contexts.tolist(), runs.tolist()))
