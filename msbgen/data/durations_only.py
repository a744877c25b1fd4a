"""Profiles without a time axis: durations alone, or beside totals of each run, such as energy.

The engine fits counts over time.  For it, every run gets one interval as long as the longest run,
and one event in it that measures progress.  Both are added where a dataset enters the engine, and
taken away where a result leaves it: no file, table or page has them.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from msbgen.data.schema import (
    COMPLETE,
    counter_names,
    duration_array,
    replicate_dim,
)

# The event that every run has once.
WHOLE_RUN = "whole_run"
# Attributes that the engine's dataset has and the user's has not.
_OWN_ATTRS = ("interval", "progress")


def has_time_axis(dataset: xr.Dataset) -> bool:
    """Whether a dataset of profiles has counts over time, not one total per run at most."""
    return "time" in dataset.dims and WHOLE_RUN not in dataset.data_vars


def durations_of(dataset: xr.Dataset) -> xr.Dataset:
    """The dataset without its counts over time."""
    if "time" not in dataset.dims:
        return dataset
    plain = dataset.drop_vars([*counter_names(dataset), "time"])
    plain.attrs = {name: v for name, v in dataset.attrs.items() if name not in _OWN_ATTRS}
    plain.encoding = dict(dataset.encoding)
    return plain


def with_interval(dataset: xr.Dataset, interval: float | None = None) -> xr.Dataset:
    """The dataset as the engine takes it: itself if it has a time axis, else with one interval.

    Totals of a run go into its intervals of `interval` [s], by default the longest duration, in
    equal shares of time.  Runs that were cut tell no duration: they are left out, and so are
    contexts without another run.
    """
    if "time" in dataset.dims:
        return dataset
    encoding = dict(dataset.encoding)
    dataset = _without_cut_runs(dataset)
    duration = duration_array(dataset)
    sound = np.where(np.isfinite(duration) & (duration > 0), duration, np.nan)
    longest = np.nanmax(sound) if np.isfinite(sound).any() else 1.0
    step = float(longest if interval is None else interval)
    ends = step * np.arange(1, max(int(np.ceil(longest / step * (1 - 1e-9))), 1) + 1)
    begins = np.append(0.0, ends[:-1])
    lasting = np.nan_to_num(sound, nan=step)[..., None]
    share = np.clip((lasting - begins) / step, 0.0, 1.0) * step / lasting
    share[(share <= 0) | (np.isnan(duration)[..., None])] = np.nan
    dim = replicate_dim(dataset)
    dims = ("context", *([dim] if dim else []), "time")
    share = share if dim else share[:, 0]
    held = [WHOLE_RUN, *counter_names(dataset)]
    totals = {name: dataset[name].transpose(*dims[:-1]).values for name in held[1:]}
    attrs = {
        WHOLE_RUN: {"role": "counter", "units": "1", "long_name": "whole runs"},
        **{name: dict(dataset[name].attrs) for name in held[1:]},
    }
    counts = {
        name: (dims, (share * totals.get(name, np.ones(()))[..., None]).astype(np.float32))
        for name in held
    }
    times = pd.Index(ends)
    label = {"units": "s", "long_name": "end of the sampling interval"}
    expanded = dataset.drop_vars(held[1:]).assign(
        {name: (*of, attrs[name]) for name, of in counts.items()}
    )
    expanded = expanded.assign_coords(time=("time", times, label))
    expanded = expanded.assign_attrs(interval=step, progress=WHOLE_RUN)
    expanded.encoding = encoding
    return expanded


def without_interval(dataset: xr.Dataset) -> xr.Dataset:
    """The dataset as users see it: without what :func:`with_interval` added, if it did."""
    if WHOLE_RUN not in dataset.data_vars:
        return dataset
    names = [name for name in counter_names(dataset) if name != WHOLE_RUN]
    totals = {
        name: dataset[name].sum("time", min_count=1, keep_attrs=True).astype(float)
        for name in names
    }
    plain = dataset.drop_vars([WHOLE_RUN, "time", *names]).assign(totals)
    plain.attrs = {name: v for name, v in plain.attrs.items() if name not in _OWN_ATTRS}
    plain.encoding = dict(dataset.encoding)
    return plain


def _without_cut_runs(dataset: xr.Dataset) -> xr.Dataset:
    """The dataset with runs that were cut as missing ones, and without contexts of such alone."""
    if COMPLETE not in dataset:
        return dataset
    whole = dataset[COMPLETE] != 0
    names = [*counter_names(dataset), "duration"]
    kept = dataset.drop_vars(COMPLETE).assign({n: dataset[n].where(whole) for n in names})
    some = np.isfinite(duration_array(kept)).any(axis=1)
    return kept.isel(context=np.flatnonzero(some)) if some.any() else dataset.drop_vars(COMPLETE)
