"""Profiles as OpenMetrics text: cumulative counters of each run over time, and its duration.

Prometheus stores such a file by ``promtool tsdb create-blocks-from openmetrics FILE``.  Time stamps
are the times of the run where the file holds when it began, else times since `start`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

import numpy as np
import xarray as xr

from msbgen.core.errors import ArgumentError
from msbgen.data.durations_only import WHOLE_RUN
from msbgen.data.files import replace_file
from msbgen.data.profiles import Profiles
from msbgen.output.export.series import RunSeries, check_time, runs_of

_PREFIX = "msbgen_"


def write_openmetrics(
    datasets: Mapping[str, xr.Dataset],
    path: str | os.PathLike[str],
    *,
    start: float = 0.0,
    overwrite: bool = False,
) -> int:
    """Write profiles as OpenMetrics text, whole or not at all; returns the number of runs.

    Each counter is a metric ``msbgen_NAME_total``, ``msbgen_NAME_joules_total`` if it is in joules.
    ``msbgen_duration_seconds`` is a gauge at the end of each run.  Labels are ``task``, ``source``
    (the dataset's name here), each resource, and ``run`` where there are several.

    Parameters
    ----------
    datasets : mapping of str to xarray.Dataset
        Valid profiles by their names.
    path : path
    start : float
        Time stamp of the start of runs whose start is not known [s since 1970].
    overwrite : bool
        Whether an existing file is replaced.

    Raises
    ------
    ArgumentError
        No dataset, or two counters or resources whose names become one.
    MeasurementError
        Times of more than 9.2e9 s.
    """
    if not datasets:
        raise ArgumentError("datasets are none; the profiles of one or more are wanted.")
    records = {name: Profiles.of(dataset) for name, dataset in datasets.items()}
    families = _families(records)
    with (
        replace_file(path, overwrite=overwrite) as partial,
        partial.open("w", encoding="utf-8", errors="replace", newline="\n") as stream,
    ):
        for (family, unit), counter in families.items():
            stream.writelines(_family(family, unit, "counter", f"{counter} since the start"))
            for name, profiles in records.items():
                known = counter in profiles.counters
                if known and _metric(profiles, counter) == (family, unit):
                    for run in runs_of(profiles):
                        stream.writelines(_counter(family, name, profiles, run, counter, start))
        runs = 0
        family = f"{_PREFIX}duration_seconds"
        stream.writelines(_family(family, "seconds", "gauge", "execution time of the run"))
        for name, profiles in records.items():
            for run in runs_of(profiles):
                runs += 1
                at = _stamp(check_time(name, _began(run, start) + run.duration))
                stream.write(f"{family}{_labels(name, profiles, run)} {run.duration!r} {at}\n")
        stream.write("# EOF\n")
    return runs


def _families(records: Mapping[str, Profiles]) -> dict[tuple[str, str], str]:
    """Counter of each metric family, by the family's name and unit."""
    found: dict[tuple[str, str], str] = {}
    units: dict[str, str] = {}
    for name, profiles in records.items():
        labels = [_plain(n) for n in ("task", "source", "run", *profiles.resources)]
        if len(set(labels)) < len(labels):
            raise ArgumentError(
                f"{name}: resources {', '.join(profiles.resources)} make no distinct labels; "
                f"rename them."
            )
        for counter in profiles.counters:
            if counter == WHOLE_RUN:
                continue
            family, unit = _metric(profiles, counter)
            other = units.setdefault(family, unit) != unit
            other |= found.setdefault((family, unit), counter) != counter
            if other or family == f"{_PREFIX}duration_seconds":
                raise ArgumentError(
                    f"{name}: counter '{counter}' and another make one metric, {family}; rename "
                    f"one."
                )
    return found


def _metric(profiles: Profiles, counter: str) -> tuple[str, str]:
    """Family of a counter's metric, and its unit."""
    joules = counter in profiles.energy_counters
    stem = _plain(counter).removesuffix("_total")
    stem = stem.removesuffix("_joules") + "_joules" if joules else stem
    return f"{_PREFIX}{stem}", "joules" if joules else ""


def _family(name: str, unit: str, kind: str, text: str) -> Iterator[str]:
    yield f"# TYPE {name} {kind}\n"
    if unit:
        yield f"# UNIT {name} {unit}\n"
    yield f"# HELP {name} {_escaped(text)}\n"


def _counter(
    family: str, name: str, profiles: Profiles, run: RunSeries, counter: str, start: float
) -> Iterator[str]:
    """Samples of a counter, 0 at the start of the run."""
    counts = run.counts[counter]
    known = np.isfinite(counts)
    if not known.any():
        return
    sample, began = f"{family}_total{_labels(name, profiles, run)}", _began(run, start)
    yield f"{sample} 0 {_stamp(began)}\n"
    totals = np.cumsum(np.nan_to_num(counts))
    for total, end in zip(totals[known].tolist(), run.ends[known].tolist()):
        yield f"{sample} {total!r} {_stamp(began + end)}\n"


def _began(run: RunSeries, start: float) -> float:
    return run.started if np.isfinite(run.started) else start


def _stamp(seconds: float) -> str:
    return f"{seconds:.6f}"


def _labels(name: str, profiles: Profiles, run: RunSeries) -> str:
    pairs = {"task": profiles.task, "source": name, **run.context}
    if run.number is not None:
        pairs["run"] = str(run.number)
    return "{" + ",".join(f'{_plain(key)}="{_escaped(v)}"' for key, v in pairs.items()) + "}"


def _plain(name: str) -> str:
    """A name of letters, digits and underscores, not beginning with a digit or underscore."""
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name).lstrip("_") or "x"
    return f"x{plain}" if plain[0].isdigit() else plain


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
