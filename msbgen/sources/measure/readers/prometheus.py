"""Reader of range queries of Prometheus, such as those of cAdvisor's metrics, in JSON.

The answer of ``/api/v1/query_range`` has a list of series.  Counters are totals since some start;
their differences are the events of a bin.  Gauges are levels; a bin holds their sum over time, by
the mean of the samples at both ends.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from msbgen.core.errors import ProfileError, quoted
from msbgen.data.files import check_input
from msbgen.data.json_files import json_object
from msbgen.sources.measure.readers.recording import Rows
from msbgen.sources.measure.readers.rows import joined, rows_of

_WANTED = "the answer of /api/v1/query_range"
# Ends of the names of counters; and totals of cAdvisor that are declared as gauges.
_TOTALS = ("_total", "_sum", "_count")
_CADVISOR = ("container_memory_bandwidth_bytes", "container_memory_bandwidth_local_bytes")


def read_prometheus(path: str | os.PathLike[str]) -> Rows:
    """Rows of a range query, with a place for each set of labels.

    ProfileError: the file cannot be read, is no answer of a range query, or holds a counter that
    was reset.
    """
    file = check_input(path)
    name = file.name
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ProfileError(f"{name}: is not UTF-8; {_WANTED} is wanted.") from None
    document = json_object(text, name, _WANTED)
    if document.get("status", "success") != "success":
        raise ProfileError(f"{name}: the query failed: {quoted(document.get('error'))}.")
    data = document.get("data")
    data = data if isinstance(data, dict) else {}
    found = data.get("result")
    if not isinstance(found, list) or not found or data.get("resultType") != "matrix":
        raise ProfileError(f"{name}: has no series (resultType matrix); {_WANTED} is wanted.")
    series = [_series(name, number, each) for number, each in enumerate(found)]
    labels = {tuple(sorted(own.items())) for _, own, _ in series}
    common = set.intersection(*(set(own) for own in labels))
    series, warnings = _common_span(name, series)
    start = min(float(samples[0, 0]) for _, _, samples in series)
    parts = []
    for number, (event, own, samples) in enumerate(series):
        place = ",".join(f"{key}={value}" for key, value in sorted({*own.items()} - common))
        times, levels = samples.T
        if is_total(event):
            amounts, units = np.diff(levels), {}
            if (amounts < 0).any():
                raise ProfileError(
                    f"{name}: series {number} ({event}) falls at {times[1:][amounts < 0][0]:.3f} "
                    f"s: the counter was reset; query a range without a restart."
                )
        else:
            amounts = np.diff(times) * 0.5 * (levels[1:] + levels[:-1])
            units = {event: f"{event.rpartition('_')[2]} s"}
        at = [number] * len(amounts)
        parts.append(
            rows_of(name, at, times[1:] - start, [place] * len(at), {event: amounts}, (), units)
        )
    return joined(parts, warnings)


def _common_span(
    name: str, series: list[tuple[str, dict[str, str], np.ndarray]]
) -> tuple[list[tuple[str, dict[str, str], np.ndarray]], tuple[str, ...]]:
    """The series between the latest first sample and the earliest last one, and a warning.

    ProfileError: a series has no two samples there.
    """
    begin = max(float(samples[0, 0]) for _, _, samples in series)
    end = min(float(samples[-1, 0]) for _, _, samples in series)
    inside = [(s[:, 0] >= begin) & (s[:, 0] <= end) for _, _, s in series]
    if all(one.all() for one in inside):
        return series, ()
    for number, ((event, _, _), one) in enumerate(zip(series, inside)):
        if one.sum() < 2:
            raise ProfileError(
                f"{name}: series {number} ({event}) has no two samples while all others have some; "
                f"query series of one time."
            )
    kept = [(event, own, s[one]) for (event, own, s), one in zip(series, inside)]
    warning = f"{name}: series have unequal spans: the {end - begin:g} s that all have were read."
    return kept, (warning,)


def is_total(metric: str) -> bool:
    """Whether a metric is a counter, by its name.

    Examples
    --------
    >>> is_total("container_cpu_usage_seconds_total"), is_total("container_llc_occupancy_bytes")
    (True, False)
    """
    return metric.endswith(_TOTALS) or metric in _CADVISOR


def _series(name: str, number: int, given: Any) -> tuple[str, dict[str, str], np.ndarray]:
    """Metric, other labels and samples (n, 2), time [s] and value, of one series."""
    metric = given.get("metric") if isinstance(given, dict) else None
    if not isinstance(metric, Mapping) or not all(isinstance(v, str) for v in metric.values()):
        raise ProfileError(f"{name}: series {number} has no labels 'metric'; {_WANTED} is wanted.")
    samples = _samples(given.get("values"))
    if samples is None or len(samples) < 2 or not (np.diff(samples[:, 0]) > 0).all():
        raise ProfileError(
            f'{name}: series {number} has no two or more samples [time, "number"] in the order '
            f"of their times in 'values'; {_WANTED} is wanted."
        )
    labels = {key: value for key, value in metric.items() if key != "__name__"}
    return metric.get("__name__", f"series_{number}"), labels, samples


def _samples(values: Any) -> np.ndarray | None:
    """Samples as finite numbers, (n, 2); None where they are of another form."""
    if not isinstance(values, Sequence) or isinstance(values, str):
        return None
    try:
        samples = np.array([[float(time), float(value)] for time, value in values])
    except (TypeError, ValueError):
        return None
    return samples if samples.ndim == 2 and np.isfinite(samples).all() else None
