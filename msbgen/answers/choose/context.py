"""The cheapest context of a task that keeps a deadline, by its bound on the duration."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from msbgen.answers.choose.costs import Costs, context_costs
from msbgen.core.choice import ROUNDING, InfeasibleError, Limits, Offers, pareto_front
from msbgen.core.errors import ArgumentError, quoted
from msbgen.data.schema import (
    describe_levels,
    labels_of,
    resource_attrs,
    resource_names,
    same_level,
)

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

# Flags of a context whose bound was not tested.
_UNTESTED = ("extrapolated", "beyond")


@dataclass(frozen=True)
class NextLevel:
    """The chosen context with the next higher level of one resource."""

    resource: str
    level: float
    row: int  # of the bounds
    cost: float
    bound: float  # [s]


@dataclass(frozen=True, eq=False)
class ContextChoice:
    """The cheapest context that keeps a deadline.

    Attributes
    ----------
    task : str
    row : int
        The context's row in the bounds that it was chosen from.
    context : ndarray, (n_resources,)
    cost, bound, deadline : float
        Its cost; the bound on its duration [s], at most the deadline [s].
    front : ndarray of int
        Rows of the Pareto front of bound and cost, the fastest first.
    more : tuple of NextLevel
        For each resource, what one level more buys; none for the highest level, and none for
        words, which have no order.
    """

    task: str
    row: int
    context: Floats
    cost: float
    bound: float
    deadline: float
    front: Indices
    more: tuple[NextLevel, ...]


class PricedContexts:
    """Contexts of a task with prices and bounds on durations, as offers.

    Contexts whose bounds were not tested may not be chosen unless `untested`.
    """

    def __init__(self, bounds: xr.Dataset, costs: Costs, *, untested: bool = False):
        _check_bounds(bounds)
        self.bounds = bounds
        self.task = str(bounds.attrs.get("task", "the task"))
        self.resources = resource_names(bounds)
        columns = [bounds[name].values.astype(float) for name in self.resources]
        self.contexts: Floats = np.stack(columns, axis=1)
        self.bound: Floats = bounds["duration_bound"].values.astype(float)
        expected = bounds.get("expected_duration", bounds["duration_bound"])
        self.expected: Floats = expected.values.astype(float)
        tested = ~np.any([bounds[name].values != 0 for name in _UNTESTED], axis=0)
        self.offers = Offers(
            context_costs(bounds, costs), {"time": self.expected}, {"time": self.bound},
            tested | untested, self.describe,
        )  # fmt: skip
        self.rows: Indices = np.flatnonzero(self.offers.allowed)
        if not len(self.rows):
            raise InfeasibleError(
                f"{self.task}: no bound of {len(self.bound)} contexts was tested, as all lie "
                f"beyond the measured ones; measure more levels, or allow untested ones."
            )

    @property
    def cost(self) -> Floats:
        """Cost of each context, (n,)."""
        return self.offers.cost

    def within(self, deadline: float) -> Indices:
        """Rows of the contexts that keep a deadline [s], the cheapest first.

        Of equal cost, the one with the lower bound comes first.

        Raises
        ------
        ArgumentError
            The deadline is no positive number.
        InfeasibleError
            No context keeps it; the message names the least deadline that can be kept.
        """
        try:
            return self.offers.within(Limits(time=deadline))
        except InfeasibleError as error:
            apart = len(self.bound) - len(self.rows)
            note = f" {apart} contexts with untested bounds are left out." if apart else ""
            raise InfeasibleError(f"{self.task}: {error}{note}") from None

    def cheapest_expected(self, deadline: float, below: float = np.inf) -> int | None:
        """Row of the cheapest context that is expected to keep a deadline [s], if below a cost."""
        return self.offers.cheapest_expected(Limits(time=deadline), below)

    def describe(self, row: int) -> str:
        """A context in words."""
        return describe_levels(resource_attrs(self.bounds), self.contexts[row])

    def choice(self, row: int, deadline: float) -> ContextChoice:
        """The context of a row as a choice, with what it is compared with."""
        front = self.rows[pareto_front(self.bound[self.rows], self.cost[self.rows])]
        return ContextChoice(
            self.task, row, self.contexts[row], float(self.cost[row]), float(self.bound[row]),
            float(deadline), front, tuple(self._more(row)),
        )  # fmt: skip

    def _more(self, row: int) -> Iterator[NextLevel]:
        here = same_level(self.contexts[self.rows], self.contexts[row])
        for r, name in enumerate(self.resources):
            if labels_of(self.bounds[name].attrs):
                continue
            beside = self.rows[np.delete(here, r, axis=1).all(axis=1)]
            higher = beside[self.contexts[beside, r] > self.contexts[row, r] * (1 + ROUNDING)]
            if len(higher):
                at = int(higher[self.contexts[higher, r].argmin()])
                level = float(self.contexts[at, r])
                yield NextLevel(name, level, at, float(self.cost[at]), float(self.bound[at]))


def choose_context(
    bounds: xr.Dataset, deadline: float, costs: Costs, *, untested: bool = False
) -> ContextChoice:
    """The cheapest context whose bound on the duration keeps a deadline; exact.

    Parameters
    ----------
    bounds : xarray.Dataset
        Bounds of all contexts to choose from, as :meth:`msbgen.CalibratedModel.bounds` returns
        them.
    deadline : float
        [s]
    costs : str, mapping or array_like
        Prices of the resources; see :func:`msbgen.answers.choose.costs.context_costs`.
    untested : bool
        Whether contexts may be chosen that lie beyond the measured ones, where bounds were not
        tested.

    Raises
    ------
    ArgumentError
        The bounds, the deadline or the costs are not of this form.
    InfeasibleError
        No context keeps the deadline; the message names the least one that can be kept.

    Examples
    --------
    >>> of = {"role": "resource", "units": "1"}
    >>> bounds = xr.Dataset(
    ...     {
    ...         "duration_bound": ("context", [3.0, 2.0, 1.5]),
    ...         "extrapolated": ("context", [0, 0, 0]),
    ...         "beyond": ("context", [0, 0, 0]),
    ...     },
    ...     coords={"cache_ways": ("context", [1.0, 2.0, 4.0], of)},
    ... )
    >>> chosen = choose_context(bounds, deadline=2.5, costs="cache_ways=1")
    >>> chosen.context, chosen.bound, chosen.more[0].bound
    (array([2.]), 2.0, 1.5)
    """
    contexts = PricedContexts(bounds, costs, untested=untested)
    return contexts.choice(int(contexts.within(deadline)[0]), deadline)


def _check_bounds(bounds: Any) -> None:
    wanted = ("duration_bound", *_UNTESTED)
    if not isinstance(bounds, xr.Dataset) or any(name not in bounds for name in wanted):
        raise ArgumentError(
            f"bounds are {quoted(type(bounds).__name__)} without {', '.join(wanted)}; the dataset "
            f"that 'bounds' of a calibrated model returns is wanted."
        )
    values = bounds["duration_bound"].values
    if not len(values) or not (np.isfinite(values) & (values > 0)).all():
        raise ArgumentError("bounds are not all positive times; bounds of a model are wanted.")
