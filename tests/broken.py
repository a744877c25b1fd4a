"""Changes that break a profile dataset in one way each, with a part of the sentence wanted.

What BROKEN makes can be written to a file, what UNSTORABLE makes cannot.
"""

import numpy as np
import xarray as xr

from msbgen.data.schema import counter_names


def put(name, index, value):
    def change(ds):
        ds[name][index] = value
        return ds

    return change


def attr(name, attribute, value):
    def change(ds):
        ds[name].attrs.pop(attribute, None)
        if value is not None:
            ds[name].attrs[attribute] = value
        return ds

    return change


def in_time(change):
    def apply(ds):
        attrs = ds["time"].attrs
        return ds.assign_coords(time=("time", change(ds["time"].values.copy()), attrs))

    return apply


def swap(values):
    values[[3, 4]] = values[[4, 3]]
    return values


def stretch(values):
    values[5:] += 0.003
    return values


def all_counters(index, value):
    def change(ds):
        for name in counter_names(ds):
            ds[name][index] = value
        return ds

    return change


def retyped(name, change):
    """Another array in the place of a variable's, with its attributes."""
    return lambda ds: ds.assign({name: (ds[name].dims, change(ds[name].values), ds[name].attrs)})


def renamed(old, new):
    return lambda ds: ds.rename({old: new})


