"""What contexts cost: a price per unit of each resource, with the unit checked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import ArgumentError, is_number, quoted
from msbgen.data.schema import labels_of, resource_names
from msbgen.data.units import plain_unit

Floats = NDArray[np.float64]
Costs = str | Mapping[str, float] | Sequence[float] | Floats

_EXAMPLE = "'cache_ways=1,bandwidth=0.01/MBps'"
_PRICE = re.compile(r"\s*(\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)\s*(?:/\s*(.*\S))?\s*")
# A higher price times a level, summed over resources, may exceed the largest number.
_DEAREST = 1e100


def context_costs(bounds: xr.Dataset, costs: Costs) -> Floats:
    """Cost of each context, (n_contexts,).

    Parameters
    ----------
    bounds : xarray.Dataset
        Contexts, as :meth:`msbgen.CalibratedModel.bounds` returns them.
    costs : str, mapping or array_like
        A price per unit of each resource: as text, ``"cache_ways=1,bandwidth=0.01/MBps"``, or a
        mapping of names to numbers.  A word of a resource has a price of its own,
        ``"mode.fast=3"``.  What is not named is free.  Or a cost for each context, (n_contexts,).

    Raises
    ------
    ArgumentError
        An unknown resource, another unit than the file's, a price that is no number ≥ 0, no price
        above 0, or another number of costs than of contexts.

    Examples
    --------
    >>> ways = xr.DataArray([2.0, 5.0], dims="context", attrs={"role": "resource", "units": "1"})
    >>> context_costs(xr.Dataset(coords={"cache_ways": ways}), "cache_ways=3")
    array([ 6., 15.])
    """
    n = bounds.sizes["context"]
    if isinstance(costs, (str, Mapping)):
        prices = parse_prices(costs) if isinstance(costs, str) else _numbers(costs)
        found = sum((_priced(bounds, *price) for price in prices.items()), np.zeros(n))
    else:
        found = _array(costs, n)
    if not (np.isfinite(found) & (found >= 0)).all():
        raise ArgumentError("costs are not all finite numbers ≥ 0; finite ones are wanted.")
    if not found.any():
        raise ArgumentError("costs are all 0; a price or a cost above 0 is wanted.")
    return found


def parse_prices(text: str) -> dict[str, tuple[float, str]]:
    """Price and unit by resource; the unit is empty where none is given.

    Examples
    --------
    >>> parse_prices("cache_ways=1,bandwidth=0.01/MBps")
    {'cache_ways': (1.0, ''), 'bandwidth': (0.01, 'MBps')}
    """
    prices: dict[str, tuple[float, str]] = {}
    for part in text.split(","):
        name, _, price = part.partition("=")
        found = _PRICE.fullmatch(price)
        if not name.strip() or found is None or name.strip() in prices:
            raise ArgumentError(
                f"costs are {quoted(text)}; each resource once with a price ≥ 0 per unit, as "
                f"{_EXAMPLE}, is wanted."
            )
        prices[name.strip()] = float(found[1]), found[2] or ""
    return prices


def _numbers(costs: Mapping[str, float]) -> dict[str, tuple[float, str]]:
    for name, price in costs.items():
        if not (is_number(price) and 0 <= price < float("inf")):
            raise ArgumentError(f"cost of '{name}' is {quoted(price)}; a number ≥ 0 is wanted.")
    return {name: (float(price), "") for name, price in costs.items()}


def _array(costs: ArrayLike, n: int) -> Floats:
    try:
        found = np.asarray(costs, dtype=float)
    except (TypeError, ValueError):
        found = np.empty((0, 0))
    if found.shape != (n,):
        raise ArgumentError(
            f"costs have shape {found.shape}; one for each of {n} contexts, or prices as "
            f"{_EXAMPLE}, are wanted."
        )
    return found


def _priced(bounds: xr.Dataset, name: str, price: tuple[float, str]) -> Floats:
    """What one price adds to the cost of each context."""
    amount, unit = price
    if amount > _DEAREST:
        raise ArgumentError(
            f"price of {quoted(name)} is {amount:g}; a number from 0 to {_DEAREST:g} is wanted."
        )
    resources = resource_names(bounds)
    if name in resources:
        attrs = bounds[name].attrs
        if words := labels_of(attrs):
            raise ArgumentError(
                f"levels of '{name}' are words; a price of each, as "
                f"'{','.join(f'{name}.{word}=1' for word in words[:2])}', is wanted."
            )
        held = str(attrs.get("units", "1"))
        if unit and plain_unit(unit) != plain_unit(held):
            raise ArgumentError(
                f"cost of '{name}' is per {quoted(unit)}, and its levels are in '{held}'; a price "
                f"per '{held}' is wanted."
            )
        return amount * bounds[name].values.astype(float)
    for resource in resources:
        words = labels_of(bounds[resource].attrs)
        if name.startswith(f"{resource}.") and (word := name[len(resource) + 1 :]) in words:
            return amount * (bounds[resource].values == 1 + words.index(word))
    raise ArgumentError(
        f"cost of {quoted(name)} is of no resource; one of {', '.join(resources)} is wanted."
    )
