"""Energy in profiles: the counter in joules, and power over time.

A meter is one more counter: energy per sampling interval [J].  It is generated, bounded and scored
like any other, and power follows from it.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from msbgen.core.errors import ArgumentError
from msbgen.data.profiles import Profiles
from msbgen.data.schema import (
    ENERGY_UNITS,
    check_datasets,
    counter_dims,
    counter_names,
    duration_array,
    sampling_interval,
)

Floats = NDArray[np.float64]


def energy_counters(dataset: xr.Dataset) -> list[str]:
    """Names of the counters in joules."""
    return [n for n in counter_names(dataset) if dataset[n].attrs.get("units") == ENERGY_UNITS]


def energy_counter(dataset: xr.Dataset) -> str:
    """The counter of energy: the only one in joules, or of several that called ``energy``.

    Raises
    ------
    ArgumentError
        There is none, or several of other names.
    """
    check_datasets(dataset)
    found = energy_counters(dataset)
    if "energy" in found:
        return "energy"
    if len(found) != 1:
        what = f"{', '.join(found)} are" if found else "no counter is"
        raise ArgumentError(
            f"{what} in joules; one counter of energy per interval, units 'J', is wanted: "
            + ("call it 'energy'." if found else "multiply power by the interval (add_energy).")
        )
    return found[0]


def add_energy(dataset: xr.Dataset, power: str, name: str = "energy") -> xr.Dataset:
    """Profiles with a counter of energy made from a variable of power.

    Parameters
    ----------
    dataset : xarray.Dataset
    power : str
        A variable in watts over the dimensions of the counters: the mean of each interval.
    name : str
        What the counter is called.

    Returns
    -------
    xarray.Dataset
        With the counter in place of the power.  The last interval of a run counts for the part of
        it that the run lasts.

    Raises
    ------
    ArgumentError
        No such variable, or one that is not in watts.
    """
    if power not in dataset or dataset[power].attrs.get("units") != "W":
        watts = [str(n) for n, v in dataset.data_vars.items() if v.attrs.get("units") == "W"]
        raise ArgumentError(
            f"power is {power!r}; a variable in watts, units 'W', is wanted"
            + (f": {', '.join(watts)}." if watts else ", and there is none.")
        )
    attrs = {"units": ENERGY_UNITS, "long_name": "energy per interval", "role": "counter"}
    joules = dataset[power].transpose(*counter_dims(dataset)) * _seconds(dataset)
    return dataset.drop_vars(power).assign({name: joules.astype(np.float32).assign_attrs(attrs)})


def total_energy(dataset: xr.Dataset) -> Floats:
    """Energy of every run [J], (n_contexts, n_runs), NaN where it is missing.

    Errors as :func:`energy_counter`.
    """
    counts = dataset[energy_counter(dataset)].transpose(*counter_dims(dataset)).values
    total = np.nansum(counts, axis=-1, dtype=float).reshape(dataset.sizes["context"], -1)
    return np.where(np.isfinite(duration_array(dataset)), total, np.nan)


def power_over_time(dataset: xr.Dataset) -> xr.DataArray:
    """Mean power in every interval [W], over the dimensions of the counters.

    NaN once a run has ended; errors as :func:`energy_counter`.
    """
    joules = dataset[energy_counter(dataset)].transpose(*counter_dims(dataset))
    seconds = _seconds(dataset)
    watts = (joules / seconds.where(seconds > 0)).astype(float)
    return watts.assign_attrs(units="W", long_name="mean power in the interval").rename("power")


def scale_energy(dataset: xr.Dataset, joules: ArrayLike) -> xr.Dataset:
    """Profiles whose energy adds up to given totals; its shape over time stays.

    Parameters
    ----------
    dataset : xarray.Dataset
    joules : array_like, (n_contexts,)
        Mean energy of a run in each context [J]; runs keep their ratios to it.

    Raises
    ------
    ArgumentError
        Other numbers than one that is positive for each context; as :func:`energy_counter`.
    """
    wanted = np.asarray(joules, dtype=float)
    if wanted.shape != (dataset.sizes["context"],):
        raise ArgumentError(
            f"joules have shape {wanted.shape}; one number for each of "
            f"{dataset.sizes['context']} contexts is wanted."
        )
    good = np.isfinite(wanted) & (wanted > 0)
    if not good.all():
        at = int(np.argmin(good))
        raise ArgumentError(
            f"joules are {wanted[at]:g} in {Profiles.of(dataset).describe_context(at)}; a positive "
            f"number is wanted."
        )
    name, total = energy_counter(dataset), total_energy(dataset)
    with np.errstate(invalid="ignore"):
        mean = np.nansum(total, axis=1) / np.isfinite(total).sum(axis=1)
    if not (mean > 0).all():
        at = int(np.argmin(mean > 0))
        raise ArgumentError(
            f"'{name}' is {mean[at]:g} J in {Profiles.of(dataset).describe_context(at)}; energy "
            f"that can be scaled is wanted."
        )
    factor = xr.DataArray(wanted / mean, dims="context")
    old = dataset[name]
    scaled = (old * factor).transpose(*old.dims).astype(old.dtype).assign_attrs(old.attrs)
    return dataset.assign({name: scaled})


def _seconds(dataset: xr.Dataset) -> xr.DataArray:
    """How long each interval lasts within the run [s], over the dimensions of the counters."""
    dims, interval = counter_dims(dataset), sampling_interval(dataset)
    start = interval * np.arange(dataset.sizes["time"])
    duration = dataset["duration"].transpose(*dims[:-1]).values.astype(float)
    lasted = np.clip(duration[..., None] - start, 0.0, interval)
    alive = np.isfinite(dataset[counter_names(dataset)[0]].transpose(*dims).values)
    # profiles without runs go on until their longest run ends, and rounding may end a run early
    whole = np.where(lasted > 1e-6 * interval, lasted, interval)
    return xr.DataArray(np.where(alive, whole, np.nan), dims=dims)