# Attributes of types that nobody expects, as any file may hold them.
ODD = {
    "number": 5,
    "numbers": np.array([1.0, 2.0]),
    "words": ["a", "b"],
    "empty": np.array([], dtype=np.int8),
}
BROKEN = {
    "schema": (lambda ds: ds.assign_attrs(schema="other/1"), "'schema' is 'other/1'"),
    "dimension": (lambda ds: ds.rename_dims(context="contexts"), "'context' is missing; rename"),
    "no time dimension": (lambda ds: ds.rename(time="t"), "coordinate 'time' is missing"),
    "no contexts": (lambda ds: ds.isel(context=slice(0)), "dimension 'context' is empty"),
    "no rows": (lambda ds: ds.isel(time=slice(0)), "dimension 'time' is empty"),
    "time coordinate": (lambda ds: ds.drop_vars("time"), "coordinate 'time' is missing"),
    "time units": (attr("time", "units", "ms"), "'time' has units 'ms'"),
    "interval text": (lambda ds: ds.assign_attrs(interval="10 ms"), "'interval' is '10 ms'"),
    "interval nan": (lambda ds: ds.assign_attrs(interval=np.nan), "'interval' is nan"),
    "levels text": (attr("frequency", "levels", "1,1.5"), "'frequency' has levels"),
    "levels nan": (attr("frequency", "levels", [1.0, np.nan]), "'frequency' has levels"),
    "levels empty": (attr("frequency", "levels", []), "'frequency' has an empty list"),
    "replicate name": (lambda ds: ds.rename(run="repetition"), "rename repetitions to 'run'"),
    "no runs": (lambda ds: ds.isel(run=slice(0)), "dimension 'run' is empty"),
    "time order": (in_time(swap), "does not increase at interval 4"),
    "time spacing": (in_time(stretch), "in interval 5, where an interval of 0.01 s wants 0.06 s"),
    "clock": (lambda ds: ds.assign_attrs(progress="foo"), "'progress' is 'foo'; 'time' or"),
    "counter name": (
        lambda ds: ds.rename(instructions="extrapolated"),
        "'extrapolated' is called as",
    ),
    "resource units": (attr("frequency", "units", None), "'frequency' has no units"),
    "resource role": (
        lambda ds: attr("frequency", "role", None)(attr("cache_ways", "role", None)(ds)),
        "no resource found",
    ),
    "resource variable": (lambda ds: ds.reset_coords("frequency"), "is a data variable"),
    "resource value": (
        lambda ds: ds.assign_coords(
            cache_ways=("context", ds["cache_ways"].values * np.nan, ds["cache_ways"].attrs)
        ),
        "'cache_ways' is nan in context 0",
    ),
    "counter role": (
        lambda ds: ds.drop_vars(["cache_requests", "cache_misses"]).pipe(
            attr("instructions", "role", None)
        ),
        "no counter found",
    ),
    "counter units": (attr("instructions", "units", "1/s"), "'instructions' has units '1/s'"),
    "counter dims": (
        lambda ds: ds.assign(instructions=ds["instructions"].isel(run=0)),
        "'instructions' has dimensions ['context', 'time']",
    ),
    "counter type": (
        lambda ds: ds.assign(
            instructions=ds["instructions"].astype(str).assign_attrs(ds["instructions"].attrs)
        ),
        "real numbers are wanted",
    ),
    "duration": (lambda ds: ds.drop_vars("duration"), "'duration' is missing"),
    "duration units": (attr("duration", "units", "ms"), "'duration' has units 'ms'"),
    "duplicate context": (
        lambda ds: xr.concat([ds, ds.isel(context=[1])], "context"),
        "is listed again after context 1",
    ),
    "negative": (put("cache_misses", (1, 2, 3), -5.0), "'cache_misses' is negative in context 1"),
    "infinite": (put("cache_misses", (1, 2, 3), np.inf), "run 2, interval 3 (0.04 s)"),
    "nan inside": (put("instructions", (0, 0, 2), np.nan), "'instructions' is NaN inside a run"),
    "nan inside all": (all_counters((0, 0, 2), np.nan), "NaN inside a run"),
    "unequal ends": (put("instructions", (0, 0, slice(8, None)), np.nan), "end at different"),
    "zero length": (all_counters((4, 1), np.nan), "a run of zero length in context 4"),
    "no duration": (put("duration", (4, 1), np.nan), "'duration' is missing in context 4"),
    "endless duration": (put("duration", (4, 1), np.inf), "'duration' is infinite in context 4"),
    "huge duration": (put("duration", (4, 1), 1e308), "disagree by more than one interval"),
    "huge levels": (
        attr("frequency", "levels", [1e300, -1e300]),
        "levels up to 1e+300; at most 1e+100",
    ),
    "no durations": (put("duration", ..., np.nan), "'duration' is missing in context 0"),
    "zero duration": (put("duration", (4, 1), 0.0), "'duration' is not positive"),
    "long duration": (put("duration", (4, 1), 9.0), "disagree by more than one interval"),
    "no run": (
        lambda ds: all_counters((4,), np.nan)(put("duration", (4,), np.nan)(ds)),
        "no run at all in context 4",
    ),
    "zero counter": (
        lambda ds: ds.assign(cache_misses=ds["cache_misses"] * 0).assign(
            cache_misses=lambda d: d["cache_misses"].assign_attrs(ds["cache_misses"].attrs)
        ),
        "'cache_misses' is zero everywhere",
    ),
    "counter as a coordinate": (
        lambda ds: ds.set_coords("cache_misses"),
        "counter 'cache_misses' is a coordinate: make it a data variable",
    ),
    "hertz": (
        lambda ds: retyped("frequency", lambda values: values * 1e9)(ds),
        "'frequency' is 1e+09 in context 0, about 1e+09 times its levels (1 to 2)",
    ),
    "kilo": (
        retyped("frequency", lambda values: values * 1e-3),
        "'frequency' is 0.001 in context 0, about 0.001 times its levels (1 to 2)",
    ),
    "picoseconds": (
        lambda ds: in_time(lambda values: values * 1e-10)(ds.assign_attrs(interval=1e-12)),
        "'interval' is 1e-12 s; 1e-09 s or longer is wanted",
    ),
    "infinite resource": (retyped("frequency", lambda v: v * np.inf), "'frequency' is inf in"),
}
BROKEN |= {
    f"resource called {name}": (
        lambda ds, name=name: ds.rename(frequency=name),
        f"resource '{name}' is called as something of msbgen's own is; rename it",
    )
    for name in ("extrapolated", "beyond", "runs", "seconds", "expected_error", "duration_bound")
}
BROKEN |= {
    f"{attribute} of {name}: {kind}": (attr(name, attribute, odd), sentence)
    for kind, odd in ODD.items()
    for name, attribute, sentence in (
        ("time", "units", "'time' has units"),
        ("duration", "units", "'duration' has units"),
        ("frequency", "units", "'frequency' has units"),
        ("instructions", "units", "'instructions' has units"),
        ("frequency", "long_name", "'frequency' has long_name"),
        ("instructions", "long_name", "'instructions' has long_name"),
    )
}
BROKEN |= {
    f"{attribute}: {kind}": (
        lambda ds, attribute=attribute, odd=odd: ds.assign_attrs({attribute: odd}),
        f"attribute '{attribute}' is ",
    )
    for kind, odd in ODD.items()
    for attribute in ("schema", "progress", "task")
}
UNSTORABLE = {
    "complex counter": (retyped("cache_misses", lambda v: v + 0j), "'cache_misses' holds complex"),
    "object counter": (retyped("cache_misses", lambda v: v.astype(object)), "holds object"),
    "dates": (retyped("duration", lambda v: v.astype("m8[s]")), "'duration' holds timedelta64"),
    "boolean resource": (retyped("frequency", lambda v: v > 1), "'frequency' holds bool"),
    "complex resource": (retyped("frequency", lambda v: v * 1j), "'frequency' holds complex"),
    "complex time": (
        lambda ds: ds.assign_coords(time=("time", ds["time"].values * 1j, ds["time"].attrs)),
        "'time' holds complex128 along ['time']; real numbers",
    ),
    "slash": (renamed("cache_misses", "a/b"), "the name 'a/b' has characters that netCDF"),
    "line": (renamed("cache_ways", "a\nb"), "the name 'a\\nb' has characters that netCDF"),
    "surrogate": (renamed("cache_ways", "a\udc80"), "the name 'a\\udc80' has characters"),
    "blank": (renamed("cache_ways", " ways"), "the name ' ways' has characters that netCDF"),
    "nameless": (renamed("cache_ways", ""), "the name '' has characters that netCDF"),
    "numbered": (renamed("cache_ways", 7), "the name 7 is no text; rename it"),
    "endless name": (renamed("cache_ways", "ä" * 200), "is longer than 256 bytes; rename it"),
    "ragged levels": (attr("frequency", "levels", [[1.0], [1.0, 2.0]]), "'frequency' has levels"),
    "levels in rows": (attr("frequency", "levels", [[1.0, 2.0]]), "'frequency' has levels [[1.0"),
    "complex levels": (attr("frequency", "levels", [1j, 2.0]), "'frequency' has levels [1j, "),
}
